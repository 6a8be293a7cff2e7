// Messages over TCP or TLS. A write is no delivery: what a peer was sent lately goes out again after its end.
import { backoffMs } from '../../model/backoff.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { CheckResult, Lines } from '../../model/sink.ts'
import type { Connection } from '../../model/socket.ts'
import { framedBytes } from '../line-frame.ts'
import { Kept } from './kept.ts'
import { Patience } from './patience.ts'
import { Peer, type PeerEnd } from './peer.ts'
import { checkStream, probeStream } from './stream-check.ts'
import { CONNECT_MS, type Delivered, type Session, type SessionOptions } from './session.ts'

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
