// The receiver of the example on the bench: a function in memory, and the same one behind real TLS.
import { ConnectorError } from '../../../src/core/errors.ts'
import type { HttpRequest, Transport } from '../../../src/contracts/platform.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { openTransport } from '../../../src/platform/transport.ts'
import { BatchDispatcher } from '../../../src/delivery/dispatcher.ts'
import { endless, json, page, plain, type Answered } from '../../fakes/hec-replies.ts'
import { openHecServer as openServer } from '../../fakes/hec-server.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'
import type { SinkBench } from '../sink.contract.ts'
import type { Secured, Shown } from '../tls.contract.ts'
import { httpLines } from './http-lines.ts'

const NAME = 'lines'
const HOUR_MS = 3_600_000

/** Takes lines from clients with the token. `next` decides the next answer; the lines are taken all the same. */
class Receiver {
  token = 'token-5ec2e7'
  gone = false
  poison: string | undefined
  next: (() => Answered) | undefined
  readonly ids: string[] = []

  answer(request: HttpRequest): Answered {
    if (request.headers['authorization'] !== `Bearer ${this.token}`) return json(401, {})
    const lines = Buffer.from(request.body ?? []).toString().split('\n').slice(0, -1) // prettier-ignore
    const ids = lines.map((line) => (JSON.parse(line) as { id: string }).id)
    if (this.poison !== undefined && ids.includes(this.poison)) return json(400, {})
    this.ids.push(...ids)
    const { next } = this
    this.next = undefined
    return next ? next() : json(200, { taken: ids.length })
  }

  /** In memory, on the clock of the bench. */
  transport(clock: { sleep(ms: number, signal: AbortSignal): Promise<void> }): Transport {
    return async (request, signal) => {
      const lost = () => new ConnectorError('unreachable', 'the connection was reset')
      if (this.gone) throw lost()
      const { status, headers = {}, body, endless: more, reset, delayMs } = this.answer(request)
      if (reset) throw lost()
      if (delayMs > 0) await clock.sleep(delayMs, signal)
      async function* bytes() {
        yield body
        while (more) yield Buffer.alloc(16_384, 0x20)
      }
      return { status, headers, body: bytes() }
    }
  }
}

export function httpLinesBench(): SinkBench {
  const receiver = new Receiver()
  const deps = sinkDeps()
  const { clock } = deps
  const transport = () => receiver.transport(clock)
  const options = httpLines.options.parse({ url: 'https://lines.test/in', token: receiver.token })
  let inFile = receiver.token
  options.token.follow(() => inFile)
  const answerWith = (make: () => Answered) => () => void (receiver.next = make)
  const slow = answerWith(() => ({ ...json(200, {}), delayMs: HOUR_MS }))
  const lost = answerWith(() => ({ ...json(200, {}), reset: true }))
  return {
    name: NAME,
    open: () => httpLines.open(NAME, options, { ...deps, transport }),
    clock,
    received: () => receiver.ids,
    down: () => (receiver.gone = true),
    up: () => (receiver.gone = false),
    loseAnswer: lost,
    answers: {
      lost,
      slow,
      cut: answerWith(() => plain(200, '{"tak', 'application/json')),
      endless: answerWith(endless),
      'of a wrong type': answerWith(() => page(200, 'Please sign in')),
      nonsense: answerWith(() => plain(200, Buffer.from([0, 255]), 'application/octet-stream')),
    },
    stall: slow,
    poison: (id) => (receiver.poison = id),
    key: { revoke: () => (receiver.token = 'token-77abf0'), renew: () => (inFile = receiver.token) },
    secured,
    secrets: ['token-5ec2e7', 'token-77abf0'],
    logged: () => deps.log.lines.join(),
    leftOpen: () => clock.sleeping,
  }
}

const secured: Secured = async (shown, tls) => {
  const receiver = new Receiver()
  const answer = (request: HttpRequest) => ({ headers: {}, ...receiver.answer(request) })
  const listen = (now: Shown, port: number) => openServer(answer, { port, tls: now })
  let server = await listen(shown, 0)
  const network = openTransport({ tls })
  const deps = sinkDeps({ clock: systemClock, transport: () => network.send })
  const options = httpLines.options.parse({ url: server.url, token: receiver.token, tls })
  return {
    start: (parts) => {
      const sink = httpLines.open(NAME, options, deps)
      return { sink, stepper: new BatchDispatcher({ ...parts, sink }) }
    },
    received: () => receiver.ids,
    show: async (next) => {
      await server.close()
      server = await listen(next, server.port)
    },
    close: async () => {
      await network.close()
      await server.close()
    },
  }
}
