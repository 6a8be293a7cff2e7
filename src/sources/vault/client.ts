// The vault's operations except for the project list (spec §4.3), typed. Some change the vault: the
// daemon must not import this file.
import { z } from 'zod'
import { WHOLE_BODY_BYTES } from '../../contracts/entries.ts'
import { vaultFields, vaultPaths } from '../../core/api.ts'
import type { VaultPaths } from '../../core/api.ts'
import { randomDigits } from '../../core/clock.ts'
import type { Random } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Answer, Ask, Client } from '../http/client.ts'
import { hold } from '../http/groups.ts'

/** A list that returns the same cursor again would be read forever. */
const MOST_PAGES = 100_000

export interface VaultClientOptions {
  /** uses the rate limit of the vault area, shared with the inventory (spec §8) */
  readonly client: Client
  readonly random: Random
  /** for operations without a path in the specification, or an API with other paths than the mock */
  readonly paths?: Partial<VaultPaths>
}

/** Spec §4.3; instants are epoch seconds. The mock chose the names of the sort parameters. */
interface FileQuery {
  /** part of the name, case-insensitive */
  readonly name?: string
  readonly content_type?: string
  readonly processing_status?: string
  readonly uploaded_after?: number
  readonly uploaded_before?: number
  readonly sort?: { readonly by: 'name' | 'uploaded_at' | 'size'; readonly order: 'asc' | 'desc' }
  readonly cursor?: string
}

/**
 * Each method sends one rate-limited request, without a retry. All throw ConnectorError by status (`not_found`, …),
 * and `bad_reply` if the answer does not have the documented shape.
 */
interface VaultClient {
  /** CHANGES the vault. Files are streamed; a streamed upload cannot be retried. */
  upload(projectId: string, files: readonly UploadFile[], signal: AbortSignal): Promise<Uploaded>
  metadata(projectId: string, signal: AbortSignal): Promise<ProjectMetadata>
  /** One record per id; those not found have an `error`. */
  statuses(fileIds: readonly string[], signal: AbortSignal): Promise<readonly FileStatus[]>
  page(projectId: string, query: FileQuery, signal: AbortSignal): Promise<FilePage>
  /** All pages, one request each. */
  files(projectId: string, query: FileQuery, signal: AbortSignal): AsyncGenerator<VaultFile>
  /** CHANGES the vault. */
  deleteFile(fileId: string, signal: AbortSignal): Promise<void>
  /** CHANGES the vault; irreversible. Resolves when accepted; complete when the project has left the list (spec §3). */
  deleteProject(projectId: string, signal: AbortSignal): Promise<void>
  reviewTable(reviewTableId: number, signal: AbortSignal): Promise<ReviewTable>
  reviewRow(reviewTableId: number, fileId: string, signal: AbortSignal): Promise<ReviewRow>
}

export function openVaultClient({ client, random, paths: own = {} }: VaultClientOptions): VaultClient {
  const paths: VaultPaths = { ...vaultPaths, ...own }
  const ask = <T>(request: Ask, schema: z.ZodType<T>, signal: AbortSignal) =>
    answerOf(client, request, schema, signal)
  const get = <T>(path: string, schema: z.ZodType<T>, signal: AbortSignal) =>
    ask({ method: 'GET', path }, schema, signal)
  const remove = async (path: string, signal: AbortSignal): Promise<void> => {
    await ask({ method: 'DELETE', path }, confirmed, signal)
  }
  const page = (projectId: string, query: FileQuery, signal: AbortSignal) =>
    get(filled(paths.projectFiles, { project_id: projectId }) + queryOf(query), filePage, signal)
  return {
    page,
    upload: (projectId, files, signal) =>
      ask(
        { method: 'POST', path: paths.uploadFiles, ...uploadOf(projectId, files, random) },
        uploaded,
        signal,
      ),
    metadata: (projectId, signal) =>
      get(filled(paths.metadata, { project_id: projectId }), projectMetadata, signal),
    statuses: async (fileIds, signal) => {
      const ids = fileIds.map((id) => `${vaultFields.fileIds}=${encodeURIComponent(id)}`).join('&')
      return (await get(`${paths.files}?${ids}`, fileStatuses, signal)).files
    },
    files: (projectId, query, signal) =>
      allFiles((cursor) => page(projectId, { ...query, ...cursor }, signal)),
    deleteFile: (fileId, signal) => remove(filled(paths.file, { file_id: fileId }), signal),
    deleteProject: (projectId, signal) => remove(filled(paths.project, { project_id: projectId }), signal),
    reviewTable: (id, signal) =>
      get(filled(paths.reviewTable, { review_table_id: String(id) }), reviewTable, signal),
    reviewRow: (id, fileId, signal) =>
      get(filled(paths.reviewTableRow, { review_table_id: String(id), file_id: fileId }), reviewRow, signal),
  }
}

async function* allFiles(
  read: (cursor: { readonly cursor?: string }) => Promise<FilePage>,
): AsyncGenerator<VaultFile> {
  let cursor: string | undefined
  for (let pages = 0; pages < MOST_PAGES; pages++) {
    const { files, pagination } = await read(cursor === undefined ? {} : { cursor })
    yield* files
    if (!pagination.has_more) return
    const next = pagination.next_cursor ?? undefined
    if (next === undefined || next === cursor)
      throw new ConnectorError('bad_reply', "A project's list of files says that it continues, but not where")
    cursor = next
  }
}

/** An id may contain any characters; it stays one segment of the path. */
function filled(path: string, ids: Readonly<Record<string, string>>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const id = ids[name] ?? ''
    if (/^\.{0,2}$/.test(id))
      throw new ConnectorError('bad_request', `The ${name} of a vault operation is empty, or no id`)
    return encodeURIComponent(id)
  })
}

function queryOf({ sort, ...rest }: FileQuery): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(rest)) query.set(name, String(value))
  if (sort) {
    query.set(vaultFields.sortBy, sort.by)
    query.set(vaultFields.sortOrder, sort.order)
  }
  return query.size > 0 ? `?${query.toString()}` : ''
}

async function answerOf<T>(
  client: Client,
  request: Ask,
  schema: z.ZodType<T>,
  signal: AbortSignal,
): Promise<T> {
  const bodies = client.send(request, 'live', signal, async function* (answer) {
    yield await jsonOf(answer)
  })
  for await (const body of bodies) {
    const parsed = schema.safeParse(body)
    if (parsed.success) return parsed.data
    // Names of fields, never their values.
    const places = parsed.error.issues.map(({ path, code }) => `${path.join('.') || 'the body'} (${code})`)
    throw new ConnectorError(
      'bad_reply',
      `${request.method} of a vault operation answered with another shape: ${places.slice(0, 5).join(', ')}`,
    )
  }
  throw new ConnectorError('bad_reply', 'The vault gave no answer')
}

/** Undefined for an empty body, which a deletion may have. */
async function jsonOf(answer: Answer): Promise<unknown> {
  const body = await hold(answer, WHOLE_BODY_BYTES)
  if (!body)
    throw new ConnectorError('bad_reply', `The vault answered with more than ${WHOLE_BODY_BYTES} bytes`)
  const text = Buffer.from(body).toString()
  if (text.trim() === '') return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    // The parser's own message would quote the body.
    throw new ConnectorError('bad_reply', 'The vault did not answer with JSON')
  }
}

// Answers of the vault's operations (spec §2.6) as zod schemas: documented fields are checked, unknown ones kept,
// and fields that the specification leaves open are optional.

const text = () => z.string().nullish()

/** `processing_status` is text, because values other than uploaded, processing and ready_to_query are unknown. */
const fileStatus = z.looseObject({
  id: text(),
  processing_status: text(),
  content_type: text(),
  deleted_at: text(),
  /** replaces all other fields if the id is unknown */
  error: text(),
})
type FileStatus = z.output<typeof fileStatus>

/** Ids and names are parallel. Sizes are integers; above 2^53 they are rejected, not rounded. */
const projectMetadata = z.looseObject({
  file_ids: z.array(z.string()),
  file_names: z.array(z.string()),
  file_sizes: z.array(z.int()).nullish(),
  review_table_ids: z.array(z.int()).default([]),
})
type ProjectMetadata = z.output<typeof projectMetadata>

const vaultFile = z.looseObject({
  id: z.string(),
  name: text(),
  content_type: text(),
  processing_status: text(),
  uploaded_at: text(),
})
type VaultFile = z.output<typeof vaultFile>

const pagination = z.looseObject({ next_cursor: text(), has_more: z.boolean() })

/** The specification does not name the list: `files` is the mock's name. */
const filePage = z.looseObject({ files: z.array(vaultFile), pagination })
type FilePage = z.output<typeof filePage>

const fileStatuses = z.looseObject({ files: z.array(fileStatus) })

const uploaded = z.looseObject({ file_ids: z.array(z.string()).default([]) })
type Uploaded = z.output<typeof uploaded>

const reviewTable = z.looseObject({
  title: z.string(),
  created_at: z.string(),
  /** one per row of the table */
  file_ids: z.array(z.string()),
})
type ReviewTable = z.output<typeof reviewTable>

/** Text written by a user replaces the generated text, as in the API. */
const reviewRow = z.looseObject({
  cells: z.array(z.looseObject({ summary: text(), additional_context: text() })),
})
type ReviewRow = z.output<typeof reviewRow>

/** The specification says only that the status confirms a deletion. */
const confirmed = z.unknown()

// An upload as a stream of multipart/form-data (RFC 7578): files pass through piece by piece, none is kept in
// memory.

export interface UploadFile {
  /** with an extension that the vault accepts (spec §2.6) */
  readonly name: string
  /** target folder, relative to the project: `Contracts/2026`; '' for none */
  readonly path: string
  /** media type; default: application/octet-stream */
  readonly type?: string
  readonly bytes: number
  /** Called once, when the file is sent. */
  open(): AsyncIterable<Uint8Array>
}

/** Cannot occur in the content: 30 random digits of base 36. */
function boundaryOf(random: Random): string {
  return `form-${randomDigits(random, 30, 36)}`
}

/** Encoded as browsers do: no character of a name can end the header. */
const quoted = (name: string): string =>
  `"${name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')}"`

const oneLine = (text: string): string => text.replace(/[\r\n]/g, ' ')

/** Method, headers and stream of one upload; the caller adds the path. */
function uploadOf(
  projectId: string,
  files: readonly UploadFile[],
  random: Random,
): Pick<Ask, 'headers' | 'stream'> {
  const boundary = boundaryOf(random)
  const head = (name: string, more = '') =>
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name=${quoted(name)}${more}\r\n\r\n`)
  const field = (name: string, value: string) =>
    Buffer.concat([head(name), Buffer.from(value), Buffer.from('\r\n')])
  const fields = [
    field(vaultFields.projectId, projectId),
    ...files.map(({ path }) => field(vaultFields.filePaths, path)),
  ]
  const parts = files.map((file) => ({
    file,
    head: head(
      vaultFields.file,
      `; filename=${quoted(file.name)}\r\nContent-Type: ${oneLine(file.type ?? 'application/octet-stream')}`,
    ),
  }))
  const end = Buffer.from(`--${boundary}--\r\n`)
  const length =
    fields.reduce((sum, bytes) => sum + bytes.length, end.length) +
    parts.reduce((sum, part) => sum + part.head.length + part.file.bytes + 2, 0)
  return {
    headers: {
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': String(length),
    },
    stream: streamed(fields, parts, end),
  }
}

async function* streamed(
  fields: readonly Uint8Array[],
  parts: readonly { readonly file: UploadFile; readonly head: Uint8Array }[],
  end: Uint8Array,
): AsyncGenerator<Uint8Array> {
  yield* fields
  for (const { file, head } of parts) {
    yield head
    yield* exactly(file)
    yield Buffer.from('\r\n')
  }
  yield end
}

/** The length is already announced: a file that changed meanwhile ends the request, instead of shifting the next part. */
async function* exactly(file: UploadFile): AsyncGenerator<Uint8Array> {
  let left = file.bytes
  const changed = () =>
    new ConnectorError(
      'bad_request',
      'A file to upload has another length than announced: it changed meanwhile',
    )
  for await (const piece of file.open()) {
    left -= piece.length
    if (left < 0) throw changed()
    yield piece
  }
  if (left > 0) throw changed()
}
