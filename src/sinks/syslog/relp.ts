// Sends messages to a RELP receiver, collects the answers, and returns which are stored and which
// are rejected for good.
import type { Connection } from '../../contracts/platform.ts'
import type { CheckResult, Lines, Outcome, Rejection } from '../../contracts/sink.ts'
import { Tether, orAborted } from '../../core/abort.ts'
import { ConnectorError } from '../../core/errors.ts'
import { messagesIn } from './frame.ts'
import { LARGEST_TXNR, OK } from './relp-replies.ts'
import { RelpSession } from './relp-session.ts'
import type { SessionSettings } from './relp-session.ts'
import { CONNECT_MS } from './session.ts'
import type { Delivered, Session, SessionOptions } from './session.ts'

export type RelpSettings = Pick<SessionSettings, 'where' | 'clock'> &
  Partial<SessionSettings> & {
    /** A new connection after its TLS handshake. Throws like `Connect`. */
    readonly connect: (signal: AbortSignal) => Promise<Connection>
  }

/** @internal for tests */
export const RELP_WINDOW = 128
const GRACE_MS = 1_000
/** Pauses before each further try of rejected messages. */
const PAUSES_MS = [1_000, 3_000]
const RENEW_MS = 5_000

/** A link keeps one session open between deliveries, and opens another after that one broke. */
export class RelpLink {
  readonly #settings: RelpSettings
  readonly #session: SessionSettings
  /** the last one opened */
  connection: Connection | undefined
  #open: RelpSession | undefined
  /** the error that ended the last call */
  #reported: ConnectorError | undefined
  /** An accepted message: sent again, it shows whether the receiver rejects everything. */
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
   * As Sink.deliver: the first `acknowledged` messages are stored there, or listed in `rejected`.
   * Throws ConnectorError if none could be acknowledged. Opens a session if needed. One call at a
   * time. A crash repeats at most the messages of one call.
   */
  async send(messages: readonly Uint8Array[], signal: AbortSignal): Promise<Outcome> {
    const verdict = new Verdict(messages.length)
    while (!verdict.decided) {
      try {
        await this.#try(messages, verdict, signal)
      } catch (error) {
        if (!(error instanceof ConnectorError)) throw error
        this.#reported = verdict.outcome().acknowledged === 0 ? error : undefined
        return verdict.outcomeOr(error)
      }
    }
    if (!verdict.settled) return verdict.outcomeOr(this.#refusal(verdict.firstRefusal))
    return verdict.outcome()
  }

  /** Sends the pending messages once. Throws if not all of them were answered. */
  async #try(messages: readonly Uint8Array[], verdict: Verdict, signal: AbortSignal): Promise<void> {
    const pauseMs = PAUSES_MS[verdict.tries - 1]
    if (pauseMs !== undefined) await this.#settings.clock.sleep(pauseMs, signal)
    const session = await this.#ready(verdict.pending.length + 1, signal)
    const round = verdict.pending.map((index) => messages[index] as Uint8Array)
    if (verdict.lastTryNext && verdict.doubted && this.#known) round.push(this.#known)
    const codes = await session.send(round, signal)
    const taken = round[codes.lastIndexOf(OK)]
    // A copy: a Buffer's slice is a view of bytes that later batches overwrite.
    if (taken) this.#known = new Uint8Array(taken)
    verdict.note(codes)
    const whole = !codes.includes(0)
    if (whole) return
    // Not all were answered: unanswered messages must not count as tried.
    verdict.tries = 0
    throw session.fault ?? this.#stopped()
  }

  async #ready(count: number, signal: AbortSignal): Promise<RelpSession> {
    if (signal.aborted) throw this.#stopped()
    const open = this.#open
    if (open && !open.fault && open.hasRoomFor(count)) return open
    this.#open = undefined
    await open?.close(RENEW_MS)
    if (open?.noisy && open.fault && open.fault !== this.#reported) throw open.fault
    this.connection = await this.#settings.connect(signal)
    this.#open = await RelpSession.open(this.connection, this.#session, signal)
    return this.#open
  }

  #refusal(code: number): ConnectorError {
    const what = `answers ${code}: it is reachable, but stores nothing; see its own log (a full queue or disk?)`
    return new ConnectorError('server_error', `${this.#settings.where}: ${what}`)
  }

  #stopped(): ConnectorError {
    return new ConnectorError('aborted', `${this.#settings.where}: stopped before it answered`)
  }

  /** Ends the session by RELP's close command within `ms`. Never throws; `send` opens a new one. */
  async close(ms: number): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.close(ms)
  }
}

// Messages over RELP: each is answered, and acknowledged as far as the receiver has confirmed it.

const CLOSE_MS = 400
const CHECK_MS = 10_000

export class OverRelp implements Session {
  /** A crash may repeat at most the window. */
  readonly maxEntries = RELP_WINDOW
  readonly #options: SessionOptions
  readonly #link: RelpLink

  constructor(options: SessionOptions) {
    this.#options = options
    this.#link = this.#newLink()
  }

  #newLink(): RelpLink {
    const { where, deps, to, tls } = this.#options
    const connect = (signal: AbortSignal) => deps.connect(to, tls, CONNECT_MS, signal)
    return new RelpLink({ where, clock: deps.clock, connect })
  }

  async deliver({ bytes, ends, count }: Lines, signal: AbortSignal): Promise<Delivered> {
    const messages: Uint8Array[] = []
    /** index of the first message after line i */
    const until = new Uint32Array(count)
    for (let i = 0; i < count; i++) {
      const from = i === 0 ? 0 : (ends[i - 1] as number)
      // One by one: an entry may have more parts than a call may have arguments.
      for (const message of messagesIn(bytes, from, ends[i] as number)) messages.push(message)
      until[i] = messages.length
    }
    if (messages.length === 0) return { acknowledged: count, rejected: [] }
    const outcome = await this.#link.send(messages, signal)
    if (this.#link.connection) this.#options.expiry.look(this.#link.connection)
    return linesOf(outcome, until)
  }

  /** Opens a separate session, in addition to the one that delivers; returns its certificates. */
  async #probe(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const { where, expiry } = this.#options
    const link = this.#newLink()
    const limit = new Tether(signal)
    void this.#options.deps.clock.sleep(CHECK_MS, limit.signal).then(() => {
      const words = `${where} did not answer within ${CHECK_MS / 1000} s: check that it speaks RELP, with or without TLS as in the address`
      if (!limit.signal.aborted) limit.abort(new ConnectorError('timeout', words))
    })
    try {
      await orAborted(link.open(limit.signal), limit.signal)
      return link.connection ? expiry.results(link.connection) : []
    } finally {
      limit.close()
      await link.close(CLOSE_MS)
    }
  }

  async probe(signal: AbortSignal): Promise<void> {
    await this.#probe(signal)
  }

  async check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const what = `${this.#options.where} RELP`
    try {
      const ends = await this.#probe(signal)
      const word = 'opens a session and acknowledges each message (assurance: received)'
      return [{ what, ok: true, message: word }, ...ends]
    } catch (error) {
      const message = error instanceof ConnectorError ? error.message : 'could not be asked'
      return [{ what, ok: false, message }]
    }
  }

  close(): Promise<void> {
    return this.#link.close(CLOSE_MS)
  }
}

/** An entry in several messages is done with the last of them, or with the first rejected one. */
function linesOf(outcome: Delivered, until: Uint32Array): Delivered {
  const rejected = new Map<number, Rejection>()
  for (const rejection of outcome.rejected) {
    const index = until.findIndex((end) => rejection.index < end)
    if (!rejected.has(index)) rejected.set(index, { ...rejection, index })
  }
  const isAnswered = (line: number) => (until[line] as number) <= outcome.acknowledged || rejected.has(line)
  let acknowledged = 0
  while (acknowledged < until.length && isAnswered(acknowledged)) acknowledged++
  if (acknowledged === 0)
    throw new ConnectorError(
      'bad_reply',
      'the RELP receiver accepted only some of the messages into which an entry was split; the whole entry is sent again',
    )
  return { acknowledged, rejected: [...rejected.values()].filter(({ index }) => index < acknowledged) }
}

// Which messages a RELP receiver stored, rejects for good, or has not stored yet. Pure.

/** Number of times that a message is sent before its rejection is final. */
const TRIES = 3

/**
 * The result of one delivery. A message is rejected for good only if each try rejected it while the
 * receiver accepted a later one: a receiver that rejects everything is failing.
 */
class Verdict {
  readonly #codes: Uint16Array
  /** rejected, but a later one was accepted */
  readonly #singled: Uint8Array
  /** indices of the messages for the next try */
  pending: readonly number[]
  tries = 0

  constructor(count: number) {
    this.#codes = new Uint16Array(count)
    this.#singled = new Uint8Array(count)
    this.pending = Array.from({ length: count }, (_, index) => index)
  }

  /** The answers to `pending`, in that order; one more code belongs to a known good message. */
  note(codes: Uint16Array): void {
    const { pending } = this
    let takenBehind = codes[pending.length] === OK
    for (let at = pending.length - 1; at >= 0; at--) {
      const index = pending[at] as number
      const code = codes[at] as number
      if (code !== 0) this.#codes[index] = code
      if (code === OK) takenBehind = true
      else if (code !== 0 && takenBehind) this.#singled[index] = 1
    }
    this.pending = pending.filter((index) => this.#codes[index] !== OK)
    // A receiver that changes its answer has not rejected for good: the tries start again.
    const changed = this.tries > 0 && this.pending.length < pending.length
    this.tries = changed ? 1 : this.tries + 1
  }

  get lastTryNext(): boolean {
    return this.tries === TRIES - 1
  }

  /** No answer has shown yet whether the receiver accepts anything after the rejected ones. */
  get doubted(): boolean {
    return this.pending.some((index) => this.#singled[index] === 0)
  }

  get settled(): boolean {
    return this.pending.length === 0
  }

  get decided(): boolean {
    return this.settled || this.tries >= TRIES
  }

  /** the code of the first message that is not accepted */
  get firstRefusal(): number {
    return this.#codes[this.pending[0] ?? 0] ?? 0
  }

  /** The finished prefix. Before all is decided, the first rejection ends it. */
  outcome(): Outcome {
    const rejected: Rejection[] = []
    const count = this.#codes.length
    for (let index = 0; index < count; index++) {
      const code = this.#codes[index] as number
      if (code === OK) continue
      const forGood = this.tries >= TRIES && code !== 0 && this.#singled[index] === 1
      if (!forGood) return { acknowledged: index, rejected }
      rejected.push({ index, code: 'refused', reason: reasonOf(code), own: true })
    }
    return { acknowledged: count, rejected }
  }

  /** The finished prefix; if there is none, throws the error. */
  outcomeOr(error: ConnectorError): Outcome {
    const outcome = this.outcome()
    if (outcome.acknowledged === 0) throw error
    return outcome
  }
}

/** The receiver's text may echo the message, so only the code is used. */
const reasonOf = (code: number): string =>
  `the RELP receiver answered ${code} ${TRIES} times and accepted later messages; its own log has the reason`
