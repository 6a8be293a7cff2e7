// Messages to a RELP receiver: sends them, has each answered, and tells which are stored and which it refuses for good.
import type { Clock } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Outcome } from '../../model/sink.ts'
import type { Connection } from '../../model/socket.ts'
import { LARGEST_TXNR } from './relp-frame.ts'
import { OK } from './relp-replies.ts'
import { RelpSession, type SessionSettings } from './relp-session.ts'
import { Verdict } from './relp-verdict.ts'

export interface RelpSettings {
  /** host:port, for what an operator reads */
  readonly where: string
  /** A new connection, its TLS handshake done. Throws as `Connect` does. */
  readonly connect: (signal: AbortSignal) => Promise<Connection>
  readonly clock: Clock
  /** messages without an answer at any moment; RELP_WINDOW unless told */
  readonly window?: number
  /** how long a stop waits for the answers that are under way; 1000 unless told */
  readonly graceMs?: number
  /** highest number of a session; for tests */
  readonly largestTxnr?: number
}

export const RELP_WINDOW = 128
const GRACE_MS = 1_000
/** Before each further try of what was refused. */
const PAUSES_MS = [1_000, 3_000]
const RENEW_MS = 5_000

/** A link keeps one session open from one delivery to the next, and opens another when that one broke. */
export class RelpLink {
  readonly #settings: RelpSettings
  readonly #session: SessionSettings
  #open: RelpSession | undefined
  /** what the last call ended with */
  #told: ConnectorError | undefined
  /** A message that the receiver took: sent again, it tells a refused message from a receiver that refuses everything. */
  #known: Uint8Array | undefined

  constructor(settings: RelpSettings) {
    const { where, clock, window = RELP_WINDOW, graceMs = GRACE_MS, largestTxnr = LARGEST_TXNR } = settings
    this.#settings = settings
    this.#session = { where, clock, window, graceMs, largestTxnr }
  }

  /** Connects and opens a session, unless one is open. Throws ConnectorError. */
  async open(signal: AbortSignal): Promise<void> {
    await this.#ready(1, signal)
  }

  /**
   * As Sink.deliver: the first `settled` messages are stored there, or refused for good by name (`refused`, below `settled`);
   * throws ConnectorError where nothing could be settled. Opens a session where there is none. One call at a time.
   * A crash repeats at most what one call was given: a caller that gives no more than the window repeats no more than the window.
   */
  async send(messages: readonly Uint8Array[], signal: AbortSignal): Promise<Outcome> {
    const verdict = new Verdict(messages.length)
    while (!verdict.decided) {
      try {
        await this.#try(messages, verdict, signal)
      } catch (error) {
        if (!(error instanceof ConnectorError)) throw error
        this.#told = verdict.outcome().settled === 0 ? error : undefined
        return verdict.outcomeOr(error)
      }
    }
    if (!verdict.settled) return verdict.outcomeOr(this.#refusal(verdict.firstRefusal))
    return verdict.outcome()
  }

  /** Sends what is pending, once. Throws where not all of it was answered. */
  async #try(messages: readonly Uint8Array[], verdict: Verdict, signal: AbortSignal): Promise<void> {
    const pauseMs = PAUSES_MS[verdict.tries - 1]
    if (pauseMs !== undefined) await this.#settings.clock.sleep(pauseMs, signal)
    const session = await this.#ready(verdict.pending.length + 1, signal)
    const round = verdict.pending.map((index) => messages[index] as Uint8Array)
    if (verdict.lastTryNext && verdict.doubted && this.#known) round.push(this.#known)
    const codes = await session.send(round, signal)
    const taken = round[codes.lastIndexOf(OK)]
    // A Buffer's own slice is a view of bytes that the next batches are written over.
    if (taken) this.#known = new Uint8Array(taken)
    verdict.note(codes)
    const whole = !codes.includes(0)
    if (whole) return
    // Not all answered: what is silent must not count as a try.
    verdict.tries = 0
    throw session.fault ?? this.#stopped()
  }

  async #ready(count: number, signal: AbortSignal): Promise<RelpSession> {
    if (signal.aborted) throw this.#stopped()
    const open = this.#open
    if (open && !open.fault && open.hasRoomFor(count)) return open
    this.#open = undefined
    await open?.close(RENEW_MS)
    if (open?.noisy && open.fault && open.fault !== this.#told) throw open.fault
    const connection = await this.#settings.connect(signal)
    this.#open = await RelpSession.open(connection, this.#session, signal)
    return this.#open
  }

  #refusal(code: number): ConnectorError {
    const what = `answers ${code}: it is there, but stores nothing; see its own log (a full queue or disk?)`
    return new ConnectorError('server_error', `${this.#settings.where}: ${what}`)
  }

  #stopped(): ConnectorError {
    return new ConnectorError('aborted', `${this.#settings.where}: stopped before it answered`)
  }

  /** Ends the session in RELP's own way within `ms`, else at once. Never throws; `send` after it opens a new one. */
  async close(ms: number): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.close(ms)
  }
}
