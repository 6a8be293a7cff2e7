// Ingest loop: requests the next page of a source, appends it to the journal, and decides what an
// error means. Only the loop waits.
import type { Append, HasPressure, Intake } from '../contracts/journal.ts'
import type { StreamReporter } from '../contracts/reporter.ts'
import type { Appended, Cursor, PageChunk, Source } from '../contracts/source.ts'
import { LogThrottle, FailureBackoff, backoffMs, logFailure } from '../core/backoff.ts'
import type { Clock, Random } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { KeyWait } from '../core/key-waits.ts'
import type { Log } from '../core/log.ts'
import type { ReadTimes } from './read-times.ts'

/** While the journal is full, it is checked this often for room. */
const PAUSED_MS = 1_000
/**
 * If the journal fills up in the middle of an answer, the socket is kept open this long; then the
 * answer is abandoned.
 */
const FULL_WAIT_MS = 30_000
export interface IngestOptions {
  readonly source: Source
  readonly journal: Intake
  readonly reporter: StreamReporter
  readonly log: Log
  readonly clock: Clock
  readonly random: Random
  /** filter on `type`: unwanted entries are counted and not stored */
  readonly wanted: (type: string) => boolean
  /** stop when the source reports that it has read everything available */
  readonly once: boolean
  /** where the time of the last successful read is stored; absent: nowhere */
  readonly reads?: ReadTimes
  /** for the log, while the journal is full; absent: its own limit is reached */
  readonly pausedText?: string
  /** for the key of the source; absent: it shares the key with no other part */
  readonly keyWait?: KeyWait | undefined
  /** throttles the log lines on foreign fetches and malformed elements; absent: logs each time */
  readonly foreignThrottle?: LogThrottle
  readonly malformedThrottle?: LogThrottle
}

interface IngestResult {
  /** to continue from */
  readonly cursor: Cursor | undefined
  /** the fault of the page, whose cursor counts it and has landed all the same; undefined: none */
  readonly fault: ConnectorError | undefined
}

/**
 * One step: reads once and stores the result. Throws ConnectorError; parts of the page that had
 * landed are known then, so reading it again adds no duplicates.
 * @internal the loop's step, for tests
 */
export async function ingestOnce(
  options: IngestOptions,
  cursor: Cursor | undefined,
  signal: AbortSignal,
  landed: (cursor: Cursor | undefined) => void = () => undefined,
): Promise<IngestResult> {
  const parts = options.source.read(cursor, signal)
  let fault: ConnectorError | undefined
  let stored = false
  // A separate call, so that a stored part is not referenced while the next one arrives.
  const appendNext = async (appended?: Appended): Promise<Appended | undefined> => {
    const next = await (appended ? parts.next(appended) : parts.next())
    if (next.done) return undefined
    const part = next.value
    fault ??= part.fault
    const state = options.reads?.state(isGoodEnd(part) && !fault, part.gaps)
    const now = await (stored ? appendOrWait(options, part, state, signal) : append(options, part, state))
    stored = true
    cursor = part.cursor ?? cursor
    landed(cursor)
    return now
  }
  try {
    for (let appended = await appendNext(); appended; appended = await appendNext(appended))
      await yieldToDeliveries(options, signal)
  } finally {
    // Ends the request of a page that we could not store; its permit is returned.
    await parts.return(undefined)
  }
  if (!fault) options.reporter.success()
  return { cursor, fault }
}

const isGoodEnd = ({ cursor, underWay }: PageChunk): boolean => cursor !== undefined && underWay !== true

/**
 * For a later part of an answer that is partly stored: if there is no room, waits a while with the
 * socket open, since abandoning it means requesting everything again.
 */
async function appendOrWait(
  options: IngestOptions,
  part: PageChunk,
  state: Append['state'],
  signal: AbortSignal,
): Promise<Appended> {
  const { clock, reporter } = options
  const giveUpAt = clock.elapsed() + FULL_WAIT_MS
  for (let hasWaited = false; ; hasWaited = true) {
    try {
      const appended = await append(options, part, state)
      if (hasWaited) reporter.state('reading')
      return appended
    } catch (error) {
      const full = error instanceof ConnectorError && error.action === 'pause'
      if (!full || signal.aborted || clock.elapsed() >= giveUpAt) throw error
      reporter.state('paused', error)
      await clock.sleep(PAUSED_MS, signal)
    }
  }
}

async function append(
  { source, journal, reporter, log, wanted, foreignThrottle, malformedThrottle }: IngestOptions,
  part: PageChunk,
  state: Append['state'],
) {
  const { entries, quarantined, findings, headUs, cursor, gaps } = part
  const appended = await journal.append({
    stream: source.stream,
    entries,
    quarantined,
    findings,
    headUs,
    cursor,
    gaps,
    wanted,
    state,
    // Warnings from a failed response are repeated on the retry.
    ...((part.void ?? part.fault) && { void: part.void ?? ('answer' as const) }),
  })
  reporter.appended(appended)
  if (gaps > 0) reporter.gap(gaps)
  const elements = dueCount(malformedThrottle, appended.quarantined)
  if (elements > 0)
    log.warn(
      'Malformed elements are quarantined: they are kept as bytes and not delivered (auditferry quarantine list)',
      { elements },
    )
  const fetches = dueCount(foreignThrottle, appended.findings)
  if (fetches > 0)
    log.warn(
      'The audit log was fetched with the user of this key, but not by this instance: by another tool, another key of that user, a stolen key, or `validate --connect` while no daemon ran. Name known tools in expected_user_agents; rotate the key if you know no such tool',
      { fetches },
    )
  return appended
}

const dueCount = (throttle: LogThrottle | undefined, amount: number) =>
  throttle ? throttle.next(amount) : amount

/**
 * Reads until `signal` aborts, or, with `once`, until the source has read everything. Throws only
 * errors that end all loops.
 */
export async function runIngest(options: IngestOptions, signal: AbortSignal): Promise<void> {
  const { source, journal, reporter, clock, once, keyWait } = options
  const throttle = () => new LogThrottle(() => clock.elapsed())
  const reader = { ...options, foreignThrottle: throttle(), malformedThrottle: throttle() }
  const failures = new FailureBackoff(() => clock.elapsed())
  let cursor = await storedCursor(options, failures, signal)
  const pauses = new Pauses(options)
  const stopped = () => signal.aborted
  let isBlocked = false
  while (!stopped()) {
    const plan = source.plan(cursor)
    if (once && plan.caughtUp) return
    if (journal.pressure().full) {
      await clock.sleep(pauses.begin(), signal)
      continue
    }
    pauses.end()
    const waitMs = plan.dueAt - clock.now()
    if (waitMs > 0) {
      reporter.state('idle')
      await clock.sleep(waitMs, signal)
      continue
    }
    try {
      // Also of a read that fails later, such as the start of the very first one.
      const collected = await ingestOnce(reader, cursor, signal, (landed) => (cursor = landed))
      if (collected.fault) throw collected.fault
      if (failures.succeeded()) options.log.info('Reading resumed')
      if (isBlocked) keyWait?.accepted()
      isBlocked = false
    } catch (error) {
      if (stopped()) return
      const isJournalFull = error instanceof ConnectorError && error.code === 'journal_full'
      const delayMs = isJournalFull ? pauses.begin(error) : delayAfter(options, error, failures)
      isBlocked = error instanceof ConnectorError && error.action === 'block'
      await (isBlocked && keyWait ? keyWait : clock).sleep(delayMs, signal)
    }
  }
}

/** Waits while the database of the journal is not available. */
async function storedCursor(
  options: IngestOptions,
  failures: FailureBackoff,
  signal: AbortSignal,
): Promise<Cursor | undefined> {
  while (!signal.aborted) {
    try {
      await options.reads?.recall()
      return await options.journal.cursor(options.source.stream)
    } catch (error) {
      await options.clock.sleep(delayAfter(options, error, failures), signal)
    }
  }
  return undefined
}

const PAUSED_TEXT = 'Reading is paused: undelivered entries have reached journal.max_bytes'

const atBound = new ConnectorError(
  'journal_full',
  'nothing is lost, and reading resumes when the sinks have delivered. auditferry status names the sink that is behind',
)

/** Pauses of one reader while the journal is full. */
class Pauses {
  readonly #options: IngestOptions
  readonly #failures: FailureBackoff
  #underWay = false

  constructor(options: IngestOptions) {
    this.#options = options
    this.#failures = new FailureBackoff(() => options.clock.elapsed())
  }

  /** Logs a new pause; returns how long until the next check. `error`: the journal's. */
  begin(error?: ConnectorError): number {
    const { log, reporter, pausedText: text = PAUSED_TEXT } = this.#options
    if (!this.#underWay) {
      const { count, logDue } = this.#failures.next(atBound)
      if (logDue) log.warn(text, { code: atBound.code, error: atBound.message, attempt: count })
    }
    this.#underWay = true
    reporter.state('paused', error)
    return PAUSED_MS
  }

  /** Call whenever there is room: a flapping state is logged only once it has lasted. */
  end(): void {
    this.#underWay = false
    if (this.#failures.succeeded()) this.#options.log.info('The journal has room again: reading resumes')
  }
}

const texts = {
  failed: 'Reading failed and will be retried',
  blocked: 'Reading is blocked until this is fixed; it is retried automatically',
}

/** Logs the error; returns how long until the next try. Throws errors that waiting cannot fix. */
function delayAfter(
  { reporter, log, random }: IngestOptions,
  error: unknown,
  failures: FailureBackoff,
): number {
  const { failure, delayMs } = logFailure(log, texts, failures, error, (failure, count) =>
    retryDelayMs(failure, count, random),
  )
  const { action, code } = failure
  const state = action === 'pause' ? 'paused' : action === 'block' ? 'blocked' : 'failing'
  reporter.state(state, failure, code === 'rate_limited' ? undefined : delayMs)
  return delayMs
}

// Backpressure: ingest yields to deliveries that are close behind, so that their entries are still
// cached and need not be read from disk.

/** Upper bound: the journal caches 8 MiB of chunks in memory. */
const NEAR_BYTES = 4 * 1024 * 1024
/** A sink further behind reads from disk in any case. */
const FAR_BYTES = 16 * 1024 * 1024
const CHECK_MS = 1
/** A stalled sink, or one that collects for an object, costs a page at most this many checks. */
const MAX_CHECKS = 25

/**
 * Await after each stored part. Measured on drains without a limit: 7 % less CPU time. Ends when
 * `signal` aborts.
 * @internal for tests
 */
export async function yieldToDeliveries(
  { journal, clock }: { readonly journal: HasPressure; readonly clock: Clock },
  signal: AbortSignal,
): Promise<void> {
  for (let check = 0; check < MAX_CHECKS && !signal.aborted; check++) {
    const { bytes } = journal.pressure()
    if (bytes <= NEAR_BYTES || bytes > FAR_BYTES) return
    await clock.sleep(CHECK_MS, signal)
  }
}

// How long a reader waits after an error before the next request, by the kind of error.

const RETRY = { baseMs: 1_000, capMs: 5 * 60_000 }
/** The API answers, only badly: another request helps, not a long wait. */
const BAD_REPLY = { baseMs: 1_000, capMs: 5_000 }
const BLOCKED = { baseMs: 15_000, capMs: 60_000 }
/** Only writing tests the space on a disk, and each try costs a request, itself an entry. */
const FULL_DISK = { baseMs: 1_000, capMs: 60_000 }

function retryDelayMs({ action, code, retryAfterMs }: ConnectorError, count: number, random: Random): number {
  if (action === 'pause') return backoffMs(count, FULL_DISK, random)
  if (action === 'block') return blockedDelayMs(retryAfterMs) ?? backoffMs(count, BLOCKED, random)
  // The rate limiter itself waits for the end of a rate limit.
  if (code === 'rate_limited') return 0
  return Math.max(retryAfterMs ?? 0, backoffMs(count, code === 'bad_reply' ? BAD_REPLY : RETRY, random))
}

/**
 * A retry hint neither delays a repaired key nor causes frequent retries of a refused one. An
 * immediate retry is our own decision: the key has changed.
 */
function blockedDelayMs(hintMs: number | undefined): number | undefined {
  if (hintMs === undefined || hintMs === 0) return hintMs
  return Math.min(Math.max(hintMs, BLOCKED.baseMs), BLOCKED.capMs)
}
