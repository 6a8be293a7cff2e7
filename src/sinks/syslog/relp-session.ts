// One RELP session on one connection: opens it, keeps its window full, matches answers to messages,
// closes it.
import type { Connection } from '../../contracts/platform.ts'
import { ByteWriter } from '../../core/bytes.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { EMPTY, ReplyParser, codeOf, faultOfOffers, offers, putFrame } from './relp-replies.ts'
import type { Command } from './relp-replies.ts'

/** Without an answer for this long the connection is dead, even if TCP reports no error. */
const SILENCE_MS = 90_000
const OPEN_MS = 30_000
/** Per session: receivers send a hint when they leave, and hardly any other. */
const MOST_HINTS = 1_000

export interface SessionSettings {
  /** host:port */
  readonly where: string
  readonly clock: Clock
  /** most unanswered messages at any moment */
  readonly window: number
  /** how long a stop waits for outstanding answers */
  readonly graceMs: number
  /** highest number of a session */
  readonly largestTxnr: number
}

export class RelpSession {
  readonly #connection: Connection
  readonly #settings: SessionSettings
  readonly #parser: ReplyParser
  readonly #outgoing: Outgoing
  readonly #ended = new AbortController()
  readonly #listening: Promise<void>
  #round: Round | undefined
  #answeredAt = 0
  #hints = 0
  #closing = false
  #fault: ConnectorError | undefined
  /** a bug of ours, which must not be reported as the receiver's fault */
  #bug: unknown
  /** why nothing can be written any more */
  #lost: unknown

  private constructor(connection: Connection, settings: SessionSettings) {
    this.#connection = connection
    this.#settings = settings
    this.#parser = new ReplyParser(settings.where)
    this.#outgoing = new Outgoing(settings.window)
    this.#listening = this.#listen()
  }

  /** Owns the connection from here on, even if it throws. */
  static async open(
    connection: Connection,
    settings: SessionSettings,
    signal: AbortSignal,
  ): Promise<RelpSession> {
    const session = new RelpSession(connection, settings)
    const round = await session.#exchange('open', [offers], OPEN_MS, signal)
    const fault =
      session.#fault ?? (round.whole && faultOfOffers(settings.where, round.codes[0] ?? EMPTY, round.said))
    if (fault) session.#fail(fault)
    if (session.#fault) {
      await session.#listening
      throw beforeItBegan(session.#fault)
    }
    return session
  }

  /** Why it can no longer be used. */
  get fault(): ConnectorError | undefined {
    if (!this.#fault && this.#connection.gone) this.#fail(this.#error('unreachable', 'closed the connection'))
    return this.#fault
  }

  /** The receiver sent too much: reported, because a new session would receive the same. */
  get noisy(): boolean {
    return this.#hints > MOST_HINTS
  }

  /** True if `count` more messages and the close command still have numbers. */
  hasRoomFor(count: number): boolean {
    return this.#outgoing.nextTxnr + count <= this.#settings.largestTxnr
  }

  /**
   * Returns the code answered to each message; 0: unanswered, because of `fault` or `signal`. One
   * call at a time.
   */
  async send(messages: readonly Uint8Array[], signal: AbortSignal): Promise<Uint16Array> {
    return (await this.#exchange('syslog', messages, SILENCE_MS, signal)).codes
  }

  /** Sends the close command, if it can, and waits `ms` for the answer. Never throws. */
  async close(ms: number): Promise<void> {
    const { clock } = this.#settings
    const startedAt = clock.elapsed()
    if (!this.fault && !this.#round) {
      this.#closing = true
      await this.#exchange('close', [new Uint8Array(0)], ms, new AbortController().signal)
    }
    if (!this.#fault) await this.#connection.end(Math.max(0, startedAt + ms - clock.elapsed()))
    this.#fail(this.#error('aborted', 'the session was closed'))
    await this.#listening
  }

  async #exchange(
    command: Command,
    datas: readonly Uint8Array[],
    silenceMs: number,
    signal: AbortSignal,
  ): Promise<Round> {
    const round = new Round(this.#outgoing.nextTxnr, command, datas)
    const over = new AbortController()
    const halt = () => void this.#halt(round, over.signal)
    this.#round = round
    this.#answeredAt = this.#settings.clock.elapsed()
    void this.#reporter(silenceMs, over.signal)
    if (signal.aborted) halt()
    else signal.addEventListener('abort', halt, { once: true })
    while (!this.#fault && !round.whole) {
      const bytes = this.#lost === undefined ? this.#outgoing.next(round) : undefined
      if (bytes) await this.#write(bytes)
      else await round.change()
    }
    signal.removeEventListener('abort', halt)
    over.abort()
    this.#round = undefined
    if (this.#bug !== undefined) throw this.#bug as Error
    return round
  }

  async #write(bytes: Uint8Array): Promise<void> {
    try {
      await this.#connection.write(bytes, this.#ended.signal)
    } catch (error) {
      // The listener first processes answers that are still unread, and then reports the fault.
      this.#lost ??= error
      this.#connection.destroy()
    }
  }

  /** After an abort nothing more is sent, but answers are awaited: they save sending twice. */
  async #halt(round: Round, over: AbortSignal): Promise<void> {
    round.halted = true
    round.wake()
    if (round.command === 'syslog') await this.#settings.clock.sleep(this.#settings.graceMs, over)
    if (!over.aborted) this.#fail(this.#error('aborted', 'stopped before it answered'))
  }

  async #reporter(silenceMs: number, over: AbortSignal): Promise<void> {
    const { clock } = this.#settings
    for (;;) {
      const leftMs = this.#answeredAt + silenceMs - clock.elapsed()
      if (leftMs <= 0) break
      await clock.sleep(leftMs, over)
      if (over.aborted) return
    }
    const seconds = Math.round(silenceMs / 1000)
    this.#fail(
      this.#error('timeout', `answered nothing for ${seconds} s; check the receiver and the network between`),
    )
  }

  /** Reads all the time: a receiver that leaves is noticed before the next message is sent. */
  async #listen(): Promise<void> {
    try {
      for (;;) {
        const chunk = await this.#connection.read(this.#ended.signal)
        if (!chunk) throw this.#error('unreachable', 'closed the connection')
        this.#parser.push(chunk, this.#take)
        this.#noteAnswers()
      }
    } catch (error) {
      this.#fail(this.#lost ?? error)
    }
  }

  /** A separate function: its variables in the waiting listener would keep a whole batch. */
  #noteAnswers(): void {
    const round = this.#round
    if (!round || round.answered === round.noted) return
    round.noted = round.answered
    this.#answeredAt = this.#settings.clock.elapsed()
    round.wake()
  }

  readonly #take = (txnr: number, command: string, bytes: Uint8Array, start: number, end: number): void => {
    if (command === 'rsp') this.#answer(txnr, bytes, start, end)
    else if (txnr !== 0) throw this.#error('bad_reply', 'sent a command where only answers may come')
    else if (command === 'serverclose' && !this.#closing)
      throw this.#error('unreachable', 'announced the end of the session')
    // Other hints have no meaning and need no answer.
    else if (++this.#hints > MOST_HINTS)
      throw this.#error('bad_reply', `sent more than ${MOST_HINTS} unsolicited hints`)
  }

  #answer(txnr: number, bytes: Uint8Array, start: number, end: number): void {
    const round = this.#round
    const index = round ? txnr - round.first : -1
    if (!round || index < 0 || index >= round.sent)
      throw this.#error('bad_reply', 'answered a message that was not sent')
    if (round.codes[index] !== 0) throw this.#error('bad_reply', 'answered a message twice')
    const code = codeOf(bytes, start, end)
    if (code === undefined || (code === EMPTY && round.command !== 'close'))
      throw this.#error('bad_reply', 'sent an answer without its code')
    round.codes[index] = code
    round.answered++
    if (round.command !== 'syslog') round.said = bytes.slice(start, end)
  }

  #error(code: 'aborted' | 'bad_reply' | 'timeout' | 'unreachable', what: string): ConnectorError {
    return new ConnectorError(code, `${this.#settings.where}: ${what}`)
  }

  #fail(error: unknown): void {
    if (this.#fault) return
    if (!(error instanceof ConnectorError)) this.#bug ??= error
    this.#fault =
      error instanceof ConnectorError ? error : this.#error('aborted', 'the session failed because of a bug')
    this.#connection.destroy()
    this.#ended.abort()
    this.#round?.wake()
  }
}

/** Receivers close connections that are not permitted, and seldom say why. */
function beforeItBegan(fault: ConnectorError): ConnectorError {
  if (fault.code !== 'unreachable') return fault
  const guess = 'before the session began; it may require TLS, or a permitted client certificate'
  return new ConnectorError(fault.code, `${fault.message}, ${guess}`, { cause: fault })
}

// Chooses what to write next: as many frames as the window allows, and the last one in pieces.

/** As many frames as fit go out in one write: one write for each would cost far more. */
const WRITE_BYTES = 256 * 1024

class Outgoing {
  readonly #out = new ByteWriter()
  readonly #window: number
  /** the number of the next frame */
  nextTxnr = 1

  constructor(window: number) {
    this.#window = window
  }

  /** What can be written now: as many frames as the window allows, or a piece of the last one. */
  next(round: Round): Uint8Array | undefined {
    const out = this.#out
    const end = Math.min(round.datas.length - 1, round.answered + this.#window)
    if (round.sent >= end || round.halted) return this.#nextOfLast(round)
    out.clear()
    for (; round.sent < end && out.length < WRITE_BYTES; round.sent++) this.#frame(round)
    round.carried = round.answered
    return out.view()
  }

  /**
   * TCP delays a small answer until our system acknowledges an earlier one, and ours delays that
   * unless it has data to send: both would wait for 40 ms. So each piece of answers is met with one
   * byte of the last frame, and its rest is sent when everything before it is answered.
   */
  #nextOfLast(round: Round): Uint8Array | undefined {
    const out = this.#out
    const begun = round.lastBytes > 0
    if (round.sent !== round.datas.length - 1 || (round.halted && !begun)) return undefined
    const finish = round.open === 0 || round.halted
    if (!finish && round.answered === round.carried) return undefined
    if (!begun) {
      out.clear()
      this.#frame(round)
    }
    round.carried = round.answered
    const from = round.lastBytes
    round.lastBytes = finish ? out.length : Math.min(from + 1, out.length - 1)
    if (finish) round.sent++
    return from === round.lastBytes ? undefined : out.bytes.subarray(from, round.lastBytes)
  }

  #frame({ command, datas, sent }: Round): void {
    putFrame(this.#out, this.nextTxnr++, command, datas[sent] as Uint8Array)
  }
}

// What was sent together in one RELP session, and the answer to each piece of it.

class Round {
  readonly first: number
  readonly datas: readonly Uint8Array[]
  readonly command: Command
  /** 0: not answered */
  readonly codes: Uint16Array
  sent = 0
  answered = 0
  /** `answered` when the receiver last sent something */
  noted = 0
  /** `answered` when something was last written */
  carried = 0
  /** bytes of the last frame that are written: it counts as sent when all are */
  lastBytes = 0
  /** nothing more is sent: only outstanding answers are awaited */
  halted = false
  /** data of the last answer, of all except `syslog` */
  said: Uint8Array = new Uint8Array(0)
  /** Ends the last `change`. */
  wake: () => void = () => undefined

  constructor(first: number, command: Command, datas: readonly Uint8Array[]) {
    this.first = first
    this.command = command
    this.datas = datas
    this.codes = new Uint16Array(datas.length)
  }

  get open(): number {
    return this.sent - this.answered
  }

  get whole(): boolean {
    return this.answered === (this.halted && this.lastBytes === 0 ? this.sent : this.datas.length)
  }

  change(): Promise<void> {
    return new Promise((resolve) => (this.wake = resolve))
  }
}
