// Messages to a RELP receiver: sends them, has each answered, and tells which are stored and which it refuses for good.
import type { Connection } from '../../contracts/platform.ts'
import type { CheckResult, Lines, Outcome, Refusal } from '../../contracts/sink.ts'
import { Tether, orAborted } from '../../core/abort.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { messagesIn } from './frame.ts'
import { LARGEST_TXNR, OK } from './relp-replies.ts'
import { RelpSession } from './relp-session.ts'
import type { SessionSettings } from './relp-session.ts'
import { CONNECT_MS } from './session.ts'
import type { Delivered, Session, SessionOptions } from './session.ts'

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

/** @internal for tests */
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

// Messages over RELP: each is answered, so a batch is settled as far as the receiver said that it has it.

const CLOSE_MS = 400
const CHECK_MS = 10_000

export class OverRelp implements Session {
  /** What a crash may repeat is the window. */
  readonly maxEntries = RELP_WINDOW
  readonly #options: SessionOptions
  readonly #link: RelpLink
  #connection: Connection | undefined

  constructor(options: SessionOptions) {
    this.#options = options
    this.#link = this.#linkOf((connection) => (this.#connection = connection))
  }

  #linkOf(opened: (connection: Connection) => void): RelpLink {
    const { where, deps, to, tls } = this.#options
    const connect = async (signal: AbortSignal) => {
      const connection = await deps.connect(to, tls, CONNECT_MS, signal)
      opened(connection)
      return connection
    }
    return new RelpLink({ where, clock: deps.clock, connect })
  }

  async deliver({ bytes, ends, count }: Lines, signal: AbortSignal): Promise<Delivered> {
    const messages: Uint8Array[] = []
    /** index of the first message behind line i */
    const until = new Uint32Array(count)
    for (let i = 0; i < count; i++) {
      const from = i === 0 ? 0 : (ends[i - 1] as number)
      // One by one: an entry may have more parts than a call may have arguments.
      for (const message of messagesIn(bytes, from, ends[i] as number)) messages.push(message)
      until[i] = messages.length
    }
    if (messages.length === 0) return { settled: count, refused: [] }
    const outcome = await this.#link.send(messages, signal)
    if (this.#connection) this.#options.expiry.look(this.#connection)
    return linesOf(outcome, until)
  }

  /** A session of its own, beside the one that delivers. */
  async #probe<T>(signal: AbortSignal, use: (connection: Connection | undefined) => T): Promise<T> {
    const { where } = this.#options
    let connection: Connection | undefined
    const link = this.#linkOf((opened) => (connection = opened))
    const limit = new Tether(signal)
    void this.#options.deps.clock.sleep(CHECK_MS, limit.signal).then(() => {
      const words = `${where} did not answer within ${CHECK_MS / 1000} s: does it speak RELP, and with TLS as the address says?`
      if (!limit.signal.aborted) limit.abort(new ConnectorError('timeout', words))
    })
    try {
      await orAborted(link.open(limit.signal), limit.signal)
      return use(connection)
    } finally {
      limit.close()
      await link.close(CLOSE_MS)
    }
  }

  probe(signal: AbortSignal): Promise<void> {
    return this.#probe(signal, () => undefined)
  }

  async check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const { where, expiry } = this.#options
    const what = `${where} RELP`
    try {
      const ends = await this.#probe(signal, (connection) => (connection ? expiry.results(connection) : []))
      const word = 'opens a session and answers for each message (assurance: received)'
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

/** An entry in several messages is done with when its last one is, or when one of them is refused: then all of it is. */
function linesOf(outcome: Delivered, until: Uint32Array): Delivered {
  const refused = new Map<number, Refusal>()
  for (const refusal of outcome.refused) {
    const index = until.findIndex((end) => refusal.index < end)
    if (!refused.has(index)) refused.set(index, { ...refusal, index })
  }
  let settled = 0
  while (settled < until.length && ((until[settled] as number) <= outcome.settled || refused.has(settled)))
    settled++
  if (settled === 0)
    throw new ConnectorError('bad_reply', 'the RELP receiver took a part of an entry only; it goes out again')
  return { settled, refused: [...refused.values()].filter(({ index }) => index < settled) }
}

// Which messages a RELP receiver stored, which it refuses for good, and which are merely not stored yet. Pure.

/** So often a message is sent before a refusal counts as the receiver's last word. */
const TRIES = 3

/**
 * The verdict over one delivery. A message is refused for good only when it was refused in each try while the receiver took one
 * sent after it: a receiver that refuses everything is failing, and judges no message.
 */
class Verdict {
  readonly #codes: Uint16Array
  /** refused, but one behind it was taken */
  readonly #singled: Uint8Array
  /** indices of the messages that the next try is to send */
  pending: readonly number[]
  tries = 0

  constructor(count: number) {
    this.#codes = new Uint16Array(count)
    this.#singled = new Uint8Array(count)
    this.pending = Array.from({ length: count }, (_, index) => index)
  }

  /** What was answered to `pending`, in that order; one more code at the end is that of a known good message. */
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
    // Whoever changes its mind did not mean it for good: all tries begin again for the others.
    const changed = this.tries > 0 && this.pending.length < pending.length
    this.tries = changed ? 1 : this.tries + 1
  }

  get lastTryNext(): boolean {
    return this.tries === TRIES - 1
  }

  /** Nothing told yet whether the receiver takes anything at all behind what it refused. */
  get doubted(): boolean {
    return this.pending.some((index) => this.#singled[index] === 0)
  }

  get settled(): boolean {
    return this.pending.length === 0
  }

  get decided(): boolean {
    return this.settled || this.tries >= TRIES
  }

  /** the code of the first message that is not taken */
  get firstRefusal(): number {
    return this.#codes[this.pending[0] ?? 0] ?? 0
  }

  /** How far all is done with. Refusals count only once decided; before, the first one ends it. */
  outcome(): Outcome {
    const refused: Refusal[] = []
    const count = this.#codes.length
    for (let index = 0; index < count; index++) {
      const code = this.#codes[index] as number
      if (code === OK) continue
      const forGood = this.tries >= TRIES && code !== 0 && this.#singled[index] === 1
      if (!forGood) return { settled: index, refused }
      refused.push({ index, code: 'refused', reason: reasonOf(code), own: true })
    }
    return { settled: count, refused }
  }

  /** The prefix that is done with; where there is none, the error. */
  outcomeOr(error: ConnectorError): Outcome {
    const outcome = this.outcome()
    if (outcome.settled === 0) throw error
    return outcome
  }
}

/** The receiver's own words may echo the message, so its code must do. */
const reasonOf = (code: number): string =>
  `the RELP receiver answered ${code} ${TRIES} times and took what came after it; its own log tells why`
