// How far a job's walk over a span of the audit log is: one JSON value, stored with what it read. Pure.
import { hash } from 'node:crypto'
import type { Entries } from '../../contracts/entries.ts'
import type { Cursor } from '../../contracts/source.ts'
import { storedFields } from '../shared.ts'
import type { Walk } from './cursor.ts'
import type { Probe } from './skip.ts'
import type { Fetches } from './own-fetches.ts'
import { freshFetches } from './own-fetches.ts'

/** Instants are µs. */
export interface RangePlace {
  readonly v: 1
  /** where it ends */
  untilUs: number
  /** the server's clock was heard */
  untilTold: boolean
  /** when the walk began, by our clock or by a server's that is behind it; 0: not known */
  begunAtUs: number
  /** null: its place is to be found by time, at `probe` or at `anchorUs` */
  walk: Walk | null
  anchorUs: number
  probe: Probe | null
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
  /** an empty page is being checked with `search`; was checked, and there is something later */
  checking: boolean
  doubted: boolean
  /** all entries of the last page are later than the span */
  overshot: boolean
  /** hashes of the last page's entries: the next one may repeat them */
  tail: string[]
  /** places at which entries may have been left out */
  gaps: number
  done: boolean
  fetches: Fetches
}

/** Somewhat more than a page holds. What is kept goes over the control socket and back. */
const TAIL_LENGTH = 1_600
const KEY_LENGTH = 22

/** Places of an earlier build lack these. */
const wayBack = { deadTries: 0, sentUs: null, rewinds: 0, rewoundUs: -1, overshot: false } as const

export function freshPlace(fromUs: number, untilUs: number, now: number): RangePlace {
  return {
    v: 1,
    untilUs,
    untilTold: false,
    walk: null,
    anchorUs: fromUs,
    probe: null,
    tries: 0,
    newestUs: 0,
    ...wayBack,
    dead: null,
    deadPassed: false,
    checking: false,
    doubted: false,
    tail: [],
    gaps: 0,
    begunAtUs: now * 1000,
    done: fromUs >= untilUs,
    fetches: freshFetches(now),
  }
}

/** A copy that a step may change freely; undefined: not begun, or of a version that is not ours, and then it begins again. */
export function openPlace(text: Cursor | undefined): RangePlace | undefined {
  if (text === undefined) return undefined
  const place = storedFields(text)
  return place?.['v'] === 1 ? ({ begunAtUs: 0, ...wayBack, ...place } as unknown as RangePlace) : undefined
}

export function closePlace(place: RangePlace): Cursor {
  return JSON.stringify(place)
}

/** Who the key is to the audit log, once the walk has met a fetch of ours. */
export function userOf(text: Cursor | undefined): string | undefined {
  return openPlace(text)?.fetches.user ?? undefined
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
export function within(entries: Entries, place: RangePlace, page: PageUnderWay): Entries {
  const before = new Set(place.tail)
  const sentUs = place.sentUs ?? -Infinity
  const kept: number[] = []
  for (let i = 0; i < entries.count; i++) {
    const at = entries.at(i)
    if (at >= place.untilUs) continue
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
export function notePage(place: RangePlace, { keys, isBack }: PageUnderWay): void {
  const before = new Set(place.tail)
  if ([...keys].some((key) => !before.has(key))) place.tail = [...keys]
  if (isBack) place.sentUs = null
}
