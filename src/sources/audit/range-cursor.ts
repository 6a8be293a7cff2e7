// How far a job's walk over a span of the audit log is: one JSON value, stored with what it read. Pure.
import { hash } from 'node:crypto'
import type { Entries } from '../../contracts/entries.ts'
import type { Cursor } from '../../contracts/source.ts'
import { fieldsOf, storedFields } from '../shared.ts'
import type { Fields } from '../shared.ts'
import type { Fetches } from './own-fetches.ts'
import { freshFetches } from './own-fetches.ts'
import { walkFrom } from './walk.ts'
import type { Walk } from './walk.ts'

/** Instants are µs. */
export interface RangeCursor {
  readonly v: 1
  /** where it ends */
  untilUs: number
  /** that is by the server's clock */
  untilByServer: boolean
  /** when the walk began, by our clock or by a server's that is behind it; 0: not known */
  begunAtUs: number
  walk: Walk
  /** how often in a row the end was not proven */
  tries: number
  newestUs: number
  /** an entry from which no page led on */
  dead: string | null
  /** how often it was found again by time and tried once more */
  deadTries: number
  deadPassed: boolean
  /** the walk went back before what it had sent: what is older than this is left out; null: it did not, or is past it */
  sentUs: number | null
  /** how often it went back, with nothing read behind `rewoundUs` meanwhile */
  rewinds: number
  rewoundUs: number
  /** all entries of the last page are later than the span */
  overshot: boolean
  /** hashes of the last page's entries: the next one may repeat them */
  tail: string[]
  /** how often entries may have been left out */
  gaps: number
  done: boolean
  fetches: Fetches
}

/** Somewhat more than a page holds. What is kept goes over the control socket and back. */
const TAIL_LENGTH = 1_600
const KEY_LENGTH = 22

export function freshRangeCursor(fromUs: number, untilUs: number, now: number): RangeCursor {
  return {
    v: 1,
    untilUs,
    untilByServer: false,
    walk: { ...walkFrom({ id: '', at: fromUs }), state: 'find' },
    tries: 0,
    newestUs: 0,
    ...{ dead: null, deadTries: 0, deadPassed: false },
    ...{ sentUs: null, rewinds: 0, rewoundUs: -1, overshot: false },
    tail: [],
    gaps: 0,
    begunAtUs: now * 1000,
    done: fromUs >= untilUs,
    fetches: freshFetches(now),
  }
}

/** A copy that a step may change freely; undefined: not begun, or of a version that is not ours, and then it begins again. */
export function openRangeCursor(text: Cursor | undefined): RangeCursor | undefined {
  const stored = text === undefined ? undefined : storedFields(text)
  if (stored?.['v'] !== 1) return undefined
  const fresh = { ...freshRangeCursor(0, 0, 0), done: false }
  return { ...fresh, ...(stored['anchorUs'] === undefined ? stored : upgraded(stored)) }
}

/** 0.1.0 had no `walk` where its place was to be found by time, and kept the walk's state beside it. */
function upgraded({ untilTold, anchorUs, walk, probe, checking, doubted, dead, ...fields }: Fields): Fields {
  const lost = { ...walkFrom({ id: typeof dead === 'string' ? dead : '', at: Number(anchorUs) }), probe }
  const state = checking === true ? 'check_end' : doubted === true ? 'page_again' : 'page'
  return {
    ...{ ...fields, dead, untilByServer: untilTold },
    walk: fieldsOf(walk) ? { ...fieldsOf(walk), state } : { ...lost, state: 'find' },
  }
}

export function closeRangeCursor(cursor: RangeCursor): Cursor {
  return JSON.stringify(cursor)
}

/** Who the key is to the audit log, once the walk has met a fetch of ours. */
export function userOf(text: Cursor | undefined): string | undefined {
  return openRangeCursor(text)?.fetches.user ?? undefined
}

/** What is known of the page under way, over its parts. */
interface PageUnderWay {
  /** hashes of its last entries: a server may send far more in one page than it was asked for */
  readonly keys: Set<string>
  /** it showed an entry newer than `sentUs`: the walk is back where it was, and from here on only the hashes find repeats */
  isBack: boolean
}

export const freshPage = (): PageUnderWay => ({ keys: new Set(), isBack: false })

/** The entries before the end, each once (by time and id, as in the journal): pages overlap if `from` is included or a page is repeated. */
export function within(entries: Entries, range: RangeCursor, page: PageUnderWay): Entries {
  const before = new Set(range.tail)
  const sentUs = range.sentUs ?? -Infinity
  const kept: number[] = []
  for (let i = 0; i < entries.count; i++) {
    const at = entries.at(i)
    if (at >= range.untilUs) continue
    if (at > sentUs) page.isBack = true
    if (at < sentUs && !page.isBack) continue
    const key = hash('sha256', `${at} ${entries.id(i)}`, 'base64url').slice(0, KEY_LENGTH)
    const known = before.has(key) || page.keys.has(key)
    remember(page.keys, key)
    if (!known) kept.push(i)
  }
  return kept.length === entries.count ? entries : entries.pick(kept)
}

function remember(keys: Set<string>, key: string): void {
  keys.add(key)
  if (keys.size <= TAIL_LENGTH) return
  const [oldest = key] = keys
  keys.delete(oldest)
}

/** After a complete page: the next one knows its entries. A page that showed nothing new changes nothing. */
export function recordPage(range: RangeCursor, { keys, isBack }: PageUnderWay): void {
  const before = new Set(range.tail)
  if ([...keys].some((key) => !before.has(key))) range.tail = [...keys]
  if (isBack) range.sentUs = null
}
