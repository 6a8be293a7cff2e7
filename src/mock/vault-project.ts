// A vault project as the mock holds it, and the bytes that the listing shows of it (spec §2.5).
import { stampOf } from './render.ts'
import type { ReviewTable } from './vault-review.ts'

/** Values that the specification has seen (§2.5). */
export type Permission = 'VIEW' | 'EDIT'

interface Share {
  readonly createdUs: number
  readonly byUser: string
  readonly workspaceId: number
  permission: Permission
}

export interface UserShare extends Share {
  readonly user: string
}

/** With the other workspace `workspaceId`. */
export type WorkspaceShare = Share

/** Instants are microseconds since 1970. */
export interface VaultFile {
  readonly id: string
  name: string
  /** relative to the project, without slashes at its ends; empty for the project itself */
  readonly folder: string
  readonly contentType: string
  readonly sizeBytes: number
  readonly uploadedUs: number
  /** when processing was asked for last */
  queuedUs: number
  /** 0.5 to 1.5: how long its processing takes beside the others' */
  readonly pace: number
  deletedUs: number | undefined
}

export interface Project {
  readonly id: string
  readonly creator: string
  readonly createdUs: number
  name: string
  /** anything of it: name, flag, shares, files; not its queries */
  updatedUs: number
  /** its files */
  contentUs: number
  queries: number
  knowledgeBase: boolean
  readonly userShares: UserShare[]
  readonly workspaceShares: WorkspaceShare[]
  /** the deleted ones too */
  readonly files: VaultFile[]
  /** of those that are not deleted */
  filesCount: number
  sizeBytes: number
  readonly reviews: ReviewTable[]
  /** when it leaves the listing, once somebody deleted it */
  goneUs: number | undefined
  /** how its JSON is spelled */
  readonly spelling: Spelling
}

export type Spelling = 'compact' | 'indented' | 'escaped'

export interface Identities {
  readonly workspaceId: number
  readonly userId: (user: string) => string
}

export function liveFiles(project: Project): VaultFile[] {
  return project.files.filter((file) => file.deletedUs === undefined)
}

function sharingOf(project: Project, { workspaceId, userId }: Identities) {
  const common = (share: Share) => ({
    permission_level: share.permission,
    src_user_id: userId(share.byUser),
    src_workspace_id: workspaceId,
    vault_folder_id: project.id,
  })
  return {
    user_count: project.userShares.length,
    user_shares: project.userShares.map((share) => ({
      created_at: stampOf(share.createdUs),
      dest_user_email: share.user,
      dest_user_id: userId(share.user),
      dest_workspace_id: share.workspaceId,
      ...common(share),
    })),
    workspace_count: project.workspaceShares.length,
    workspace_shares: project.workspaceShares.map((share) => ({
      created_at: stampOf(share.createdUs),
      dest_workspace_id: share.workspaceId,
      ...common(share),
    })),
  }
}

/** As the listing shows it. */
export function renderProject(project: Project, identities: Identities): Buffer {
  const shown = {
    id: project.id,
    name: project.name,
    creator_email: project.creator,
    created_at: stampOf(project.createdUs),
    updated_at: stampOf(project.updatedUs),
    project_updated_at: stampOf(project.contentUs),
    files_count: project.filesCount,
    query_count: project.queries,
    size_bytes: project.sizeBytes,
    is_knowledge_base_project: project.knowledgeBase,
    sharing: sharingOf(project, identities),
  }
  if (project.spelling === 'indented') return Buffer.from(JSON.stringify(shown, null, 2))
  const text = JSON.stringify(shown)
  return Buffer.from(project.spelling === 'escaped' ? text.replace('"id":', '"\\u0069d":') : text)
}
