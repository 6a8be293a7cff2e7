// Delivery loop: runs the steps of one sink's dispatcher, waits if there is nothing to do, and
// decides what an error means.
import type { ChunkSlice, DeliveryQueue, HasState, Totals } from '../contracts/journal.ts'
import type { SinkReporter } from '../contracts/reporter.ts'
import type { Format, Sink } from '../contracts/sink.ts'
import { Tether, orAborted, turns } from '../core/abort.ts'
import { FailureBackoff, backoffMs, logFailure } from '../core/backoff.ts'
import type { Clock, Random } from '../core/clock.ts'
import type { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { MemoryBudget } from '../core/memory-budget.ts'
import type { Redact } from './redact.ts'

/** Steps over unwanted entries never wait: yield to the rest of the process at least this often. */
const TURN_MS = 200

/**
 * Delivers until `signal` aborts, or until nothing more will come and nothing is pending. A running
 * step then completes and answers are awaited, so that no possible duplicates remain, unless `cut`
 * aborts too. Throws only errors that end all loops.
 */
export async function runDispatcher(
  dispatcher: Dispatcher,
  options: LoopOptions,
  signal: AbortSignal,
  cut: AbortSignal = signal,
): Promise<void> {
  const failures = new FailureBackoff(() => options.clock.elapsed())
  const othersTurn = turns(options.clock, TURN_MS, signal)
  const stopped = () => signal.aborted
  while (!stopped()) {
    try {
      const result = await dispatcher.step(cut)
      if (result !== 'unproven' && failures.succeeded()) options.log.info('Delivery continues')
      if (typeof result !== 'number') {
        await othersTurn()
        continue
      }
      const { collectsForMs } = dispatcher
      if (collectsForMs === undefined) options.reporter.state('idle')
      else options.reporter.state('collecting', undefined, collectsForMs)
      if (result === Infinity && options.nothingMoreComes()) break
      await waitForMore(options, result, signal)
    } catch (error) {
      if (stopped()) break
      await options.clock.sleep(delayAfter(options, error, failures), signal)
    }
  }
  await dispatcher.awaitConfirmations?.(cut)
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

const BLOCKED_TEXT =
  'Delivery is blocked until this is fixed: entries stay in the journal, and it is retried automatically'

const texts = { failed: 'Delivery failed and will be tried again', blocked: BLOCKED_TEXT }

/** Logs the error; returns how long until the next try. Throws errors that waiting cannot fix. */
function delayAfter(
  { reporter, log, random }: LoopOptions,
  error: unknown,
  failures: FailureBackoff,
): number {
  const { failure, delayMs } = logFailure(log, texts, failures, error, (failure, count) =>
    retryDelayMs(failure, count, random),
  )
  reporter.retry(failure.code)
  reporter.state(failure.action === 'block' ? 'blocked' : 'failing', failure, delayMs)
  return delayMs
}

// How long a sink waits after an error before the next try, by the kind of error.

const RETRY = { baseMs: 1_000, capMs: 30_000 }
const BLOCKED = { baseMs: 10_000, capMs: 60_000 }

function retryDelayMs({ action, retryAfterMs = 0 }: ConnectorError, count: number, random: Random): number {
  // A blocked sink needs a person, so a retry hint is not trusted for long.
  if (action === 'block')
    return Math.max(Math.min(retryAfterMs, BLOCKED.capMs), backoffMs(count, BLOCKED, random))
  return Math.max(retryAfterMs, backoffMs(count, RETRY, random))
}

// Probes a receiver at the start, in parallel with deliveries, so that a fault shows before the
// first entries are due.

const probeTexts = { failed: 'The receiver is not ready and will be asked again', blocked: BLOCKED_TEXT }

/**
 * Runs until the receiver is ready, a delivery is over, or `signal` aborts. Throws only errors that
 * end all loops.
 */
export async function probe(
  { sink, reporter, log, clock, random }: LoopOptions,
  signal: AbortSignal,
): Promise<void> {
  if (!sink.probe) return
  const failures = new FailureBackoff(() => clock.elapsed())
  const over = () => signal.aborted || reporter.tried()
  while (!over()) {
    try {
      // A hanging disk does not react to the signal.
      await orAborted(sink.probe(signal), signal)
      reporter.probed()
      if (failures.succeeded()) log.info('The receiver is ready')
      return
    } catch (error) {
      if (over()) return
      const { failure, delayMs } = logFailure(log, probeTexts, failures, error, (failure, count) =>
        retryDelayMs(failure, count, random),
      )
      reporter.probed(failure, delayMs)
      await clock.sleep(delayMs, signal)
    }
  }
}

// The contract between the delivery loop of one sink and its dispatcher, for batches or
// objects.

/**
 * Result of a step. `worked`: something was done, and earlier failures are over. `unproven`:
 * something was done that does not prove the receiver works, such as skipping unwanted entries. A
 * number: nothing to do for so many ms unless more entries arrive.
 */
export type StepResult = 'worked' | 'unproven' | number

export interface Dispatcher {
  /** Throws ConnectorError if nothing could be acknowledged; the next call sends the same again. */
  step(signal: AbortSignal): Promise<StepResult>
  /**
   * ms until collected entries are sent, as of the last step; undefined: nothing is collected.
   * Absent: never collects.
   */
  readonly collectsForMs?: number | undefined
  /** True while other work than pending entries is left, such as manifests. Absent: never. */
  readonly unfinished?: boolean
  /**
   * At a stop, after the last step: records answers that still arrive, until none can or `signal`
   * aborts. Absent: there are none.
   */
  awaitConfirmations?(signal: AbortSignal): Promise<void>
}

export interface LoopOptions {
  readonly sink: Pick<Sink, 'name' | 'probe'>
  readonly journal: DeliveryQueue & HasState & Totals
  readonly reporter: SinkReporter
  readonly log: Log
  readonly clock: Clock
  readonly random: Random
  /** True if nothing more will come: the loop ends once nothing is pending. */
  readonly nothingMoreComes: () => boolean
  /**
   * True if nothing more will come, or not before a person fixes something: collected entries are
   * sent at once. Absent: as `nothingMoreComes`.
   */
  readonly nothingDue?: () => boolean
}

export const sendsAtOnce = ({ nothingMoreComes, nothingDue = nothingMoreComes }: LoopOptions): boolean =>
  nothingDue()

/** Common to batches and objects. */
export interface DeliveryOptions extends LoopOptions {
  readonly format: Format
  /** which entries of the journal this sink wants */
  readonly wanted: (slice: ChunkSlice, index: number) => boolean
  /** which parts of an entry this sink may not see; absent: it sees all */
  readonly redact?: Redact | undefined
  /** hash of all settings that shape the bytes sent */
  readonly shape: string
  readonly memory: MemoryBudget
  /** How long collecting may sleep before it checks again whether more entries will come. */
  readonly lookAgainMs: number
}
