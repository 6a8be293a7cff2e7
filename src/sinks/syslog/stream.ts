// Messages over TCP or TLS. A write does not prove delivery: what a peer received recently is sent
// again after its end.
import type { Connection } from '../../contracts/platform.ts'
import type { CheckResult, Lines } from '../../contracts/sink.ts'
import { backoffMs } from '../../core/backoff.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { framedBytes } from '../kit/body.ts'
import { CONNECT_MS, PROOF_MS, WRITE_MS } from './session.ts'
import type { Delivered, Session, SessionOptions } from './session.ts'

const END_MS = 400
/** Pauses before retries of possibly lost lines while no new ones are sent. */
const PAUSES = { baseMs: 1_000, capMs: 30_000 }

const AGAIN = 'recently sent lines are sent again'
/** A stop is not logged: what was sent before it is in flight. */
const warningOf: Readonly<Record<Exclude<PeerEnd, 'called_off'>, string>> = {
  ended: `The receiver ended the connection: ${AGAIN}`,
  broken: `The connection to the receiver broke off: ${AGAIN}`,
  stuck: `The receiver accepted no more data, so its connection was closed: ${AGAIN}`,
  talking: `The receiver sends data, unlike a syslog receiver, so its connection was closed: ${AGAIN}`,
}

export class StreamSession implements Session {
  readonly #options: SessionOptions
  readonly #sent: SentLines
  readonly #patience = new Patience()
  readonly #stop = new AbortController()
  #peer: Peer | undefined
  #delivering = false
  /** A stop aborted a write: what was sent before it is in flight, not possibly lost. */
  #calledOff = false
  #resending: { readonly stop: AbortController; readonly done: Promise<void> } | undefined
  #closing: Promise<void> | undefined

  constructor(options: SessionOptions) {
    this.#options = options
    this.#sent = new SentLines(options.lingerMs)
  }

  async deliver(lines: Lines, signal: AbortSignal): Promise<Delivered> {
    const bytes = framedBytes(lines)
    if (bytes.length > 0) {
      this.#delivering = true
      try {
        await this.#endResending()
        await this.#send(lines, bytes, signal)
      } finally {
        this.#delivering = false
      }
    }
    return { acknowledged: lines.count, rejected: [] }
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
    this.#sent.expire(now)
    this.#sent.add(lines, now)
  }

  /** The open connection, or a new one, on which kept lines are sent first. */
  async #ready(signal: AbortSignal): Promise<Peer> {
    if (this.#peer && !this.#peer.gone) return this.#peer
    await this.#peer?.over
    this.#peer = undefined
    const { where, deps } = this.#options
    const { clock } = deps
    const peer = new Peer({
      connection: await this.#connect(CONNECT_MS, signal),
      where,
      clock,
      patience: this.#patience,
      stop: this.#stop.signal,
      lost: (gone) => this.#lost(gone),
    })
    this.#peer = peer
    const write = async (piece: Uint8Array) => {
      await peer.write(piece, signal)
      peer.assertThere()
    }
    await this.#sent.sendAgain(write, () => clock.elapsed())
    return peer
  }

  #connect(withinMs: number, signal: AbortSignal): Promise<Connection> {
    const { deps, to, tls } = this.#options
    return deps.connect(to, tls, withinMs, signal)
  }

  #lost({ writingSince, orderly, end, failure }: Peer): void {
    const { deps, where } = this.#options
    this.#sent.doubt(writingSince ?? deps.clock.elapsed(), orderly)
    if (this.#sent.bytes === 0 || this.#resending) return
    const why = failure && { why: failure.message }
    if (end !== 'called_off')
      deps.log.warn(warningOf[end], { receiver: where, bytes: this.#sent.bytes, ...why })
    // A delivery under way sends it again, at this try or the next; closing tries once more.
    if (this.#delivering || this.#closing) return
    const stop = new AbortController()
    const done = this.#resend(stop.signal).finally(() => (this.#resending = undefined))
    this.#resending = { stop, done }
  }

  /** New lines may not come for hours: possibly lost ones do not wait for them. */
  async #resend(signal: AbortSignal): Promise<void> {
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

  async #endResending(): Promise<void> {
    this.#resending?.stop.abort()
    await this.#resending?.done
  }

  async probe(signal: AbortSignal): Promise<void> {
    await probeStream(this.#options, signal)
  }

  async check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const { where, tls } = this.#options
    const what = `${where} ${tls ? 'TLS' : 'TCP'}`
    try {
      const ends = await probeStream(this.#options, signal)
      const word = 'accepts the connection; what is sent over it is not confirmed (assurance: sent)'
      return [{ what, ok: true, message: word }, ...ends]
    } catch (error) {
      const message = error instanceof ConnectorError ? error.message : 'could not be asked'
      return [{ what, ok: false, message }]
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#end()
    return this.#closing
  }

  async #end(): Promise<void> {
    await this.#endResending()
    const peer = this.#peer
    this.#peer = undefined
    this.#stop.abort()
    if (peer && !peer.gone) await peer.connection.end(END_MS)
    else if (this.#sent.bytes > 0 && !this.#calledOff) await this.#lastTry()
    this.#sent.clear()
    await peer?.over
  }

  /** Nothing followed the last lines, so they may be lost: one more try before the end. */
  async #lastTry(): Promise<void> {
    const { deps, where } = this.#options
    const ended = new AbortController()
    const late = new AbortController()
    void deps.clock.sleep(END_MS, ended.signal).then(() => late.abort())
    try {
      const connection = await this.#connect(END_MS, late.signal)
      try {
        const write = (piece: Uint8Array) => connection.write(piece, late.signal)
        await this.#sent.sendAgain(write, () => deps.clock.elapsed())
      } finally {
        await connection.end(END_MS / 4)
      }
    } catch {
      deps.log.warn(
        'Recently sent lines may be lost: they could not be sent a second time before the connection ended. If the receiver lacks them: auditferry replay',
        { receiver: where, bytes: this.#sent.bytes },
      )
    } finally {
      ended.abort()
    }
  }
}

// Keeps what was sent over a stream recently, to send it again: the receiver may have lost it when
// it ended or reset the connection.

/** As much as the kernels on both sides may hold unread; a daemon of 256 MiB cannot spare more. */
const SENT_BYTES = 8 * 1024 * 1024
/** Whole lines are kept and dropped together: a stream must not begin inside a message. */
const PIECE_BYTES = 64 * 1024

interface Piece {
  readonly bytes: Uint8Array
  /** monotonic ms; Infinity: possibly lost, to be sent again */
  sentAt: number
  /** how long a peer had it when that peer ended in an orderly way */
  hadMs: number
}

export class SentLines {
  readonly #lingerMs: number
  readonly #mostBytes: number
  #pieces: Piece[] = []
  #bytes = 0

  constructor(lingerMs: number, mostBytes = SENT_BYTES) {
    this.#lingerMs = lingerMs
    this.#mostBytes = mostBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Copies the lines, except those that the rest of the batch would push out. */
  add({ bytes, ends, count }: Lines, now: number): void {
    if (this.#lingerMs === 0) return
    const total = ends[count - 1] ?? 0
    while (this.#pieces.length > 0 && this.#bytes + total > this.#mostBytes) this.#dropOldest()
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

  /** Drops what the peer received longer ago than the linger time. Only for a connected peer. */
  expire(now: number): void {
    while (now - (this.#pieces[0]?.sentAt ?? Infinity) > this.#lingerMs) this.#dropOldest()
  }

  /**
   * The peer is gone: what is kept stays until it was sent once more, however long that takes.
   * After an orderly end it keeps ageing, or a receiver that closes idle connections would get the
   * same lines forever.
   */
  doubt(now: number, orderly: boolean): void {
    this.expire(now)
    for (const piece of this.#pieces) {
      if (piece.sentAt !== Infinity) piece.hadMs = orderly ? Math.max(0, now - piece.sentAt) : 0
      piece.sentAt = Infinity
    }
  }

  /** Sends all of it, oldest first; what could not be sent stays possibly lost. */
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

  #dropOldest(): void {
    this.#bytes -= this.#pieces.shift()?.bytes.length ?? 0
  }
}

// How long a write may wait for a receiver: longer after each wait that was too short,
// because a slow receiver would otherwise get the same lines forever.

/** By then TCP itself has long given up a stuck system. */
const MOST_MS = 128 * WRITE_MS
/** This much without a long wait is more than both sides buffer: the receiver itself keeps up. */
const BRISK_BYTES = 32 * 1024 * 1024

/**
 * Data in a system's buffers proves nothing about the receiver. A full buffer accepts more only
 * when a third of it (a megabyte or more) has left, so a receiver of 1000 bytes/s looks stuck for a
 * quarter of an hour. Giving it up loses all of that, and it is sent again from its beginning.
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

// The peer of one stream, which answers nothing: written to with growing patience, and read all the
// time to notice its end.

/** Bytes of one write, each with the full patience. */
const WRITE_BYTES = 64 * 1024
/** A syslog receiver sends nothing; a talkative peer is something else. */
const MOST_READ_BYTES = 64 * 1024

/** By the peer; broken on the way; or by us: it took no more, it talked, the writer aborted. */
type PeerEnd = 'ended' | 'broken' | 'stuck' | 'talking' | 'called_off'

interface PeerOptions {
  readonly connection: Connection
  /** host:port, for messages */
  readonly where: string
  readonly clock: Clock
  /** outlives the connection: a slow receiver stays slow */
  readonly patience: Patience
  /** The connection is no longer wanted. */
  readonly stop: AbortSignal
  /** Called when the peer is gone without a stop of ours. */
  readonly lost: (peer: Peer) => void
}

class Peer {
  readonly connection: Connection
  /** Resolves when it is gone. */
  readonly over: Promise<void>
  /** monotonic ms: start of the current write; data sent shortly before may be stuck with it */
  writingSince: number | undefined
  failure: ConnectorError | undefined
  /** How a peer that is gone ended. */
  end: PeerEnd = 'ended'
  readonly #options: PeerOptions
  #proven = false

  constructor(options: PeerOptions) {
    this.#options = options
    this.connection = options.connection
    this.over = this.#readToEnd()
  }

  get gone(): boolean {
    return this.connection.gone
  }

  /** True if the connection did not break, and did not end during a write. */
  get orderly(): boolean {
    return this.failure === undefined && this.writingSince === undefined
  }

  async write(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    for (let at = 0; at < bytes.length; at += WRITE_BYTES)
      await this.#writePiece(bytes.subarray(at, at + WRITE_BYTES), signal)
  }

  /** Waits for an early end: a peer that does not permit us closes a little after the write. */
  async stays(signal: AbortSignal): Promise<void> {
    const { clock, where } = this.#options
    if (!this.#proven) {
      const enough = new AbortController()
      const either = AbortSignal.any([signal, enough.signal])
      await Promise.race([clock.sleep(PROOF_MS, either), this.over])
      enough.abort()
    }
    await new Promise((resolve) => setImmediate(resolve))
    if (signal.aborted) throw new ConnectorError('aborted', `the batch to ${where} was aborted`)
    this.assertThere()
    this.#proven = true
  }

  assertThere(): void {
    if (!this.gone) return
    const what = `${this.#options.where} closed the connection during a batch; it is sent again`
    throw this.failure ?? new ConnectorError('unreachable', what)
  }

  async #readToEnd(): Promise<void> {
    const { connection, where, stop, lost } = this.#options
    try {
      for (let heard = 0; ;) {
        const part = await connection.read(stop)
        if (!part) break
        heard += part.length
        if (heard <= MOST_READ_BYTES) continue
        this.end = 'talking'
        throw new ConnectorError(
          'bad_reply',
          `${where} sends a lot of data: check that it is a syslog receiver`,
        )
      }
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      if (error.code === 'aborted') return
      this.failure = error
      if (this.end === 'ended') this.end = 'broken'
    }
    connection.destroy()
    lost(this)
  }

  /** An error leaves half a message behind, so the connection ends with it. */
  async #writePiece(piece: Uint8Array, signal: AbortSignal): Promise<void> {
    const { connection, where, clock, patience } = this.#options
    const written = new AbortController()
    const late = new AbortController()
    const [startedAt, mostMs] = [clock.elapsed(), patience.ms]
    this.writingSince = startedAt
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
      this.writingSince = undefined
      patience.took(piece.length, clock.elapsed() - startedAt)
    } catch (error) {
      if (!late.signal.aborted || signal.aborted) throw this.failure ?? error
      patience.ranOut()
      const what = `${where} accepted nothing for ${mostMs / 1000} s; it may be stuck or slow. The next time limit is ${patience.ms / 1000} s`
      throw new ConnectorError('timeout', what, { cause: error })
    } finally {
      signal.removeEventListener('abort', calledOff)
      written.abort()
    }
  }

  /** Set before the connection ends, because the code notified of its end asks for the reason. */
  #cut(why: PeerEnd): void {
    if (!this.gone) this.end = why
  }
}

// Tests whether a receiver over TCP or TLS is there: a short connection without any data.

/** Undefined: it stays open, as a healthy receiver does, which sends nothing. */
async function endOf(connection: Connection, where: string, until: AbortSignal): Promise<Error | undefined> {
  try {
    while (await connection.read(until));
    return new ConnectorError(
      'unreachable',
      `${where} accepted the connection and closed it at once: check the receiver's log, whether it expects TLS, and whether it allows this machine`,
    )
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    return error.code === 'aborted' ? undefined : error
  }
}

/** The certificates of the connection. Throws ConnectorError if it is refused, or ended at once. */
async function probeStream(
  { where, to, tls, deps, expiry }: SessionOptions,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const enough = new AbortController()
  let connection: Connection | undefined
  try {
    connection = await deps.connect(to, tls, CONNECT_MS, signal)
    void deps.clock.sleep(PROOF_MS, enough.signal).then(() => enough.abort())
    const fault = await endOf(connection, where, AbortSignal.any([signal, enough.signal]))
    if (fault) throw fault
    return expiry.results(connection)
  } finally {
    enough.abort()
    connection?.destroy()
  }
}
