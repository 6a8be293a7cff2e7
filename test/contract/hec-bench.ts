// Splunk's collector on the bench: the fake in memory for time and content, and over real TLS for certificates.
import { gunzipSync, gzipSync } from 'node:zlib'
import type { HttpRequest, Transport } from '../../src/contracts/platform.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openTransport } from '../../src/platform/transport.ts'
import { BatchDispatcher } from '../../src/delivery/dispatcher.ts'
import { sinkKinds } from '../../src/sinks/index.ts'
import { FakeHec, hecTransport, listenHec } from '../fakes/hec.ts'
import type { HecToken } from '../fakes/hec-options.ts'
import type { HecListener } from '../fakes/hec-server.ts'
import { plain } from '../fakes/hec-replies.ts'
import { sinkDeps } from '../fakes/sink-deps.ts'
import type { DeliveryBench } from './delivery.contract.ts'
import type { SinkBench } from './sink.contract.ts'
import type { Secured, Shown } from './tls.contract.ts'

const TOKEN = 'test-token-5ec2e7'
const LATER_TOKEN = 'test-token-77abf0'
const HOUR_MS = 3_600_000

const idOf = (event: string) => (JSON.parse(event) as { id: string }).id
const bodyOf = ({ body }: HttpRequest) => (body ? gunzipSync(body).toString() : '')

/** Makes the object number `index` of a body unreadable for Splunk. */
function spoiled(request: HttpRequest, index: number): HttpRequest {
  let seen = 0
  const bad = bodyOf(request).replace(/"event":\{/g, (found) => (seen++ === index ? '"event":}' : found))
  return { ...request, body: gzipSync(bad) }
}

const cut = '{"text":"Succ'

const isPost = ({ url }: HttpRequest) => url.endsWith('/event')

function answersOf(fake: FakeHec): DeliveryBench['answers'] {
  return {
    lost: () => fake.faults.push({ kind: 'reset', indexes: true }),
    cut: () => fake.faults.push({ kind: 'status', status: 200, body: cut, indexes: true }),
    slow: () => fake.faults.push({ kind: 'slow', ms: HOUR_MS }),
    endless: () => fake.faults.push({ kind: 'endless', indexes: true }),
    'of a wrong type': () => fake.faults.push({ kind: 'html' }),
    nonsense: () => fake.faults.push({ kind: 'garbage', indexes: true }),
  }
}

/** `more`: the address, and what else is particular. `token`: as Splunk has it, such as with acknowledgements. */
export function hecBench(more: object, token: HecToken = {}): SinkBench {
  const fake = new FakeHec({ tokens: { [TOKEN]: token } })
  const deps = sinkDeps()
  const send = hecTransport(fake, deps.clock)
  let spoil: number | undefined
  let poison: string | undefined
  const transport: Transport = async (request, signal) => {
    if (!isPost(request)) return send(request, signal)
    const index = spoil
    spoil = undefined
    if (poison !== undefined && bodyOf(request).includes(poison)) {
      const { status, headers = {} } = plain(413, '', 'text/html')
      return { status, headers, body: (async function* () {})() }
    }
    return send(index === undefined ? request : spoiled(request, index), signal)
  }
  const options = sinkKinds.splunk_hec.options.parse({ token: TOKEN, ...more })
  let inFile = TOKEN
  options.token.follow(() => inFile)
  const accept = (name: string) => (fake.options = { ...fake.options, tokens: { [name]: token } })
  return {
    name: 'splunk',
    open: () => sinkKinds.splunk_hec.open('splunk', options, { ...deps, transport: () => transport }),
    clock: deps.clock,
    received: () => fake.texts().map(idOf),
    again: true,
    ...(token.acks ? { later: true } : {}),
    down: () => (fake.faultOf = fake.ackFaultOf = () => ({ kind: 'reset' })),
    up: () => (fake.faultOf = fake.ackFaultOf = undefined),
    loseAnswer: () => fake.faults.push({ kind: 'reset', indexes: true }),
    answers: answersOf(fake),
    stall: () => fake.faults.push({ kind: 'slow', ms: HOUR_MS }),
    refuse: (index) => (spoil = index),
    poison: (id) => (poison = id),
    key: { revoke: () => accept(LATER_TOKEN), renew: () => (inFile = LATER_TOKEN) },
    secured: securedHec(token),
    secrets: [TOKEN, LATER_TOKEN],
    logged: () => deps.log.lines.join(),
    leftOpen: () => deps.clock.sleeping,
  }
}

const securedHec =
  (token: HecToken): Secured =>
  async (shown, tls) => {
    const fake = new FakeHec({ tokens: { [TOKEN]: token }, ackDelayMs: 100 })
    const listen = (now: Shown, port: number): Promise<HecListener> => listenHec(fake, { port, tls: now })
    let open = await listen(shown, 0)
    const networks: { close(): Promise<void> }[] = []
    const transport = () => {
      const network = openTransport({ tls })
      networks.push(network)
      return network.send
    }
    const deps = sinkDeps({ clock: systemClock, transport })
    const options = sinkKinds.splunk_hec.options.parse({ url: open.url, token: TOKEN, tls })
    return {
      start: (parts) => {
        const sink = sinkKinds.splunk_hec.open('splunk', options, deps)
        return { sink, stepper: new BatchDispatcher({ ...parts, sink }) }
      },
      received: () => fake.texts().map(idOf),
      show: async (next) => {
        await open.close()
        open = await listen(next, open.port)
      },
      close: async () => {
        for (const network of networks) await network.close()
        await open.close()
      },
    }
  }
