// One page of the project list: checked, and split into projects as bytes (spec §4.3, §2.5).
import type { Quarantined } from '../../contracts/source.ts'
import { vaultPaths } from '../../core/api.ts'
import { CR, LF, OPEN_OBJECT, QUOTE } from '../../core/bytes.ts'
import { ConnectorError } from '../../core/errors.ts'
import { memberValue, valueText } from '../../core/json.ts'
import type { BodySample } from '../http/groups.ts'
import { isTooMuch } from '../http/reply.ts'
import { Splitter, openSplitter } from '../splitter/splitter.ts'
import type { EntryLimits, SplitterLimits } from '../splitter/splitter.ts'
import { checkPage } from './bounds.ts'
import type { Pass } from './cursor.ts'
import { storedId } from './digest.ts'

/** The envelope: the body, `response`, `content`, `projects`. */
const ENVELOPE_DEPTH = 4
const MAX_PAGINATION_BYTES = 4096
const MAX_ID_BYTES = 1024

/** An element that is not a valid project. */
interface Malformed {
  /** undefined: no readable id, so the project is unknown */
  readonly id: string | undefined
  readonly quarantined: Quarantined
}

export interface VaultPage {
  /** objects with an `id`, as stored; without CR and LF between their tokens */
  readonly projects: readonly { readonly id: string; readonly raw: Uint8Array }[]
  readonly malformed: readonly Malformed[]
  /** the total of the pagination block, if present and valid */
  readonly total: number | undefined
  readonly totalPages: number | undefined
}

/** Nothing shows which project it is, or that it is one. */
export const isNoProject = ({ id, quarantined: { reason } }: Malformed): boolean =>
  id === undefined && (reason === 'not_an_object' || reason === 'no_id')

/**
 * Throws ConnectorError `bad_reply` if the body is no JSON or does not have the documented shape,
 * `misconfigured` if it has more elements than allowed.
 */
export function cutPage(body: Uint8Array, limits: SplitterLimits): VaultPage {
  checkJson(body, limits)
  const content = inside(inside(body, 'response'), 'content')
  const listed = inside(content, 'projects')
  if (!content || !listed)
    throw new ConnectorError(
      'bad_reply',
      'the project list is JSON in an unexpected format: expected response.content.projects',
    )
  const splitter = openSplitter(entryLimits(limits))
  splitter.push(listed)
  splitter.end()
  const projects: { id: string; raw: Uint8Array }[] = []
  const malformed: Malformed[] = []
  for (let group = splitter.take(); group; group = splitter.take()) {
    const { entries, quarantined } = group
    checkPage(projects.length + malformed.length + entries.count + quarantined.length)
    for (let i = 0; i < entries.count; i++)
      projects.push({ id: storedId(entries.id(i)), raw: entries.raw(i) })
    for (const element of quarantined) {
      const id = idOf(element.bytes)
      if (id !== undefined && element.reason === 'no_time') projects.push({ id, raw: oneLine(element.bytes) })
      else malformed.push({ id, quarantined: element })
    }
  }
  return { projects, malformed, ...paginationOf(content) }
}

/** A page of one project that is too large to read: what can be known about it. */
export function oversized(sample: BodySample): Malformed {
  const quarantined = sample.quarantined('too_large')
  const list = inside(inside(inside(quarantined.bytes, 'response'), 'content'), 'projects')
  const open = list?.indexOf(OPEN_OBJECT) ?? -1
  return { id: list && open >= 0 ? idOf(list.subarray(open)) : undefined, quarantined }
}

function entryLimits({ maxDepth, maxEntryBytes }: SplitterLimits): EntryLimits {
  // A project without a valid created_at still counts: see above.
  return { idKey: 'id', timeKey: 'created_at', typeKey: 'type', maxDepth, maxEntryBytes }
}

/** The whole body is one value: only its grammar is checked. */
function checkJson(body: Uint8Array, { maxDepth }: SplitterLimits): void {
  const limits = { maxDepth: maxDepth + ENVELOPE_DEPTH, maxEntryBytes: Infinity }
  const splitter = new Splitter({ kind: 'value', key: undefined }, entryLimits(limits))
  splitter.push(body)
  splitter.end()
}

const inside = (raw: Uint8Array | undefined, key: string) => (raw ? memberValue(raw, key) : undefined)

function idOf(raw: Uint8Array): string | undefined {
  const value = memberValue(raw, 'id')
  if (value?.[0] !== QUOTE || value.length > MAX_ID_BYTES) return undefined
  const id = valueText(value)
  return id === undefined || id === '' ? undefined : storedId(id)
}

/** In valid JSON these two occur only between tokens. */
function oneLine(raw: Uint8Array): Uint8Array {
  return raw.includes(LF) || raw.includes(CR) ? raw.filter((byte) => byte !== LF && byte !== CR) : raw
}

function paginationOf(content: Uint8Array): Pick<VaultPage, 'total' | 'totalPages'> {
  const block = memberValue(content, 'pagination')
  if (!block || block.length > MAX_PAGINATION_BYTES) return { total: undefined, totalPages: undefined }
  return { total: countAt(block, 'total'), totalPages: countAt(block, 'total_pages') }
}

/** Counts are far below the precision of a float. */
function countAt(block: Uint8Array, key: string): number | undefined {
  const text = valueText(memberValue(block, key))
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined
}

// How a page of the project list is requested, in which size, and what an error means.

/** The largest page (spec §4.3), and the smaller sizes for answers that are too large. */
const PAGE_SIZES = [100, 25, 5, 1] as const
export const [LARGEST_PAGE] = PAGE_SIZES
/** An error that may be chance is retried once in the same size. */
const CHANCE_TRIES = 2

export const smallerThan = (perPage: number): number | undefined => PAGE_SIZES.find((size) => size < perPage)

/**
 * The page size when pages fail, which may be due to their size or to an outage: if smaller pages
 * succeed, the largest are tried once more, so that after an outage a long list is not read project
 * by project.
 */
export class PageSize {
  #failures = 0
  #sizeCheck: 'none' | 'narrowed' | 'answered' | 'settled' = 'none'

  /**
   * Restarts the pass if the page is to be requested in another size. An error in every size does
   * not depend on the size.
   */
  failed(error: unknown, perPage: number, restart: (perPage: number) => void): void {
    if (!isTooMuch(error, false) || ++this.#failures < CHANCE_TRIES) return
    this.#failures = 0
    const smaller = smallerThan(perPage)
    // Every page before this one project was read: a restart would only repeat that and fail here.
    if (this.#sizeCheck === 'settled' && smaller === undefined) return
    if (this.#sizeCheck !== 'settled') this.#sizeCheck = 'narrowed'
    restart(smaller ?? LARGEST_PAGE)
  }

  answered(isOver: boolean): void {
    this.#failures = 0
    if (isOver) this.#sizeCheck = 'none'
    else if (this.#sizeCheck === 'narrowed') this.#sizeCheck = 'answered'
  }

  /** The current pass; undefined: it restarts once with the largest pages. */
  underWay(pass: Pass | undefined): Pass | undefined {
    if (this.#sizeCheck !== 'answered') return pass
    this.#sizeCheck = 'settled'
    return undefined
  }
}

/**
 * Sorted by name, because only a new, renamed or deleted project shifts others; by date every
 * upload would. Every second pass reads backwards: if equal names have a random order, one
 * direction shows what the other misses.
 */
export function pathOf({ n, page, perPage }: Pass): string {
  const order = n % 2 === 1 ? 'asc' : 'desc'
  return `${vaultPaths.workspaceProjects}?page=${page}&per_page=${perPage}&sort_by=name&sort_order=${order}`
}

/**
 * After the last page the API may send an error instead of an empty page (spec §7: 404 for a
 * missing resource). If the list does not say which page is the last, a 404 counts as the end: if
 * that is wrong, the next pass, from the other end, sees other projects, and nothing is proven.
 */
export function isEnd(error: unknown, { page, lastPage }: Pass): boolean {
  if (page === 1 || !(error instanceof ConnectorError)) return false
  if (error.code === 'not_found') return lastPage !== false
  return error.code === 'bad_request' && lastPage === true
}

/** The same error; if a permission is missing, with its name. */
export function withPermission(error: unknown): unknown {
  if (!(error instanceof ConnectorError) || error.code !== 'forbidden') return error
  return new ConnectorError(
    'forbidden',
    `${error.message}; the vault inventory needs the permission 'View workspace projects'`,
    { cause: error },
  )
}
