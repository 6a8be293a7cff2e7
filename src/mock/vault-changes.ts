// Manual changes of the vault, for tests and faults: each leaves the audit entry of a person's
// change.
import type { CellEdit, NewFile, Permission } from './vault-project.ts'
import { editCell, someFile } from './vault-project.ts'
import { dice } from './random.ts'
import type { Deed, Partner } from './vault-state.ts'
import type { Workspace } from './workspace.ts'

/** `project` is an id. Omitted values are generated. */
export type VaultChange = (
  | { readonly do: 'create'; readonly id?: string; readonly name?: string; readonly knowledgeBase?: boolean }
  | { readonly do: 'rename'; readonly project: string; readonly name: string }
  | { readonly do: 'knowledge_base'; readonly project: string; readonly value: boolean }
  | { readonly do: 'upload'; readonly project: string; readonly files?: readonly NewFile[] }
  | { readonly do: 'delete_files'; readonly project: string; readonly files: readonly string[] }
  | { readonly do: 'query'; readonly project: string }
  | { readonly do: 'review'; readonly project: string; readonly title?: string }
  /** a new share, or another permission for an existing one */
  | {
      readonly do: 'share'
      readonly project: string
      readonly with: Partner
      readonly permission?: Permission
    }
  | { readonly do: 'unshare'; readonly project: string; readonly with: Partner }
  /** `atOnce`: it leaves the listing without the delay of the switch `deletion_takes` */
  | { readonly do: 'delete'; readonly project: string; readonly atOnce?: boolean }
  /** text of a person in a review table; no documented type covers it, so it leaves no entry */
  | {
      readonly do: 'edit_cell'
      readonly review: number
      readonly file: string
      readonly column: string
      readonly edit: CellEdit
    }
) & { readonly by?: string }

/** The result of a change. */
export interface Changed {
  /** the project's id */
  readonly project: string
  readonly files?: readonly string[]
  readonly review?: number
}

interface Told extends Changed {
  /** of the entry to leave */
  readonly type: string | undefined
}

function created(workspace: Workspace, deed: Deed, change: VaultChange & { do: 'create' }): Told {
  const { id, name = 'Made by hand', knowledgeBase = false } = change
  const project = workspace.vault.state.create(deed, { name, knowledgeBase, ...(id ? { id } : {}) })
  return { project: project.id, type: 'user:create_vault_folder' }
}

function edited({ vault }: Workspace, change: VaultChange & { do: 'edit_cell' }): Told {
  const found = vault.state.review(change.review)
  if (!found) throw new Error(`mock API: there is no review table ${change.review}`)
  editCell(found.table, change.file, change.column, change.edit)
  return { project: found.project.id, type: undefined }
}

type OfProject = Exclude<VaultChange, { do: 'create' | 'edit_cell' }>

function changed({ vault }: Workspace, deed: Deed, change: OfProject): Told {
  const { state } = vault
  const project = state.project(change.project)
  if (!project) throw new Error(`mock API: there is no project ${change.project}, or it is being deleted`)
  const { id } = project
  switch (change.do) {
    case 'rename':
      state.rename(deed, project, change.name)
      return { project: id, type: 'user:update_vault_folder_metadata' }
    case 'knowledge_base':
      state.setKnowledgeBase(deed, project, change.value)
      return { project: id, type: 'user:update_vault_folder_metadata' }
    case 'upload': {
      const files = state.upload(deed, project, change.files ?? [someFile(dice(deed.seed))])
      return { project: id, files: files.map((file) => file.id), type: 'user:upload_vault_files' }
    }
    case 'delete_files': {
      const files = project.files.filter((file) => change.files.includes(file.id))
      state.deleteFiles(deed, project, files)
      return { project: id, files: files.map((file) => file.id), type: 'user:delete_vault_files' }
    }
    case 'query':
      state.query(deed, project)
      return { project: id, type: 'user:semantic_search_with_vault_folder' }
    case 'review': {
      const table = state.addReview(deed, project, change.title ?? 'Review by hand')
      return { project: id, review: table.id, type: 'user:create_vault_review_query' }
    }
    case 'share': {
      const what = state.share(deed, project, change.with, change.permission ?? 'VIEW')
      const verb = what === 'shared' ? 'create' : 'update'
      return { project: id, type: `user:${verb}_vault_folder_sharing_permissions` }
    }
    case 'unshare':
      state.unshare(deed, project, change.with)
      return { project: id, type: 'user:delete_vault_folder_sharing_permissions' }
    case 'delete':
      if (change.atOnce) state.delete(deed, project, deed.atUs)
      else vault.delete(deed, project)
      state.settle(deed.atUs)
      return { project: id, type: 'user:delete_vault_folder' }
  }
}

/** Applies the change at `now` (epoch ms, server). Throws if the project does not exist, or is being deleted. */
export function changeProject(workspace: Workspace, change: VaultChange, now: number): Changed {
  workspace.advance(now)
  const user = change.by ?? `someone@${workspace.domain}`
  const deed = workspace.vault.deed(now * 1000, user)
  const { type, ...told } =
    change.do === 'create'
      ? created(workspace, deed, change)
      : change.do === 'edit_cell'
        ? edited(workspace, change)
        : changed(workspace, deed, change)
  if (type !== undefined) {
    const { project, files, review } = told
    const data = {
      project_id: project,
      ...(files ? { file_ids: files } : {}),
      ...(review === undefined ? {} : { review_table_id: review }),
    }
    workspace.add({ type, user, data }, now)
  }
  return told
}
