// Every documented operation of the API (specification §4), for `auditferry api`.
import type { Area } from '../../app/rate-limits.ts'
import { assistantModels, COMPLETION_PATH, vaultFields, vaultPaths } from '../../core/api.ts'

export interface Parameter {
  /** `file`: path of a local file to send. A list: one of its words. */
  readonly type: 'text' | 'integer' | 'boolean' | 'file' | readonly string[]
  readonly required?: boolean
  readonly repeated?: boolean
  /** of an integer */
  readonly least?: number
  readonly most?: number
  /** shown after the type */
  readonly note?: string
}

type Parameters = Readonly<Record<string, Parameter>>

interface More {
  /** Changes something: needs --write. */
  readonly changes?: boolean
  /** Also accepts its fields as a JSON body. */
  readonly json?: boolean
  /** The specification leaves the path or parameters open: --path replaces it. */
  readonly assumed?: boolean
  /** advice after a 403 or 404 */
  readonly hint?: string
}

export interface Operation extends More {
  /** `area.operation`, as in the mock's permissions */
  readonly name: string
  readonly area: Area
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** `{name}` is replaced by the required parameter of that name. */
  readonly path: string
  /** Sent in the query, or for POST in the form. */
  readonly parameters: Parameters
  readonly summary: string
}

/** `request`: method and path. */
function operation(
  ...[name, request, summary, parameters = {}, more = {}]: [string, string, string, Parameters?, More?]
): Operation {
  const [method, path = ''] = request.split(' ') as [Operation['method'], string?]
  const ids = [...path.matchAll(/\{(\w+)\}/g)].map(([, id = '']) => [id, required(text)] as const)
  const area = name.split('.')[0] as Area
  return {
    name,
    area,
    method,
    path,
    summary,
    parameters: { ...Object.fromEntries(ids), ...parameters },
    ...more,
  }
}

const text: Parameter = { type: 'text' }
const file: Parameter = { type: 'file' }
const bool: Parameter = { type: 'boolean' }
const integer = (least: number, most = Infinity): Parameter => ({ type: 'integer', least, most })
const seconds = (note = ''): Parameter => ({ ...integer(0), note: `UTC epoch seconds${note}` })
const oneOf = (...type: readonly string[]): Parameter => ({ type })
const required = (parameter: Parameter): Parameter => ({ ...parameter, required: true })
const repeated = (parameter: Parameter): Parameter => ({ ...parameter, repeated: true, required: true })

const auditLog = '/api/v1/logs/audit'
const type = { log_type: text }
const span = { start_time: required(seconds()), end_time: seconds() }
const admin = { hint: 'the audit log needs the permission Territory admin or Organization admin' }
const v2 = { hint: 'v2 may not be available to this workspace yet: try the operation of v1' }
const assumed = { assumed: true }
const change = { changes: true, assumed: true }
const order = oneOf('asc', 'desc')
const { fileIds, sortBy, sortOrder, pageSize, projectId, filePaths } = vaultFields
const folder = repeated({ ...text, note: 'the folder in the project, one for each file' })

// prettier-ignore
export const operations: readonly Operation[] = [
  operation('audit.page', `GET ${auditLog}`, 'entries from one on, oldest first',
    { from: required({ ...text, note: 'id of an entry' }), take: required(integer(1, 1000)), ...type }, admin),
  operation('audit.search', `GET ${auditLog}/search`, 'the first entry at or after a time',
    { time: required(seconds(', at most a year ago')), ...type }, admin),
  operation('audit.earliest', `GET ${auditLog}/earliest`, 'the earliest entry', type, admin),
  operation('audit.latest', `GET ${auditLog}/latest`, 'the latest entry', type, admin),
  operation('history.usage_v2', 'GET /api/v2/history/usage', 'usage events of at most 30 days', span, v2),
  operation('history.query_v2', 'GET /api/v2/history/query', 'the same with prompts and responses', span, v2),
  operation('history.usage_v1', 'GET /api/v1/history/usage', 'usage events of at most 30 days', span),
  operation('history.query_v1', 'GET /api/v1/history/query', 'the same with prompts and responses', span),
  operation('vault.projects', `GET ${vaultPaths.workspaceProjects}`, 'projects and knowledge bases', {
    page: integer(1),
    per_page: integer(1, 100),
    name: text,
    is_knowledge_base: bool,
    created_after: seconds(', included'),
    created_before: seconds(', excluded'),
    sort_by: oneOf('date', 'name'),
    sort_order: order,
  }, { hint: "the list needs the permission 'View workspace projects'" }),
  operation('vault.metadata', `GET ${vaultPaths.metadata}`, 'files and review tables of a project', {}, assumed),
  operation('vault.files', `GET ${vaultPaths.files}`, 'processing status of files', { [fileIds]: repeated(text) }, assumed),
  operation('vault.project_files', `GET ${vaultPaths.projectFiles}`, 'files of a project, page by page', {
    cursor: text,
    name: text,
    content_type: text,
    processing_status: text,
    uploaded_after: seconds(),
    uploaded_before: seconds(),
    [sortBy]: oneOf('name', 'uploaded_at', 'size'),
    [sortOrder]: order,
    [pageSize]: integer(1),
  }, assumed),
  operation('vault.review_table', `GET ${vaultPaths.reviewTable}`, 'title and files of a review table', {}, assumed),
  operation('vault.review_row', `GET ${vaultPaths.reviewTableRow}`, 'one row of a review table', {}, assumed),
  operation('vault.upload', `POST ${vaultPaths.uploadFiles}`, 'upload files to a project',
    { [projectId]: required(text), [filePaths]: folder, [vaultFields.file]: repeated(file) }, change),
  operation('vault.delete_file', `DELETE ${vaultPaths.file}`, 'delete a file', {}, change),
  operation('vault.delete_project', `DELETE ${vaultPaths.project}`, 'delete a project for good', {}, change),
  operation('assistant.completion', `POST ${COMPLETION_PATH}`, 'ask the assistant; the history keeps the prompt',
    { prompt: required(text), stream: bool, mode: text, model: oneOf(...assistantModels), file }, { changes: true, json: true }),
]

/** Valid arguments of the command: areas and operations. */
export const operationNames: readonly string[] = [
  ...new Set(operations.flatMap(({ area, name }) => [area, name])),
]
