// The vault area: the workspace's projects, their files, review tables, and the entry of each call.
import { vaultPaths } from '../core/api.ts'
import { leaveTrace, routeTable } from './area.ts'
import type { AreaRoutes, Call } from './area.ts'
import { failure } from './replies.ts'
import type { Reply } from './replies.ts'
import { stampOf } from './render.ts'
import {
  deleteFile,
  deleteProject,
  getFiles,
  metadata,
  projectFiles,
  succeeded,
  uploadFiles,
} from './vault-files.ts'
import { INVALID, listProjects, notFound } from './vault-listing.ts'
import { rowOf } from './vault-project.ts'

/** Undefined if there is no such table (any more). */
function reviewOf({ workspace, params }: Call) {
  const found = workspace.vault.state.review(Number(params['review_table_id']))
  return found?.project.goneUs === undefined ? found?.table : undefined
}

function reviewTable(call: Call): Reply {
  if (!/^\d{1,15}$/.test(call.params['review_table_id'] ?? '')) return failure(400, INVALID)
  const table = reviewOf(call)
  if (!table) return notFound()
  const { id, title, createdUs, fileIds } = table
  return succeeded(call, { id, title, created_at: stampOf(createdUs), file_ids: fileIds })
}

function reviewRow(call: Call): Reply {
  if (!/^\d{1,15}$/.test(call.params['review_table_id'] ?? '')) return failure(400, INVALID)
  const table = reviewOf(call)
  const row = table && rowOf(table, call.params['file_id'] ?? '')
  return row ? succeeded(call, row) : notFound()
}

/** Handler and documented type of its audit entry (spec §2.2); without a type, the switch `vault_reads` decides. */
const endpoints: Readonly<Record<string, { answer: (call: Call) => Reply; type?: string }>> = {
  projects: { answer: listProjects, type: 'api:vault_list_projects' },
  upload: { answer: uploadFiles, type: 'api:vault_upload_files' },
  metadata: { answer: metadata, type: 'api:vault_get_metadata' },
  files: { answer: getFiles },
  project_files: { answer: projectFiles },
  delete_file: { answer: deleteFile, type: 'api:vault_delete_file' },
  delete_project: { answer: deleteProject, type: 'api:vault_delete_project' },
  review_table: { answer: reviewTable },
  review_row: { answer: reviewRow },
}

/** The metadata of a call's entry: the ids of its path. */
function aboutOf({ params }: Call): Record<string, string> | undefined {
  return Object.keys(params).length > 0 ? params : undefined
}

export const vaultArea: AreaRoutes = {
  area: 'vault',
  find: routeTable({
    [`GET ${vaultPaths.workspaceProjects}`]: 'projects',
    [`POST ${vaultPaths.uploadFiles}`]: 'upload',
    [`GET ${vaultPaths.metadata}`]: 'metadata',
    [`GET ${vaultPaths.files}`]: 'files',
    [`GET ${vaultPaths.projectFiles}`]: 'project_files',
    [`DELETE ${vaultPaths.file}`]: 'delete_file',
    [`DELETE ${vaultPaths.project}`]: 'delete_project',
    [`GET ${vaultPaths.reviewTable}`]: 'review_table',
    [`GET ${vaultPaths.reviewTableRow}`]: 'review_row',
  }),
  answer: (call) => {
    const endpoint = endpoints[call.endpoint]
    const answer = endpoint?.answer(call) ?? notFound()
    const { vault_reads } = call.switches
    const type = endpoint?.type ?? (vault_reads === 'metadata' ? 'api:vault_get_metadata' : undefined)
    if (type !== undefined) leaveTrace(call, type, aboutOf(call))
    return answer
  },
}
