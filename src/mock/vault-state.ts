// The vault of one workspace: its projects after all changes, in order of time, and a log of the
// changes.
import { mix, uuidStream } from './random.ts'
import { contentTypeOf, liveFiles, makeReview } from './vault-project.ts'
import type {
  NewFile,
  Permission,
  Project,
  ReviewTable,
  Spelling,
  UserShare,
  VaultFile,
  WorkspaceShare,
} from './vault-project.ts'

type ChangeKind =
  | 'created'
  | 'renamed'
  | 'knowledge_base'
  | 'files'
  | 'queries'
  | 'shared'
  | 'share_changed'
  | 'unshared'
  /** requested; the project is still listed */
  | 'deletion'
  /** left the listing */
  | 'deleted'

/** One change of a project. For tests: a reader of the listing should have noticed it. */
export interface ProjectChange {
  readonly atUs: number
  readonly kind: ChangeKind
  readonly project: string
  readonly user: string
}

interface NewProject {
  readonly id?: string
  readonly name: string
  readonly knowledgeBase: boolean
  readonly spelling?: Spelling
}

/** The recipient: an address of the workspace, or the number of another workspace. */
export type Partner = { readonly user: string } | { readonly workspace: number }

export class VaultState {
  readonly changes: ProjectChange[] = []
  readonly #workspaceId: number
  readonly #projects = new Map<string, Project>()
  readonly #files = new Map<string, { readonly project: Project; readonly file: VaultFile }>()
  readonly #reviews = new Map<number, { readonly project: Project; readonly table: ReviewTable }>()
  /** deleted projects that are still listed */
  readonly #leaving = new Set<Project>()

  constructor(workspaceId: number) {
    this.#workspaceId = workspaceId
  }

  #note(deed: Deed, kind: ChangeKind, project: Project): void {
    this.changes.push({ atUs: deed.atUs, kind, project: project.id, user: deed.user })
  }

  /** Completes deletions up to and including `us`. */
  settle(us: number): void {
    for (const project of this.#leaving) {
      if (project.goneUs === undefined || project.goneUs > us) continue
      this.#leaving.delete(project)
      this.#projects.delete(project.id)
      for (const file of project.files) this.#files.delete(file.id)
      for (const table of project.reviews) this.#reviews.delete(table.id)
      this.changes.push({
        atUs: project.goneUs,
        kind: 'deleted',
        project: project.id,
        user: project.creator,
      })
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

  create(deed: Deed, { id, name, knowledgeBase, spelling = 'compact' }: NewProject): Project {
    const project: Project = {
      id: id ?? deed.id('project', 0),
      creator: deed.user,
      createdUs: deed.atUs,
      name,
      updatedUs: deed.atUs,
      contentUs: deed.atUs,
      queries: 0,
      knowledgeBase,
      userShares: [],
      workspaceShares: [],
      files: [],
      filesCount: 0,
      sizeBytes: 0,
      reviews: [],
      goneUs: undefined,
      spelling,
    }
    this.#projects.set(project.id, project)
    this.#note(deed, 'created', project)
    return project
  }

  rename(deed: Deed, project: Project, name: string): void {
    project.name = name
    project.updatedUs = deed.atUs
    this.#note(deed, 'renamed', project)
  }

  setKnowledgeBase(deed: Deed, project: Project, value: boolean): void {
    project.knowledgeBase = value
    project.updatedUs = deed.atUs
    this.#note(deed, 'knowledge_base', project)
  }

  #contentChanged(deed: Deed, project: Project): void {
    project.updatedUs = deed.atUs
    project.contentUs = deed.atUs
    this.#note(deed, 'files', project)
  }

  upload(deed: Deed, project: Project, files: readonly NewFile[]): VaultFile[] {
    const made = files.map(({ name, folder, sizeBytes }, index) => ({
      id: deed.id('file', index),
      name,
      folder,
      contentType: contentTypeOf(name) ?? 'application/octet-stream',
      sizeBytes,
      uploadedUs: deed.atUs,
      queuedUs: deed.atUs,
      pace: 0.5 + mix(deed.seed, index) / 2 ** 32,
      deletedUs: undefined,
    }))
    for (const file of made) {
      project.files.push(file)
      project.filesCount++
      project.sizeBytes += file.sizeBytes
      this.#files.set(file.id, { project, file })
    }
    this.#contentChanged(deed, project)
    return made
  }

  renameFile(deed: Deed, project: Project, file: VaultFile, name: string): void {
    file.name = name
    this.#contentChanged(deed, project)
  }

  /** Files already deleted do not change. */
  deleteFiles(deed: Deed, project: Project, files: readonly VaultFile[]): void {
    for (const file of files.filter(({ deletedUs }) => deletedUs === undefined)) {
      file.deletedUs = deed.atUs
      project.filesCount--
      project.sizeBytes -= file.sizeBytes
    }
    this.#contentChanged(deed, project)
  }

  /** Processes them again; the listing does not show it. */
  retryFiles(deed: Deed, files: readonly VaultFile[]): void {
    for (const file of files) file.queuedUs = deed.atUs
  }

  /** The share of `partner`, if any. */
  shareOf(project: Project, partner: Partner): UserShare | WorkspaceShare | undefined {
    return 'user' in partner
      ? project.userShares.find(({ user }) => user === partner.user)
      : project.workspaceShares.find(({ workspaceId }) => workspaceId === partner.workspace)
  }

  /** Adds a share, or changes the permission of an existing one. */
  share(deed: Deed, project: Project, partner: Partner, permission: Permission): 'shared' | 'share_changed' {
    const there = this.shareOf(project, partner)
    const common = { createdUs: deed.atUs, byUser: deed.user, permission }
    if (there) there.permission = permission
    else if ('user' in partner)
      project.userShares.push({ ...common, user: partner.user, workspaceId: this.#workspaceId })
    else project.workspaceShares.push({ ...common, workspaceId: partner.workspace })
    project.updatedUs = deed.atUs
    const kind = there ? 'share_changed' : 'shared'
    this.#note(deed, kind, project)
    return kind
  }

  unshare(deed: Deed, project: Project, partner: Partner): void {
    const there = this.shareOf(project, partner)
    if (!there) return
    const shares: (UserShare | WorkspaceShare)[] =
      'user' in partner ? project.userShares : project.workspaceShares
    shares.splice(shares.indexOf(there), 1)
    project.updatedUs = deed.atUs
    this.#note(deed, 'unshared', project)
  }

  /** Counts a query. No timestamp changes: a reader that compares only timestamps does not notice it. */
  query(deed: Deed, project: Project): void {
    project.queries++
    this.#note(deed, 'queries', project)
  }

  addReview(
    deed: Deed,
    project: Project,
    title: string,
    id = 1_000_000 + (deed.seed % 9_000_000),
  ): ReviewTable {
    let free = id
    while (this.#reviews.has(free)) free++
    const fileIds = liveFiles(project).map((file) => file.id)
    const table = makeReview({ id: free, title, atUs: deed.atUs, fileIds, seed: deed.seed })
    project.reviews.push(table)
    this.#reviews.set(free, { project, table })
    this.query(deed, project)
    return table
  }

  /** Irreversible (spec §3): it is listed until `goneUs`, and cannot be changed any more. */
  delete(deed: Deed, project: Project, goneUs: number): void {
    if (project.goneUs !== undefined) return
    project.goneUs = goneUs
    this.#leaving.add(project)
    this.#note(deed, 'deletion', project)
  }
}

// A change of the vault: when, by whom, and the ids that it creates.

/** A change of the vault: when, by whom, and the source of the ids that it creates. */
export interface Deed {
  readonly atUs: number
  readonly user: string
  /** for choices within it; different for each change */
  readonly seed: number
  /** new ids, the same for the same change */
  id(kind: 'project' | 'file', index: number): string
}

/** Changes of one origin (the start, the traffic, the API), numbered: the ids of one never depend on another. */
export function deedsOf(seed: number, origin: string) {
  const streams = {
    project: uuidStream(seed, `${origin} project`),
    file: uuidStream(seed, `${origin} file`),
  }
  const ids = 64
  return (number: number, atUs: number, user: string): Deed => ({
    atUs,
    user,
    seed: mix(mix(seed, origin.length), number),
    id: (kind, index) => streams[kind].at(number * ids + index),
  })
}
