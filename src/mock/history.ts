// The history area (spec §4.2): usage and query events of a time range, as v2 or v1 serve them.
import { DAY_MS } from '../core/time.ts'
import { replyOf, separatorOf } from './answer.ts'
import type { Body, Reply } from './answer.ts'
import { faultyPage, refused } from './call.ts'
import type { AreaRoutes, Call, Endpoint } from './call.ts'
import type { Entry } from './entry.ts'
import {
  feedbackOf,
  hasText,
  isQuestion,
  noFeedback,
  queryEvent,
  rowOf,
  usageEvent,
  usageId,
} from './history-event.ts'
import { filling, SLICE_BYTES } from './prose.ts'
import { chanceOf, keyedBy } from './random.ts'
import { renderEvent } from './render.ts'
import type { HistoryDefect } from './switches.ts'
import type { Workspace } from './workspace.ts'

type Kind = 'usage' | 'query'
type Version = 'v1' | 'v2'

/** What an answer lists. */
interface Listing {
  readonly kind: Kind
  readonly api: Version
}

/** An event that an answer is about to show. */
interface Shown {
  readonly entry: Entry
  /** which version of its content, from 0 */
  readonly version: number
}

const MAX_DAYS = 30
/** up to this size the length of an answer is computed and sent in its header */
const COUNTED_BYTES = 262_144
/** Where a response is to be made longer; it cannot occur in JSON text. */
const MARK = '\u0001'

/** First and last whole second of a range. An event's time is the second that it shows. */
interface SecondRange {
  readonly first: number
  readonly last: number
}

/** The requested seconds, or the error. */
function rangeOf(call: Call): SecondRange | Reply {
  const { query, switches, now } = call
  const perSecond = switches.history_unit === 's' ? 1 : 1000
  const numberIn = (text: string) => (/^\d{1,15}$/.test(text) ? Number(text) : undefined)
  const [from, to] = [query.get('start_time') ?? '', query.get('end_time') ?? '']
  if (from === '') return refused(call, 400)
  const start = numberIn(from)
  if (start === undefined) return refused(call, 400, 'Invalid start_time')
  if (to === '' && switches.history_end_time === 'required') return refused(call, 400, 'Missing end_time')
  // A request without an end includes the current second.
  const end = to === '' ? Math.max(start, Math.floor(((now + 1000) / 1000) * perSecond)) : numberIn(to)
  if (end === undefined) return refused(call, 400, 'Invalid end_time')
  if (end < start) return refused(call, 400, 'end_time is before start_time')
  if (to !== '' && switches.history_future_end === 'refused' && end > (now / 1000) * perSecond)
    return refused(call, 400, 'end_time is in the future')
  if (end - start > ((MAX_DAYS * DAY_MS) / 1000) * perSecond)
    return refused(call, 400, `Range exceeds ${MAX_DAYS} days`)
  const [first, last] = [start / perSecond, end / perSecond]
  return {
    first: switches.history_start === 'inclusive' ? Math.ceil(first) : Math.floor(first) + 1,
    last: switches.history_end === 'inclusive' ? Math.floor(last) : Math.ceil(last) - 1,
  }
}

/** In order of time. Keeps one reference per event, no bytes. */
function within({ workspace, now }: Call, { first, last }: SecondRange, kind: Kind): Shown[] {
  const visible = workspace.ledger
    .between(first * 1e6, (last + 1) * 1e6)
    .filter((entry) => isQuestion(entry) && entry.historyAt <= now)
  if (kind === 'usage') return visible.map((entry) => ({ entry, version: 0 }))
  return visible.filter(hasText).map((entry) => {
    const current = feedbackOf(entry, workspace).findLastIndex(({ from }) => from <= now)
    return { entry, version: Math.max(0, current) }
  })
}

function fillOf({ switches }: Workspace, kind: Kind): number {
  return kind === 'query' ? switches.history_event_bytes : 0
}

/** The bytes of an event, a long response in slices. Always the same for the same content. */
function* piecesOf(
  workspace: Workspace,
  { entry, version }: Shown,
  { kind, api }: Listing,
): Generator<Buffer, void> {
  const fill = fillOf(workspace, kind)
  const mark = fill > 0 ? MARK : ''
  const time = workspace.switches.history_v1_time === 'on'
  const feedback = () => feedbackOf(entry, workspace)[version] ?? noFeedback
  const { fields, odd } =
    api === 'v1'
      ? rowOf(entry, workspace, { time, texts: kind === 'query', mark })
      : kind === 'usage'
        ? usageEvent(entry, workspace)
        : queryEvent(entry, workspace, feedback(), mark)
  const whole = renderEvent(fields, odd, entry.historyDefect)
  const at = whole.indexOf(MARK)
  if (at < 0) {
    yield whole
    return
  }
  yield whole.subarray(0, at)
  yield* filling(fill, keyedBy(entry.id, 41))
  yield whole.subarray(at + 1)
}

function countedLength(pieces: Iterable<Uint8Array>): number | undefined {
  let bytes = 0
  for (const piece of pieces) if ((bytes += piece.length) > COUNTED_BYTES) return undefined
  return bytes
}

function* prefixed(separator: string, pieces: Iterable<Uint8Array>): Generator<Uint8Array, void> {
  let prefix = Buffer.from(separator)
  for (const piece of pieces) {
    yield prefix.length > 0 ? Buffer.concat([prefix, piece]) : piece
    prefix = Buffer.alloc(0)
  }
}

/** The events are created one by one as they are sent. */
function bodyOf({ workspace, struck, seed, ordinal }: Call, shown: readonly Shown[], listing: Listing): Body {
  const separator = separatorOf(chanceOf(seed, ordinal))
  const [open, close] = listing.api === 'v2' ? ['{"events":[', ']}'] : ['[', ']']
  const odd = struck.has('odd_element') ? [Buffer.from(`{"request":${ordinal}}`)] : []
  const elementsOf = function* (): Generator<Iterable<Uint8Array>, void> {
    for (const one of shown) yield piecesOf(workspace, one, listing)
    if (odd.length > 0) yield odd
  }
  const pieces = function* () {
    yield Buffer.from(open)
    let isFirst = true
    for (const element of elementsOf()) {
      yield* prefixed(isFirst ? '' : separator, element)
      isFirst = false
    }
    yield Buffer.from(close)
  }
  const [first] = shown
  const again = () =>
    first
      ? Buffer.concat([...prefixed(separator, piecesOf(workspace, first, listing))])
      : Buffer.alloc(65_536, ' ')
  const fill = fillOf(workspace, listing.kind)
  const count = 2 + shown.length * (fill > 0 ? 2 + Math.ceil(fill / SLICE_BYTES) : 1) + odd.length
  return { count, pieces, again, length: countedLength(pieces()) }
}

function listed(call: Call, listing: Listing): Reply {
  const { switches } = call
  const { history_v2: v2 } = switches
  if (listing.api === 'v2' && v2 !== 'on') return refused(call, Number(v2))
  const range = rangeOf(call)
  if ('status' in range) return range
  const shown = faultyPage(call, within(call, range, listing.kind), switches.history_order === 'none')
  const reply = replyOf(Number(switches.history_status), bodyOf(call, shown, listing))
  return { ...reply, elements: shown.length, show: () => markShown(shown, listing) }
}

const endpoint = (kind: Kind, api: Version): Endpoint => ({
  name: kind,
  answer: (call) => listed(call, { kind, api }),
  trace: () => 'api:history_fetch',
})

export const historyArea: AreaRoutes = {
  area: 'history',
  endpoints: {
    'GET /api/v2/history/usage': endpoint('usage', 'v2'),
    'GET /api/v2/history/query': endpoint('query', 'v2'),
    'GET /api/v1/history/usage': endpoint('usage', 'v1'),
    'GET /api/v1/history/query': endpoint('query', 'v1'),
  },
}

const listings = ['v1 usage', 'v1 query', 'v2 usage', 'v2 query']
const MAX_VERSIONS = 3

/** The bit of `Entry.historyShown` for one version of an event in one kind of answer. */
const bitOf = ({ kind, api }: Listing, version: number) =>
  1 << (version * listings.length + listings.indexOf(`${api} ${kind}`))

/** An answer with these was sent to its end. If one is poisoned, it alone counts as shown. */
function markShown(shown: readonly Shown[], listing: Listing): void {
  const poisoned = shown.filter(({ entry }) => entry.historyDefect === 'history_poison')
  for (const { entry, version } of poisoned.length > 0 ? poisoned : shown)
    entry.historyShown |= bitOf(listing, version)
}

/** The ground truth about one event, for tests. */
export interface MockHistoryEvent {
  /** `unique_usage_id`: shared by the usage and the query event of one question */
  readonly id: string
  readonly kind: Kind
  /** of the audit entry of the same question */
  readonly entryId: string
  readonly user: string
  readonly atUs: number
  readonly visibleAt: number
  readonly defect: HistoryDefect | undefined
  /** those that began by now, oldest first; in v1, without feedback, all have the same bytes */
  readonly versions: readonly ReturnType<typeof versionOf>[]
}

/** Every event up to now, including those not visible yet, usage before query. */
export function historyOf(workspace: Workspace, now: number): MockHistoryEvent[] {
  return workspace.ledger.entries.filter(isQuestion).flatMap((entry) => {
    const usage = eventOf(workspace, entry, 'usage', now)
    return hasText(entry) ? [usage, eventOf(workspace, entry, 'query', now)] : [usage]
  })
}

function eventOf(workspace: Workspace, entry: Entry, kind: Kind, now: number): MockHistoryEvent {
  const { id: entryId, user, atUs, historyAt: visibleAt, historyDefect: defect } = entry
  const versions = feedbackOf(entry, workspace)
    .slice(0, kind === 'usage' ? 1 : MAX_VERSIONS)
    .filter(({ from }, number) => number === 0 || from <= now)
    .map(({ from }, version) => versionOf(workspace, { entry, version }, kind, from))
  return { id: usageId(entry, workspace.seed), kind, entryId, user, atUs, visibleAt, defect, versions }
}

/** One version of an event's content, for tests. */
function versionOf(workspace: Workspace, shown: Shown, kind: Kind, from: number) {
  const bytes = (api: Version): Uint8Array => Buffer.concat([...piecesOf(workspace, shown, { kind, api })])
  return {
    /** epoch ms: from when on answers contained it, by the server's clock */
    from,
    /** as v2 and v1 serve it, including line breaks between tokens; created on demand */
    get raw() {
      return bytes('v2')
    },
    get rawV1() {
      return bytes('v1')
    },
    /** versions of the API that sent it, in an answer that was sent to its end */
    get shownBy(): readonly Version[] {
      const { entry, version } = shown
      return (['v1', 'v2'] as const).filter((api) => entry.historyShown & bitOf({ kind, api }, version))
    },
  }
}
