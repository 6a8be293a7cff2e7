// The conductor of reading: asks a source for its next page, hands it to the journal, and decides what an error means. The loop only waits.
import type { Append, Journal } from '../contracts/journal.ts'
import type { SourceWatch } from '../contracts/reporter.ts'
import type { Appended, Cursor, Part, Source } from '../contracts/source.ts'
import { Seldom, Streak, backoffMs, tellFailure } from '../core/backoff.ts'
import type { Clock, Random } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { KeyWait } from '../core/key-waits.ts'
import type { Log } from '../core/log.ts'
import type { KeptReads } from './read-times.ts'

/** While the journal is full its room is looked for this often. */
const PAUSED_MS = 1_000
/** A journal that fills up in the middle of an answer holds its socket so long, then the answer is given up. */
const FULL_HOLD_MS = 30_000
export interface CollectOptions {
  readonly source: Source
  readonly journal: Pick<Journal, 'append' | 'cursor' | 'stats'>
  readonly watch: SourceWatch
  readonly log: Log
  readonly clock: Clock
  readonly random: Random
  /** over `type`: what is not wanted is counted and not kept */
  readonly wanted: (type: string) => boolean
  /** stop when the source says that it has read all that was there */
  readonly once: boolean
  /** where it is kept when a read last succeeded; absent: nowhere */
  readonly reads?: KeptReads
  /** of the key that the source asks with; absent: it is shared with nobody */
  readonly keyWait?: KeyWait | undefined
  /** when foreign fetches, and malformed elements, were last told of; absent: each time */
  readonly foreignTold?: Seldom
  readonly malformedTold?: Seldom
}

interface Collected {
  /** to go on from */
  readonly cursor: Cursor | undefined
  /** what was bad about the page, whose cursor counts that and has landed all the same; undefined: nothing */
  readonly fault: ConnectorError | undefined
}

/**
 * One step: reads once and keeps what came. Throws ConnectorError; then whatever of the page had landed is known already, and
 * reading it again is free of duplicates.
 * @internal the loop's step, for tests
 */
export async function collectOnce(
  options: CollectOptions,
  cursor: Cursor | undefined,
  signal: AbortSignal,
): Promise<Collected> {
  const parts = options.source.read(cursor, signal)
  let fault: ConnectorError | undefined
  let kept = false
  // In a call of its own, so that nothing holds a part that is kept while the next one comes.
  const keepNext = async (appended?: Appended): Promise<Appended | undefined> => {
    const next = await (appended ? parts.next(appended) : parts.next())
    if (next.done) return undefined
    const part = next.value
    fault ??= part.fault
    const notes = options.reads?.notes(isGoodEnd(part) && !fault, part.gaps)
    const now = await (kept ? appendOrWait(options, part, notes, signal) : append(options, part, notes))
    kept = true
    cursor = part.cursor ?? cursor
    return now
  }
  try {
    for (let appended = await keepNext(); appended; appended = await keepNext(appended))
      await giveWay(options, signal)
  } finally {
    // Leaves the request of a page that we could not keep; its place in the budget comes back.
    await parts.return(undefined)
  }
  if (!fault) options.watch.success()
  return { cursor, fault }
}

const isGoodEnd = ({ cursor, underWay }: Part): boolean => cursor !== undefined && underWay !== true

/**
 * A later part of an answer of which some is kept already: where there is no room it waits a while with the socket open,
 * since giving up means asking for all of it again.
 */
async function appendOrWait(
  options: CollectOptions,
  part: Part,
  notes: Append['notes'],
  signal: AbortSignal,
): Promise<Appended> {
  const { clock, watch } = options
  const giveUpAt = clock.elapsed() + FULL_HOLD_MS
  for (let hasWaited = false; ; hasWaited = true) {
    try {
      const appended = await append(options, part, notes)
      if (hasWaited) watch.state('reading')
      return appended
    } catch (error) {
      const full = error instanceof ConnectorError && error.action === 'pause'
      if (!full || signal.aborted || clock.elapsed() >= giveUpAt) throw error
      watch.state('paused', error)
      await clock.sleep(PAUSED_MS, signal)
    }
  }
}

async function append(
  { source, journal, watch, log, wanted, foreignTold, malformedTold }: CollectOptions,
  part: Part,
  notes: Append['notes'],
) {
  const { entries, quarantined, findings, headUs, cursor, gaps } = part
  const appended = await journal.append({
    origin: source.origin,
    entries,
    quarantined,
    findings,
    headUs,
    cursor,
    gaps,
    wanted,
    notes,
    // What is told of an answer that ends badly is told again.
    ...((part.void ?? part.fault) && { void: part.void ?? ('answer' as const) }),
  })
  watch.appended(appended)
  if (gaps > 0) watch.gap(gaps)
  const elements = toTell(malformedTold, appended.quarantined)
  if (elements > 0)
    log.warn('Malformed elements are quarantined: they are kept as bytes and not delivered', { elements })
  const fetches = toTell(foreignTold, appended.findings)
  if (fetches > 0)
    log.warn(
      'The audit log was fetched with the user of this key, but not by this instance: by another tool, another key of that user, a stolen key, or `validate --connect` while no daemon ran. Name known tools in expected_user_agents; rotate the key if you know no such tool',
      { fetches },
    )
  return appended
}

const toTell = (seldom: Seldom | undefined, amount: number) => (seldom ? seldom.next(amount) : amount)

/** Reads until `signal` aborts, or, with `once`, until the source has read all. Throws only what must stop the process. */
export async function collect(options: CollectOptions, signal: AbortSignal): Promise<void> {
  const { source, journal, watch, clock, once, keyWait } = options
  await options.reads?.recall()
  const seldom = () => new Seldom(() => clock.elapsed())
  const reader = { ...options, foreignTold: seldom(), malformedTold: seldom() }
  let cursor = await journal.cursor(source.origin)
  const streak = new Streak(() => clock.elapsed())
  const pauses = new Pauses(options)
  const stopped = () => signal.aborted
  let isBlocked = false
  while (!stopped()) {
    const plan = source.plan(cursor)
    if (once && plan.caughtUp) return
    if (journal.stats().full) {
      await clock.sleep(pauses.begin(), signal)
      continue
    }
    pauses.end()
    const waitMs = plan.dueAt - clock.now()
    if (waitMs > 0) {
      watch.state('idle')
      await clock.sleep(waitMs, signal)
      continue
    }
    try {
      const collected = await collectOnce(reader, cursor, signal)
      cursor = collected.cursor
      if (collected.fault) throw collected.fault
      if (streak.succeeded()) options.log.info('Reading goes on again')
      if (isBlocked) keyWait?.accepted()
      isBlocked = false
    } catch (error) {
      if (stopped()) return
      const isFull = error instanceof ConnectorError && error.code === 'journal_full'
      const delayMs = isFull ? pauses.begin(error) : delayAfter(options, error, streak)
      isBlocked = error instanceof ConnectorError && error.action === 'hold'
      await (isBlocked && keyWait ? keyWait : clock).sleep(delayMs, signal)
    }
  }
}

const atBound = new ConnectorError(
  'journal_full',
  'what is not delivered yet has reached journal.max_bytes; it goes on by itself when the sinks catch up',
)

/** The pauses of one reader while the journal holds all that it may. */
class Pauses {
  readonly #options: CollectOptions
  readonly #streak: Streak
  #underWay = false

  constructor(options: CollectOptions) {
    this.#options = options
    this.#streak = new Streak(() => options.clock.elapsed())
  }

  /** Says so, where that is news, and how long to wait before the next look. `error`: what the journal refused with. */
  begin(error?: ConnectorError): number {
    const { log, watch } = this.#options
    if (!this.#underWay)
      tellFailure(
        log,
        'There is no room for the journal: reading pauses until there is some',
        this.#streak,
        atBound,
      )
    this.#underWay = true
    watch.state('paused', error)
    return PAUSED_MS
  }

  /** To be called whenever there is room: what flaps is told once it has lasted. */
  end(): void {
    this.#underWay = false
    if (this.#streak.succeeded())
      this.#options.log.info('There is room in the journal again: reading goes on')
  }
}

/** Says what is wrong, and how long to wait before the next try. Throws what no waiting cures. */
function delayAfter({ watch, log, random }: CollectOptions, error: unknown, streak: Streak): number {
  const { failure, count } = tellFailure(log, 'Reading failed and will be tried again', streak, error)
  const { action, code } = failure
  const delayMs = retryDelayMs(failure, count, random)
  const state = action === 'pause' ? 'paused' : action === 'hold' ? 'blocked' : 'failing'
  watch.state(state, failure, code === 'rate_limited' ? undefined : delayMs)
  return delayMs
}

// Reading gives way to deliveries that are close behind: what they come to soon is still at hand, and need not be read back from the disk.

/** Less is at hand all the same: the journal keeps 8 MiB of chunks in memory. */
const NEAR_BYTES = 4 * 1024 * 1024
/** Who is further behind reads from the disk in any case. */
const FAR_BYTES = 16 * 1024 * 1024
const LOOK_MS = 1
/** A sink that stands still, or collects for an object, costs a page no more than so many looks. */
const LOOKS = 25

interface GivingWay {
  readonly journal: Pick<Journal, 'stats'>
  readonly clock: Clock
}

/** To be awaited behind each part that was kept. Measured on drains without a limit: 7 % of the CPU time less. Ends when `signal` aborts. @internal for tests */
export async function giveWay({ journal, clock }: GivingWay, signal: AbortSignal): Promise<void> {
  for (let look = 0; look < LOOKS && !signal.aborted; look++) {
    const { bytes } = journal.stats()
    if (bytes <= NEAR_BYTES || bytes > FAR_BYTES) return
    await clock.sleep(LOOK_MS, signal)
  }
}

// How long a reader waits after an error before it asks again, by what the error means.

const RETRY = { baseMs: 1_000, capMs: 5 * 60_000 }
/** The other side answers, only badly: what helps is another look, not a long wait. */
const BAD_REPLY = { baseMs: 1_000, capMs: 5_000 }
const HELD = { baseMs: 15_000, capMs: 60_000 }
/** A disk's room can only be tried, and each try costs a request that is itself an entry. */
const FULL_DISK = { baseMs: 1_000, capMs: 60_000 }

function retryDelayMs({ action, code, retryAfterMs }: ConnectorError, count: number, random: Random): number {
  if (action === 'pause') return backoffMs(count, FULL_DISK, random)
  if (action === 'hold') return heldMs(retryAfterMs) ?? backoffMs(count, HELD, random)
  // The budget itself waits out a rate limit.
  if (code === 'rate_limited') return 0
  return Math.max(retryAfterMs ?? 0, backoffMs(count, code === 'bad_reply' ? BAD_REPLY : RETRY, random))
}

/** No hint of a server's keeps a repaired key waiting, or has a refused one asked for again and again. At once is our own word: the key has changed. */
function heldMs(hintMs: number | undefined): number | undefined {
  if (hintMs === undefined || hintMs === 0) return hintMs
  return Math.min(Math.max(hintMs, HELD.baseMs), HELD.capMs)
}
