// What a seed of reloads means: which jobs the operator starts, and when the daemon dies over them or gets another configuration.
import type { Faults, Switches } from '../../src/mock/switches.ts'
import { dice } from './random.ts'
import type { Dice } from './random.ts'

/** A configuration, by what it is without or has under another name. */
const variants = [
  'whole',
  'no audit',
  'no history',
  'workspace renamed',
  'sink renamed',
  'sink gone',
  'sink without audit',
  'other sink gone',
  'other budget',
] as const
export type Variant = (typeof variants)[number]

interface Step {
  /** what ends it, beside its time: so many state entries of jobs, or so many steps into the environment */
  readonly notes: number
  readonly steps: number
  readonly ms: number
  /** how it changes into the next one: a reload, a death, or a stop and a start */
  readonly end: 'reload' | 'kill' | 'stop'
  readonly next: Variant
}

export interface ReloadsPlan {
  readonly seed: number
  readonly startAt: number
  readonly days: number
  readonly entriesPerHour: number
  readonly switches: Partial<Switches>
  readonly faults: Faults
  readonly version: 'v2' | 'v1'
  readonly journalBytes: string
  readonly batchEntries: number
  /** live reading begins that long before the seed's start; the past is before */
  readonly startHours: number
  readonly replays: readonly ('audit' | 'history.usage')[]
  readonly steps: readonly Step[]
}

const stepOf = (roll: Dice): Step => {
  const end = roll.pick(['reload', 'reload', 'kill', 'kill', 'stop'] as const)
  const byNotes = roll.chance(0.6)
  return {
    notes: byNotes ? 1 + roll.below(roll.pick([2, 6, 15])) : 0,
    steps: byNotes ? Infinity : 1 + roll.below(roll.pick([30, 300, 1500])),
    ms: roll.pick([0, 1, 200, 3_000, 60_000, 600_000]),
    end,
    next: roll.chance(0.4) ? 'whole' : roll.pick(variants),
  }
}

export function reloadsPlanOf(seed: number): ReloadsPlan {
  const roll = dice(seed + 1_300_003)
  const some = (share: number, most: number) => (roll.chance(share) ? roll() * most : 0)
  return {
    seed,
    startAt: Date.UTC(2026, 10, 17, 8) + roll.below(48) * 3_600_000,
    days: 1 + roll.below(3),
    entriesPerHour: roll.pick([2, 10, 40]),
    switches: {
      from: roll.pick(['exclusive', 'inclusive']),
      search_body: roll.pick(['wrapped', 'bare']),
      page_cap: roll.pick([0, 7, 25, 100]),
      self_audit: roll.pick(['all', 'off']),
      date_header: roll.pick(['on', 'off']),
      history_order: roll.pick(['none', 'ascending']),
      history_v1_time: roll.pick(['on', 'off']),
      latency: roll.pick([0, 30, 1_500]),
      history_event_bytes: roll.pick([0, 0, 40_000]),
    },
    faults: {
      error_500: some(0.3, 0.1),
      reset: some(0.3, 0.1),
      cut: some(0.3, 0.1),
      truncated: some(0.3, 0.1),
      storm_429: some(0.1, 0.02),
    },
    version: roll.pick(['v2', 'v2', 'v1']),
    journalBytes: roll.pick(['2GiB', '2GiB', '64KiB']),
    batchEntries: roll.pick([1, 7, 1000]),
    startHours: roll.pick([0, 6, 1000]),
    replays: roll.pick([['audit'], ['history.usage'], ['audit', 'history.usage'], []] as const),
    steps: Array.from({ length: 2 + roll.below(8) }, () => stepOf(roll)),
  }
}
