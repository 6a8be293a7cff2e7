// The vault of one workspace: its projects after all changes, and the log of the changes.
import { mix, uuidStream } from './random.ts'
import { contentTypeOf, liveFiles, makeReview } from './vault-project.ts'
import type { NewFile, ReviewTable } from './vault-project.ts'

/** Values that the specification has seen (§2.5). */
export type Permission = 'VIEW' | 'EDIT'

/** The recipient of a share: an address of the workspace, or the number of another workspace. */
export type Partner = { readonly user: string } | { readonly workspace: number }

interface Share {
  readonly partner: Partner
  readonly createdUs: number
  readonly byUser: string
  permission: Permission
}

/** Instants are microseconds since 1970. */
export interface VaultFile {
  readonly id: string
  name: string
  /** relative to the project, without slashes at its ends; empty for the project itself */
  readonly folder: string
  readonly contentType: string
  readonly sizeBytes: number
  readonly uploadedUs: number
  /** when processing was last requested */
  queuedUs: number
  /** 0.5 to 1.5: factor of its processing time */
  readonly pace: number
  deletedUs: number | undefined
}

export interface Project {
  readonly id: string
  readonly creator: string
  readonly createdUs: number
  name: string
  /** of any change: name, flag, shares, files; not its queries */
  updatedUs: number
  /** of a change of its files */
  contentUs: number
  queries: number
  knowledgeBase: boolean
  readonly shares: Share[]
  /** including deleted ones */
  readonly files: VaultFile[]
  readonly reviews: ReviewTable[]
  /** when it leaves the listing, once deleted */
  goneUs: number | undefined
  /** of its JSON */
  readonly spelling: Spelling
}

type Spelling = 'compact' | 'indented' | 'escaped'

/** The share of `partner`, if any. */
export function shareOf({ shares }: Project, partner: Partner): Share | undefined {
  return shares.find(({ partner: other }) =>
    'user' in partner
      ? 'user' in other && other.user === partner.user
      : 'workspace' in other && other.workspace === partner.workspace,
  )
}

/** `deletion`: requested, the project is still listed; `deleted`: it left the listing. */
type ChangeKind =
  | ('created' | 'renamed' | 'knowledge_base' | 'files' | 'queries')
  | ('shared' | 'share_changed' | 'unshared' | 'deletion' | 'deleted')

/** One change of a project. For tests: a reader of the listing should have noticed it. */
export interface ProjectChange {
  readonly atUs: number
  readonly kind: ChangeKind
  readonly project: string
  readonly user: string
}

/** An edit of the vault: when, by whom, and the source of the ids that it creates. */
export interface Edit {
  readonly atUs: number
  readonly user: string
  /** for choices within it; different for each edit */
  readonly seed: number
  /** new ids, the same for the same edit */
  id(kind: 'project' | 'file', index: number): string
}

const IDS_PER_EDIT = 64

/** Edits of one origin (start, traffic, API), numbered: ids do not depend on other origins. */
export function editsOf(seed: number, origin: string) {
  const streams = {
    project: uuidStream(seed, `${origin} project`),
    file: uuidStream(seed, `${origin} file`),
  }
  return (number: number, atUs: number, user: string): Edit => ({
    atUs,
    user,
    seed: mix(mix(seed, origin.length), number),
    id: (kind, index) => streams[kind](number * IDS_PER_EDIT + index),
  })
}

interface NewProject {
  readonly id?: string
  readonly name: string
  readonly knowledgeBase: boolean
  readonly spelling?: Spelling
}

export class VaultState {
  readonly changes: ProjectChange[] = []
  readonly #projects = new Map<string, Project>()
  readonly #files = new Map<string, { readonly project: Project; readonly file: VaultFile }>()
  readonly #reviews = new Map<number, { readonly project: Project; readonly table: ReviewTable }>()
  /** deleted projects that are still listed */
  readonly #leaving = new Set<Project>()

  #changed({ atUs, user }: Edit, kind: ChangeKind, project: Project): void {
    // A query moves no timestamp: a reader that compares only timestamps does not notice it.
    if (kind !== 'queries' && kind !== 'deletion') project.updatedUs = atUs
    if (kind === 'files') project.contentUs = atUs
    this.changes.push({ atUs, kind, project: project.id, user })
  }

  /** Completes deletions up to and including `us`. */
  completeDeletions(us: number): void {
    for (const project of this.#leaving) {
      const { id, goneUs, creator: user } = project
      if (goneUs === undefined || goneUs > us) continue
      this.#leaving.delete(project)
      this.#projects.delete(id)
      for (const file of project.files) this.#files.delete(file.id)
      for (const table of project.reviews) this.#reviews.delete(table.id)
      this.changes.push({ atUs: goneUs, kind: 'deleted', project: id, user })
    }
  }

  /** All projects that the listing may show, in order of creation. */
  listed(): Project[] {
    return [...this.#projects.values()]
  }

  /** Projects that are not deleted. */
  open(): Project[] {
    return this.listed().filter(({ goneUs }) => goneUs === undefined)
  }

  /** Undefined if there is none, or it is deleted. */
  project(id: string): Project | undefined {
    const project = this.#projects.get(id)
    return project?.goneUs === undefined ? project : undefined
  }

  file(id: string) {
    return this.#files.get(id)
  }

  review(id: number) {
    return this.#reviews.get(id)
  }

  create(edit: Edit, { id, name, knowledgeBase, spelling = 'compact' }: NewProject): Project {
    const { atUs, user } = edit
    const project: Project = {
      ...{ id: id ?? edit.id('project', 0), creator: user, name, knowledgeBase, spelling },
      ...{ createdUs: atUs, updatedUs: atUs, contentUs: atUs, goneUs: undefined },
      ...{ queries: 0, shares: [], files: [], reviews: [] },
    }
    this.#projects.set(project.id, project)
    this.#changed(edit, 'created', project)
    return project
  }

  update(
    edit: Edit,
    project: Project,
    changed: Pick<Project, 'name'> | Pick<Project, 'knowledgeBase'>,
  ): void {
    Object.assign(project, changed)
    this.#changed(edit, 'name' in changed ? 'renamed' : 'knowledge_base', project)
  }

  upload(edit: Edit, project: Project, files: readonly NewFile[]): VaultFile[] {
    const made = files.map((file, index) => ({
      ...{ ...file, id: edit.id('file', index), uploadedUs: edit.atUs, queuedUs: edit.atUs },
      contentType: contentTypeOf(file.name) ?? 'application/octet-stream',
      pace: 0.5 + mix(edit.seed, index) / 2 ** 32,
      deletedUs: undefined,
    }))
    for (const file of made) this.#files.set(file.id, { project, file })
    project.files.push(...made)
    this.#changed(edit, 'files', project)
    return made
  }

  renameFile(edit: Edit, project: Project, file: VaultFile, name: string): void {
    file.name = name
    this.#changed(edit, 'files', project)
  }

  /** Files already deleted do not change. */
  deleteFiles(edit: Edit, project: Project, files: readonly VaultFile[]): void {
    for (const file of files) file.deletedUs ??= edit.atUs
    this.#changed(edit, 'files', project)
  }

  /** Adds a share, or changes the permission of an existing one. */
  share(edit: Edit, project: Project, partner: Partner, permission: Permission): 'shared' | 'share_changed' {
    const existing = shareOf(project, partner)
    const { atUs: createdUs, user: byUser } = edit
    if (existing) existing.permission = permission
    else project.shares.push({ partner, createdUs, byUser, permission })
    const kind = existing ? 'share_changed' : 'shared'
    this.#changed(edit, kind, project)
    return kind
  }

  unshare(edit: Edit, project: Project, partner: Partner): void {
    const share = shareOf(project, partner)
    if (!share) return
    project.shares.splice(project.shares.indexOf(share), 1)
    this.#changed(edit, 'unshared', project)
  }

  query(edit: Edit, project: Project): void {
    project.queries++
    this.#changed(edit, 'queries', project)
  }

  addReview(
    edit: Edit,
    project: Project,
    title: string,
    id = 1_000_000 + (edit.seed % 9_000_000),
  ): ReviewTable {
    let free = id
    while (this.#reviews.has(free)) free++
    const fileIds = liveFiles(project).map((file) => file.id)
    const table = makeReview({ id: free, title, createdUs: edit.atUs, fileIds, seed: edit.seed })
    project.reviews.push(table)
    this.#reviews.set(free, { project, table })
    this.query(edit, project)
    return table
  }

  /** Irreversible (spec §3): it is listed until `goneUs`, and cannot be changed any more. */
  delete(edit: Edit, project: Project, goneUs: number): void {
    if (project.goneUs !== undefined) return
    project.goneUs = goneUs
    this.#leaving.add(project)
    this.#changed(edit, 'deletion', project)
  }
}
