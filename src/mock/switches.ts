// The mock's one table of switches (what the specification leaves open) and faults (what goes wrong), with readers for the command line.
import { ConnectorError } from '../model/errors.ts'
import { durationMs, durationPattern } from '../model/units.ts'
import type { SwitchSpec, SwitchTable } from './switch-spec.ts'
import { assistantSwitches } from './switches-assistant.ts'
import { commonSwitches } from './switches-common.ts'
import { historySwitches } from './switches-history.ts'
import { vaultSwitches } from './switches-vault.ts'

/** @public for the command’s help */
export const switches = {
  ...commonSwitches,
  ...historySwitches,
  ...vaultSwitches,
  ...assistantSwitches,
} as const satisfies SwitchTable

type SwitchName = keyof typeof switches
export type Switches = {
  [N in SwitchName]: (typeof switches)[N]['values'] extends readonly (infer V)[] ? V : number
}

/** Where a fault strikes: instead of an answer, at a page's content, at the bytes of an answer, at an entry or a history event for good. */
type FaultKind = 'instead' | 'page' | 'body' | 'entry' | 'event'

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
  endless: { kind: 'body', says: 'a body that repeats its elements for ever' },
  html: { kind: 'body', says: '200 with a page of HTML' },
  wrong_type: { kind: 'body', says: 'a good body as text/plain' },
  wrong_shape: { kind: 'body', says: '200 with JSON that is not what was asked for' },
  gzip: { kind: 'body', says: 'a compressed body although nobody asked' },
  gzip_bomb: { kind: 'body', says: 'an endless body of white space, compressed a thousandfold' },
  late: { kind: 'entry', says: 'becomes visible up to `late_by` late, behind newer ones' },
  history_late: { kind: 'event', says: 'is in the answers up to `history_late_by` late' },
  history_no_id: { kind: 'event', says: 'has no `unique_usage_id`' },
  history_bad_time: { kind: 'event', says: 'has a time that is none' },
  history_invalid_utf8: { kind: 'event', says: 'holds a byte that is not UTF-8' },
  history_not_an_object: { kind: 'event', says: 'is a string' },
  history_poison: { kind: 'event', says: 'makes each answer that holds it invalid JSON' },
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
export type HistoryDefect =
  'history_no_id' | 'history_bad_time' | 'history_invalid_utf8' | 'history_not_an_object' | 'history_poison'

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
