// A RELP receiver for tests, as strict as imrelp, with a switch for each possible error. Over sockets or in memory.
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'
import type { AddressInfo } from 'node:net'
import { ConnectorError } from '../../src/core/errors.ts'
import type { Connection } from '../../src/contracts/platform.ts'

/** Numbers of messages count from 0 over all sessions, refused ones included. */
export interface RelpSwitches {
  /** the code for this message; undefined or 200: stored */
  codeOf?: (message: string, number: number) => number | undefined
  /** Stores message `number`, and cuts the connection instead of answering it. */
  cutAt?: number
  /** Cuts before it stores message `number`. */
  cutBefore?: number
  /** Answers nothing to message `number` and all behind it, and stores them. */
  silentFrom?: number
  /** Takes no byte more from message `number` on. */
  deafFrom?: number
  /** Sends this (latin1) instead of the answer to message `number`; `cut`: and ends the connection behind it. */
  insteadOf?: { number: number; bytes: string; cut?: boolean }
  /** Answers what came in one read in reverse. */
  reversed?: boolean
  /** Answers wait here until `release`. */
  held?: boolean
  /** Like a system that delays small answers: the next goes out when something came in after the last. */
  waiting?: boolean
  /** Answers go out in pieces of so many bytes. */
  pieceBytes?: number
  /** The answer to `open`: code, text, offers. */
  opening?: string
  /** Instead of any answer to `open`; '': silence */
  greeting?: string
  /** `open` is answered by closing */
  hangsUp?: boolean
  /** takes no connection */
  down?: boolean
  /** `close` is not answered */
  rude?: boolean
}

interface Line {
  send(bytes: Buffer): void
  end(): void
  cut(): void
}

interface RelpTls {
  readonly cert: string
  readonly key: string
  /** When given, the sender must show a certificate that this authority signed. */
  readonly clientCa?: string
}

export interface ListenOptions {
  readonly port?: number
  readonly tls?: RelpTls
}

export interface RelpListener {
  readonly port: number
  close(): Promise<void>
}

function tlsServer({ cert, key, clientCa }: RelpTls, serve: (socket: Socket) => void): Server {
  const asked = clientCa === undefined ? {} : { ca: clientCa, requestCert: true }
  return createTlsServer({ cert, key, ...asked }, serve).on('tlsClientError', () => undefined)
}

const OPENING = '200 OK\nrelp_version=0\nrelp_software=fake\ncommands=syslog'
const GOODBYE = Buffer.from('0 serverclose 0\n')
const HEADER = /^(\d{1,9}) ([A-Za-z]{1,32}) (\d{1,9})/

const answer = (txnr: number, data: string): Buffer =>
  Buffer.from(data === '' ? `${txnr} rsp 0\n` : `${txnr} rsp ${Buffer.byteLength(data)} ${data}\n`)

export class FakeRelp {
  switches: RelpSwitches
  /** everything that was stored, in order */
  readonly stored: string[] = []
  readonly sessions: RelpPeer[] = []
  /** connections that are not ended */
  readonly lines = new Set<Line>()
  seen = 0
  /** most messages without an answer, at any moment */
  mostOpen = 0
  /** of connections in memory, as one over TLS has them */
  certificateEndsAt: number | undefined
  ownCertificateEndsAt: number | undefined
  readonly #servers = new Set<Server>()

  constructor(switches: RelpSwitches = {}) {
    this.switches = switches
  }

  /** @internal */
  begin(line: Line): RelpPeer {
    const peer = new RelpPeer(this, line)
    this.sessions.push(peer)
    this.lines.add(line)
    return peer
  }

  /** Sends the waiting answers. */
  release(count = Infinity): void {
    for (const peer of this.sessions) peer.flush(count)
  }

  /** Says goodbye on all connections unprompted, like a receiver that is stopped. */
  leave(): void {
    for (const peer of this.sessions) peer.leave()
  }

  /** Sends `text` unchanged on each connection. */
  say(text: string): void {
    for (const line of this.lines) line.send(Buffer.from(text))
  }

  cutAll(): void {
    for (const line of [...this.lines]) line.cut()
  }

  /** In memory: for tests whose clock does not move. */
  readonly connect = async (): Promise<Connection> => {
    if (this.switches.down) throw new ConnectorError('unreachable', 'fake: refused the connection')
    return new MemoryConnection(this)
  }

  /** On a real socket of 127.0.0.1. */
  async listen({ port: wanted = 0, tls }: ListenOptions = {}): Promise<RelpListener> {
    const serve = (socket: Socket) => this.#serve(socket)
    const server = tls ? tlsServer(tls, serve) : createServer(serve)
    this.#servers.add(server)
    await new Promise<void>((resolve) => {
      server.listen(wanted, '127.0.0.1', resolve)
    })
    const close = () => {
      this.cutAll()
      return new Promise<void>((resolve) => {
        server.close(() => resolve())
      })
    }
    return { port: (server.address() as AddressInfo).port, close }
  }

  #serve(socket: Socket): void {
    const line: Line = {
      send: (bytes) => void socket.write(bytes),
      end: () => socket.end(),
      // Behind TLS a socket cannot be reset.
      cut: () => (socket instanceof TLSSocket ? socket.destroy() : socket.resetAndDestroy()),
    }
    const peer = this.begin(line)
    socket.on('error', () => undefined)
    socket.on('close', () => this.lines.delete(line))
    socket.on('data', (bytes: Buffer) => {
      if (!peer.take(bytes)) socket.pause()
    })
    socket.on('end', () => socket.end())
  }
}

/** The receiver's side of one connection. */
export class RelpPeer {
  readonly #fake: FakeRelp
  readonly #line: Line
  #bytes: Buffer = Buffer.alloc(0)
  #expected = 1
  #opened = false
  #over = false
  #answers: Buffer[] = []
  #unanswered = 0
  #onItsWay = false
  /** bytes of each piece that came in at once */
  readonly pieces: number[] = []
  closedInOrder = false

  constructor(fake: FakeRelp, line: Line) {
    this.#fake = fake
    this.#line = line
  }

  /** False: it reads no more. */
  take(bytes: Uint8Array): boolean {
    if (this.#over) return true
    const { deafFrom = Infinity, held, reversed, waiting } = this.#fake.switches
    if (this.#fake.seen >= deafFrom) return false
    this.#onItsWay = false
    this.#trickle()
    this.pieces.push(bytes.length)
    this.#bytes = Buffer.concat([this.#bytes, bytes])
    while (this.#frame());
    if (reversed) this.#answers.reverse()
    if (!held && !waiting) this.flush()
    return true
  }

  flush(count = Infinity): void {
    const { pieceBytes = Infinity } = this.#fake.switches
    const batch = this.#answers.splice(0, count)
    this.#unanswered -= batch.length
    const bytes = Buffer.concat(batch)
    for (let at = 0; at < bytes.length; at += pieceBytes)
      this.#line.send(bytes.subarray(at, Math.min(bytes.length, at + pieceBytes)))
  }

  #trickle(): void {
    if (!this.#fake.switches.waiting || this.#onItsWay || this.#answers.length === 0) return
    this.#onItsWay = true
    this.flush()
  }

  leave(): void {
    if (this.#over) return
    this.#line.send(GOODBYE)
    this.#stop(false)
  }

  #stop(cut: boolean): void {
    this.#over = true
    if (cut) this.#line.cut()
    else this.#line.end()
  }

  /** Like imrelp: anything that is not exactly a frame ends the session. */
  #frame(): boolean {
    if (this.#over) return false
    const head = HEADER.exec(this.#bytes.subarray(0, 64).toString('latin1'))
    if (!head) {
      if (this.#bytes.length >= 64) this.#stop(true)
      return false
    }
    const [text, txnr, command = '', length] = head
    const size = Number(length)
    const start = text.length + (size > 0 ? 1 : 0)
    if (this.#bytes.length <= start + size) return false
    const fits = this.#bytes[start + size] === 10 && (size === 0 || this.#bytes[text.length] === 32)
    if (!fits || Number(txnr) !== this.#expected) {
      this.#stop(true)
      return false
    }
    this.#expected++
    const data = this.#bytes.subarray(start, start + size).toString()
    this.#bytes = this.#bytes.subarray(start + size + 1)
    this.#obey(Number(txnr), command, data)
    this.#trickle()
    return true
  }

  #obey(txnr: number, command: string, data: string): void {
    if (command === 'open') this.#open(txnr, data)
    else if (!this.#opened) this.#stop(true)
    else if (command === 'syslog') this.#syslog(txnr, data)
    else if (command === 'close') this.#close(txnr)
    else this.#stop(true)
  }

  #open(txnr: number, data: string): void {
    const { opening = OPENING, greeting, hangsUp } = this.#fake.switches
    const offers = data.split('\n')
    const sane = offers.includes('relp_version=0') && offers.includes('commands=syslog')
    this.#opened = sane && hangsUp !== true
    if (!this.#opened) this.#stop(hangsUp !== true)
    else this.#line.send(greeting === undefined ? answer(txnr, opening) : Buffer.from(greeting))
  }

  #syslog(txnr: number, data: string): void {
    const fake = this.#fake
    const number = fake.seen++
    const { codeOf, cutAt, cutBefore, silentFrom = Infinity, insteadOf } = fake.switches
    if (number === cutBefore) {
      this.#cutNow()
      return
    }
    const code = codeOf?.(data, number) ?? 200
    if (code === 200) fake.stored.push(data)
    if (number === cutAt) {
      this.#cutNow()
      return
    }
    fake.mostOpen = Math.max(fake.mostOpen, ++this.#unanswered)
    if (number >= silentFrom) return
    if (number === insteadOf?.number) {
      this.#answers.push(Buffer.from(insteadOf.bytes, 'latin1'))
      if (insteadOf.cut === true) this.#cutNow()
    } else
      this.#answers.push(answer(txnr, code === 200 ? '200 OK' : `${code} not this one: ${data}`.slice(0, 80)))
  }

  /** Answers from before still arrive. */
  #cutNow(): void {
    this.flush()
    this.#stop(false)
  }

  #close(txnr: number): void {
    if (this.#fake.switches.rude) return
    this.#answers.push(answer(txnr, ''), GOODBYE)
    this.flush()
    this.closedInOrder = true
    this.#stop(false)
  }
}

class MemoryConnection implements Connection {
  readonly certificateEndsAt: number | undefined
  readonly ownCertificateEndsAt: number | undefined
  readonly #peer: RelpPeer
  readonly #line: Line
  readonly #fake: FakeRelp
  readonly #inbox: Uint8Array[] = []
  #gone = false
  #reset = false
  readonly #sleepers: (() => void)[] = []

  constructor(fake: FakeRelp) {
    this.#fake = fake
    this.certificateEndsAt = fake.certificateEndsAt
    this.ownCertificateEndsAt = fake.ownCertificateEndsAt
    this.#line = {
      send: (bytes) => {
        this.#inbox.push(Uint8Array.from(bytes))
        this.#wake()
      },
      end: () => this.#leave(),
      cut: () => {
        this.#reset = true
        this.#leave()
      },
    }
    this.#peer = fake.begin(this.#line)
  }

  get gone(): boolean {
    return this.#gone
  }

  #wake(): void {
    for (const wake of this.#sleepers.splice(0)) wake()
  }

  #change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.#sleepers.push(resolve)
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
  }

  #leave(): void {
    this.#gone = true
    this.#fake.lines.delete(this.#line)
    this.#wake()
  }

  async write(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    if (this.#gone) throw new ConnectorError('unreachable', 'fake: the connection is gone')
    const taken = this.#peer.take(Uint8Array.from(bytes))
    if (taken) return
    // A peer that does not read takes nothing until the connection is gone.
    for (const gone = () => this.#gone || signal.aborted; !gone();) await this.#change(signal)
    throw new ConnectorError('unreachable', 'fake: the connection was destroyed')
  }

  async read(signal: AbortSignal): Promise<Uint8Array | undefined> {
    for (;;) {
      if (signal.aborted) throw new ConnectorError('aborted', 'fake: called off')
      const chunk = this.#inbox.shift()
      if (chunk) return chunk
      if (this.#reset) throw new ConnectorError('unreachable', 'fake: reset')
      if (this.#gone) return undefined
      await this.#change(signal)
    }
  }

  end(): Promise<void> {
    this.destroy()
    return Promise.resolve()
  }

  destroy(): void {
    this.#leave()
  }
}
