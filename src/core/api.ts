// Paths of the vault's operations. The specification gives only the path of the workspace listing
// (§4.3); all others are our choice.

/**
 * `{…}` is a placeholder for one percent-encoded id. `auditferry api` accepts other paths with
 * --path; the mock answers under these. For `metadata` and `files` the specification gives the last
 * path segments, for the others nothing.
 */
export const vaultPaths = {
  /** spec §4.3 */
  workspaceProjects: '/api/v1/vault/workspace/projects',
  /** POST, multipart/form-data */
  uploadFiles: '/api/v1/vault/upload_files',
  metadata: '/api/v1/vault/get_metadata/{project_id}',
  /** GET with the ids in the query */
  files: '/api/v1/vault/get_files',
  projectFiles: '/api/v1/vault/projects/{project_id}/files',
  /** DELETE */
  file: '/api/v1/vault/files/{file_id}',
  /** DELETE */
  project: '/api/v1/vault/projects/{project_id}',
  reviewTable: '/api/v1/vault/review_tables/{review_table_id}',
  reviewTableRow: '/api/v1/vault/review_tables/{review_table_id}/rows/{file_id}',
} as const

/** Names of parameters and form fields that the specification leaves open. */
export const vaultFields = {
  /** of `files`: repeated, one per id */
  fileIds: 'file_ids',
  /** of `projectFiles` */
  sortBy: 'sort_by',
  sortOrder: 'sort_order',
  pageSize: 'limit',
  /** of `uploadFiles` (spec §4.3 names the first two); the last two are repeated in pairs */
  projectId: 'project_id',
  filePaths: 'file_paths',
  file: 'file',
} as const

/** POST, spec §4.4. */
export const COMPLETION_PATH = '/api/v2/completion'

// What the specification says about prompts.

/** The model slugs of spec §2.7. */
export const assistantModels = [
  'alpha-5',
  'alpha-5-1',
  'alpha-5-2',
  'alpha-5-4',
  'alpha-5-4-mini',
  'alpha-5-5',
  'alpha-4-1',
  'beta-opus-4-5',
  'beta-sonnet-4-5',
  'beta-opus-4-6',
  'beta-opus-4-7',
] as const

/** Spec §8: characters of a prompt, without and with a file. */
export const PROMPT_CHARACTERS = 20_000
export const PROMPT_CHARACTERS_WITH_FILE = 4_000
