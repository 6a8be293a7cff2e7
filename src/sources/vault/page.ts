// One page of the workspace's project listing: checked, and cut into projects as bytes (spec §4.3, §2.5).
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
import { keptId } from './digest.ts'

/** The envelope: the body, `response`, `content`, `projects`. */
const ENVELOPE_DEPTH = 4
const LONGEST_PAGINATION_BYTES = 4096
const MAX_ID_BYTES = 1024

/** An element that is no project as it should be. */
interface Malformed {
  /** undefined: it has none that can be read, so nobody knows which project it is */
  readonly id: string | undefined
  readonly quarantined: Quarantined
}

export interface VaultPage {
  /** objects with an `id`, as it is kept; CR and LF between their tokens are gone */
  readonly projects: readonly { readonly id: string; readonly raw: Uint8Array }[]
  readonly malformed: readonly Malformed[]
  /** what the pagination block says, where it is there and makes sense */
  readonly total: number | undefined
  readonly totalPages: number | undefined
}

/** Nothing says which project it is, or that it is one. */
export const isNoProject = ({ id, quarantined: { reason } }: Malformed): boolean =>
  id === undefined && (reason === 'not_an_object' || reason === 'no_id')

/** Throws ConnectorError `bad_reply` where the body is no JSON, or not of the documented shape, `misconfigured` where it lists more than may be held. */
export function cutPage(body: Uint8Array, limits: SplitterLimits): VaultPage {
  checkJson(body, limits)
  const content = inside(inside(body, 'response'), 'content')
  const listed = inside(content, 'projects')
  if (!content || !listed)
    throw new ConnectorError(
      'bad_reply',
      'the project listing is JSON of another shape: response.content.projects was expected',
    )
  const splitter = openSplitter(entryLimits(limits))
  splitter.push(listed)
  splitter.end()
  const projects: { id: string; raw: Uint8Array }[] = []
  const malformed: Malformed[] = []
  for (let group = splitter.take(); group; group = splitter.take()) {
    const { entries, quarantined } = group
    checkPage(projects.length + malformed.length + entries.count + quarantined.length)
    for (let i = 0; i < entries.count; i++) projects.push({ id: keptId(entries.id(i)), raw: entries.raw(i) })
    for (const element of quarantined) {
      const id = idOf(element.bytes)
      if (id !== undefined && element.reason === 'no_time') projects.push({ id, raw: oneLine(element.bytes) })
      else malformed.push({ id, quarantined: element })
    }
  }
  return { projects, malformed, ...paginationOf(content) }
}

/** A page of one project that is too large to be held: all that can be said of it. */
export function oversized(sample: BodySample): Malformed {
  const quarantined = sample.quarantined('too_large')
  const list = inside(inside(inside(quarantined.bytes, 'response'), 'content'), 'projects')
  const open = list?.indexOf(OPEN_OBJECT) ?? -1
  return { id: list && open >= 0 ? idOf(list.subarray(open)) : undefined, quarantined }
}

function entryLimits({ maxDepth, maxEntryBytes }: SplitterLimits): EntryLimits {
  // A project without a good created_at is one all the same: see above.
  return { idKey: 'id', timeKey: 'created_at', typeKey: 'type', maxDepth, maxEntryBytes }
}

/** The whole body is one value: only its grammar counts here. */
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
  return id === undefined || id === '' ? undefined : keptId(id)
}

/** In valid JSON these two stand between tokens only. */
function oneLine(raw: Uint8Array): Uint8Array {
  return raw.includes(LF) || raw.includes(CR) ? raw.filter((byte) => byte !== LF && byte !== CR) : raw
}

function paginationOf(content: Uint8Array): Pick<VaultPage, 'total' | 'totalPages'> {
  const block = memberValue(content, 'pagination')
  if (!block || block.length > LONGEST_PAGINATION_BYTES) return { total: undefined, totalPages: undefined }
  return { total: countAt(block, 'total'), totalPages: countAt(block, 'total_pages') }
}

/** A count is far below what a float would round. */
function countAt(block: Uint8Array, key: string): number | undefined {
  const text = valueText(memberValue(block, key))
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined
}

// How a page of the project list is asked for, in which size, and what an error in its place means.

/** The most that a page may hold (spec §4.3), and in which steps it is narrowed where an answer is too large. */
const PAGE_SIZES = [100, 25, 5, 1] as const
export const [LARGEST_PAGE] = PAGE_SIZES
/** What may be chance is asked for once more in the same size. */
const CHANCE_TRIES = 2

export const smallerThan = (perPage: number): number | undefined => PAGE_SIZES.find((size) => size < perPage)

/**
 * The size of pages where they fail. That may be their size or an outage: when the smaller ones come through, the largest
 * are tried once more, so that an outage does not leave a long list to be read project by project.
 */
export class PageSize {
  #failures = 0
  #doubt: 'none' | 'narrowed' | 'answered' | 'settled' = 'none'

  /** Where the page is not to be asked for as it was, the pass begins again. What fails in every size is no matter of size. */
  failed(error: unknown, perPage: number, beginAgain: (perPage: number) => void): void {
    if (!isTooMuch(error, false) || ++this.#failures < CHANCE_TRIES) return
    this.#failures = 0
    const smaller = smallerThan(perPage)
    // All before this one project came: beginning again would read all of it again, without a pause, and end here.
    if (this.#doubt === 'settled' && smaller === undefined) return
    if (this.#doubt !== 'settled') this.#doubt = 'narrowed'
    beginAgain(smaller ?? LARGEST_PAGE)
  }

  answered(isOver: boolean): void {
    this.#failures = 0
    if (isOver) this.#doubt = 'none'
    else if (this.#doubt === 'narrowed') this.#doubt = 'answered'
  }

  /** The pass that goes on; undefined: it is to begin again with the largest pages, once. */
  underWay(pass: Pass | undefined): Pass | undefined {
    if (this.#doubt !== 'answered') return pass
    this.#doubt = 'settled'
    return undefined
  }
}

/**
 * By name, since nothing but a new, renamed or deleted project moves another one's place; by date every upload would. Every
 * second pass goes backwards: where names are equal and their order is left to chance, what one direction hides the other shows.
 */
export function pathOf({ n, page, perPage }: Pass): string {
  const order = n % 2 === 1 ? 'asc' : 'desc'
  return `${vaultPaths.workspaceProjects}?page=${page}&per_page=${perPage}&sort_by=name&sort_order=${order}`
}

/**
 * Behind the last page there may be an error in the place of an empty page (spec §7: 404 for what is not there). Where nobody
 * says which page is the last, a 404 is taken for the end: were it none, the next pass, which comes from the other end,
 * would see other projects, and nothing be proven.
 */
export function isEnd(error: unknown, { page, lastPage }: Pass): boolean {
  if (page === 1 || !(error instanceof ConnectorError)) return false
  if (error.code === 'not_found') return lastPage !== false
  return error.code === 'bad_request' && lastPage === true
}

/** The same error; one of a permission that is missing says its name. */
export function withPermission(error: unknown): unknown {
  if (!(error instanceof ConnectorError) || error.code !== 'forbidden') return error
  return new ConnectorError(
    'forbidden',
    `${error.message}; the vault inventory needs the permission 'View workspace projects'`,
    { cause: error },
  )
}
