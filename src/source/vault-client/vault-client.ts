// The vault's operations beside the project list (spec §4.3), typed. Some of them change the vault: nothing in the daemon may import this folder.
import type { z } from 'zod'
import type { Random } from '../../model/clock.ts'
import { WHOLE_BODY_BYTES } from '../../model/entries.ts'
import { ConnectorError } from '../../model/errors.ts'
import { vaultFields, vaultPaths } from '../../model/vault-paths.ts'
import type { VaultPaths } from '../../model/vault-paths.ts'
import type { Answer, Ask, Client } from '../client/client.ts'
import { hold } from '../answer/hold.ts'
import type {
  FilePage,
  FileStatus,
  ProjectMetadata,
  ReviewRow,
  ReviewTable,
  Uploaded,
  VaultFile,
} from './answers.ts'
import {
  confirmed,
  filePage,
  fileStatuses,
  projectMetadata,
  reviewRow,
  reviewTable,
  uploaded,
} from './answers.ts'
import type { UploadFile } from './upload.ts'
import { uploadOf } from './upload.ts'

/** A list that gives out the same cursor again would be read for ever. */
const MOST_PAGES = 100_000

export interface VaultClientOptions {
  /** its budget is that of the vault area, shared with the inventory (spec §8) */
  readonly client: Client
  readonly random: Random
  /** where the specification names none, or your API has others than the mock */
  readonly paths?: Partial<VaultPaths>
}

/** Spec §4.3; instants are epoch seconds. The names of the sort parameters are the mock's choice. */
export interface FileQuery {
  /** part of the name, in any case */
  readonly name?: string
  readonly content_type?: string
  readonly processing_status?: string
  readonly uploaded_after?: number
  readonly uploaded_before?: number
  readonly sort?: { readonly by: 'name' | 'uploaded_at' | 'size'; readonly order: 'asc' | 'desc' }
  readonly cursor?: string
}

/**
 * Each method is one request under the budget, without a retry. All throw ConnectorError by status (`not_found`, `bad_request`, …),
 * and `bad_reply` where the answer is not of the documented shape.
 */
export interface VaultClient {
  /** CHANGES the vault. Files stream through; a streamed upload cannot be sent again by itself. */
  upload(projectId: string, files: readonly UploadFile[], signal: AbortSignal): Promise<Uploaded>
  metadata(projectId: string, signal: AbortSignal): Promise<ProjectMetadata>
  /** One record an id, those that are not found with `error`. */
  statuses(fileIds: readonly string[], signal: AbortSignal): Promise<readonly FileStatus[]>
  page(projectId: string, query: FileQuery, signal: AbortSignal): Promise<FilePage>
  /** All pages, one request each. */
  files(projectId: string, query: FileQuery, signal: AbortSignal): AsyncGenerator<VaultFile>
  /** CHANGES the vault. */
  deleteFile(fileId: string, signal: AbortSignal): Promise<void>
  /** CHANGES the vault; irreversible. Resolves when it is accepted: it is complete when the project has left the list (spec §3). */
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
      throw new ConnectorError('bad_reply', "A project's list of files says that it goes on, and not where")
    cursor = next
  }
}

/** An id may hold anything: it stays one segment of the path. */
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
    // Names of fields, never what stands in them.
    const places = parsed.error.issues.map(({ path, code }) => `${path.join('.') || 'the body'} (${code})`)
    throw new ConnectorError(
      'bad_reply',
      `${request.method} of a vault operation answered with another shape: ${places.slice(0, 5).join(', ')}`,
    )
  }
  throw new ConnectorError('bad_reply', 'The vault gave no answer')
}

/** Undefined for an empty body, as a deletion may have. */
async function jsonOf(answer: Answer): Promise<unknown> {
  const body = await hold(answer, WHOLE_BODY_BYTES)
  if (!body)
    throw new ConnectorError('bad_reply', `The vault answered with more than ${WHOLE_BODY_BYTES} bytes`)
  const text = Buffer.from(body).toString()
  if (text.trim() === '') return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    // The parser's own message would quote it.
    throw new ConnectorError('bad_reply', 'The vault answered with something that is no JSON')
  }
}
