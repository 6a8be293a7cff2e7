// The other end of one stream, which answers nothing: written to with patience, and heard all the time, since its end is all that it ever says.
import type { Clock } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Connection } from '../../model/socket.ts'
import type { Patience } from './patience.ts'
import { PROOF_MS } from './session.ts'

/** What one write takes, for which the receiver has all our patience. */
const WRITE_BYTES = 64 * 1024
/** A syslog receiver says nothing; what talks on is something else. */
const MOST_HEARD_BYTES = 64 * 1024

/** Who ended it and how: it did, in an orderly way; the way to it broke; or we did, since it took no more, since it talked, or called off by whoever wrote. */
export type PeerEnd = 'ended' | 'broken' | 'stuck' | 'talking' | 'called_off'

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

export class Peer {
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
