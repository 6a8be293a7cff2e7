// What the audit readers remember between two reads: one JSON value, stored in the transaction of the entries. Pure.
import type { Cursor } from '../../contracts/source.ts'
import { DAY_MS } from '../../core/time.ts'
import type { Fields } from '../shared.ts'
import { areNumbers, fieldsOf, isListOf, isNullOr, isText, openStored } from '../shared.ts'
import type { Probe } from './skip.ts'
import type { Position, Walk } from './walk.ts'
import type { Fetches } from './own-fetches.ts'
import { freshFetches } from './own-fetches.ts'

/** One cycle of the head reader, from a due poll to its stop rule. */
export interface Drain extends Walk {
  /** Entries at or after this instant (µs) came after the drain began: the stop line of invariant 7. */
  untilUs: number | null
  /** false: the stop line is by our clock, since no Date came or one far behind, and holds on short pages only */
  untilByServer: boolean
  /** the page reached the head, so that what follows is new */
  passedHead: boolean
  /** pages were full: take all that one page can give */
  backlog: boolean
  /** empty answers in a row that nothing confirmed; absent: none */
  emptyAnswers?: number
  /** the cursor was found by time once in this drain already */
  reanchored: boolean
  /** how often the head's page was requested again because `search` still shows the head; absent: never */
  askedAgain?: number
  entries: number
  pages: number
}

export interface Lookback {
  /** null: none under way */
  walk: Walk | null
  /** where this one ends, µs */
  untilUs: number
  fullDueAt: number
  quickDueAt: number
  /** when the full one under way began, epoch ms; absent: none is */
  fullBeganAt?: number
  /** when the last full one began that came to its end, epoch ms; where none has, as if one had before the first; absent: none was due */
  fullDoneAt?: number
}

export interface AuditCursor {
  readonly v: 1
  /** Nothing before this instant (µs) is shipped. */
  startUs: number | null
  /** when `start: latest` was tried for the first time, µs by our clock; absent: not yet, or another start */
  triedUs?: number
  /** the last entry read in order; null: none yet */
  head: Position | null
  /** the newest own time read so far, µs */
  headUs: number
  /** the newest own time known of, µs, from `latest` too */
  latestUs: number
  drain: Drain | null
  /** recent entries to begin a poll from, oldest first, so that its first page overlaps what is known */
  overlap: Position[]
  /** epoch ms of the next poll */
  dueAt: number
  caughtUp: boolean
  /** the cursor's entry is gone: a gap, unless it appears again before anything newer */
  lost: Position | null
  /** the head after which the last gap was reported, so that it is reported once; absent: none */
  gapBehind?: string
  /** the code with which `latest` fails, as logged; absent: it answers */
  latestFails?: string
  lookback: Lookback
  /** about the largest page lately seen: where a server caps its pages below `take`, one of this size may be full */
  largestPage: number
  /** reading page by page to see whether the first entry is dated in the future; absent: not under way */
  ahead?: Walk & { entries: number }
  /** An entry stays unreadable: how the next poll goes on by `search`. */
  probe: Probe | null
  /** how far behind the head entries were lately found, µs; halves each day without one */
  lateUs: number
  lateSeenAt: number
  /** entries an hour, smoothed: what `activity: auto` follows */
  perHour: number
  polledAt: number
  fetches: Fetches
  /** hashes of malformed elements that were quarantined lately, oldest first; absent: none were */
  malformed?: string[]
}

/** Hashes that are remembered. */
const MALFORMED_LENGTH = 100

/** What is quarantined once is known from then on: it is no sign of an outage when it comes again without entries beside it. */
export function recordMalformed(
  cursor: AuditCursor,
  quarantined: readonly { readonly sha256: string }[],
): void {
  if (quarantined.length === 0) return
  const hashes = quarantined.map(({ sha256 }) => sha256)
  cursor.malformed = [...new Set([...(cursor.malformed ?? []), ...hashes])].slice(-MALFORMED_LENGTH)
}

/** True where there are such, and all of them were quarantined before. */
export function isKnownMalformed(
  { malformed = [] }: AuditCursor,
  quarantined: readonly { readonly sha256: string }[] = [],
): boolean {
  return quarantined.length > 0 && quarantined.every(({ sha256 }) => malformed.includes(sha256))
}

export function freshAuditCursor(now: number): AuditCursor {
  return {
    v: 1,
    startUs: null,
    head: null,
    headUs: 0,
    latestUs: 0,
    drain: null,
    overlap: [],
    dueAt: now,
    caughtUp: false,
    lost: null,
    largestPage: 2,
    probe: null,
    lookback: { walk: null, untilUs: 0, fullDueAt: now, quickDueAt: now },
    lateUs: 0,
    lateSeenAt: 0,
    perHour: 0,
    polledAt: 0,
    fetches: freshFetches(now),
  }
}

/** A copy that a step may change freely. Throws ConnectorError `journal_corrupt` where it is damaged or not of our version. */
export function openAuditCursor(cursor: Cursor | undefined, now: number, workspace: string): AuditCursor {
  if (cursor === undefined) return freshAuditCursor(now)
  return openStored(cursor, { workspace, source: 'audit', isWhole, upgrade: upgraded })
}

/** What 0.1.0 called the states of a walk, the lookback and the positions at which a poll may begin. */
const oldStates: ReadonlyMap<unknown, Walk['state']> = new Map([
  ['ask_latest', 'check_end'],
  ['read_again', 'page_again'],
  ['cursor_gone', 'find'],
])

function upgraded({ sweep, trail, ...fields }: Fields): Fields {
  const walkOf = (value: unknown) => {
    const walk = fieldsOf(value)
    return walk ? { state: oldStates.get(walk['doubt']) ?? 'page', ...walk } : value
  }
  const { fullSweptAt, walk, ...oldLookback } = fieldsOf(sweep) ?? {}
  const doneAt = fullSweptAt === undefined ? {} : { fullDoneAt: fullSweptAt }
  return {
    ...(trail !== undefined && { overlap: trail }),
    ...(sweep !== undefined && { lookback: { ...oldLookback, ...doneAt, walk: walkOf(walk) } }),
    ...fields,
    drain: walkOf(fields['drain']),
    ...(fields['ahead'] !== undefined && { ahead: walkOf(fields['ahead']) }),
  }
}

const isPosition = (value: unknown) => isText(fieldsOf(value)?.['id']) && areNumbers(value, 'at')
const isProbe = (value: unknown) => areNumbers(value, 'atUs', 'lowUs', 'steps')

function isWalk(value: unknown): boolean {
  const walk = fieldsOf(value)
  return (
    areNumbers(walk, 'badTries', 'goodPages', 'stuckPages') &&
    isText(walk?.['state']) &&
    isPosition(walk?.['from']) &&
    isNullOr(walk?.['probe'], isProbe) &&
    isListOf(walk?.['ends'], isText)
  )
}

function isWhole(fields: Fields): fields is Fields & AuditCursor {
  const lookback = fieldsOf(fields['lookback'])
  const fetches = fieldsOf(fields['fetches'])
  return (
    areNumbers(fields, 'headUs', 'latestUs', 'dueAt', 'largestPage', 'lateUs', 'lateSeenAt') &&
    areNumbers(fields, 'perHour', 'polledAt') &&
    typeof fields['caughtUp'] === 'boolean' &&
    isNullOr(fields['startUs'], Number.isFinite) &&
    isNullOr(fields['head'], isPosition) &&
    isNullOr(fields['lost'], isPosition) &&
    isNullOr(fields['drain'], isWalk) &&
    isNullOr(fields['probe'], isProbe) &&
    (fields['ahead'] === undefined || isWalk(fields['ahead'])) &&
    isListOf(fields['overlap'], isPosition) &&
    areNumbers(lookback, 'untilUs', 'fullDueAt', 'quickDueAt') &&
    isNullOr(lookback?.['walk'], isWalk) &&
    areNumbers(fetches, 'sinceUs') &&
    isListOf(fetches?.['sent'], Number.isFinite)
  )
}

export function closeAuditCursor(cursor: AuditCursor): Cursor {
  return JSON.stringify(cursor)
}

/** At least this much of what is known is read again at every poll. */
const OVERLAP_MIN_US = 120_000_000
const OVERLAP_MAX_US = 900_000_000
const OVERLAP_LENGTH = 24
/** So far apart that all of them cover the longest overlap. */
const APART_US = OVERLAP_MAX_US / (OVERLAP_LENGTH - 2)

/**
 * Where a poll begins: the newest position that is no younger than the overlap, so that an entry that became
 * visible a little late is found without a request of its own. The oldest where none is that old.
 */
export function overlapStart({ overlap, headUs, lateUs }: AuditCursor, head: Position): Position {
  const overlapUs = Math.min(Math.max(OVERLAP_MIN_US, 2 * lateUs), OVERLAP_MAX_US)
  return overlap.findLast(({ at }) => at <= headUs - overlapUs) ?? overlap[0] ?? head
}

/** Keeps a bounded number of positions, `marks` among them: the newest that is older than the longest overlap, and those after it. */
export function recordOverlap(cursor: AuditCursor, marks: readonly Position[]): void {
  const overlap = [...cursor.overlap]
  for (const { id, at } of marks) {
    const last = overlap.at(-1)
    if (!last || at >= last.at + APART_US) overlap.push({ id, at })
  }
  const covering = overlap.findLastIndex(({ at }) => at <= cursor.headUs - OVERLAP_MAX_US)
  cursor.overlap = overlap.slice(Math.max(0, covering)).slice(-OVERLAP_LENGTH)
}

/** An entry was found this far behind the head. */
export function recordLateness(cursor: AuditCursor, behindUs: number, now: number): void {
  const days = Math.max(0, Math.floor((now - cursor.lateSeenAt) / DAY_MS))
  const faded = cursor.lateUs / 2 ** Math.min(days, 40)
  if (behindUs <= 0 && days === 0) return
  cursor.lateUs = Math.max(behindUs, faded < 1_000_000 ? 0 : faded)
  cursor.lateSeenAt = now
}
