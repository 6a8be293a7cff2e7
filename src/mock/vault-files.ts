// Files of the vault: upload, status, a project's files and metadata, deletion (spec §2.6, §4.3).
// Paths, parameter names and bodies that the specification does not define are the mock's own.
import { vaultFields } from '../core/api.ts'
import type { Call } from './area.ts'
import { fieldsOf, readForm } from './multipart.ts'
import type { Part } from './multipart.ts'
import { documented, failure, text } from './replies.ts'
import type { Reply } from './replies.ts'
import { stampOf } from './render.ts'
import {
  allValid,
  byText,
  holds,
  INVALID,
  notFound,
  numberIn,
  secondsIn,
  textIn,
  wordIn,
} from './vault-listing.ts'
import { contentTypeOf, liveFiles } from './vault-project.ts'
import type { NewFile, Project, VaultFile } from './vault-project.ts'
import type { Deed } from './vault-state.ts'

export function succeeded(call: Call, value: unknown): Reply {
  return text(Number(call.switches.vault_status), value)
}

function deedOf({ workspace, now, key }: Call): Deed {
  return workspace.vault.deed(now * 1000, key.user)
}

function projectOf({ workspace, params }: Call): Project | undefined {
  return workspace.vault.state.project(params['project_id'] ?? '')
}

/** `Contracts/2026`, without slashes at its ends; undefined if it is not relative or leaves the project. */
function folderOf(path: string): string | undefined {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  return path.startsWith('/') || parts.includes('..') ? undefined : parts.join('/')
}

function newFile(part: Part, path: string): NewFile | undefined {
  const folder = folderOf(path)
  const name = part.fileName ?? ''
  if (folder === undefined || contentTypeOf(name) === undefined) return undefined
  return { name, folder, sizeBytes: part.bytes.length }
}

/** Files and paths come in pairs. */
export function uploadFiles(call: Call): Reply {
  const parts = readForm(call.headers['content-type'], call.body) ?? []
  const files = parts.filter((part) => part.name === vaultFields.file && part.fileName !== undefined)
  if (files.length === 0) return failure(400, documented.vault[400])
  const [projectId] = fieldsOf(parts, vaultFields.projectId)
  const paths = fieldsOf(parts, vaultFields.filePaths)
  if (projectId === undefined || paths.length !== files.length) return failure(400, INVALID)
  const fresh = files.map((part, index) => newFile(part, paths[index] ?? ''))
  const fitting = fresh.filter((file) => file !== undefined)
  if (fitting.length < fresh.length) return failure(400, INVALID)
  const { state } = call.workspace.vault
  const project = state.project(projectId)
  if (!project) return notFound()
  const made = state.upload(deedOf(call), project, fitting)
  return succeeded(call, { project_id: projectId, file_ids: made.map(({ id }) => id) })
}

function statusRecord(call: Call, id: string) {
  const { vault } = call.workspace
  const found = vault.state.file(id)
  if (!found) return { id, error: documented.vault[404] }
  const { file } = found
  return {
    id,
    processing_status: vault.statusOf(file, call.now * 1000),
    content_type: file.contentType,
    deleted_at: file.deletedUs === undefined ? null : stampOf(file.deletedUs),
  }
}

/** Repeated ids, or ids separated by commas. */
export function getFiles(call: Call): Reply {
  const ids = call.query.getAll(vaultFields.fileIds).flatMap((value) => value.split(','))
  const asked = ids.filter((id) => id !== '')
  if (asked.length === 0) return failure(400, INVALID)
  return succeeded(call, { files: asked.map((id) => statusRecord(call, id)) })
}

export function metadata(call: Call): Reply {
  const project = projectOf(call)
  if (!project) return notFound()
  const files = liveFiles(project)
  return succeeded(call, {
    file_ids: files.map(({ id }) => id),
    file_names: files.map(({ name }) => name),
    file_sizes: files.map(({ sizeBytes }) => sizeBytes),
    review_table_ids: project.reviews.map(({ id }) => id),
  })
}

const MAX_LIMIT = 1000
const sorts = ['name', 'uploaded_at', 'size'] as const

function listAsked(call: Call) {
  const { query, switches } = call
  const [by, order] =
    switches.file_sort === 'sort' ? ['sort', 'order'] : [vaultFields.sortBy, vaultFields.sortOrder]
  return allValid({
    name: textIn(query, 'name', 256),
    contentType: textIn(query, 'content_type', 256),
    status: textIn(query, 'processing_status', 256),
    after: secondsIn(query, 'uploaded_after'),
    before: secondsIn(query, 'uploaded_before'),
    by: wordIn(query, by, sorts, 'uploaded_at'),
    order: wordIn(query, order, ['asc', 'desc'], 'asc'),
    limit: numberIn(query, vaultFields.pageSize, 1, MAX_LIMIT, switches.files_page),
  })
}

type ListAsked = NonNullable<ReturnType<typeof listAsked>>
type SortValue = string | number

function valueOf(file: VaultFile, by: ListAsked['by']): SortValue {
  return by === 'name' ? file.name : by === 'size' ? file.sizeBytes : file.uploadedUs
}

/** A total order: equal files are ordered by id, so that a cursor is always between two files. */
function compare(a: readonly [SortValue, string], b: readonly [SortValue, string], asked: ListAsked): number {
  const [x, y] = [a[0], b[0]]
  const values = typeof x === 'number' && typeof y === 'number' ? x - y : byText(String(x), String(y))
  return (asked.order === 'asc' ? 1 : -1) * values || byText(a[1], b[1])
}

/** The position after a file, independent of files that come and go. */
function cursorOf(file: VaultFile, { by, order }: ListAsked): string {
  return Buffer.from(JSON.stringify([by, order, valueOf(file, by), file.id])).toString('base64url')
}

/** Undefined if it is invalid, or for another order. */
function readCursor(cursor: string, { by, order }: ListAsked): readonly [SortValue, string] | undefined {
  try {
    const [wasBy, wasOrder, value, id] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown[]
    const numeric = by !== 'name'
    const fits = wasBy === by && wasOrder === order && typeof value === (numeric ? 'number' : 'string')
    return fits && typeof id === 'string' ? [value as SortValue, id] : undefined
  } catch {
    return undefined
  }
}

function matches(call: Call, file: VaultFile, asked: ListAsked): boolean {
  const { name, contentType, status, after, before } = asked
  return (
    holds(file.name, name) &&
    (contentType === undefined || file.contentType === contentType) &&
    (status === undefined || call.workspace.vault.statusOf(file, call.now * 1000) === status) &&
    (after === undefined || file.uploadedUs >= after * 1e6) &&
    (before === undefined || file.uploadedUs < before * 1e6)
  )
}

function fileRecord(call: Call, file: VaultFile) {
  return {
    id: file.id,
    name: file.name,
    path: file.folder,
    content_type: file.contentType,
    processing_status: call.workspace.vault.statusOf(file, call.now * 1000),
    uploaded_at: stampOf(file.uploadedUs),
    size: file.sizeBytes,
  }
}

export function projectFiles(call: Call): Reply {
  const asked = listAsked(call)
  if (!asked) return failure(400, INVALID)
  const project = projectOf(call)
  if (!project) return notFound()
  const given = call.query.get('cursor')
  const from = given ? readCursor(given, asked) : undefined
  if (given && !from) return failure(400, INVALID)
  const placeOf = (file: VaultFile) => [valueOf(file, asked.by), file.id] as const
  const files = liveFiles(project)
    .filter((file) => matches(call, file, asked))
    .filter((file) => !from || compare(placeOf(file), from, asked) > 0)
    .sort((a, b) => compare(placeOf(a), placeOf(b), asked))
  const limit = Math.min(asked.limit, call.switches.files_page)
  const page = files.slice(0, limit)
  const last = page.at(-1)
  const more = files.length > page.length
  return succeeded(call, {
    files: page.map((file) => fileRecord(call, file)),
    pagination: { next_cursor: more && last ? cursorOf(last, asked) : null, has_more: more },
  })
}

/** Confirmed by 200 (spec §4.3); a file is deleted once. */
export function deleteFile(call: Call): Reply {
  const { vault } = call.workspace
  const found = vault.state.file(call.params['file_id'] ?? '')
  if (!found || found.file.deletedUs !== undefined || found.project.goneUs !== undefined) return notFound()
  vault.state.deleteFiles(deedOf(call), found.project, [found.file])
  return text(200, { deleted: [found.file.id] })
}

/** Confirmed by 200; complete when the project has left the listing (spec §3). */
export function deleteProject(call: Call): Reply {
  const project = projectOf(call)
  if (!project) return notFound()
  call.workspace.vault.delete(deedOf(call), project)
  return text(200, { deleted: project.id })
}
