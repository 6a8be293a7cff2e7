// The mock's one table of switches (what the specification leaves open) and faults (what goes wrong), with readers for the command line.
import { ConnectorError } from '../model/errors.ts'
import { durationMs, durationPattern } from '../model/units.ts'

interface SwitchSpec {
  /** the words allowed, or what is read from text: a whole number, or a duration (held in ms) */
  readonly values: readonly string[] | 'number' | 'duration'
  readonly default: string | number
  readonly says: string
}

/** @public for the command’s help */
export const switches = {
  from: {
    values: ['exclusive', 'inclusive'],
    default: 'exclusive',
    says: 'is the entry whose id is `from` in the page',
  },
  search_body: {
    values: ['wrapped', 'bare'],
    default: 'wrapped',
    says: '`search` answers {"log": entry} or the entry',
  },
  latest_body: {
    values: ['wrapped', 'bare'],
    default: 'wrapped',
    says: '`latest` answers {"log": entry} or the entry',
  },
  none: {
    values: ['404', 'null', 'empty_object', 'empty_body'],
    default: '404',
    says: 'what `search`, `earliest` and `latest` answer when there is no such entry',
  },
  gone: {
    values: ['404', '400', 'empty'],
    default: '404',
    says: 'what a page answers whose `from` is unknown or purged',
  },
  page_cap: { values: 'number', default: 0, says: 'most entries a page, whatever `take` asks; 0 for none' },
  rate_scope: { values: ['key', 'workspace'], default: 'key', says: 'who shares one rate limit' },
  count_refused: {
    values: ['no', 'yes'],
    default: 'no',
    says: 'does a request answered 429 count against the limit',
  },
  retry_after: { values: ['none', 'seconds', 'date'], default: 'none', says: 'the hint that a 429 carries' },
  self_audit: {
    values: ['all', 'pages', 'off'],
    default: 'all',
    says: 'which audit reads are themselves entries',
  },
  self_audit_after: {
    values: 'duration',
    default: 0,
    says: 'how long after the answer that entry becomes visible',
  },
  user_agent: {
    values: ['sent', 'generic'],
    default: 'sent',
    says: 'the `user_agent` recorded of an audit read',
  },
  date_header: { values: ['on', 'off'], default: 'on', says: 'do answers carry `Date`' },
  visible_after: {
    values: 'duration',
    default: 0,
    says: 'how long after its own time each traffic entry becomes visible',
  },
  late_by: {
    values: 'duration',
    default: 600_000,
    says: 'the most that an entry of the fault `late` is late',
  },
  retention: { values: 'duration', default: 0, says: 'entries older than this are purged; 0s keeps all' },
  clock_skew_ms: {
    values: 'number',
    default: 0,
    says: 'how far the server’s clock is ahead of the true one',
  },
  transit: {
    values: 'duration',
    default: 0,
    says: 'the longest a request travels before it counts; seeded, 0 to this',
  },
  latency: { values: 'duration', default: 0, says: 'how long an answer takes' },
  gzip: { values: ['never', 'asked', 'always'], default: 'never', says: 'when bodies are compressed' },
  slow_pause: {
    values: 'duration',
    default: 1000,
    says: 'the pause between the 20 pieces of the fault `slow`',
  },
  stall: {
    values: 'duration',
    default: 3_600_000,
    says: 'how long the fault `stalled` is silent before it cuts',
  },
  deep_levels: { values: 'number', default: 4000, says: 'levels of the fault `too_deep`' },
  huge_bytes: { values: 'number', default: 17 * 2 ** 20, says: 'size of the fault `huge`' },
} as const satisfies Record<string, SwitchSpec>

type SwitchName = keyof typeof switches
export type Switches = {
  [N in SwitchName]: (typeof switches)[N]['values'] extends readonly (infer V)[] ? V : number
}

/** Where a fault strikes: instead of an answer, at a page's content, at the bytes of an answer, at an entry for good. */
type FaultKind = 'instead' | 'page' | 'body' | 'entry'

export const faults = {
  storm_429: { kind: 'instead', says: '429 for a while (90 s unless told), whatever the budget' },
  error_500: { kind: 'instead', says: '500, Unexpected server error' },
  unauthorized: { kind: 'instead', says: '401 although the key is right' },
  forbidden: { kind: 'instead', says: '403 although the key may' },
  redirect: { kind: 'instead', says: '302 to another host' },
  repeated_page: { kind: 'page', says: 'the page before, once more' },
  shuffled_page: { kind: 'page', says: 'the page in no order' },
  duplicated: { kind: 'page', says: 'each fourth element of the page twice' },
  empty_page: { kind: 'page', says: 'an empty array although there is more' },
  purged: { kind: 'page', says: 'the entry of `from` and all older ones are gone from now on' },
  reset: { kind: 'body', says: 'the connection is reset before any answer; the request counted' },
  cut: { kind: 'body', says: 'the connection ends in the middle of the body' },
  truncated: { kind: 'body', says: 'half a body that claims to be whole' },
  slow: { kind: 'body', says: 'the body drips in 20 pieces' },
  stalled: { kind: 'body', says: 'half the body, then silence, then a cut' },
  endless: { kind: 'body', says: 'a body that repeats its elements for ever' },
  html: { kind: 'body', says: '200 with a page of HTML' },
  wrong_type: { kind: 'body', says: 'a good body as text/plain' },
  wrong_shape: { kind: 'body', says: '200 with JSON that is not what was asked for' },
  gzip: { kind: 'body', says: 'a compressed body although nobody asked' },
  gzip_bomb: { kind: 'body', says: 'an endless body of white space, compressed a thousandfold' },
  late: { kind: 'entry', says: 'becomes visible up to `late_by` late, behind newer ones' },
  no_id: { kind: 'entry', says: 'has no id' },
  bad_time: { kind: 'entry', says: 'has a timestamp that is none' },
  invalid_utf8: { kind: 'entry', says: 'holds a byte that is not UTF-8' },
  too_deep: { kind: 'entry', says: 'nests `deep_levels` levels' },
  not_an_object: { kind: 'entry', says: 'is a string' },
  huge: { kind: 'entry', says: 'is `huge_bytes` long' },
  poison: { kind: 'entry', says: 'makes each answer that holds it invalid JSON' },
} as const satisfies Record<string, { kind: FaultKind; says: string }>

export type FaultName = keyof typeof faults
export type Defect = 'no_id' | 'bad_time' | 'invalid_utf8' | 'too_deep' | 'not_an_object' | 'huge' | 'poison'

/** When a fault strikes. Of several conditions each may fire; the window limits all. */
export interface FaultPlan {
  /** share of requests (or of entries) */
  readonly rate?: number
  /** ordinals that are struck: requests from 1, entries of the traffic from 0 */
  readonly nth?: readonly number[]
  /** epoch ms; only within [from, until): the request's time, or the entry's own */
  readonly from?: number
  readonly until?: number
  /** once struck, all requests for so long */
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

/** Reads `name=value` of a switch. Throws ConnectorError `config_invalid` that says what would be right. */
export function readSwitch(text: string): Partial<Switches> {
  const [name, value] = halves(text)
  if (!Object.hasOwn(switches, name))
    throw wrong(`switch ${name}: no such switch; there are ${switchNames.join(', ')}`)
  const { values }: SwitchSpec = switches[name as SwitchName]
  if (values === 'number') {
    if (!/^-?\d{1,12}$/.test(value)) throw wrong(`switch ${name}: want a whole number`)
    return { [name]: Number(value) }
  }
  if (values === 'duration') {
    if (!durationPattern.test(value))
      throw wrong(`switch ${name}: want a duration such as 30s, 5m, 24h or 35d`)
    return { [name]: durationMs(value) }
  }
  if (!values.includes(value)) throw wrong(`switch ${name}: want one of ${values.join(', ')}`)
  return { [name]: value }
}

/** Reads `name=rate` of a fault, the rate from 0 to 1. Throws the same. */
export function readFault(text: string): Faults {
  const [name, value] = halves(text)
  if (!Object.hasOwn(faults, name))
    throw wrong(`fault ${name}: no such fault; there are ${faultNames.join(', ')}`)
  const rate = Number(value)
  if (value === '' || !(rate >= 0 && rate <= 1)) throw wrong(`fault ${name}: want a rate from 0 to 1`)
  return { [name]: rate }
}

function halves(text: string): [string, string] {
  const at = text.indexOf('=')
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
