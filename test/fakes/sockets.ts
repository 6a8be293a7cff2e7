// A receiver at the other end of streams and datagrams, without a network: takes, stalls, ends and resets on command.
import { ConnectorError } from '../../src/core/errors.ts'
import type { Address, Connect, Connection, OpenDatagrams, TlsOptions } from '../../src/contracts/platform.ts'
import { StepClock } from './sink-deps.ts'

/** Short sleeps end in one of the next turns; long ones, deadlines, when `pass` says so. */
export class BriskClock extends StepClock {
  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const slept = super.sleep(ms, signal)
    if (ms <= 5_000)
      setImmediate(() => {
        if (signal?.aborted !== true) this.pass(ms)
      })
    return slept
  }
}

const fault = (code: 'aborted' | 'unreachable', message: string) => new ConnectorError(code, message)

const BABBLE_BYTES = 16 * 1024
const MOST_BABBLE_BYTES = 16 * 1024 * 1024

export class FakeConnection implements Connection {
  readonly ownCertificateEndsAt: number | undefined
  readonly certificateEndsAt: number | undefined
  readonly received: Buffer[] = []
  ended = false
  gone = false
  #failure: ConnectorError | undefined
  #parts: Uint8Array[] = []
  #wakes: (() => void)[] = []
  #babbles = false
  #babbledBytes = 0
  readonly #peer: FakePeer

  constructor(peer: FakePeer) {
    this.#peer = peer
    this.certificateEndsAt = peer.certificateEndsAt
    this.ownCertificateEndsAt = peer.ownCertificateEndsAt
  }

  async write(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    await Promise.resolve()
    if (this.gone) throw this.#failure ?? fault('unreachable', 'siem.test:601 closed the connection')
    const copy = Buffer.from(bytes)
    if (this.#peer.stalled !== false) {
      if (this.#peer.stalled === 'once') this.#peer.stalled = false
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true })
        if (signal.aborted) resolve()
      })
      this.destroy()
      throw fault('aborted', 'called off')
    }
    await this.#peer.taking(this, copy, signal)
    if (signal.aborted) this.destroy()
    if (signal.aborted) throw fault('aborted', 'called off')
    this.received.push(copy)
    this.#peer.wrote(this, copy)
  }

  async read(signal: AbortSignal): Promise<Uint8Array | undefined> {
    for (;;) {
      if (signal.aborted) throw fault('aborted', 'called off')
      const part = this.#parts.shift() ?? this.#babbled()
      if (part) return part
      if (this.#failure) throw this.#failure
      if (this.gone) return undefined
      await new Promise<void>((resolve) => {
        this.#wakes.push(resolve)
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
    }
  }

  say(bytes: Uint8Array): void {
    this.#parts.push(bytes)
    this.#wake()
  }

  /** From now on it talks endlessly; a reader that takes far too much of it fails. */
  babble(): void {
    this.#babbles = true
    this.#wake()
  }

  #babbled(): Uint8Array | undefined {
    if (!this.#babbles || this.gone) return undefined
    this.#babbledBytes += BABBLE_BYTES
    if (this.#babbledBytes > MOST_BABBLE_BYTES) throw new Error('nobody bounds what is heard')
    return new Uint8Array(BABBLE_BYTES)
  }

  /** `reset`: else an orderly end. */
  over(reset = false): void {
    this.gone = true
    if (reset) this.#failure = fault('unreachable', 'siem.test:601 reset the connection')
    this.#wake()
  }

  /** The other side's end is seen before it is over, as with a socket. */
  async end(): Promise<void> {
    this.ended = true
    this.destroy()
    await new Promise((resolve) => setImmediate(resolve))
  }

  destroy(): void {
    this.gone = true
    this.#wake()
  }

  #wake(): void {
    for (const wake of this.#wakes.splice(0)) wake()
  }
}

export class FakePeer {
  readonly connections: FakeConnection[] = []
  readonly asked: { to: Address; tls: TlsOptions | undefined }[] = []
  down = false
  /** Connections are taken only when this resolves. */
  holding: Promise<unknown> | undefined
  /** Takes no byte more; `once`: on the connection that is written to next. */
  stalled: boolean | 'once' = false
  certificateEndsAt: number | undefined
  ownCertificateEndsAt: number | undefined
  /** Each write is taken when this resolves. */
  taking: (connection: FakeConnection, bytes: Buffer, signal: AbortSignal) => Promise<void> | void = () =>
    undefined
  /** Called with each write, behind it. */
  wrote: (connection: FakeConnection, bytes: Buffer) => void = () => undefined

  readonly connect: Connect = async (to, tls, _timeoutMs, signal) => {
    await Promise.resolve()
    this.asked.push({ to, tls })
    await this.holding
    if (signal.aborted) throw fault('aborted', 'called off')
    if (this.down) throw fault('unreachable', 'siem.test:601 refused the connection')
    const connection = new FakeConnection(this)
    this.connections.push(connection)
    return connection
  }

  get last(): FakeConnection {
    const last = this.connections.at(-1)
    if (!last) throw new Error('nobody has connected')
    return last
  }

  get open(): number {
    return this.connections.filter(({ gone }) => !gone).length
  }

  /** The writes of each connection, in the order of connections. */
  streams(): Buffer[] {
    return this.connections.map(({ received }) => Buffer.concat(received))
  }
}

export class FakeDatagramPeer {
  readonly received: Buffer[] = []
  opened = 0
  open = 0
  down = false
  stalled: Promise<void> | undefined
  mostBytes = 65_507
  /** datagrams that were tried, taken or not */
  sent = 0
  /** False: too large for the network, whatever limit it has reported. */
  fits: (bytes: Buffer) => boolean = () => true
  /** The number of the one that is sent, and a failure is reported for it all the same. */
  failsBehind: number | undefined

  readonly datagrams: OpenDatagrams = async () => {
    this.opened++
    this.open++
    let closed = false
    return {
      send: async (bytes) => {
        await this.stalled
        if (this.down) throw fault('unreachable', 'siem.test:514 refused it')
        const datagram = Buffer.from(bytes)
        const fits = bytes.length <= this.mostBytes && this.fits(datagram)
        const number = this.sent++
        if (!fits) throw new ConnectorError('too_large', 'does not fit one datagram')
        this.received.push(datagram)
        if (number === this.failsBehind) throw fault('unreachable', 'siem.test:514 refused it')
      },
      close: async () => {
        if (!closed) this.open--
        closed = true
      },
    }
  }
}
