// How traffic entries and manual changes move the vault, and its projects at the start.
import type { Random } from '../core/clock.ts'
import { DAY_US } from '../core/time.ts'
import type { Entry } from './entry.ts'
import {
  PROJECTS,
  drawPerson,
  projectId,
  projectName,
  projectOf,
  reviewTableId,
  reviewTableName,
  reviewTableOf,
  userOf,
} from './people.ts'
import { below, dice, keyedBy, mix, pick, streamSeed, uuidStream } from './random.ts'
import type { Switches } from './switches.ts'
import {
  editCell,
  liveFiles,
  looseProjectName,
  renderProject,
  reviewTitle,
  someFile,
} from './vault-project.ts'
import type { CellEdit, Identities, NewFile } from './vault-project.ts'
import { VaultState, editsOf, shareOf } from './vault-state.ts'
import type { Edit, Partner, Permission, Project, VaultFile } from './vault-state.ts'
import type { Workspace } from './workspace.ts'

/** What the effect of a traffic entry may use. */
interface Scene {
  readonly state: VaultState
  readonly edit: Edit
  readonly random: Random
  /** permanent projects: never deleted or renamed, because history events name them */
  readonly permanent: ReadonlySet<string>
  /** the project and review table that the history names with this entry, if it exists */
  readonly named:
    { readonly project: Project; readonly reviewId: number; readonly reviewTitle: string } | undefined
  /** other workspaces */
  readonly partners: readonly number[]
  /** any person of the workspace */
  readonly someone: (random: Random) => string
  readonly delete: (edit: Edit, project: Project) => void
}

/** Changes the vault and returns the entry's metadata; undefined if there is nothing to change. */
type Effect = (scene: Scene) => Readonly<Record<string, unknown>> | undefined

/** Most temporary projects before deletions outnumber creations. */
const MAX_LOOSE = 12

/** Always the same one for an edit, even if other projects come and go. */
function chosen(projects: readonly Project[], seed: number): Project | undefined {
  const weightOf = ({ id }: Project) => mix(seed, parseInt(id.slice(0, 8), 16))
  return projects.reduce<Project | undefined>(
    (best, project) => (best && weightOf(best) >= weightOf(project) ? best : project),
    undefined,
  )
}

function mayEdit(project: Project, user: string): boolean {
  return project.creator === user || shareOf(project, { user })?.permission === 'EDIT'
}

/** One that its user may change, if there is any; otherwise any. */
function chosenFor(projects: readonly Project[], { user, seed }: Edit): Project | undefined {
  const own = projects.filter((project) => mayEdit(project, user))
  return chosen(own, seed) ?? chosen(projects, seed)
}

const named = ({ id, name }: Project, more: object = {}) => ({ project_id: id, name, ...more })
const withFiles = ({ state }: Scene) =>
  state.open().filter(({ files }) => files.some(({ deletedUs }) => deletedUs === undefined))
const loose = ({ state, permanent }: Scene) => state.open().filter(({ id }) => !permanent.has(id))
const shared = ({ state }: Scene) => state.open().filter(({ shares }) => shares.length > 0)
const fileIds = (files: readonly VaultFile[]) => ({ file_ids: files.map(({ id }) => id) })

/** The effect on one of these projects, if there is any. */
function on(
  candidates: (scene: Scene) => Project[],
  effect: (scene: Scene, project: Project) => object,
): Effect {
  return (scene) => {
    const project = chosenFor(candidates(scene), scene.edit)
    return project && named(project, effect(scene, project))
  }
}

/** The same, on the project that the history names with the entry. */
function onNamed(candidates: typeof withFiles, effect: (scene: Scene, project: Project) => object): Effect {
  return (scene) => on((all) => (all.named ? [all.named.project] : candidates(all)), effect)(scene)
}

const create: Effect = ({ state, edit, random }) => {
  const knowledgeBase = random() < 0.15
  const name = looseProjectName(random, knowledgeBase)
  const spelling = random() < 0.9 ? 'compact' : 'escaped'
  return named(state.create(edit, { name, knowledgeBase, spelling }))
}

const upload = onNamed(
  ({ state }) => state.open(),
  ({ state, edit, random }, project) => {
    const files = Array.from({ length: 1 + below(random, 4) }, () => someFile(random))
    return fileIds(state.upload(edit, project, files))
  },
)

function someOf(random: Random, project: Project): VaultFile[] {
  const files = liveFiles(project)
  const first = below(random, files.length)
  return files.slice(first, first + 1 + below(random, 3))
}

const deleteFiles = on(withFiles, ({ state, edit, random }, project) => {
  const files = someOf(random, project)
  state.deleteFiles(edit, project, files)
  return fileIds(files)
})

const renameFile = on(withFiles, ({ state, edit, random }, project) => {
  const file = pick(random, liveFiles(project))
  const name = file.name.replace(/(?: v\d+)?(?=\.[^.]*$)/, ` v${below(random, 9) + 2}`)
  state.renameFile(edit, project, file, name)
  return { file_id: file.id, file_name: name }
})

/** Processes files again; the listing does not show it. */
const retryFiles = on(withFiles, ({ edit, random }, project) => {
  const files = someOf(random, project)
  for (const file of files) file.queuedUs = edit.atUs
  return fileIds(files)
})

const deleteFolderInside = on(withFiles, ({ state, edit, random }, project) => {
  const { folder } = pick(random, liveFiles(project))
  const files = liveFiles(project).filter((file) => file.folder === folder)
  state.deleteFiles(edit, project, files)
  return { folder, ...fileIds(files) }
})

/** The more temporary projects there are, the more often one is deleted. */
const deletesProject = (random: Random, projects: readonly Project[]) =>
  random() < projects.length / (2 * MAX_LOOSE)

/** Some folders are projects, most are inside one. */
const deleteFolder: Effect = (scene) => {
  const projects = loose(scene)
  const project = deletesProject(scene.random, projects) ? chosenFor(projects, scene.edit) : undefined
  if (!project) return deleteFolderInside(scene)
  scene.delete(scene.edit, project)
  return named(project)
}

/** A call for a project that does not exist was answered with 404: audited, without a change. */
const deleteProject: Effect = (scene) => {
  const projects = loose(scene)
  const project = deletesProject(scene.random, projects) ? chosen(projects, scene.edit.seed) : undefined
  if (project) scene.delete(scene.edit, project)
  return project && { project_id: project.id }
}

const updateFolder: Effect = (scene) => {
  const { state, edit, random } = scene
  const isRenaming = random() < 0.6
  const project = chosenFor(isRenaming ? loose(scene) : state.open(), edit)
  if (!project) return undefined
  const { knowledgeBase } = project
  const name = isRenaming ? looseProjectName(random, knowledgeBase) : ''
  state.update(edit, project, isRenaming ? { name } : { knowledgeBase: !knowledgeBase })
  return named(project, { is_knowledge_base_project: project.knowledgeBase })
}

const partnerFields = (partner: Partner) =>
  'user' in partner ? { dest_user_email: partner.user } : { dest_workspace_id: partner.workspace }

const share = on(
  ({ state }) => state.open(),
  ({ state, edit, random, someone, partners }, project) => {
    // A partner without a share; if none is found, the last one gets another permission.
    let partner: Partner = { user: someone(random) }
    for (let tries = 0; tries < 20; tries++) {
      partner = random() < 0.75 ? { user: someone(random) } : { workspace: pick(random, partners) }
      if (!shareOf(project, partner)) break
    }
    const permission = random() < 0.6 ? 'VIEW' : 'EDIT'
    state.share(edit, project, partner, permission)
    return { ...partnerFields(partner), permission_level: permission }
  },
)

/** Any of the partners, users first. */
function somePartner(random: Random, { shares }: Project): Partner {
  const partners = shares.map(({ partner }) => partner)
  return pick(random, [
    ...partners.filter((partner) => 'user' in partner),
    ...partners.filter((partner) => 'workspace' in partner),
  ])
}

const changeShare = on(shared, ({ state, edit, random }, project) => {
  const partner = somePartner(random, project)
  const permission = shareOf(project, partner)?.permission === 'VIEW' ? 'EDIT' : 'VIEW'
  state.share(edit, project, partner, permission)
  return { ...partnerFields(partner), permission_level: permission }
})

const unshare = on(shared, ({ state, edit, random }, project) => {
  const partner = somePartner(random, project)
  state.unshare(edit, project, partner)
  return partnerFields(partner)
})

/** The table that the history names, created if missing; otherwise a new one. */
const review = onNamed(withFiles, ({ state, edit, random, named: of }, project) => {
  const existing = project.reviews.find(({ id }) => id === of?.reviewId)
  const table =
    existing ?? state.addReview(edit, project, of?.reviewTitle ?? reviewTitle(random), of?.reviewId)
  if (existing) {
    existing.runs++
    state.query(edit, project)
  }
  return { review_table_id: table.id, title: table.title }
})

const query = onNamed(withFiles, ({ state, edit }, project) => {
  state.query(edit, project)
  return {}
})

const effects = new Map<string, Effect>([
  ['user:create_vault_folder', create],
  ['user:upload_vault_files', upload],
  ['user:dms_folder_upload', upload],
  ['user:dms_file_import', upload],
  ['api:vault_upload_files', upload],
  ['user:delete_vault_files', deleteFiles],
  ['api:vault_delete_file', deleteFiles],
  ['user:update_vault_file_metadata', renameFile],
  ['user:retry_vault_files', retryFiles],
  ['user:delete_vault_folder', deleteFolder],
  ['api:vault_delete_project', deleteProject],
  ['user:update_vault_folder_metadata', updateFolder],
  ['user:create_vault_folder_sharing_permissions', share],
  ['user:update_vault_folder_sharing_permissions', changeShare],
  ['user:delete_vault_folder_sharing_permissions', unshare],
  ['user:create_vault_review_query', review],
  ['user:rerun_vault_review_queries', review],
  ['user:semantic_search_with_vault_folder', query],
])

/** Types of entries that change the vault. @internal for tests */
export const changingTypes: readonly string[] = [...effects.keys()]

/** The ground truth about a listed project. */
export interface MockProject {
  readonly id: string
  readonly name: string
  /** deleted; it leaves the listing soon */
  readonly deleting: boolean
  readonly raw: Uint8Array
}

interface VaultSettings {
  readonly seed: number
  readonly domain: string
  readonly switches: Switches
  /** before the first entry of the traffic */
  readonly beforeUs: number
  /** number of projects at the start */
  readonly projects: number | undefined
}

/** Default number of projects. */
const STARTING = PROJECTS + 8

export class Vault {
  readonly state = new VaultState()
  readonly #settings: VaultSettings
  readonly #identities: Identities
  readonly #partners: readonly number[]
  readonly #permanent = new Set<string>()
  readonly #trafficEdit: ReturnType<typeof editsOf>
  readonly #otherEdit: ReturnType<typeof editsOf>
  #others = 0

  constructor(settings: VaultSettings) {
    const { seed, projects: count = STARTING } = settings
    const own = streamSeed(seed, 'vault')
    const users = uuidStream(own, 'user')
    const workspaceId = 1000 + (mix(own, 0) % 8000)
    this.#settings = settings
    this.#identities = { workspaceId, userId: (user) => users(streamSeed(own, user)) }
    this.#partners = Array.from({ length: 6 }, (_, n) => 9000 + (mix(own, n + 1) % 1000))
    this.#trafficEdit = editsOf(own, 'traffic')
    this.#otherEdit = editsOf(own, 'asked')
    this.#start(count)
  }

  readonly #someone = (random: Random) => userOf(drawPerson(random), this.#settings.domain)

  /** Applies an entry of the traffic. Call it once per entry, in order. */
  apply(entry: Entry): void {
    const effect = effects.get(entry.type)
    if (!effect) return
    this.state.completeDeletions(entry.atUs)
    const edit = this.#trafficEdit(entry.number, entry.atUs, entry.user)
    const about = effect({
      ...{ state: this.state, edit, random: dice(edit.seed), named: this.#namedWith(entry.id) },
      ...{ permanent: this.#permanent, partners: this.#partners, someone: this.#someone },
      delete: (by, project) => this.delete(by, project),
    })
    if (about) entry.about = JSON.stringify(about)
  }

  #namedWith(entryId: string): Scene['named'] {
    const n = projectOf(entryId)
    const project = this.state.project(projectId(this.#settings.seed, n))
    const reviewId = reviewTableId(n, keyedBy(entryId, 2))
    return project && { project, reviewId, reviewTitle: reviewTableOf(entryId) }
  }

  /** An edit without an entry of the traffic: through the API, or manual. */
  edit(atUs: number, user: string): Edit {
    return this.#otherEdit(this.#others++, atUs, user)
  }

  delete(edit: Edit, project: Project): void {
    this.state.delete(edit, project, edit.atUs + this.#settings.switches.deletion_takes * 1000)
  }

  /** The bytes in the listing. */
  render(project: Project): Buffer {
    return renderProject(project, this.#identities)
  }

  projects(): MockProject[] {
    return this.state.listed().map((project) => ({
      id: project.id,
      name: project.name,
      deleting: project.goneUs !== undefined,
      raw: this.render(project),
    }))
  }

  /** Fills the empty vault: the projects that all areas name, then some that come and go. */
  #start(count: number): void {
    const own = streamSeed(this.#settings.seed, 'vault start')
    const editOf = editsOf(own, 'start')
    const ages = Array.from({ length: count }, (_, n) => mix(own, n) / 2 ** 32).sort((a, b) => b - a)
    for (const [n, age] of ages.entries())
      this.#startProject(n, age, dice(mix(own, -n - 1)), (kind, atUs, user) =>
        editOf(n * 8 + kind, atUs, user),
      )
  }

  #startProject(n: number, age: number, random: Random, editOf: ReturnType<typeof editsOf>): void {
    const { state } = this
    const { seed, beforeUs } = this.#settings
    const createdUs = Math.floor(beforeUs - (1 + age * PAST_DAYS) * DAY_US)
    /** this part of the time between its creation and the start */
    const later = (part: number) => Math.floor(createdUs + (beforeUs - createdUs) * part)
    const user = this.#someone(random)
    const isPermanent = n < PROJECTS
    const knowledgeBase = random() < 0.2
    const name = isPermanent ? projectName(n) : looseProjectName(random, knowledgeBase)
    const spelling = random() < 0.06 ? 'indented' : random() < 0.06 ? 'escaped' : 'compact'
    const given = {
      ...(isPermanent ? { id: projectId(seed, n) } : {}),
      name,
      knowledgeBase,
      spelling,
    } as const
    const project = state.create(editOf(0, createdUs, user), given)
    if (isPermanent) this.#permanent.add(project.id)
    const files = Array.from({ length: below(random, 14) }, () => someFile(random))
    if (files.length > 0) state.upload(editOf(1, later(0.2 + 0.5 * random()), user), project, files)
    this.#startShares(project, editOf(2, later(0.75), user))
    for (let table = below(random, 3); isPermanent && files.length > 0 && table > 0; table--) {
      const edit = editOf(2 + table, later(0.8), user)
      state.addReview(edit, project, reviewTableName(n, table - 1), reviewTableId(n, table - 1))
    }
    project.queries += below(random, 60)
  }

  #startShares(project: Project, edit: Edit): void {
    const random = dice(edit.seed ^ 1)
    const permission = (viewers: number) => (random() < viewers ? 'VIEW' : 'EDIT')
    for (let left = below(random, 6); left > 0; left--) {
      const user = this.#someone(random)
      if (user !== project.creator) this.state.share(edit, project, { user }, permission(0.6))
    }
    if (random() < 0.3)
      this.state.share(edit, project, { workspace: pick(random, this.#partners) }, permission(0.8))
  }
}

/** age of the oldest project at the start */
const PAST_DAYS = 400

type On<Do extends string, More = unknown> = { readonly do: Do; readonly project: string } & More

type OfProject =
  | On<'rename', { readonly name: string }>
  | On<'knowledge_base', { readonly value: boolean }>
  | On<'upload', { readonly files?: readonly NewFile[] }>
  | On<'delete_files', { readonly files: readonly string[] }>
  | On<'query'>
  | On<'review', { readonly title?: string }>
  /** a new share, or another permission for an existing one */
  | On<'share', { readonly with: Partner; readonly permission?: Permission }>
  | On<'unshare', { readonly with: Partner }>
  /** `atOnce`: it leaves the listing without the delay of the switch `deletion_takes` */
  | On<'delete', { readonly atOnce?: boolean }>

interface NewProject {
  readonly do: 'create'
  readonly id?: string
  readonly name?: string
  readonly knowledgeBase?: boolean
}

/** Text of a person in a review table; no documented type covers it, so it leaves no entry. */
interface CellChange {
  readonly do: 'edit_cell'
  readonly review: number
  readonly file: string
  readonly column: string
  readonly edit: CellEdit
}

/** A manual change, for tests and faults. `project` is an id. Omitted values are generated. */
export type VaultChange = (NewProject | OfProject | CellChange) & { readonly by?: string }

/** The result of a change. */
export interface Changed {
  /** the project's id */
  readonly project: string
  readonly files?: readonly string[]
  readonly review?: number
}

/** The type of the entry to leave, without `user:`, and the subjects besides the project. */
type Trace = readonly [type: string, concerned?: Omit<Changed, 'project'>]

function changed(vault: Vault, edit: Edit, change: OfProject, project: Project): Trace {
  const { state } = vault
  switch (change.do) {
    case 'rename':
      state.update(edit, project, { name: change.name })
      return ['update_vault_folder_metadata']
    case 'knowledge_base':
      state.update(edit, project, { knowledgeBase: change.value })
      return ['update_vault_folder_metadata']
    case 'upload': {
      const files = state.upload(edit, project, change.files ?? [someFile(dice(edit.seed))])
      return ['upload_vault_files', { files: files.map(({ id }) => id) }]
    }
    case 'delete_files': {
      const files = project.files.filter(({ id }) => change.files.includes(id))
      state.deleteFiles(edit, project, files)
      return ['delete_vault_files', { files: files.map(({ id }) => id) }]
    }
    case 'query':
      state.query(edit, project)
      return ['semantic_search_with_vault_folder']
    case 'review':
      return [
        'create_vault_review_query',
        { review: state.addReview(edit, project, change.title ?? 'Review by hand').id },
      ]
    case 'share': {
      const kind = state.share(edit, project, change.with, change.permission ?? 'VIEW')
      return [`${kind === 'shared' ? 'create' : 'update'}_vault_folder_sharing_permissions`]
    }
    case 'unshare':
      state.unshare(edit, project, change.with)
      return ['delete_vault_folder_sharing_permissions']
    case 'delete':
      if (change.atOnce) state.delete(edit, project, edit.atUs)
      else vault.delete(edit, project)
      state.completeDeletions(edit.atUs)
      return ['delete_vault_folder']
  }
}

/** At `now` (epoch ms, server). Throws if the subject does not exist, or is being deleted. */
export function changeProject(workspace: Workspace, change: VaultChange, now: number): Changed {
  workspace.advance(now)
  const { vault } = workspace
  const user = change.by ?? `someone@${workspace.domain}`
  const edit = vault.edit(now * 1000, user)
  if (change.do === 'edit_cell') {
    const found = vault.state.review(change.review)
    if (!found) throw new Error(`mock API: there is no review table ${change.review}`)
    editCell(found.table, change.file, change.column, change.edit)
    return { project: found.project.id }
  }
  const leave = (project: string, [type, concerned = {}]: Trace): Changed => {
    const { files: file_ids, review: review_table_id } = concerned
    const data = { project_id: project, file_ids, review_table_id }
    workspace.add({ type: `user:${type}`, user, data }, now)
    return { project, ...concerned }
  }
  if (change.do === 'create') {
    const { id, name = 'Made by hand', knowledgeBase = false } = change
    const project = vault.state.create(edit, { name, knowledgeBase, ...(id ? { id } : {}) })
    return leave(project.id, ['create_vault_folder'])
  }
  const project = vault.state.project(change.project)
  if (!project) throw new Error(`mock API: there is no project ${change.project}, or it is being deleted`)
  return leave(project.id, changed(vault, edit, change, project))
}
