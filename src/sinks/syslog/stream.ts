// Messages over TCP or TLS. A write is no delivery: what a peer was sent lately goes out again after its end.
import type { Connection } from '../../contracts/platform.ts'
import type { CheckResult, Lines } from '../../contracts/sink.ts'
import { backoffMs } from '../../core/backoff.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { framedBytes } from '../kit/line-frame.ts'
import { CONNECT_MS, PROOF_MS, WRITE_MS } from './session.ts'
import type { Delivered, Session, SessionOptions } from './session.ts'

const END_MS = 400
/** Before each try to bring back what is in doubt while nothing new is to be sent. */
const PAUSES = { baseMs: 1_000, capMs: 30_000 }

const AGAIN = 'what it was sent lately goes out again'
/** Nothing is told where the write was called off: that is a stop, and what was sent before it is on its way. */
const toldOf: Readonly<Record<Exclude<PeerEnd, 'called_off'>, string>> = {
  ended: `The receiver ended the connection: ${AGAIN}`,
  broken: `The connection to the receiver broke off: ${AGAIN}`,
  stuck: `The receiver took no more, so its connection was cut: ${AGAIN}`,
  talking: `The receiver talks back as no syslog receiver does, so its connection was cut: ${AGAIN}`,
}

export class StreamSession implements Session {
  readonly #options: SessionOptions
  readonly #kept: Kept
  readonly #patience = new Patience()
  readonly #stop = new AbortController()
  #peer: Peer | undefined
  #delivering = false
  /** A stop came in the midst of a write of something new: what was sent before it is on its way, not in doubt. */
  #calledOff = false
  #mending: { readonly stop: AbortController; readonly done: Promise<void> } | undefined
  #closing: Promise<void> | undefined

  constructor(options: SessionOptions) {
    this.#options = options
    this.#kept = new Kept(options.lingerMs)
  }

  async deliver(lines: Lines, signal: AbortSignal): Promise<Delivered> {
    const bytes = framedBytes(lines)
    if (bytes.length > 0) {
      this.#delivering = true
      try {
        await this.#endMending()
        await this.#send(lines, bytes, signal)
      } finally {
        this.#delivering = false
      }
    }
    return { settled: lines.count, refused: [] }
  }

  async #send(lines: Lines, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const peer = await this.#ready(signal)
    this.#options.expiry.look(peer.connection)
    try {
      await peer.write(bytes, signal)
    } catch (error) {
      this.#calledOff = signal.aborted
      throw error
    }
    await peer.stays(signal)
    const now = this.#options.deps.clock.elapsed()
    this.#kept.expire(now)
    this.#kept.add(lines, now)
  }

  /** The connection that is there, or a new one, on which what was kept goes first. */
  async #ready(signal: AbortSignal): Promise<Peer> {
    if (this.#peer && !this.#peer.gone) return this.#peer
    await this.#peer?.over
    this.#peer = undefined
    const peer = this.#meet(await this.#connect(CONNECT_MS, signal))
    this.#peer = peer
    const { clock } = this.#options.deps
    const write = async (piece: Uint8Array) => {
      await peer.write(piece, signal)
      peer.assertThere()
    }
    await this.#kept.sendAgain(write, () => clock.elapsed())
    return peer
  }

  #connect(withinMs: number, signal: AbortSignal): Promise<Connection> {
    const { deps, to, tls } = this.#options
    return deps.connect(to, tls, withinMs, signal)
  }

  #meet(connection: Connection): Peer {
    const { deps, where } = this.#options
    const stop = this.#stop.signal
    const lost = (peer: Peer) => this.#lost(peer)
    return new Peer({ connection, where, clock: deps.clock, patience: this.#patience, stop, lost })
  }

  #lost({ writingSince, orderly, end, failure }: Peer): void {
    const { deps, where } = this.#options
    this.#kept.doubt(writingSince ?? deps.clock.elapsed(), orderly)
    if (this.#kept.bytes === 0 || this.#mending) return
    const why = failure && { why: failure.message }
    if (end !== 'called_off') deps.log.warn(toldOf[end], { receiver: where, bytes: this.#kept.bytes, ...why })
    // What is being delivered brings it along, at this try or the conductor's next; closing tries once by itself.
    if (this.#delivering || this.#closing) return
    const stop = new AbortController()
    const done = this.#mend(stop.signal).finally(() => (this.#mending = undefined))
    this.#mending = { stop, done }
  }

  /** Nothing new may come for hours: what is in doubt does not wait for it. */
  async #mend(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#options.deps
    for (let tries = 1; ; tries++) {
      await clock.sleep(backoffMs(tries, PAUSES, random), signal)
      if (signal.aborted) return
      try {
        const peer = await this.#ready(signal)
        await peer.stays(signal)
        return
      } catch (error) {
        if (!(error instanceof ConnectorError)) throw error
      }
    }
  }

  async #endMending(): Promise<void> {
    this.#mending?.stop.abort()
    await this.#mending?.done
  }

  probe(signal: AbortSignal): Promise<void> {
    return probeStream(this.#options, signal, () => undefined)
  }

  check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    return checkStream(this.#options, signal)
  }

  close(): Promise<void> {
    this.#closing ??= this.#end()
    return this.#closing
  }

  async #end(): Promise<void> {
    await this.#endMending()
    const peer = this.#peer
    this.#peer = undefined
    this.#stop.abort()
    if (peer && !peer.gone) await peer.connection.end(END_MS)
    else if (this.#kept.bytes > 0 && !this.#calledOff) await this.#lastTry()
    this.#kept.clear()
    await peer?.over
  }

  /** What a receiver may have lost, and nothing came after: once more before the process ends. */
  async #lastTry(): Promise<void> {
    const { deps, where } = this.#options
    const ended = new AbortController()
    const late = new AbortController()
    void deps.clock.sleep(END_MS, ended.signal).then(() => late.abort())
    try {
      const connection = await this.#connect(END_MS, late.signal)
      try {
        const write = (piece: Uint8Array) => connection.write(piece, late.signal)
        await this.#kept.sendAgain(write, () => deps.clock.elapsed())
      } finally {
        await connection.end(END_MS / 4)
      }
    } catch {
      deps.log.warn(
        'What the receiver was sent lately may be lost: it could not be sent again before the end',
        {
          receiver: where,
          bytes: this.#kept.bytes,
        },
      )
    } finally {
      ended.abort()
    }
  }
}

// What was sent over a stream lately: a receiver's end or a reset may have cost any of it, so it is kept a while to be sent again.

/** What the kernels on both sides may hold unread, and no more than a daemon of 256 MiB can spare. */
const KEPT_BYTES = 8 * 1024 * 1024
/** Whole lines are kept and forgotten together up to this size: a stream may not begin inside a message. */
const PIECE_BYTES = 64 * 1024

interface Piece {
  readonly bytes: Uint8Array
  /** monotonic ms; Infinity: in doubt, to be sent again */
  sentAt: number
  /** how long a peer had it when that one went in an orderly way */
  hadMs: number
}

export class Kept {
  readonly #lingerMs: number
  readonly #mostBytes: number
  #pieces: Piece[] = []
  #bytes = 0

  constructor(lingerMs: number, mostBytes = KEPT_BYTES) {
    this.#lingerMs = lingerMs
    this.#mostBytes = mostBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Copies; what the rest of its own batch would push out is not even copied. */
  add({ bytes, ends, count }: Lines, now: number): void {
    if (this.#lingerMs === 0) return
    const total = ends[count - 1] ?? 0
    this.#drop(({ length }) => length > 0 && this.#bytes + total > this.#mostBytes)
    let from = 0
    for (let i = 0; i < count; i++) {
      const end = ends[i] as number
      if (i < count - 1 && (ends[i + 1] as number) - from <= PIECE_BYTES) continue
      if (end > from && total - from <= this.#mostBytes) {
        this.#pieces.push({ bytes: Buffer.from(bytes.subarray(from, end)), sentAt: now, hadMs: 0 })
        this.#bytes += end - from
      }
      from = end
    }
  }

  /** Forgets what the peer has been sent longer ago than the linger. Asked only while the peer is there. */
  expire(now: number): void {
    this.#drop(([oldest]) => oldest !== undefined && now - oldest.sentAt > this.#lingerMs)
  }

  /**
   * The peer is gone: what is kept now stays until it went out once more, however long that takes. After an orderly end it
   * goes on ageing from where it was, or a receiver that closes what is idle would be sent the same for ever.
   */
  doubt(now: number, orderly: boolean): void {
    this.expire(now)
    for (const piece of this.#pieces) {
      if (piece.sentAt !== Infinity) piece.hadMs = orderly ? Math.max(0, now - piece.sentAt) : 0
      piece.sentAt = Infinity
    }
  }

  /** Sends all of it, the oldest first; what could not be sent stays in doubt. */
  async sendAgain(send: (bytes: Uint8Array) => Promise<void>, now: () => number): Promise<void> {
    for (const piece of this.#pieces) {
      await send(piece.bytes)
      piece.sentAt = now() - piece.hadMs
    }
  }

  clear(): void {
    this.#pieces = []
    this.#bytes = 0
  }

  #drop(isDue: (pieces: readonly Piece[]) => boolean): void {
    let dropped = 0
    while (isDue(this.#pieces.slice(dropped, dropped + 1)))
      this.#bytes -= (this.#pieces[dropped++] as Piece).bytes.length
    this.#pieces.splice(0, dropped)
  }
}

// How long a write may wait for a receiver: longer after each time that was too short, or a slow one would be sent the same for ever.

/** By then a stuck system has long been given up by TCP itself. */
const MOST_MS = 128 * WRITE_MS
/** So much without a long wait is more than the systems on both sides hold: the receiver itself keeps up. */
const BRISK_BYTES = 32 * 1024 * 1024

/**
 * What is handed to a system's buffers tells nothing of the receiver, and a full buffer takes more only when a third of it (a
 * megabyte and more) has left: a receiver of 1000 bytes/s then looks stuck for a quarter of an hour. Giving it up loses all of
 * that, which goes out again from its beginning; so it is given up ever later.
 */
class Patience {
  #ms = WRITE_MS
  #briskBytes = 0

  get ms(): number {
    return this.#ms
  }

  took(bytes: number, waitedMs: number): void {
    this.#briskBytes = waitedMs > WRITE_MS / 2 ? 0 : this.#briskBytes + bytes
    if (this.#briskBytes >= BRISK_BYTES) this.#ms = WRITE_MS
  }

  ranOut(): void {
    this.#briskBytes = 0
    this.#ms = Math.min(this.#ms * 2, MOST_MS)
  }
}

// The other end of one stream, which answers nothing: written to with patience, and heard all the time, since its end is all that it ever says.

/** What one write takes, for which the receiver has all our patience. */
const WRITE_BYTES = 64 * 1024
/** A syslog receiver says nothing; what talks on is something else. */
const MOST_HEARD_BYTES = 64 * 1024

/** Who ended it and how: it did, in an orderly way; the way to it broke; or we did, since it took no more, since it talked, or called off by whoever wrote. */
type PeerEnd = 'ended' | 'broken' | 'stuck' | 'talking' | 'called_off'

interface PeerOptions {
  readonly connection: Connection
  /** host:port, for messages */
  readonly where: string
  readonly clock: Clock
  /** outlives the connection: a receiver that is slow stays so */
  readonly patience: Patience
  /** Nobody wants to hear it any more. */
  readonly stop: AbortSignal
  /** Called when the peer is gone, and was not told to stop. */
  readonly lost: (peer: Peer) => void
}

class Peer {
  readonly connection: Connection
  /** Resolves when it is gone. */
  readonly over: Promise<void>
  readonly #options: PeerOptions
  #proven = false
  #writingSince: number | undefined
  #failure: ConnectorError | undefined
  #end: PeerEnd = 'ended'

  constructor(options: PeerOptions) {
    this.#options = options
    this.connection = options.connection
    this.over = this.#hear()
  }

  get gone(): boolean {
    return this.connection.gone
  }

  /** monotonic ms: a write under way since then; what it was sent shortly before may be stuck with it */
  get writingSince(): number | undefined {
    return this.#writingSince
  }

  /** How a peer that is gone ended. */
  get end(): PeerEnd {
    return this.#end
  }

  get failure(): ConnectorError | undefined {
    return this.#failure
  }

  /** True where the connection did not break off, nor end in the midst of a write. */
  get orderly(): boolean {
    return this.#failure === undefined && this.#writingSince === undefined
  }

  async write(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    for (let at = 0; at < bytes.length; at += WRITE_BYTES)
      await this.#writePiece(bytes.subarray(at, at + WRITE_BYTES), signal)
  }

  /** One that ended while we wrote is seen in the next turn; one that will not have us at all, a little later. */
  async stays(signal: AbortSignal): Promise<void> {
    const { clock, where } = this.#options
    if (!this.#proven) {
      const enough = new AbortController()
      const either = AbortSignal.any([signal, enough.signal])
      await Promise.race([clock.sleep(PROOF_MS, either), this.over])
      enough.abort()
    }
    await new Promise((resolve) => setImmediate(resolve))
    if (signal.aborted) throw new ConnectorError('aborted', `the batch to ${where} was called off`)
    this.assertThere()
    this.#proven = true
  }

  assertThere(): void {
    if (!this.gone) return
    const what = `${this.#options.where} closed the connection while a batch was on its way; it goes out again`
    throw this.#failure ?? new ConnectorError('unreachable', what)
  }

  async #hear(): Promise<void> {
    const { connection, where, stop, lost } = this.#options
    try {
      for (let heard = 0; ;) {
        const part = await connection.read(stop)
        if (!part) break
        heard += part.length
        if (heard <= MOST_HEARD_BYTES) continue
        this.#end = 'talking'
        throw new ConnectorError('bad_reply', `${where} talks back at length: is it a syslog receiver?`)
      }
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      if (error.code === 'aborted') return
      this.#failure = error
      if (this.#end === 'ended') this.#end = 'broken'
    }
    connection.destroy()
    lost(this)
  }

  /** What fails here leaves half a message behind: the connection is gone with it. */
  async #writePiece(piece: Uint8Array, signal: AbortSignal): Promise<void> {
    const { connection, where, clock, patience } = this.#options
    const written = new AbortController()
    const late = new AbortController()
    const [startedAt, mostMs] = [clock.elapsed(), patience.ms]
    this.#writingSince = startedAt
    void clock.sleep(mostMs, written.signal).then(() => {
      if (written.signal.aborted) return
      this.#cut('stuck')
      late.abort()
    })
    const calledOff = () => this.#cut('called_off')
    if (signal.aborted) calledOff()
    signal.addEventListener('abort', calledOff, { once: true })
    try {
      await connection.write(piece, AbortSignal.any([signal, late.signal]))
      this.#writingSince = undefined
      patience.took(piece.length, clock.elapsed() - startedAt)
    } catch (error) {
      if (!late.signal.aborted || signal.aborted) throw this.#failure ?? error
      patience.ranOut()
      const what = `${where} took no more for ${mostMs / 1000} s: is it stuck, or slow? Next time it has ${patience.ms / 1000} s`
      throw new ConnectorError('timeout', what, { cause: error })
    } finally {
      signal.removeEventListener('abort', calledOff)
      written.abort()
    }
  }

  /** Told before the connection is: whoever hears of its end asks why. */
  #cut(why: PeerEnd): void {
    if (!this.gone) this.#end = why
  }
}

// Whether a receiver behind TCP or TLS is there: a connection that lasts a moment. Sends nothing.

/** Undefined: it stays, and nothing is what a receiver that is well says. */
async function endOf(connection: Connection, where: string, until: AbortSignal): Promise<Error | undefined> {
  try {
    while (await connection.read(until));
    return new ConnectorError('unreachable', `${where} took the connection and closed it at once`)
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    return error.code === 'aborted' ? undefined : error
  }
}

/** Throws ConnectorError where it does not take a connection, or ends it at once. */
async function probeStream<T>(
  { where, to, tls, deps }: SessionOptions,
  signal: AbortSignal,
  use: (connection: Connection) => T,
): Promise<T> {
  const enough = new AbortController()
  let connection: Connection | undefined
  try {
    connection = await deps.connect(to, tls, CONNECT_MS, signal)
    void deps.clock.sleep(PROOF_MS, enough.signal).then(() => enough.abort())
    const fault = await endOf(connection, where, AbortSignal.any([signal, enough.signal]))
    if (fault) throw fault
    return use(connection)
  } finally {
    enough.abort()
    connection?.destroy()
  }
}

/** Never throws. */
async function checkStream(options: SessionOptions, signal: AbortSignal): Promise<readonly CheckResult[]> {
  const { where, tls, expiry } = options
  const what = `${where} ${tls ? 'TLS' : 'TCP'}`
  try {
    const ends = await probeStream(options, signal, (connection) => expiry.results(connection))
    const word = 'takes the connection; what is sent over it nobody confirms (assurance: sent)'
    return [{ what, ok: true, message: word }, ...ends]
  } catch (error) {
    const message = error instanceof ConnectorError ? error.message : 'could not be asked'
    return [{ what, ok: false, message }]
  }
}
