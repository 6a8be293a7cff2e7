// Switches (points that the specification leaves open) and faults of the mock, as tables.
import { ConnectorError } from '../core/errors.ts'
import { durationMs, durationPattern } from '../core/units.ts'

interface SwitchSpec {
  /** the allowed words, or the type parsed from text: an integer, or a duration (stored in ms) */
  readonly values: readonly string[] | 'number' | 'duration'
  readonly default: string | number
  readonly says: string
}

type Word<S extends string> = S extends `${infer First} ${infer Rest}` ? First | Word<Rest> : S

/** The first word is the default. */
function words<const S extends string>(says: string, all: S) {
  const values: readonly string[] = all.split(' ')
  return { values: values as readonly Word<S>[], default: values[0] as Word<S>, says }
}
const number = (says: string, usual = 0) => ({ values: 'number', default: usual, says }) as const
const duration = (says: string, usual = 0) => ({ values: 'duration', default: usual, says }) as const

/** @public for the command’s help */
export const switches = {
  // Audit log, and every area.
  from: words('is the entry whose id is `from` in the page', 'exclusive inclusive'),
  search_body: words('`search` answers {"log": entry} or the entry', 'wrapped bare'),
  latest_body: words('`latest` answers {"log": entry} or the entry', 'wrapped bare'),
  none: words(
    'what `search`, `earliest` and `latest` answer when there is no such entry; with 204 an empty page does too',
    '404 null empty_object empty_body 204',
  ),
  gone: words('what a page answers whose `from` is unknown or purged', '404 400 410 422 empty 204'),
  page_cap: number('most entries a page, whatever `take` asks; 0 for none'),
  rate_scope: words('who shares one rate limit', 'key workspace'),
  count_refused: words('does a request answered 429 count against the limit', 'no yes'),
  retry_after: words('the hint that a 429 carries', 'none seconds date'),
  self_audit: words(
    'which calls are themselves entries: all, all but the audit log’s searches, none',
    'all pages off',
  ),
  self_audit_after: duration('how long after the answer that entry becomes visible'),
  user_agent: words('the `user_agent` recorded of a call', 'sent generic'),
  date_header: words('do answers carry `Date`', 'on off'),
  visible_after: duration('how long after its own time each traffic entry becomes visible'),
  late_by: duration('the most that an entry of the fault `late` is late', 600_000),
  retention: duration('entries older than this are purged; 0s keeps all'),
  clock_skew_ms: number('how far the server’s clock is ahead of the true one'),
  transit: duration('the longest a request travels before it counts; seeded, 0 to this'),
  latency: duration('how long an answer takes'),
  gzip: words('when bodies are compressed', 'never asked always'),
  slow_pause: duration('the pause between the 20 pieces of the fault `slow`', 1000),
  stall: duration('how long the fault `stalled` is silent before it cuts', 3_600_000),
  deep_levels: number('levels of the fault `too_deep`', 4000),
  huge_bytes: number('size of the fault `huge`', 17 * 2 ** 20),
  // History.
  history_unit: words('the unit of `start_time` and `end_time`', 's ms'),
  history_end_time: words('may `end_time` be left out (default: now)', 'optional required'),
  history_future_end: words('may `end_time` be in the future, or is that a 400', 'taken refused'),
  history_start: words('is an event at `start_time` in the answer', 'inclusive exclusive'),
  history_end: words('is an event at `end_time` in the answer', 'exclusive inclusive'),
  history_status: words('the status of success of the history area', '200 201'),
  history_v2: words('is v2 of the history there, or what its paths answer', 'on 404 403'),
  history_v1_time: words('do rows of v1 carry `timestamp`', 'on off'),
  history_order: words(
    'the order of events in an answer; none: shuffled, each time in another way',
    'none ascending',
  ),
  history_event_bytes: number('the least size of a response text, to make answers of gigabytes'),
  history_visible_after: duration('how long after its time an event is in the answers'),
  history_late_by: duration('the most that an event of the fault `history_late` is late', 86_400_000),
  // Vault.
  vault_status: words('the status of success of the vault area; deletions answer 200', '201 200'),
  created_range: words(
    'what the projects’ listing answers when `created_before` is not above `created_after`',
    '400 empty',
  ),
  per_page_cap: number('most projects a page, whatever `per_page` asks; 0 for none'),
  project_date: words('the field that `sort_by=date` goes by', 'project_updated_at updated_at'),
  file_sort: words(
    'the sort parameters of a project’s files: `sort_by` and `sort_order`, or `sort` and `order`',
    'sort_by sort',
  ),
  files_page: number('files a page of a project’s files, and the most that `limit` may ask for', 50),
  vault_reads: words(
    'what reads without a type of their own leave: an `api:vault_get_metadata` entry, or none',
    'metadata off',
  ),
  uploaded_for: duration('how long a file is `uploaded`; seeded, half to one and a half of this', 5000),
  processing_for: duration('how long it is `processing` then; likewise', 20_000),
  deletion_takes: duration('how long a deleted project is still listed', 30_000),
  // Assistant.
  assistant_accepts: words(
    'bodies that a completion may come in: JSON, or a form (URL-encoded or multipart)',
    'both json form',
  ),
  assistant_file_field: words('the name of the part that holds the file', 'file files document attachment'),
  assistant_body: words(
    'a whole reply: {"response": …}, the whole query event, or plain text',
    'response event text',
  ),
  assistant_stream_body: words(
    'a streamed reply: server-sent events, a JSON object a line, or plain text in pieces',
    'sse ndjson text',
  ),
  assistant_visible_after: duration(
    'how long after the answer its usage and query events are in the history',
  ),
} as const satisfies Readonly<Record<string, SwitchSpec>>

type SwitchName = keyof typeof switches
export type Switches = {
  [N in SwitchName]: (typeof switches)[N]['values'] extends readonly (infer V)[] ? V : number
}

/** What it affects: a whole answer, a page, a body, or an entry or event for good. */
type FaultKind = 'instead' | 'page' | 'body' | 'entry' | 'event'

export const faults = {
  storm_429: { kind: 'instead', says: '429 for a while (default 90 s), whatever the rate limit' },
  error_500: { kind: 'instead', says: '500, Unexpected server error' },
  unauthorized: { kind: 'instead', says: '401 although the key is right' },
  forbidden: { kind: 'instead', says: '403 although the key may' },
  redirect: { kind: 'instead', says: '302 to another host' },
  repeated_page: { kind: 'page', says: 'the page before, once more' },
  shuffled_page: { kind: 'page', says: 'the page in no order' },
  duplicated: { kind: 'page', says: 'each fourth element of the page twice' },
  empty_page: { kind: 'page', says: 'an empty array although there is more' },
  odd_element: {
    kind: 'page',
    says: 'one additional element that is not an event, different in each answer',
  },
  purged: { kind: 'page', says: 'the entry of `from` and all older ones are gone from now on' },
  shifting_list: {
    kind: 'page',
    says: 'before the projects’ listing answers, one is made, goes, or moves to the other end',
  },
  list_skips: { kind: 'page', says: 'the projects’ listing and its totals leave out one that is there' },
  reset: { kind: 'body', says: 'the connection is reset before any answer; the request counted' },
  cut: { kind: 'body', says: 'the connection ends in the middle of the body' },
  truncated: { kind: 'body', says: 'half a body that claims to be whole' },
  slow: { kind: 'body', says: 'the body drips in 20 pieces' },
  stalled: { kind: 'body', says: 'half the body, then silence, then a cut' },
  endless: { kind: 'body', says: 'a body that repeats its elements forever' },
  html: { kind: 'body', says: '200 with a page of HTML' },
  wrong_type: { kind: 'body', says: 'a good body as text/plain' },
  wrong_shape: { kind: 'body', says: '200 with JSON that is not what was asked for' },
  gzip: { kind: 'body', says: 'a compressed body although none was requested' },
  gzip_bomb: { kind: 'body', says: 'an endless body of white space, compressed a thousandfold' },
  late: { kind: 'entry', says: 'becomes visible up to `late_by` late, after newer ones' },
  history_late: { kind: 'event', says: 'is in the answers up to `history_late_by` late' },
  history_no_id: { kind: 'event', says: 'has no `unique_usage_id`' },
  history_bad_time: { kind: 'event', says: 'has an invalid time' },
  history_invalid_utf8: { kind: 'event', says: 'holds a byte that is not UTF-8' },
  history_not_an_object: { kind: 'event', says: 'is a string' },
  history_poison: { kind: 'event', says: 'makes each answer that holds it invalid JSON' },
  no_id: { kind: 'entry', says: 'has no id' },
  bad_time: { kind: 'entry', says: 'has an invalid timestamp' },
  invalid_utf8: { kind: 'entry', says: 'holds a byte that is not UTF-8' },
  too_deep: { kind: 'entry', says: 'nests `deep_levels` levels' },
  not_an_object: { kind: 'entry', says: 'is a string' },
  huge: { kind: 'entry', says: 'is `huge_bytes` long' },
  poison: { kind: 'entry', says: 'makes each answer that holds it invalid JSON' },
} as const satisfies Record<string, { kind: FaultKind; says: string }>

export type FaultName = keyof typeof faults
export type Defect = 'no_id' | 'bad_time' | 'invalid_utf8' | 'too_deep' | 'not_an_object' | 'huge' | 'poison'
export type HistoryDefect =
  'history_no_id' | 'history_bad_time' | 'history_invalid_utf8' | 'history_not_an_object' | 'history_poison'

/** When a fault applies. Any one condition is sufficient; the window limits all of them. */
export interface FaultPlan {
  /** share of requests (or of entries) */
  readonly rate?: number
  /** affected ordinals: requests from 1, entries of the traffic from 0 */
  readonly nth?: readonly number[]
  /** epoch ms; only within [from, until): the request's time, or the entry's own */
  readonly from?: number
  readonly until?: number
  /** after the first time, all requests for this long */
  readonly forMs?: number
}

/** A number is a rate. */
export type Faults = Partial<Record<FaultName, number | FaultPlan>>

/** @public for the command’s help */
export const switchNames = Object.keys(switches) as readonly SwitchName[]
export const faultNames = Object.keys(faults) as readonly FaultName[]

export const defaultSwitches = Object.fromEntries(
  switchNames.map((name) => [name, switches[name].default]),
) as Switches

function wrong(message: string): ConnectorError {
  return new ConnectorError('config_invalid', message)
}

/** Reads `name=value` of a switch. Throws ConnectorError `config_invalid` with the valid values. */
export function readSwitch(text: string): Partial<Switches> {
  const [name, value] = halves(text)
  if (!Object.hasOwn(switches, name))
    throw wrong(`switch ${name}: no such switch; there are ${switchNames.join(', ')}`)
  const { values }: SwitchSpec = switches[name as SwitchName]
  if (values === 'number') {
    if (!/^-?\d{1,12}$/.test(value)) throw wrong(`switch ${name}: expected a whole number`)
    return { [name]: Number(value) }
  }
  if (values === 'duration') {
    if (!durationPattern.test(value))
      throw wrong(`switch ${name}: expected a duration such as 30s, 5m, 24h or 35d`)
    return { [name]: durationMs(value) }
  }
  if (!values.includes(value)) throw wrong(`switch ${name}: expected one of ${values.join(', ')}`)
  return { [name]: value }
}

/** Reads `name=rate` of a fault, with a rate from 0 to 1. Throws the same error. */
export function readFault(text: string): Faults {
  const [name, value] = halves(text)
  if (!Object.hasOwn(faults, name))
    throw wrong(`fault ${name}: no such fault; there are ${faultNames.join(', ')}`)
  const rate = Number(value)
  if (value === '' || !(rate >= 0 && rate <= 1)) throw wrong(`fault ${name}: expected a rate from 0 to 1`)
  return { [name]: rate }
}

function halves(text: string): [string, string] {
  const at = text.indexOf('=')
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
