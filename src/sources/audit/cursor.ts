// What the audit readers remember between two reads: one JSON value, stored with the entries. Pure.
import type { Entries } from '../../contracts/entries.ts'
import type { Cursor } from '../../contracts/source.ts'
import { textsUnder } from '../../core/json.ts'
import { DAY_MS } from '../../core/time.ts'
import type { Fields } from '../shared.ts'
import { areNumbers, fieldsOf, isListOf, isNullOr, isText, openStored } from '../shared.ts'
import type { Probe } from './skip.ts'
import type { PagingOptions } from './step.ts'
import type { Position, Walk } from './walk.ts'

/** One cycle of the head reader, from a due poll to its stop rule. */
export interface Drain extends Walk {
  /** the stop line of invariant 7, µs: entries from here on came after the drain began */
  untilUs: number | null
  /** false: the stop line is by our clock, so it holds on short pages only */
  untilByServer: boolean
  /** A page reached the head: what follows is new. */
  passedHead: boolean
  /** Pages were full: request the largest ones. */
  backlog: boolean
  /** empty answers in a row that nothing confirmed; absent: none */
  emptyAnswers?: number
  /** This drain has found its place by time once already. */
  reanchored: boolean
  /** tries of a head that is gone by its page, but not by `search`; absent: none */
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
  /** when the full lookback under way began, epoch ms; absent: none is */
  fullBeganAt?: number
  /** when the last complete full lookback began, epoch ms; absent: none was due yet */
  fullDoneAt?: number
}

export interface AuditCursor {
  readonly v: 1
  /** Entries before this instant (µs) are not shipped. */
  startUs: number | null
  /** first try of `start: latest`, µs by our clock; absent: not yet, or another start */
  triedUs?: number
  /** the last entry read in order; null: none yet */
  head: Position | null
  /** the newest entry time read, µs */
  headUs: number
  /** the newest entry time known, µs: `latest` may show a later one */
  latestUs: number
  drain: Drain | null
  /** recent entries, oldest first, at which a poll may begin to read some known entries again */
  overlap: Position[]
  /** epoch ms of the next poll */
  dueAt: number
  caughtUp: boolean
  /** the head that the API no longer shows: a gap, unless it appears again before anything newer */
  lost: Position | null
  /** id of the head after which the last gap was reported; absent: none was */
  gapBehind?: string
  /** id of the last entry whose page was left after ten minutes of errors; absent: none was */
  deadAt?: string
  /** error code of `latest`, as logged; absent: it answers */
  latestFails?: string
  lookback: Lookback
  /** about the largest page lately: a server that caps pages below `take` calls this size full */
  largestPage: number
  /** the walk that checks whether the first entry is dated in the future; absent: none */
  ahead?: Walk & { entries: number }
  /** where the next drain searches, since an entry stays unreadable */
  probe: Probe | null
  /** how late entries became visible lately, µs; halves each day without one */
  lateUs: number
  lateSeenAt: number
  /** entries an hour, smoothed, for `activity: auto` */
  perHour: number
  polledAt: number
  fetches: Fetches
  /** hashes of elements quarantined lately, oldest first; absent: none were */
  malformed?: string[]
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

/** A copy that a step may change. Throws ConnectorError `journal_corrupt` as `openStored` does. */
export function openAuditCursor(cursor: Cursor | undefined, now: number, workspace: string): AuditCursor {
  if (cursor === undefined) return freshAuditCursor(now)
  return openStored(cursor, { workspace, source: 'audit', isWhole, upgrade: upgraded })
}

/** What 0.1.0 called the states of a walk. */
const oldStates: ReadonlyMap<unknown, Walk['state']> = new Map([
  ['ask_latest', 'check_end'],
  ['read_again', 'page_again'],
  ['cursor_gone', 'find'],
])

/** 0.1.0 also had other names for the lookback and the overlap. */
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

export const closeAuditCursor = (cursor: AuditCursor): Cursor => JSON.stringify(cursor)

// Malformed elements: new ones alone on a page may mean an outage, quarantined ones do not.

const MALFORMED_LENGTH = 100

type Hashes = readonly { readonly sha256: string }[]

export function recordMalformed(cursor: AuditCursor, quarantined: Hashes): void {
  if (quarantined.length === 0) return
  const hashes = quarantined.map(({ sha256 }) => sha256)
  cursor.malformed = [...new Set([...(cursor.malformed ?? []), ...hashes])].slice(-MALFORMED_LENGTH)
}

/** False if there are none. */
export function isKnownMalformed({ malformed = [] }: AuditCursor, quarantined: Hashes = []): boolean {
  return quarantined.length > 0 && quarantined.every(({ sha256 }) => malformed.includes(sha256))
}

// The overlap: each poll reads the last known entries again, to find those that came a little late.

const OVERLAP_MIN_US = 120_000_000
const OVERLAP_MAX_US = 900_000_000
const OVERLAP_LENGTH = 24
/** Distance between positions: all of them together cover the longest overlap. */
const APART_US = OVERLAP_MAX_US / (OVERLAP_LENGTH - 2)

/** Where a poll begins: the newest position that is old enough, else the oldest. */
export function overlapStart({ overlap, headUs, lateUs }: AuditCursor, head: Position): Position {
  const overlapUs = Math.min(Math.max(OVERLAP_MIN_US, 2 * lateUs), OVERLAP_MAX_US)
  return overlap.findLast(({ at }) => at <= headUs - overlapUs) ?? overlap[0] ?? head
}

/** Adds `marks`, and drops positions that the longest overlap does not need. */
export function recordOverlap(cursor: AuditCursor, marks: readonly Position[]): void {
  const overlap = [...cursor.overlap]
  for (const { id, at } of marks) {
    const last = overlap.at(-1)
    if (!last || at >= last.at + APART_US) overlap.push({ id, at })
  }
  const covering = overlap.findLastIndex(({ at }) => at <= cursor.headUs - OVERLAP_MAX_US)
  cursor.overlap = overlap.slice(Math.max(0, covering)).slice(-OVERLAP_LENGTH)
}

/** `lateByUs`: how far before the head a new entry was found. */
export function recordLateness(cursor: AuditCursor, lateByUs: number, now: number): void {
  const days = Math.max(0, Math.floor((now - cursor.lateSeenAt) / DAY_MS))
  const faded = cursor.lateUs / 2 ** Math.min(days, 40)
  if (lateByUs <= 0 && days === 0) return
  cursor.lateUs = Math.max(lateByUs, faded < 1_000_000 ? 0 : faded)
  cursor.lateSeenAt = now
}

// Own fetches: each audit fetch is itself an entry (invariant 7). Those of others are findings.

const FETCH_TYPE = 'api:audit_log_fetch'
/** How many request times are remembered, for servers that do not record the User-Agent. */
const SENT_LENGTH = 128
/** An entry's distance from its request: `Date` has whole seconds, and servers are slow. */
const MATCH_MS = 5_000
/** So many fetches at our request times without our User-Agent prove that it is not recorded. */
const MATCHES_TO_BELIEVE = 3

export interface SentTimes {
  /** when pages were requested, epoch ms by the server's clock, newest last */
  readonly sent: number[]
}

/** What a reader knows of its own fetches. */
export interface Fetches extends SentTimes {
  /** findings are reported from here on, µs: before it, fetches by other tools were expected */
  sinceUs: number
  /** our key's user in the log; null: no own fetch was met yet */
  user: string | null
  /** the address of our fetches, if it was learned by time since the User-Agent is not recorded */
  byTimeIp: string | null
  /** fetches at our request times without our User-Agent */
  matches: number
}

export function freshFetches(now: number): Fetches {
  return { sinceUs: now * 1000, user: null, byTimeIp: null, matches: 0, sent: [] }
}

export function recordSent({ sent }: SentTimes, at: number): void {
  sent.push(at)
  if (sent.length > SENT_LENGTH) sent.splice(0, sent.length - SENT_LENGTH)
}

const isAtOne = ({ sent }: SentTimes, at: number): boolean =>
  sent.some((one) => Math.abs(one - at / 1000) <= MATCH_MS)

/** Older than the remembered requests: the fetch may be ours. */
function isForgotten({ sent }: SentTimes, at: number): boolean {
  return sent.length >= SENT_LENGTH && at / 1000 < Math.min(...sent) + MATCH_MS
}

type Known = Pick<PagingOptions, 'instance' | 'expectedUserAgent' | 'sentTimes'>

/** `other`: not an audit fetch, or a fetch by another user. */
export type Kind = 'own' | 'foreign' | 'other'

/** Clients may write anything into entries: only text counts. */
const textsOf = textsUnder(['user', 'ip', 'user_agent'])

/** Learns our user from the first own fetch. */
export function classify(fetches: Fetches, entries: Entries, index: number, by: Known): Kind {
  if (entries.type(index) !== FETCH_TYPE) return 'other'
  const { user = '', ip = '', user_agent: agent = '' } = textsOf(entries.raw(index))
  const at = entries.at(index)
  if (agent.includes(by.instance)) {
    // The User-Agent is recorded only from now on: earlier own fetches are not distinguishable.
    if (fetches.byTimeIp !== null) fetches.sinceUs = Math.max(fetches.sinceUs, at)
    fetches.user = user
    fetches.byTimeIp = null
    fetches.matches = 0
    return 'own'
  }
  const known = [fetches, by.sentTimes]
  const atOurTime = known.some((one) => isAtOne(one, at))
  if (fetches.user === null && atOurTime) {
    // One match proves nothing: another tool may poll in the same second.
    if (++fetches.matches < MATCHES_TO_BELIEVE) return 'own'
    fetches.user = user
    fetches.byTimeIp = ip
  }
  const isAlike = fetches.byTimeIp !== null && user === fetches.user && ip === fetches.byTimeIp
  if (isAlike && atOurTime) return 'own'
  const mayBeOurs = isAlike && known.some((one) => isForgotten(one, at))
  if (user !== fetches.user || at < fetches.sinceUs || mayBeOurs) return 'other'
  return by.expectedUserAgent(agent) ? 'other' : 'foreign'
}
