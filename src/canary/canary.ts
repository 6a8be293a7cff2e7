// Canary loop: sends one tiny prompt at intervals, and records when its traces arrive, from the API
// to each sink. It reads only entries that the readers pass to it.
import { Tether } from '../core/abort.ts'
import type { Random } from '../core/clock.ts'
import { believed, randomDigits } from '../core/clock.ts'
import type { Entries } from '../contracts/entries.ts'
import { ConnectorError, isRetried } from '../core/errors.ts'
import type { DeadLetters, HasState, Totals } from '../contracts/journal.ts'
import type { KeyWait } from '../core/key-waits.ts'
import type { Seq } from '../core/sequence.ts'
import { FailureBackoff, backoffMs } from '../core/backoff.ts'
import { awaited, CanaryStore, acknowledgedBy, stageOf } from './round.ts'
import { Judge, type JudgeOptions } from './judge.ts'
import type { CanaryMemory, Round } from './round.ts'
import { traceIn } from './traces.ts'
import type { TraceSource } from './traces.ts'

/** Interval for checking sinks while the trace is pending at one of them. */
const CHECK_MS = 1_000
/** Until a source has caught up, its trace would come after everything left to read. */
const NOT_READY_MS = 30_000
const RETRY_BASE_MS = 60_000
/** How far an event's own time may differ from its prompt: whole seconds, and a slow server. */
const BEFORE_MS = 5_000
const AFTER_MS = 60_000

/** @internal for tests */
export interface CanaryQuestion {
  readonly prompt: string
  /** the User-Agent suffix after our instance id */
  readonly mark: string
}

export interface CanaryOptions extends JudgeOptions {
  readonly workspace: string
  readonly intervalMs: number
  /**
   * Resolves when the answer is complete, with the server's clock (epoch ms) if it sent one. Throws
   * ConnectorError.
   */
  readonly ask: (question: CanaryQuestion, signal: AbortSignal) => Promise<number | undefined>
  /** all sources have caught up, except those that cannot read */
  readonly ready: () => Promise<boolean>
  readonly journal: DeadLetters & HasState & Totals
  readonly random: Random
  /** for the key of the prompts; absent: it shares the key with no other part */
  readonly keyWait?: KeyWait | undefined
}

export class Canary {
  readonly #options: CanaryOptions
  readonly #judge: Judge
  readonly #store: CanaryStore
  readonly #failures: FailureBackoff
  #memory: CanaryMemory | undefined
  /** the prompt failed in this process: the next try need not wait for its interval */
  #retryNow = false
  #noticed = false
  #wake: () => void = () => undefined

  constructor(options: CanaryOptions) {
    this.#options = options
    this.#judge = new Judge(options)
    this.#store = new CanaryStore(options.journal.state, options.workspace)
    this.#failures = new FailureBackoff(() => options.clock.elapsed())
  }

  /**
   * Entries that landed or were known already; none of them is after `last` in the journal. Never
   * waits or throws.
   */
  notice(source: TraceSource, entries: Entries, last: Seq): void {
    const memory = this.#memory
    const round = memory?.round
    if (!memory || !round || round.over || round.traces[source]) return
    const { nonce, sentAt, answered } = round
    const madeUs = answered && { from: answered.fromUs, to: answered.toUs }
    const found = traceIn(source, entries, { nonce, sentAt, madeUs, user: memory.user })
    if (!found) return
    const at = this.#options.clock.now()
    memory.user = found.user ?? memory.user
    round.traces[source] = { at, seq: last, id: found.id }
    this.#judge.seen({ stage: stageOf[source] }, round, at)
    this.#noticed = true
    this.#wake()
  }

  /**
   * Prompts when due and checks the traces of the last prompt; returns the ms until the next call.
   * Throws ConnectorError.
   */
  async step(signal: AbortSignal): Promise<number> {
    this.#noticed = false
    const memory = (this.#memory ??= await this.#load())
    const { reporter, ready } = this.#options
    const { round } = memory
    if (round?.answered && !round.over) {
      const isOver = await this.#checkSinks(memory, round)
      await this.#store.save(memory)
      if (!isOver) return this.#restMs(round)
    }
    const waitMs = this.#dueInMs(round)
    const isDue = waitMs <= 0
    if (isDue && (await ready())) {
      await this.#ask(memory, signal)
      return 0
    }
    reporter.state('idle', undefined, isDue ? undefined : waitMs)
    return isDue ? NOT_READY_MS : waitMs
  }

  /** Runs until `signal` aborts. Throws only errors that end all loops. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, keyWait } = this.#options
    const stopped = () => signal.aborted
    while (!stopped()) {
      try {
        const waitMs = await this.step(signal)
        if (waitMs > 0) await this.#rest(waitMs, signal)
      } catch (error) {
        if (stopped()) return
        const delayMs = this.#delayAfter(error)
        const isBlocked = error instanceof ConnectorError && error.action === 'block'
        await (isBlocked && keyWait ? keyWait : clock).sleep(delayMs, signal)
      }
    }
  }

  /** Logs why no prompt was sent; returns how long to wait. Throws what waiting cannot fix. */
  #delayAfter(error: unknown): number {
    if (!isRetried(error)) throw error
    const { log, reporter, random, intervalMs } = this.#options
    const { count, logDue } = this.#failures.next(error)
    const { code, message, action } = error
    if (logDue)
      log.warn('The canary prompt failed and will be retried', { code, error: message, attempt: count })
    const span = { baseMs: RETRY_BASE_MS, capMs: Math.max(RETRY_BASE_MS, intervalMs) }
    const delayMs = Math.max(error.retryAfterMs ?? 0, backoffMs(count, span, random))
    reporter.state(action === 'block' ? 'blocked' : 'failing', error, delayMs)
    return delayMs
  }

  async #rest(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#noticed) return
    const tether = new Tether(signal)
    const woken = new Promise<void>((resolve) => (this.#wake = resolve))
    await Promise.race([this.#options.clock.sleep(ms, tether.signal), woken])
    tether.close()
  }

  async #load(): Promise<CanaryMemory> {
    const memory = await this.#store.load()
    this.#judge.remember(memory)
    return memory
  }

  #dueInMs(round: Round | undefined): number {
    const { clock, intervalMs } = this.#options
    if (!round || this.#retryNow) return 0
    const now = clock.now()
    return believed(round.sentAt + intervalMs, intervalMs, now) - now
  }

  async #ask(memory: CanaryMemory, signal: AbortSignal): Promise<void> {
    const { clock, random, ask, log } = this.#options
    const nonce = `c${randomDigits(random, 20)}`
    const sentAt = clock.now()
    const round: Round = { nonce, sentAt, traces: {}, delivered: {}, parked: [], over: false }
    memory.round = round
    // Stored first: after a crash during the request the next prompt still waits for its interval.
    await this.#store.save(memory)
    const from = clock.elapsed()
    let serverAt: number | undefined
    try {
      serverAt = await ask(
        { prompt: `Answer with the word OK only. ${nonce}`, mark: `canary ${nonce}` },
        signal,
      )
    } catch (error) {
      this.#retryNow = true
      round.over = true
      throw error
    }
    this.#retryNow = false
    if (this.#failures.succeeded()) log.info('Canary prompts succeed again')
    const tookMs = clock.elapsed() - from
    const answeredAt = serverAt ?? sentAt + tookMs
    round.answered = {
      tookMs,
      fromUs: (answeredAt - tookMs - BEFORE_MS) * 1000,
      toUs: (answeredAt + AFTER_MS) * 1000,
    }
    this.#judge.seen({ stage: 'request' }, round, sentAt + tookMs)
    this.#judge.promptAnswered(memory)
    await this.#store.save(memory)
  }

  async #checkSinks(memory: CanaryMemory, round: Round): Promise<boolean> {
    const { journal, clock, sinks } = this.#options
    for (const name of await acknowledgedBy(round, sinks, journal)) {
      const at = clock.now()
      round.delivered[name] = at
      this.#judge.seen({ stage: 'delivered', sink: name }, round, at)
    }
    this.#judge.judge(memory, round)
    return round.over
  }

  #restMs(round: Round): number {
    if (awaited(round, this.#options.sinks).length > 0) return CHECK_MS
    return Math.max(1, round.sentAt + this.#options.boundMs - this.#options.clock.now())
  }
}
