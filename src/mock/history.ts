// The history area (spec §4.2): usage and query events of a time range, in the format of v2 or v1.
import { leaveTrace, perWorkspace, routeTable } from './area.ts'
import type { AreaRoutes, Call } from './area.ts'
import { HistoryEvents } from './history-events.ts'
import type { HistoryKind, HistoryVersion, SecondRange, Showing } from './history-events.ts'
import { below, chanceOf, dice, mix } from './random.ts'
import { documented, failure, json } from './replies.ts'
import type { Reply } from './replies.ts'
import type { Streamed } from './answer.ts'

const MOST_DAYS = 30
const DAY_S = 86_400
/** up to this size the length of an answer is computed and sent in its header */
const SAID_BYTES = 262_144

export const historyOf = perWorkspace((workspace) => new HistoryEvents(workspace))

const separators = [', ', ',\n', ' ,\r\n  ']

interface Asked {
  readonly kind: HistoryKind
  readonly api: HistoryVersion
}

function instantOf(text: string | null): number | undefined {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

/** The requested seconds, or the error. An event's time is the second that it shows. */
function rangeOf({ query, switches, now }: Call): SecondRange | Reply {
  const perSecond = switches.history_unit === 's' ? 1 : 1000
  const [from, to] = [query.get('start_time'), query.get('end_time')]
  if (from === null || from === '') return failure(400, documented.history[400])
  const start = instantOf(from)
  if (start === undefined) return failure(400, 'Invalid start_time')
  const noEnd = to === null || to === ''
  if (noEnd && switches.history_end_time === 'required') return failure(400, 'Missing end_time')
  // A request without an end includes the current second.
  const end = noEnd ? Math.max(start, Math.floor(((now + 1000) / 1000) * perSecond)) : instantOf(to)
  if (end === undefined) return failure(400, 'Invalid end_time')
  if (end < start) return failure(400, 'end_time is before start_time')
  if (!noEnd && switches.history_future_end === 'refused' && end > (now / 1000) * perSecond)
    return failure(400, 'end_time is in the future')
  if (end - start > MOST_DAYS * DAY_S * perSecond) return failure(400, 'Range exceeds 30 days')
  return {
    first:
      switches.history_start === 'inclusive'
        ? Math.ceil(start / perSecond)
        : Math.floor(start / perSecond) + 1,
    last: switches.history_end === 'inclusive' ? Math.floor(end / perSecond) : Math.ceil(end / perSecond) - 1,
  }
}

function shuffled(showings: Showing[], seed: number): Showing[] {
  const random = dice(seed)
  for (let i = showings.length - 1; i > 0; i--) {
    const j = below(random, i + 1)
    const moved = showings[i] as Showing
    showings[i] = showings[j] as Showing
    showings[j] = moved
  }
  return showings
}

/** Applies switches and faults to a correct range. */
function arranged(call: Call, honest: Showing[]): Showing[] {
  const { switches, struck, seed, ordinal } = call
  if (struck.has('empty_page')) return []
  const order = switches.history_order === 'none' || struck.has('shuffled_page')
  const some = order ? shuffled(honest, mix(seed, ordinal)) : honest
  return struck.has('duplicated') ? some.flatMap((one, i) => (i % 4 === 0 ? [one, one] : [one])) : some
}

function* attached(separator: Buffer, pieces: Iterable<Buffer>): Generator<Buffer, void> {
  let first = true
  for (const piece of pieces) {
    yield first ? Buffer.concat([separator, piece]) : piece
    first = false
  }
}

function saidLength(pieces: Iterable<Uint8Array>): number | undefined {
  let bytes = 0
  for (const piece of pieces) if ((bytes += piece.length) > SAID_BYTES) return undefined
  return bytes
}

/** The events are created one by one as they are sent. */
function bodyOf(
  call: Call,
  events: HistoryEvents,
  showings: readonly Showing[],
  { kind, api }: Asked,
): Streamed {
  const choice = chanceOf(call.seed, call.ordinal) * 20 * separators.length
  const separator = Buffer.from(separators[Math.floor(choice)] ?? ',')
  const odd = call.struck.has('odd_element') && Buffer.from(`{"request":${String(call.ordinal)}}`)
  const [open, close] = api === 'v2' ? ['{"events":[', ']}'] : ['[', ']']
  const pieces = function* () {
    yield Buffer.from(open)
    let first = true
    for (const showing of showings) {
      const own = events.pieces(showing, kind, api)
      if (first) yield* own
      else yield* attached(separator, own)
      first = false
    }
    if (odd) {
      if (first) yield odd
      else yield* attached(separator, [odd])
    }
    yield Buffer.from(close)
  }
  const again = () => {
    const [showing] = showings
    return showing
      ? Buffer.concat([...attached(separator, events.pieces(showing, kind, api))])
      : Buffer.alloc(65_536, ' ')
  }
  const length = saidLength(pieces())
  const count = 2 + showings.length * events.piecesEach(kind) + (odd ? 1 : 0)
  return { count, pieces, again, ...(length === undefined ? {} : { length }) }
}

function listed(call: Call, asked: Asked): Reply {
  const range = rangeOf(call)
  if ('status' in range) return range
  const events = historyOf(call.workspace)
  const showings = arranged(call, events.within(range, asked.kind, call.now))
  const reply = json(Number(call.switches.history_status), bodyOf(call, events, showings, asked))
  const show = () => events.shown(showings, asked.kind, asked.api)
  return { ...reply, elements: showings.length, show }
}

function reply(call: Call): Reply {
  const api = call.path.startsWith('/api/v1/') ? 'v1' : 'v2'
  const { history_v2: v2 } = call.switches
  if (api === 'v2' && v2 !== 'on') return v2 === '404' ? failure(404, 'Not found') : failure(403, 'Forbidden')
  return listed(call, { api, kind: call.endpoint === 'query' ? 'query' : 'usage' })
}

export const historyArea: AreaRoutes = {
  area: 'history',
  find: routeTable({
    'GET /api/v2/history/usage': 'usage',
    'GET /api/v2/history/query': 'query',
    'GET /api/v1/history/usage': 'usage',
    'GET /api/v1/history/query': 'query',
  }),
  answer: (call) => {
    const answer = reply(call)
    leaveTrace(call, 'api:history_fetch')
    return answer
  },
}
