// Messages over TCP or TLS. A write is no delivery: the peer is watched, and what it was sent lately goes out again after its end.
import { backoffMs } from '../../model/backoff.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { CheckResult, Lines } from '../../model/sink.ts'
import type { Connection } from '../../model/socket.ts'
import { framedBytes } from '../line-frame.ts'
import { Kept } from './kept.ts'
import { Patience } from './patience.ts'
import { checkStream } from './stream-check.ts'
import { CONNECT_MS, type Delivered, PROOF_MS, type Session, type SessionOptions } from './session.ts'

/** Of one write, for which the receiver has all our patience. */
const WRITE_BYTES = 64 * 1024
/** A syslog receiver says nothing; what talks on is something else. */
const MOST_HEARD_BYTES = 64 * 1024
const END_MS = 400
/** Before each try to bring back what is in doubt while nothing new is to be sent. */
const PAUSES = { baseMs: 1_000, capMs: 30_000 }

interface Line {
  readonly connection: Connection
  /** Resolves when the peer is gone. */
  readonly over: Promise<void>
  proven: boolean
  /** monotonic ms: a write under way since then; what the peer was sent shortly before may be stuck with it */
  writingSince: number | undefined
  failure: ConnectorError | undefined
}

export class StreamSession implements Session {
  readonly #options: SessionOptions
  readonly #kept: Kept
  readonly #patience = new Patience()
  readonly #stop = new AbortController()
  #line: Line | undefined
  #delivering = false
  /** A stop came in the midst of a write: what was sent before it is on its way, not in doubt. */
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
      } catch (error) {
        this.#calledOff = signal.aborted && this.#line?.writingSince !== undefined
        throw error
      } finally {
        this.#delivering = false
      }
    }
    return { settled: lines.count, refused: [] }
  }

  async #send(lines: Lines, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const line = await this.#ready(signal)
    this.#options.expiry.look(line.connection)
    await this.#write(line, bytes, signal)
    await this.#stays(line, signal)
    const now = this.#options.deps.clock.elapsed()
    this.#kept.expire(now)
    this.#kept.add(lines, now)
  }

  /** The connection that is there, or a new one, on which what was kept goes first. */
  async #ready(signal: AbortSignal): Promise<Line> {
    if (this.#line && !this.#line.connection.gone) return this.#line
    await this.#line?.over
    this.#line = undefined
    const line = this.#listen(await this.#connect(CONNECT_MS, signal))
    this.#line = line
    const { clock } = this.#options.deps
    const write = async (piece: Uint8Array) => {
      await this.#write(line, piece, signal)
      if (line.connection.gone) throw this.#gone(line)
    }
    await this.#kept.sendAgain(write, () => clock.elapsed())
    return line
  }

  #connect(withinMs: number, signal: AbortSignal): Promise<Connection> {
    const { deps, to, tls } = this.#options
    return deps.connect(to, tls, withinMs, signal)
  }

  #listen(connection: Connection): Line {
    const line: { -readonly [Key in keyof Line]: Line[Key] } = {
      ...{ connection, over: Promise.resolve(), proven: false, writingSince: undefined, failure: undefined },
    }
    line.over = this.#hear(line)
    return line
  }

  async #hear(line: Line): Promise<void> {
    const { connection } = line
    try {
      for (let heard = 0; ;) {
        const part = await connection.read(this.#stop.signal)
        if (!part) break
        heard += part.length
        if (heard <= MOST_HEARD_BYTES) continue
        const what = `${this.#options.where} talks back at length: is it a syslog receiver?`
        throw new ConnectorError('bad_reply', what)
      }
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      if (error.code === 'aborted') return
      line.failure = error
    }
    connection.destroy()
    this.#lost(line)
  }

  #lost({ writingSince, failure }: Line): void {
    const { deps, where } = this.#options
    const orderly = failure === undefined && writingSince === undefined
    this.#kept.doubt(writingSince ?? deps.clock.elapsed(), orderly)
    if (this.#kept.bytes === 0 || this.#mending) return
    deps.log.warn('The receiver ended the connection: what it was sent lately goes out again', {
      receiver: where,
      bytes: this.#kept.bytes,
    })
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
        await this.#stays(await this.#ready(signal), signal)
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

  async #write(line: Line, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    for (let at = 0; at < bytes.length; at += WRITE_BYTES)
      await this.#writePiece(line, bytes.subarray(at, at + WRITE_BYTES), signal)
  }

  /** What fails here leaves half a message behind: the connection is gone with it. */
  async #writePiece(line: Line, piece: Uint8Array, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options.deps
    const written = new AbortController()
    const late = new AbortController()
    const [startedAt, mostMs] = [clock.elapsed(), this.#patience.ms]
    line.writingSince = startedAt
    void clock.sleep(mostMs, written.signal).then(() => {
      if (!written.signal.aborted) late.abort()
    })
    try {
      await line.connection.write(piece, AbortSignal.any([signal, late.signal]))
      line.writingSince = undefined
      this.#patience.took(piece.length, clock.elapsed() - startedAt)
    } catch (error) {
      if (!late.signal.aborted || signal.aborted) throw line.failure ?? error
      this.#patience.ranOut()
      const what = `${this.#options.where} took no more for ${mostMs / 1000} s: is it stuck, or slow? Next time it has ${this.#patience.ms / 1000} s`
      throw new ConnectorError('timeout', what, { cause: error })
    } finally {
      written.abort()
    }
  }

  /** A peer that ended while we wrote is seen in the next turn; one that will not have us at all, a little later. */
  async #stays(line: Line, signal: AbortSignal): Promise<void> {
    if (!line.proven) {
      const enough = new AbortController()
      const either = AbortSignal.any([signal, enough.signal])
      await Promise.race([this.#options.deps.clock.sleep(PROOF_MS, either), line.over])
      enough.abort()
    }
    await new Promise((resolve) => setImmediate(resolve))
    if (signal.aborted)
      throw new ConnectorError('aborted', `the batch to ${this.#options.where} was called off`)
    if (line.connection.gone) throw this.#gone(line)
    line.proven = true
  }

  #gone(line: Line): ConnectorError {
    const what = `${this.#options.where} closed the connection while a batch was on its way; it goes out again`
    return line.failure ?? new ConnectorError('unreachable', what)
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
    const line = this.#line
    this.#line = undefined
    this.#stop.abort()
    if (line && !line.connection.gone) await line.connection.end(END_MS)
    else if (this.#kept.bytes > 0 && !this.#calledOff) await this.#lastTry()
    this.#kept.clear()
    await line?.over
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
