// Syslog receivers on the bench: streams, datagrams and RELP in memory, and TLS over real sockets.
import { createServer, type TLSSocket } from 'node:tls'
import type { AddressInfo } from 'node:net'
import type { Connect } from '../../src/contracts/platform.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { connectSocket } from '../../src/platform/sockets.ts'
import { BatchDispatcher } from '../../src/delivery/dispatcher.ts'
import { sinkKinds } from '../../src/sinks/index.ts'
import { FakeRelp } from '../fakes/relp-server.ts'
import { sinkDeps } from '../fakes/sink-deps.ts'
import { BriskClock, type FakeConnection, FakeDatagramPeer, FakePeer } from '../fakes/sockets.ts'
import { framesOf, parse5424 } from '../fakes/syslog-parser.ts'
import type { SinkBench } from './sink.contract.ts'
import type { Secured, Shown } from './tls.contract.ts'

/** Longer than what was sent is kept: what a receiver may have lost belongs to another test. */
const LINGERED_MS = 31_000

const NAME = 'siem'
const HOST = '127.0.0.1'
const idOf = (frame: Buffer) => parse5424(frame).data['id'] ?? ''
const parse = (more: object) => sinkKinds.syslog.options.parse(more)

/** A server that answers on a port without a syslog receiver. */
const PAGE = Buffer.from('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
const NONSENSE = Buffer.from([0xff, 0x00, 0x7b, 0xc3])

/** A receiver of streams takes what comes and answers nothing; what it does all the same, it does behind the next batch. */
function streamAnswers(peer: FakePeer, lingered: () => void) {
  const behindNext = (act: (connection: FakeConnection) => void) => () => {
    lingered()
    peer.wrote = (connection) => {
      peer.wrote = () => undefined
      act(connection)
    }
  }
  return {
    lost: behindNext((connection) => connection.over(true)),
    slow: () => {
      lingered()
      peer.stalled = 'once'
    },
    endless: behindNext((connection) => connection.babble()),
    'of a wrong type': behindNext((connection) => {
      connection.say(PAGE)
      connection.over()
    }),
    nonsense: behindNext((connection) => connection.say(NONSENSE)),
  }
}

export function streamBench(address: string): SinkBench {
  const peer = new FakePeer()
  const clock = new BriskClock()
  const lingered = () => clock.pass(LINGERED_MS)
  const answers = streamAnswers(peer, lingered)
  const deps = sinkDeps({ clock, connect: peer.connect })
  const options = parse({ address })
  return {
    name: NAME,
    open: () => sinkKinds.syslog.open(NAME, options, deps),
    clock,
    received: () => peer.streams().flatMap((stream) => framesOf(stream).map(idOf)),
    down: () => {
      lingered()
      peer.down = true
      for (const connection of peer.connections) connection.over(true)
    },
    up: () => (peer.down = peer.stalled = false),
    loseAnswer: answers.lost,
    answers,
    stall: () => (peer.stalled = 'once'),
    ...(address.startsWith('tls:') ? { secured: securedStream } : {}),
    secrets: [],
    logged: () => deps.log.lines.join(),
    leftOpen: () => peer.open + clock.sleeping,
  }
}

/** Reads on over one connection after the other: what the last one left unfinished is no message. */
function wholeFrames(bytes: Buffer): Buffer[] {
  for (let end = bytes.length; ; end--)
    try {
      return framesOf(bytes.subarray(0, end))
    } catch {
      // one byte less, until it ends with a frame
    }
}

const securedStream: Secured = async (shown, tls) => {
  const streams: Buffer[][] = []
  const sockets = new Set<TLSSocket>()
  const listen = async ({ cert, key, clientCa }: Shown, port: number) => {
    const asked = clientCa === undefined ? {} : { ca: clientCa, requestCert: true }
    const server = createServer({ cert, key, ...asked }, (socket) => {
      const parts: Buffer[] = []
      streams.push(parts)
      sockets.add(socket)
      socket.on('data', (part: Buffer) => parts.push(part)).on('error', () => undefined)
      socket.on('close', () => sockets.delete(socket))
    })
    server.on('tlsClientError', () => undefined)
    await new Promise<void>((resolve) => server.listen(port, HOST, resolve))
    return server
  }
  let server = await listen(shown, 0)
  const { port } = server.address() as AddressInfo
  const shut = () => {
    for (const socket of sockets) socket.destroy()
    return new Promise<void>((resolve) => server.close(() => resolve()))
  }
  const deps = sinkDeps({ clock: systemClock, connect: connectSocket })
  const options = parse({ address: `tls://${HOST}:${port}`, tls })
  return {
    name: NAME,
    start: (parts) => {
      const sink = sinkKinds.syslog.open(NAME, options, deps)
      return { sink, stepper: new BatchDispatcher({ ...parts, sink }) }
    },
    received: () => streams.flatMap((parts) => wholeFrames(Buffer.concat(parts)).map(idOf)),
    show: async (next) => {
      await shut()
      server = await listen(next, port)
    },
    close: shut,
  }
}

export function datagramBench(): SinkBench {
  const peer = new FakeDatagramPeer()
  const deps = sinkDeps({ clock: new BriskClock(), datagrams: peer.datagrams })
  const options = parse({ address: 'udp://siem.test:514' })
  return {
    name: NAME,
    open: () => sinkKinds.syslog.open(NAME, options, deps),
    clock: deps.clock,
    received: () => peer.received.map(idOf),
    down: () => (peer.down = true),
    up: () => (peer.down = false),
    loseAnswer: () => (peer.failsBehind = peer.sent + 2),
    answers: { lost: () => (peer.failsBehind = peer.sent) },
    refuse: (index) => {
      const at = peer.sent + index
      peer.fits = () => peer.sent !== at
    },
    poison: (id) => (peer.fits = (bytes) => idOf(bytes) !== id),
    secrets: [],
    logged: () => deps.log.lines.join(),
    leftOpen: () => peer.open + deps.clock.sleeping,
  }
}

/** What happens to the answer to the next message; `silent` lasts for its connection. */
function relpAnswers(fake: FakeRelp) {
  const instead =
    (bytes: string, cut = false) =>
    () => {
      fake.switches.insteadOf = { number: fake.seen, bytes, cut }
    }
  return {
    lost: () => (fake.switches.cutAt = fake.seen),
    cut: instead('2 rsp 6 20', true),
    slow: () => (fake.switches.silentFrom = fake.seen),
    endless: instead('0 hint 0\n'.repeat(100_000)),
    'of a wrong type': instead(PAGE.toString('latin1')),
    nonsense: instead(NONSENSE.toString('latin1')),
  }
}

export function relpBench(address: string): SinkBench {
  const fake = new FakeRelp()
  // Only the next connection is deaf.
  let deaf: 'next' | 'now' | undefined
  const connect: Connect = () => {
    delete fake.switches.silentFrom
    if (deaf === 'now') fake.switches.deafFrom = Infinity
    deaf = deaf === 'next' ? 'now' : undefined
    return fake.connect()
  }
  const deps = sinkDeps({ clock: new BriskClock(), connect })
  const options = parse({ address })
  return {
    name: NAME,
    open: () => sinkKinds.syslog.open(NAME, options, deps),
    clock: deps.clock,
    received: () => fake.stored.map((message) => idOf(Buffer.from(message))),
    down: () => {
      fake.switches.down = true
      fake.cutAll()
    },
    up: () => (fake.switches = {}),
    loseAnswer: () => (fake.switches.cutAt = fake.seen + 2),
    answers: relpAnswers(fake),
    stall: () => {
      deaf = 'next'
      fake.switches.deafFrom = fake.seen
    },
    refuse: (index) => {
      const wanted = fake.seen + index
      let refused: string | undefined
      fake.switches.codeOf = (message, number) => {
        if (number === wanted) refused = message
        return message === refused ? 500 : undefined
      }
    },
    // It answers for each message, so that the bad one of a batch has a name after all.
    poison: (id) => (fake.switches.codeOf = (message) => (message.includes(id) ? 500 : undefined)),
    ...(address.startsWith('relp+tls:') ? { secured: securedRelp } : {}),
    secrets: [],
    logged: () => deps.log.lines.join(),
    leftOpen: () => fake.lines.size + deps.clock.sleeping,
  }
}

const securedRelp: Secured = async (shown, tls) => {
  const fake = new FakeRelp()
  let listener = await fake.listen({ tls: shown })
  const { port } = listener
  const deps = sinkDeps({ clock: systemClock, connect: connectSocket })
  const options = parse({ address: `relp+tls://${HOST}:${port}`, tls })
  return {
    name: NAME,
    start: (parts) => {
      const sink = sinkKinds.syslog.open(NAME, options, deps)
      return { sink, stepper: new BatchDispatcher({ ...parts, sink }) }
    },
    received: () => fake.stored.map((message) => idOf(Buffer.from(message))),
    show: async (next) => {
      await listener.close()
      listener = await fake.listen({ port, tls: next })
    },
    close: () => listener.close(),
  }
}
