// The effects of traffic entries on the vault: an entry that implies a change applies it, by its
// user, at its time.
import type { Random } from '../core/clock.ts'
import { below, dice, mix, pick } from './random.ts'
import { liveFiles, projectName, reviewTitle, someFile } from './vault-project.ts'
import type { Permission, Project } from './vault-project.ts'
import type { Deed, Partner, VaultState } from './vault-state.ts'

export interface Named {
  readonly project: Project
  readonly reviewId: number
  readonly reviewTitle: string
}

export interface Surroundings {
  /** permanent projects, which are never deleted or renamed, because history events name them */
  readonly standing: ReadonlySet<string>
  /** the permanent project, and its review table, that the history names with this entry; undefined if deleted */
  readonly named: Named | undefined
  /** any person of the workspace */
  someone(random: Random): string
  /** other workspaces */
  readonly partners: readonly number[]
  /** duration of a deletion, in µs */
  readonly deletionUs: number
}

/** Most temporary projects before deletions outnumber creations. */
const LOOSE = 12

type Told = Readonly<Record<string, unknown>> | undefined
type Doer = (state: VaultState, deed: Deed, around: Surroundings, random: Random) => Told

/** Always the same one for a change, even if other projects come and go. */
function chosen(projects: readonly Project[], seed: number): Project | undefined {
  let best: Project | undefined
  let most = -1
  for (const project of projects) {
    const weight = mix(seed, parseInt(project.id.slice(0, 8), 16))
    if (weight > most) [best, most] = [project, weight]
  }
  return best
}

function mayEdit(project: Project, user: string): boolean {
  return (
    project.creator === user ||
    project.userShares.some((share) => share.user === user && share.permission === 'EDIT')
  )
}

/** One that its user may change, if there is any; otherwise any. */
function chosenFor(projects: readonly Project[], { user, seed }: Deed): Project | undefined {
  return (
    chosen(
      projects.filter((project) => mayEdit(project, user)),
      seed,
    ) ?? chosen(projects, seed)
  )
}

const sayProject = ({ id, name }: Project) => ({ project_id: id, name })

const create: Doer = (state, deed, _, random) => {
  const knowledgeBase = random() < 0.15
  const name = projectName(random, knowledgeBase)
  const spelling = random() < 0.9 ? 'compact' : 'escaped'
  return sayProject(state.create(deed, { name, knowledgeBase, spelling }))
}

const upload: Doer = (state, deed, around, random) => {
  const project = around.named?.project ?? chosenFor(state.open(), deed)
  if (!project) return undefined
  const files = Array.from({ length: 1 + below(random, 4) }, () => someFile(random))
  const made = state.upload(deed, project, files)
  return { ...sayProject(project), file_ids: made.map(({ id }) => id) }
}

const withFiles = (state: VaultState) => state.open().filter(({ filesCount }) => filesCount > 0)

function someOf(random: Random, project: Project) {
  const files = liveFiles(project)
  const first = below(random, files.length)
  return files.slice(first, first + 1 + below(random, 3))
}

const deleteFiles: Doer = (state, deed, _, random) => {
  const project = chosenFor(withFiles(state), deed)
  if (!project) return undefined
  const files = someOf(random, project)
  state.deleteFiles(deed, project, files)
  return { ...sayProject(project), file_ids: files.map(({ id }) => id) }
}

const renameFile: Doer = (state, deed, _, random) => {
  const project = chosenFor(withFiles(state), deed)
  const file = project && pick(random, liveFiles(project))
  if (!file) return undefined
  const name = file.name.replace(/(?: v\d+)?(?=\.[^.]*$)/, ` v${below(random, 9) + 2}`)
  state.renameFile(deed, project, file, name)
  return { ...sayProject(project), file_id: file.id, file_name: name }
}

const retryFiles: Doer = (state, deed, _, random) => {
  const project = chosenFor(withFiles(state), deed)
  if (!project) return undefined
  const files = someOf(random, project)
  state.retryFiles(deed, files)
  return { ...sayProject(project), file_ids: files.map(({ id }) => id) }
}

const loose = (state: VaultState, { standing }: Surroundings) =>
  state.open().filter((project) => !standing.has(project.id))

/** Some folders are projects, most are inside one. */
const deleteFolder: Doer = (state, deed, around, random) => {
  const projects = loose(state, around)
  const project = random() < projects.length / (2 * LOOSE) ? chosenFor(projects, deed) : undefined
  if (project) {
    state.delete(deed, project, deed.atUs + around.deletionUs)
    return sayProject(project)
  }
  const outer = chosenFor(withFiles(state), deed)
  if (!outer) return undefined
  const { folder } = pick(random, liveFiles(outer))
  const files = liveFiles(outer).filter((file) => file.folder === folder)
  state.deleteFiles(deed, outer, files)
  return { ...sayProject(outer), folder, file_ids: files.map(({ id }) => id) }
}

/** Through the API a project either exists, or the call was answered with 404: audited, without a change. */
const deleteProject: Doer = (state, deed, around, random) => {
  const projects = loose(state, around)
  const project = random() < projects.length / (2 * LOOSE) ? chosen(projects, deed.seed) : undefined
  if (project) state.delete(deed, project, deed.atUs + around.deletionUs)
  return project && { project_id: project.id }
}

const updateFolder: Doer = (state, deed, around, random) => {
  const renaming = random() < 0.6
  const projects = renaming ? loose(state, around) : state.open()
  const project = chosenFor(projects, deed)
  if (!project) return undefined
  if (renaming) state.rename(deed, project, projectName(random, project.knowledgeBase))
  else state.setKnowledgeBase(deed, project, !project.knowledgeBase)
  return { ...sayProject(project), is_knowledge_base_project: project.knowledgeBase }
}

const somePermission = (random: Random): Permission => (random() < 0.6 ? 'VIEW' : 'EDIT')

const sayShare = (project: Project, partner: Partner, permission?: Permission) => ({
  ...sayProject(project),
  ...('user' in partner ? { dest_user_email: partner.user } : { dest_workspace_id: partner.workspace }),
  ...(permission ? { permission_level: permission } : {}),
})

const share: Doer = (state, deed, around, random) => {
  const project = chosenFor(state.open(), deed)
  if (!project) return undefined
  // The first partner without a share; if all tried have one, the last one gets another permission.
  let partner: Partner = { user: around.someone(random) }
  for (let tries = 0; tries < 20; tries++) {
    partner =
      random() < 0.75 ? { user: around.someone(random) } : { workspace: pick(random, around.partners) }
    if (!state.shareOf(project, partner)) break
  }
  const permission = somePermission(random)
  state.share(deed, project, partner, permission)
  return sayShare(project, partner, permission)
}

const partnersOf = (project: Project): Partner[] => [
  ...project.userShares.map(({ user }) => ({ user })),
  ...project.workspaceShares.map(({ workspaceId }) => ({ workspace: workspaceId })),
]

const shared = (state: VaultState) => state.open().filter((project) => partnersOf(project).length > 0)

const changeShare: Doer = (state, deed, _, random) => {
  const project = chosenFor(shared(state), deed)
  if (!project) return undefined
  const partner = pick(random, partnersOf(project))
  const permission = state.shareOf(project, partner)?.permission === 'VIEW' ? 'EDIT' : 'VIEW'
  state.share(deed, project, partner, permission)
  return sayShare(project, partner, permission)
}

const unshare: Doer = (state, deed, _, random) => {
  const project = chosenFor(shared(state), deed)
  if (!project) return undefined
  const partner = pick(random, partnersOf(project))
  state.unshare(deed, project, partner)
  return sayShare(project, partner)
}

/** The table that the history names, created if missing; otherwise a new one. */
const review: Doer = (state, deed, { named }, random) => {
  const project = named?.project ?? chosenFor(withFiles(state), deed)
  if (!project) return undefined
  const there = named && project.reviews.find(({ id }) => id === named.reviewId)
  const table =
    there ?? state.addReview(deed, project, named?.reviewTitle ?? reviewTitle(random), named?.reviewId)
  if (there) {
    there.runs++
    state.query(deed, project)
  }
  return { ...sayProject(project), review_table_id: table.id, title: table.title }
}

const query: Doer = (state, deed, around) => {
  const project = around.named?.project ?? chosenFor(withFiles(state), deed)
  if (!project) return undefined
  state.query(deed, project)
  return sayProject(project)
}

const doers: Readonly<Record<string, Doer>> = {
  'user:create_vault_folder': create,
  'user:upload_vault_files': upload,
  'user:dms_folder_upload': upload,
  'user:dms_file_import': upload,
  'api:vault_upload_files': upload,
  'user:delete_vault_files': deleteFiles,
  'api:vault_delete_file': deleteFiles,
  'user:update_vault_file_metadata': renameFile,
  'user:retry_vault_files': retryFiles,
  'user:delete_vault_folder': deleteFolder,
  'api:vault_delete_project': deleteProject,
  'user:update_vault_folder_metadata': updateFolder,
  'user:create_vault_folder_sharing_permissions': share,
  'user:update_vault_folder_sharing_permissions': changeShare,
  'user:delete_vault_folder_sharing_permissions': unshare,
  'user:create_vault_review_query': review,
  'user:rerun_vault_review_queries': review,
  'user:semantic_search_with_vault_folder': query,
}

/** @internal for tests */
export const movingTypes: readonly string[] = Object.keys(doers)

export function moves(type: string): boolean {
  return Object.hasOwn(doers, type)
}

/** Applies an entry of `type`; returns what its metadata names, undefined if there was nothing to change. */
export function doAs(type: string, state: VaultState, deed: Deed, around: Surroundings): Told {
  return doers[type]?.(state, deed, around, dice(deed.seed))
}
