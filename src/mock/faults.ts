// Which faults apply to which request or entry: decided by seed and ordinal, never by timing.
import { below, chanceOf, dice, mix, streamSeed } from './random.ts'
import { faultNames, faults } from './switches.ts'
import type { Defect, FaultName, FaultPlan, Faults, HistoryDefect, Switches } from './switches.ts'

const STORM_MS = 90_000

type Kind = (typeof faults)[FaultName]['kind']

export interface FaultPlans {
  /** Undefined ends a fault. */
  set(name: FaultName, plan: number | FaultPlan | undefined): void
  /** The faults of `kind` that apply to number `ordinal` at `at` (epoch ms). */
  striking(kind: Kind, ordinal: number, at: number): FaultName[]
}

interface Planned {
  readonly plan: FaultPlan
  readonly seed: number
  activeUntil: number
}

function strikes({ plan, seed, activeUntil }: Planned, ordinal: number, at: number): boolean {
  if (at < (plan.from ?? -Infinity) || at >= (plan.until ?? Infinity)) return false
  if (at < activeUntil || plan.nth?.includes(ordinal)) return true
  if (plan.rate !== undefined) return chanceOf(seed, ordinal) < plan.rate
  // A window without other conditions applies to everything in it.
  return plan.nth === undefined && (plan.from !== undefined || plan.until !== undefined)
}

export function openFaults(seed: number, initial: Faults): FaultPlans {
  const planned = new Map<FaultName, Planned>()
  const set: FaultPlans['set'] = (name, given) => {
    if (given === undefined || given === 0) return void planned.delete(name)
    const asked: FaultPlan = typeof given === 'number' ? { rate: given } : given
    const plan = name === 'storm_429' ? { forMs: STORM_MS, ...asked } : asked
    planned.set(name, { plan, seed: streamSeed(seed, name), activeUntil: -Infinity })
  }
  for (const name of faultNames) set(name, initial[name])
  const striking: FaultPlans['striking'] = (kind, ordinal, at) => {
    const struck: FaultName[] = []
    for (const [name, fault] of planned) {
      if (faults[name].kind !== kind || !strikes(fault, ordinal, at)) continue
      struck.push(name)
      const { forMs } = fault.plan
      if (forMs !== undefined && at >= fault.activeUntil) fault.activeUntil = at + forMs
    }
    return struck
  }
  return { set, striking }
}

/** The permanent faults of a traffic entry and its history events. Instants are epoch ms. */
export interface Fate {
  readonly visibleAt: number
  readonly defect: Defect | undefined
  /** of its history events, if any */
  readonly historyAt: number
  readonly historyDefect: HistoryDefect | undefined
}

/** For entry number `index`, of time `atMs`; by the switches and faults at its creation. */
export function fateOf(
  plans: FaultPlans,
  switches: Switches,
  seed: number,
  index: number,
  atMs: number,
): Fate {
  const drawn = (kind: 'entry' | 'event', after: number, late: FaultName, lateBy: number, salt: number) => {
    const struck = plans.striking(kind, index, atMs)
    const delay = struck.includes(late) ? below(dice(mix(seed, index) ^ salt), lateBy) + 1 : 0
    return { at: atMs + after + delay, defect: struck.find((name) => name !== late) }
  }
  const entry = drawn('entry', switches.visible_after, 'late', switches.late_by, 0)
  const { history_visible_after: after, history_late_by: lateBy } = switches
  const event = drawn('event', after, 'history_late', lateBy, 1)
  return {
    visibleAt: entry.at,
    defect: entry.defect as Defect | undefined,
    historyAt: event.at,
    historyDefect: event.defect as HistoryDefect | undefined,
  }
}
