// Which faults apply to which request or entry: decided by seed and ordinal, never by timing.
import { below, chanceOf, dice, mix, streamSeed } from './random.ts'
import { faultNames, faults } from './switches.ts'
import type { Defect, FaultName, FaultPlan, Faults, HistoryDefect, Switches } from './switches.ts'

const STORM_MS = 90_000

type Kind = (typeof faults)[FaultName]['kind']

export interface FaultBoard {
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

const nothing: FaultName[] = []

function strikes({ plan, seed, activeUntil }: Planned, ordinal: number, at: number): boolean {
  if (at < (plan.from ?? -Infinity) || at >= (plan.until ?? Infinity)) return false
  if (at < activeUntil || plan.nth?.includes(ordinal)) return true
  if (plan.rate !== undefined) return chanceOf(seed, ordinal) < plan.rate
  // A window without other conditions applies to everything in it.
  return plan.nth === undefined && (plan.from !== undefined || plan.until !== undefined)
}

export function openFaults(seed: number, initial: Faults): FaultBoard {
  const planned = new Map<FaultName, Planned>()

  const set = (name: FaultName, given: number | FaultPlan | undefined) => {
    if (given === undefined || given === 0) {
      planned.delete(name)
      return
    }
    const told: FaultPlan = typeof given === 'number' ? { rate: given } : given
    const plan = name === 'storm_429' ? { forMs: STORM_MS, ...told } : told
    planned.set(name, { plan, seed: streamSeed(seed, name), activeUntil: -Infinity })
  }
  for (const name of faultNames) set(name, initial[name])

  const striking = (kind: Kind, ordinal: number, at: number) => {
    if (planned.size === 0) return nothing
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

// Permanent faults of a traffic entry and its history events: when they become visible, and their defects.

/** Instants are epoch ms. */
export interface Fate {
  readonly visibleAt: number
  readonly defect: Defect | undefined
  /** of its history events, if any */
  readonly historyAt: number
  readonly historyDefect: HistoryDefect | undefined
}

/** For entry number `index`, which happened at `atMs`; with the switches and faults at its creation. */
export function fateOf(
  board: FaultBoard,
  switches: Switches,
  seed: number,
  index: number,
  atMs: number,
): Fate {
  let defect: Defect | undefined
  let visibleAt = atMs + switches.visible_after
  for (const struck of board.striking('entry', index, atMs)) {
    if (struck === 'late') visibleAt += below(dice(mix(seed, index)), switches.late_by) + 1
    else defect ??= struck as Defect
  }
  let historyDefect: HistoryDefect | undefined
  let historyAt = atMs + switches.history_visible_after
  for (const struck of board.striking('event', index, atMs)) {
    if (struck === 'history_late')
      historyAt += below(dice(mix(seed, index) ^ 1), switches.history_late_by) + 1
    else historyDefect ??= struck as HistoryDefect
  }
  return { visibleAt, defect, historyAt, historyDefect }
}
