// The contract between the loop of one sink (`loop.ts`) and what it drives, in batches or in objects.
import type { Clock, Random } from '../model/clock.ts'
import type { Journal, Run } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import type { Room } from '../model/room.ts'
import type { Format, Sink } from '../model/sink.ts'
import type { SinkWatch } from '../model/watch.ts'
import type { Redact } from './redact.ts'

/**
 * What came of a step. `worked`: something was done, and what failed before is over. `unproven`: something was done that
 * cannot show that, such as to pass over what nobody wants. A number: there was nothing to do, nor will be before so many
 * ms, unless more arrives.
 */
export type StepResult = 'worked' | 'unproven' | number

export interface Stepper {
  /** Throws ConnectorError when nothing could be settled; the same goes out again at the next call. */
  step(signal: AbortSignal): Promise<StepResult>
  /** ms until what is collected goes out, as the last step found it; undefined: nothing is collected. Absent: it never collects. */
  readonly collectsForMs?: number | undefined
  /** True while something is left to do beside what is owed, such as to testify it. Absent: never. */
  readonly unfinished?: boolean
  /** At a stop, behind the last step: notes what is heard still, until nothing more can be or `signal` aborts. Absent: there is nothing to hear. */
  hearOut?(signal: AbortSignal): Promise<void>
}

export interface LoopOptions {
  readonly sink: Pick<Sink, 'name' | 'probe'>
  readonly journal: Journal
  readonly watch: SinkWatch
  readonly log: Log
  readonly clock: Clock
  readonly random: Random
  /** True when nothing more will come: with nothing owed the loop ends. */
  readonly nothingMoreComes: () => boolean
  /** True when nothing more will come, or nothing before a person mends it: what waits to become more goes out at once. Absent: as `nothingMoreComes`. */
  readonly nothingDue?: () => boolean
}

export const waitsInVain = ({ nothingMoreComes, nothingDue = nothingMoreComes }: LoopOptions): boolean =>
  nothingDue()

/** What batches and objects have in common. */
export interface DeliveryOptions extends LoopOptions {
  readonly format: Format
  /** what of the journal this sink is to have */
  readonly wanted: (run: Run, index: number) => boolean
  /** what of an entry this sink may not see; absent: it sees all of it */
  readonly redact?: Redact | undefined
  /** hash of all settings that shape what goes out */
  readonly shape: string
  readonly room: Room
  /** How long what waits to become more may sleep before it looks again whether any more will come. */
  readonly lookAgainMs: number
}
