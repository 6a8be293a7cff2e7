// The conductor of delivery: steps one sink's shipper, waits where there is nothing to do, and decides what an error means.
import type { Journal, Run } from '../contracts/journal.ts'
import type { SinkWatch } from '../contracts/reporter.ts'
import type { Format, Sink } from '../contracts/sink.ts'
import { Tether, turns } from '../core/abort.ts'
import { Streak, backoffMs, tellFailure } from '../core/backoff.ts'
import type { Clock, Random } from '../core/clock.ts'
import type { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Room } from '../core/memory-budget.ts'
import type { Redact } from './redact.ts'

/** Steps over what nobody wants have no wait in them: the rest of the process is served at least so often. */
const TURN_MS = 200

/**
 * Delivers until `signal` aborts, or until nothing more will come and nothing is owed. A step under way then comes to its
 * end, and what was sent is heard out, so that nothing stays in doubt, unless `cut` aborts too. Throws only what must stop the process.
 */
export async function ship(
  shipper: Stepper,
  options: LoopOptions,
  signal: AbortSignal,
  cut: AbortSignal = signal,
): Promise<void> {
  const streak = new Streak(() => options.clock.elapsed())
  const othersTurn = turns(options.clock, TURN_MS, signal)
  const stopped = () => signal.aborted
  while (!stopped()) {
    try {
      const result = await shipper.step(cut)
      if (result !== 'unproven' && streak.succeeded()) options.log.info('Delivery continues')
      if (typeof result !== 'number') {
        await othersTurn()
        continue
      }
      const { collectsForMs } = shipper
      if (collectsForMs === undefined) options.watch.state('idle')
      else options.watch.state('collecting', undefined, collectsForMs)
      if (result === Infinity && options.nothingMoreComes()) break
      await waitForMore(options, result, signal)
    } catch (error) {
      if (stopped()) break
      await options.clock.sleep(delayAfter(options, error, streak), signal)
    }
  }
  await shipper.hearOut?.(cut)
}

async function waitForMore(
  { journal, sink, clock }: LoopOptions,
  waitMs: number,
  signal: AbortSignal,
): Promise<void> {
  const wait = new Tether(signal)
  const waits = [journal.arrival(sink.name, wait.signal)]
  if (waitMs !== Infinity) waits.push(clock.sleep(waitMs, wait.signal))
  await Promise.race(waits)
  wait.close()
}

/** Says what is wrong, and how long to wait before the next try. Throws what no waiting cures. */
function delayAfter({ watch, log, random }: LoopOptions, error: unknown, streak: Streak): number {
  const { failure, count } = tellFailure(log, 'Delivery failed and will be tried again', streak, error)
  watch.retry(failure.code)
  const delayMs = retryDelayMs(failure, count, random)
  watch.state(failure.action === 'hold' ? 'blocked' : 'failing', failure, delayMs)
  return delayMs
}

// How long a sink waits after an error before it is tried again, by what the error means.

const RETRY = { baseMs: 1_000, capMs: 30_000 }
const HELD = { baseMs: 10_000, capMs: 60_000 }

export function retryDelayMs(
  { action, retryAfterMs = 0 }: ConnectorError,
  count: number,
  random: Random,
): number {
  // Nobody knows how soon a person mends what is held: no hint about that is believed for long.
  if (action === 'hold') return Math.max(Math.min(retryAfterMs, HELD.capMs), backoffMs(count, HELD, random))
  return Math.max(retryAfterMs, backoffMs(count, RETRY, random))
}

// The contract between the loop of one sink (`loop.ts`) and what it drives, in batches or in objects.

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
