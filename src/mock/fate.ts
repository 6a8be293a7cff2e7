// What befalls an entry of the traffic and its history events for good: when they show, and what is wrong with them.
import type { FaultBoard } from './faults.ts'
import { below, dice, mix } from './random.ts'
import type { Defect, HistoryDefect, Switches } from './switches.ts'

/** Instants are epoch ms. */
export interface Fate {
  readonly visibleAt: number
  readonly defect: Defect | undefined
  /** of its history events, if it has any */
  readonly historyAt: number
  readonly historyDefect: HistoryDefect | undefined
}

/** Of entry number `index`, which happened at `atMs`; switches and faults as they are when it is made. */
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
