// The vault area (spec §4.3). Paths and bodies that the specification leaves open are our choice.
import { z } from 'zod'
import { vaultFields, vaultPaths } from '../core/api.ts'
import { inMemory, json, replyOf } from './answer.ts'
import type { Reply } from './answer.ts'
import { faultyPage, pageOrRepeated, refused } from './call.ts'
import type { AreaRoutes, Call, Endpoint } from './call.ts'
import { fieldsOf, readForm } from './multipart.ts'
import type { Part } from './multipart.ts'
import { below, dice, mix } from './random.ts'
import { stampOf } from './render.ts'
import { changeProject } from './vault-people.ts'
import { contentTypeOf, liveFiles, rowOf } from './vault-project.ts'
import type { NewFile } from './vault-project.ts'
import type { Edit, Project, VaultFile } from './vault-state.ts'

const INVALID = 'Missing or invalid input'

const invalid = (call: Call) => refused(call, 400, INVALID)
const notFound = (call: Call) => refused(call, 404)

function succeeded({ switches }: Call, value: unknown, status = Number(switches.vault_status)): Reply {
  return json(status, JSON.stringify(value))
}

// Query parameters, parsed strictly. An empty parameter counts as omitted.

const integer = (least: number, most: number, usual: number) =>
  z
    .string()
    .refine((text) => /^\d{1,9}$/.test(text) && Number(text) >= least && Number(text) <= most)
    .transform(Number)
    .default(usual)

/** UTC epoch seconds, int64 (spec §4.3). */
const seconds = z
  .string()
  .refine((text) => /^-?\d{1,19}$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text))
  .transform(Number)
  .optional()

/** The first one by default. */
const oneOf = <const T extends readonly [string, ...string[]]>(...words: T) => z.enum(words).default(words[0])

const flag = z
  .enum(['true', 'false'])
  .transform((text) => text === 'true')
  .optional()

/** At most 256 characters, counted as code points. */
const text = z
  .string()
  .refine((value) => Array.from(value).length <= 256)
  .optional()

/** Undefined if one of the values is invalid. `names`: parameters whose names differ. */
function read<Shape extends z.ZodRawShape>(
  { query }: Call,
  shape: Shape,
  names: Readonly<Record<string, string>> = {},
) {
  const given = Object.keys(shape).map((name) => [name, query.get(names[name] ?? name) || undefined])
  return z.object(shape).safeParse(Object.fromEntries(given)).data
}

// What both listings do: filter by text and time, and sort in a total order.

function contains(name: string, part: string | undefined): boolean {
  return part === undefined || name.toLowerCase().includes(part.toLowerCase())
}

function isWithin(us: number, after: number | undefined, before: number | undefined): boolean {
  return (after === undefined || us >= after * 1e6) && (before === undefined || us < before * 1e6)
}

type SortKey = readonly [value: string | number, id: string]

/** By code points of the lower-case text, then of the original: the same on every machine. */
function byText(a: string, b: string): number {
  const [x, y] = [a.toLowerCase(), b.toLowerCase()]
  if (x !== y) return x < y ? -1 : 1
  return a < b ? -1 : a > b ? 1 : 0
}

/** Equal ones are ordered by id, in both directions, so that a cursor is always between two. */
function compare([x, xId]: SortKey, [y, yId]: SortKey, order: 'asc' | 'desc'): number {
  const values = typeof x === 'number' && typeof y === 'number' ? x - y : byText(String(x), String(y))
  return (order === 'asc' ? 1 : -1) * values || byText(xId, yId)
}

function projectsAsked(call: Call) {
  return read(call, {
    page: integer(1, 999_999_999, 1),
    per_page: integer(1, 100, 20),
    name: text,
    is_knowledge_base: flag,
    created_after: seconds,
    created_before: seconds,
    sort_by: oneOf('date', 'name'),
    sort_order: oneOf('desc', 'asc'),
  })
}

type ProjectsAsked = NonNullable<ReturnType<typeof projectsAsked>>

function fitting({ workspace, switches }: Call, asked: ProjectsAsked): Project[] {
  const keyOf = ({ id, name, updatedUs, contentUs }: Project): SortKey => {
    const date = switches.project_date === 'updated_at' ? updatedUs : contentUs
    return [asked.sort_by === 'name' ? name : date, id]
  }
  return workspace.vault.state
    .listed()
    .filter(({ name }) => contains(name, asked.name))
    .filter(({ knowledgeBase }) => knowledgeBase === (asked.is_knowledge_base ?? knowledgeBase))
    .filter(({ createdUs }) => isWithin(createdUs, asked.created_after, asked.created_before))
    .sort((a, b) => compare(keyOf(a), keyOf(b), asked.sort_order))
}

/** Changes the list just before this answer, so that projects move between the reader's pages. */
function shift({ workspace, seed, ordinal, now }: Call, projects: readonly Project[]): void {
  const open = projects.filter(({ goneUs }) => goneUs === undefined)
  const [first, last] = [open[0], open.at(-1)]
  const kind = below(dice(mix(seed, ordinal)), 3)
  if (kind === 0 && last) changeProject(workspace, { do: 'upload', project: last.id }, now)
  else if (kind === 1 && first)
    changeProject(workspace, { do: 'delete', project: first.id, atOnce: true }, now)
  else changeProject(workspace, { do: 'create', name: `Inserted ${ordinal}` }, now)
}

function listProjects(call: Call): Reply {
  const asked = projectsAsked(call)
  const { switches, workspace, struck } = call
  if (!asked) return invalid(call)
  const { created_after: after, created_before: before, page } = asked
  if (after !== undefined && before !== undefined && before <= after && switches.created_range === '400')
    return invalid(call)
  if (struck.has('shifting_list')) shift(call, fitting(call, asked))
  const projects = fitting(call, asked)
  if (struck.has('list_skips')) projects.splice(below(dice(mix(call.seed, call.ordinal)), projects.length), 1)
  const perPage = Math.min(asked.per_page, switches.per_page_cap > 0 ? switches.per_page_cap : Infinity)
  const total = projects.length
  const pagination = { page, per_page: perPage, total, total_pages: Math.ceil(total / perPage) }
  const opening = `{"response":{"content":{"pagination":${JSON.stringify(pagination)},"projects":[`
  const rendered = projects
    .slice((page - 1) * perPage, page * perPage)
    .map((project) => workspace.vault.render(project).toString())
  const shown = faultyPage(call, pageOrRepeated(call, rendered))
  const pieces = [opening, shown.join(','), ']}}}'].map((piece) => Buffer.from(piece))
  const body =
    shown.length === 0 ? inMemory(pieces) : inMemory(pieces, () => Buffer.from(`,${shown.join(',')}`))
  return { ...replyOf(Number(switches.vault_status), body), elements: shown.length }
}

function editOf({ workspace, now, key }: Call): Edit {
  return workspace.vault.edit(now * 1000, key.user)
}

function projectOf({ workspace, params }: Call): Project | undefined {
  return workspace.vault.state.project(params['project_id'] ?? '')
}

/** Such as `Contracts/2026`. Undefined if it is not relative, or leaves the project. */
function folderOf(path: string): string | undefined {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  return path.startsWith('/') || parts.includes('..') ? undefined : parts.join('/')
}

function newFile({ fileName: name = '', bytes }: Part, path: string): NewFile | undefined {
  const folder = folderOf(path)
  if (folder === undefined || contentTypeOf(name) === undefined) return undefined
  return { name, folder, sizeBytes: bytes.length }
}

/** Files and paths come in pairs. */
function uploadFiles(call: Call): Reply {
  const parts = readForm(call.headers['content-type'], call.body) ?? []
  const sent = parts.filter((part) => part.name === vaultFields.file && part.fileName !== undefined)
  if (sent.length === 0) return refused(call, 400)
  const [projectId] = fieldsOf(parts, vaultFields.projectId)
  const paths = fieldsOf(parts, vaultFields.filePaths)
  const files = sent.map((part, index) => newFile(part, paths[index] ?? ''))
  const valid = files.filter((file) => file !== undefined)
  if (projectId === undefined || paths.length !== sent.length || valid.length < sent.length)
    return invalid(call)
  const { state } = call.workspace.vault
  const project = state.project(projectId)
  if (!project) return notFound(call)
  const made = state.upload(editOf(call), project, valid)
  return succeeded(call, { project_id: projectId, file_ids: made.map(({ id }) => id) })
}

/** The processing state of a file (spec §3). */
function statusOf({ switches, now }: Call, { queuedUs, pace }: VaultFile) {
  const waited = now - queuedUs / 1000
  if (waited < switches.uploaded_for * pace) return 'uploaded'
  const ready = (switches.uploaded_for + switches.processing_for) * pace
  return waited < ready ? 'processing' : 'ready_to_query'
}

/** Repeated ids, or ids separated by commas. */
function getFiles(call: Call): Reply {
  const ids = call.query.getAll(vaultFields.fileIds).flatMap((value) => value.split(','))
  const asked = ids.filter((id) => id !== '')
  if (asked.length === 0) return invalid(call)
  const files = asked.map((id) => {
    const file = call.workspace.vault.state.file(id)?.file
    if (!file) return { id, error: 'File not found' }
    const { contentType: content_type, deletedUs } = file
    const deleted_at = deletedUs === undefined ? null : stampOf(deletedUs)
    return { id, processing_status: statusOf(call, file), content_type, deleted_at }
  })
  return succeeded(call, { files })
}

function metadata(call: Call): Reply {
  const project = projectOf(call)
  if (!project) return notFound(call)
  const files = liveFiles(project)
  return succeeded(call, {
    file_ids: files.map(({ id }) => id),
    file_names: files.map(({ name }) => name),
    file_sizes: files.map(({ sizeBytes }) => sizeBytes),
    review_table_ids: project.reviews.map(({ id }) => id),
  })
}

function filesAsked(call: Call) {
  const { files_page, file_sort } = call.switches
  const readers = {
    name: text,
    content_type: text,
    processing_status: text,
    uploaded_after: seconds,
    uploaded_before: seconds,
    by: oneOf('uploaded_at', 'name', 'size'),
    order: oneOf('asc', 'desc'),
    limit: integer(1, 1000, files_page),
  }
  const { sortBy, sortOrder, pageSize: limit } = vaultFields
  return read(
    call,
    readers,
    file_sort === 'sort' ? { by: 'sort', limit } : { by: sortBy, order: sortOrder, limit },
  )
}

type FilesAsked = NonNullable<ReturnType<typeof filesAsked>>

function sortKeyOf(file: VaultFile, { by }: FilesAsked): SortKey {
  return [by === 'name' ? file.name : by === 'size' ? file.sizeBytes : file.uploadedUs, file.id]
}

/** The position after a file, independent of files that come and go. */
function cursorAfter(file: VaultFile, asked: FilesAsked): string {
  const cursor = [asked.by, asked.order, ...sortKeyOf(file, asked)]
  return Buffer.from(JSON.stringify(cursor)).toString('base64url')
}

/** Undefined if it is invalid, or for another order. */
function readCursor(cursor: string, { by, order }: FilesAsked): SortKey | undefined {
  try {
    const [wasBy, wasOrder, value, id] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown[]
    const fits = wasBy === by && wasOrder === order && typeof value === (by === 'name' ? 'string' : 'number')
    return fits && typeof id === 'string' ? [value as SortKey[0], id] : undefined
  } catch {
    return undefined
  }
}

function projectFiles(call: Call): Reply {
  const asked = filesAsked(call)
  if (!asked) return invalid(call)
  const project = projectOf(call)
  if (!project) return notFound(call)
  const given = call.query.get('cursor')
  const from = given ? readCursor(given, asked) : undefined
  if (given && !from) return invalid(call)
  const files = liveFiles(project)
    .filter(({ name }) => contains(name, asked.name))
    .filter(({ contentType }) => contentType === (asked.content_type ?? contentType))
    .filter((file) => (asked.processing_status ?? statusOf(call, file)) === statusOf(call, file))
    .filter(({ uploadedUs }) => isWithin(uploadedUs, asked.uploaded_after, asked.uploaded_before))
    .filter((file) => !from || compare(sortKeyOf(file, asked), from, asked.order) > 0)
    .sort((a, b) => compare(sortKeyOf(a, asked), sortKeyOf(b, asked), asked.order))
  const page = files.slice(0, Math.min(asked.limit, call.switches.files_page))
  const last = page.at(-1)
  const has_more = files.length > page.length
  return succeeded(call, {
    files: page.map((file) => ({
      id: file.id,
      name: file.name,
      path: file.folder,
      content_type: file.contentType,
      processing_status: statusOf(call, file),
      uploaded_at: stampOf(file.uploadedUs),
      size: file.sizeBytes,
    })),
    pagination: { next_cursor: has_more && last ? cursorAfter(last, asked) : null, has_more },
  })
}

/** Confirmed by 200 (spec §4.3); a file is deleted once. */
function deleteFile(call: Call): Reply {
  const { state } = call.workspace.vault
  const found = state.file(call.params['file_id'] ?? '')
  if (!found || found.file.deletedUs !== undefined || found.project.goneUs !== undefined)
    return notFound(call)
  state.deleteFiles(editOf(call), found.project, [found.file])
  return succeeded(call, { deleted: [found.file.id] }, 200)
}

/** Confirmed by 200; complete when the project has left the listing (spec §3). */
function deleteProject(call: Call): Reply {
  const project = projectOf(call)
  if (!project) return notFound(call)
  call.workspace.vault.delete(editOf(call), project)
  return succeeded(call, { deleted: project.id }, 200)
}

function reviewTable(call: Call): Reply {
  const { params, workspace } = call
  const { review_table_id: id = '', file_id: fileId } = params
  if (!/^\d{1,15}$/.test(id)) return invalid(call)
  const found = workspace.vault.state.review(Number(id))
  if (!found || found.project.goneUs !== undefined) return notFound(call)
  const { table } = found
  if (fileId !== undefined) {
    const row = rowOf(table, fileId)
    return row ? succeeded(call, row) : notFound(call)
  }
  const { title, createdUs, fileIds } = table
  return succeeded(call, { id: table.id, title, created_at: stampOf(createdUs), file_ids: fileIds })
}

/** With the documented type of its audit entry (spec §2.2). */
const endpoint = (name: string, answer: Endpoint['answer'], type: string): Endpoint => ({
  name,
  answer,
  trace: () => `api:vault_${type}`,
})

/** A read without a documented type: the switch decides. */
const unlisted = (name: string, answer: Endpoint['answer']): Endpoint => ({
  name,
  answer,
  trace: ({ vault_reads }) => (vault_reads === 'metadata' ? 'api:vault_get_metadata' : undefined),
})

export const vaultArea: AreaRoutes = {
  area: 'vault',
  endpoints: {
    [`GET ${vaultPaths.workspaceProjects}`]: endpoint('projects', listProjects, 'list_projects'),
    [`POST ${vaultPaths.uploadFiles}`]: endpoint('upload', uploadFiles, 'upload_files'),
    [`GET ${vaultPaths.metadata}`]: endpoint('metadata', metadata, 'get_metadata'),
    [`GET ${vaultPaths.files}`]: unlisted('files', getFiles),
    [`GET ${vaultPaths.projectFiles}`]: unlisted('project_files', projectFiles),
    [`DELETE ${vaultPaths.file}`]: endpoint('delete_file', deleteFile, 'delete_file'),
    [`DELETE ${vaultPaths.project}`]: endpoint('delete_project', deleteProject, 'delete_project'),
    [`GET ${vaultPaths.reviewTable}`]: unlisted('review_table', reviewTable),
    [`GET ${vaultPaths.reviewTableRow}`]: unlisted('review_row', reviewTable),
  },
}
