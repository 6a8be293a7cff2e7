// What a share of the seeds reads beside the audit log: the history and the vault, how their server behaves, and where their lives end in mid-answer.
import type { Faults, Switches } from '../../src/mock/switches.ts'
import { dice } from './random.ts'
import type { Dice } from './random.ts'

const DAY_MS = 86_400_000
const SHARE = 0.3
/** The answer of one day in a seed of long texts: more than may be held whole, so that it is kept in several chunks. */
const LONG_DAY_BYTES = 5_000_000

export interface HistoryScenario {
  readonly version: 'v2' | 'v1'
  /** UTC midnight; with v2, days before it are read as v1 */
  readonly v1UntilMs: number | undefined
  readonly query: boolean
  /** the sinks that name history.query */
  readonly queryAt: readonly string[]
  readonly interval: string
  /** span before the seed's start that reading begins with; undefined: earliest */
  readonly startSpanMs: number | undefined
  readonly rereadMs: number
}

export interface AreaScenario {
  readonly history: HistoryScenario | undefined
  readonly vault: { readonly interval: string } | undefined
  /** vault projects from the start */
  readonly projects: number
  readonly switches: Partial<Switches>
  readonly faults: Faults
  /** at so many chunks of history answers each life ends */
  readonly fatalChunks: readonly number[]
}

/** Drawn apart, so that the rest of a seed stays the same. Undefined: the audit log alone. */
export function areasOf(seed: number, startAt: number, entriesPerHour: number): AreaScenario | undefined {
  const roll = dice(seed + 700_001)
  if (!roll.chance(SHARE)) return undefined
  const which = roll()
  const history = which < 0.8 ? historyOf(roll, startAt) : undefined
  const long = history?.query === true && roll.chance(0.1)
  const deaths = history ? roll.pick([0, 0, 1, 3]) : 0
  return {
    history: history && long ? { ...history, interval: '6h', rereadMs: DAY_MS } : history,
    vault: which >= 0.4 ? { interval: roll.pick(['30m', '1h', '2h']) } : undefined,
    projects: roll.pick([48, 48, 25, 7]),
    switches: {
      ...switchesOf(roll),
      ...(long
        ? {
            history_event_bytes: Math.ceil(LONG_DAY_BYTES / (entriesPerHour * 5)),
          }
        : {}),
    },
    faults: faultsOf(roll),
    fatalChunks: Array.from({ length: deaths }, () => 1 + roll.below(roll.pick([3, 30, 300]))),
  }
}

function historyOf(roll: Dice, startAt: number): HistoryScenario {
  const version = roll.pick(['v2', 'v2', 'v2', 'v1'] as const)
  const query = roll.chance(0.4)
  const today = Math.floor(startAt / DAY_MS) * DAY_MS
  const changes = version === 'v2' && roll.chance(0.25)
  return {
    version,
    v1UntilMs: changes ? today - roll.below(2) * DAY_MS : undefined,
    query,
    queryAt: query ? roll.pick([['archive'], ['archive', 'splunk'], ['splunk']]) : [],
    interval: roll.pick(['15m', '1h', '3h']),
    startSpanMs: roll.pick([undefined, 7 * DAY_MS, DAY_MS, DAY_MS / 2, 0]),
    rereadMs: roll.pick([3, 2, 1, 0]) * DAY_MS,
  }
}

function switchesOf(roll: Dice): Partial<Switches> {
  const unit = roll.pick(['s', 's', 'ms'] as const)
  const endTime = roll.pick(['optional', 'required'] as const)
  return {
    history_unit: unit,
    history_end_time: endTime,
    // No draw of its own: every seed stays the same.
    history_future_end: endTime === 'required' ? 'refused' : 'taken',
    history_start: roll.pick(['inclusive', 'exclusive']),
    history_end: roll.pick(['exclusive', 'inclusive']),
    history_status: roll.pick(['200', '201']),
    history_v1_time: roll.pick(['on', 'off']),
    history_order: roll.pick(['none', 'ascending']),
    history_visible_after: roll.pick([0, 0, 5_000, DAY_MS / 48]),
    history_late_by: roll.pick([3_600_000, DAY_MS / 3, DAY_MS]),
    vault_status: roll.pick(['201', '200']),
    per_page_cap: roll.pick([0, 0, 20, 7]),
    deletion_takes: roll.pick([0, 30_000, 3_600_000]),
  }
}

function faultsOf(roll: Dice): Faults {
  const some = (share: number, most: number) => (roll.chance(share) ? roll() * most : 0)
  return {
    history_late: some(0.6, 0.2),
    history_no_id: some(0.15, 0.02),
    history_bad_time: some(0.15, 0.02),
    history_invalid_utf8: some(0.15, 0.02),
    history_not_an_object: some(0.15, 0.02),
    history_poison: some(0.15, 0.01),
    shifting_list: some(0.5, 0.3),
    list_skips: some(0.2, 0.03),
  }
}
