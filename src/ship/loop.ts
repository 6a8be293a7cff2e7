// The conductor of delivery: steps one sink's shipper, waits where there is nothing to do, and decides what an error means.
import { Tether } from '../model/abort.ts'
import { backoffMs } from '../model/backoff.ts'
import type { Clock, Random } from '../model/clock.ts'
import type { Journal, Run } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import type { Room } from '../model/room.ts'
import type { Format } from '../model/sink.ts'
import { Streak, tellFailure } from '../model/streak.ts'
import { turns } from '../model/turns.ts'
import type { SinkWatch } from '../model/watch.ts'
import type { Redact } from './redact.ts'

const RETRY = { baseMs: 1_000, capMs: 30_000 }
const HELD = { baseMs: 10_000, capMs: 60_000 }
/** Steps over what nobody wants have no wait in them: the rest of the process is served at least so often. */
const TURN_MS = 200

/**
 * `sent`: call again at once. `passed`: the same, and no sign that the receiver takes anything: all there was nobody wants.
 * A number: nothing to send before so many ms, unless more arrives.
 */
export type StepResult = 'sent' | 'passed' | number

/** What delivers to one sink, a step at a time: in batches, or in objects. */
export interface Stepper {
  /** Throws ConnectorError when nothing could be settled; the same goes out again at the next call. */
  step(signal: AbortSignal): Promise<StepResult>
  /** True while something is left to do beside what is owed, such as to testify it. Absent: never. */
  readonly unfinished?: boolean
  /** At a stop, behind the last step: notes what is heard still, until nothing more can be or `signal` aborts. Absent: there is nothing to hear. */
  hearOut?(signal: AbortSignal): Promise<void>
}

export interface LoopOptions {
  readonly sink: { readonly name: string }
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
      if (result !== 'passed' && streak.succeeded()) options.log.info('Delivery goes on again')
      if (typeof result !== 'number') {
        await othersTurn()
        continue
      }
      options.watch.state('idle')
      if (result === Infinity && options.nothingMoreComes()) return
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
  const held = failure.action === 'hold'
  watch.state(held ? 'held' : 'failing', failure)
  // Nobody knows how soon a person mends what is held: no hint about that is believed for long.
  const hintMs = Math.min(failure.retryAfterMs ?? 0, held ? HELD.capMs : Infinity)
  return Math.max(hintMs, backoffMs(count, held ? HELD : RETRY, random))
}
