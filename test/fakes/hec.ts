// A Splunk HTTP Event Collector for tests: a function of (state, request, clock), as strict as the real one, each of its habits a switch.
import type { Clock } from '../../src/core/clock.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import type { HttpReply, HttpRequest, Transport } from '../../src/contracts/platform.ts'
import { Balancer } from './hec-balancer.ts'
import { readEvents, unpack } from './hec-body.ts'
import type { HecEvent } from './hec-body.ts'
import { faulty } from './hec-faults.ts'
import type { AckFault, HecFault } from './hec-faults.ts'
import { Indexer } from './hec-indexer.ts'
import { defaults } from './hec-options.ts'
import type { HecOptions, HecSettings, HecToken } from './hec-options.ts'
import { coded, json, numberIn, page, plain } from './hec-replies.ts'
import type { Answered, RawReply } from './hec-replies.ts'
import { openHecServer } from './hec-server.ts'
import type { HecListener, HecTls } from './hec-server.ts'

export type { HecEvent } from './hec-body.ts'
export type { AckFault, HecFault } from './hec-faults.ts'
export type { HecOptions } from './hec-options.ts'

/** One answered request, in order. `status` 0: the connection was reset. */
export interface HecExchange {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly wireBytes: number
  readonly bodyBytes: number
  readonly status: number
  readonly code: number | undefined
  readonly indexed: number
  /** which indexer answered behind the balancer; -1: none was available */
  readonly indexer: number
  readonly ackId: number | undefined
  /** the ids that a poll requested */
  readonly asked: readonly number[]
}

const guid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** The state, and what a test reads from it. Change `options` at any time: they are read again for each request. */
export class FakeHec {
  options: HecSettings
  /** Accepted events, in their order; on the disk from `safeAt` on. */
  indexed: HecEvent[] = []
  readonly exchanges: HecExchange[] = []
  readonly counts = { requests: 0, events: 0, acks: 0, health: 0, faults: 0 }
  /** Faults for the next requests for events, first come first served. */
  readonly faults: HecFault[] = []
  /** Asked when `faults` is empty; counts requests for events from 1. */
  faultOf: ((request: number) => HecFault | undefined) | undefined
  /** The same for polls of `/ack`. */
  readonly ackFaults: AckFault[] = []
  ackFaultOf: ((poll: number) => AckFault | undefined) | undefined
  /** Instead of `ackDelayMs`, by request for events from 1: so that ids turn true in another order, or never. */
  ackDelayOf: ((request: number) => number) | undefined
  readonly balancer = new Balancer()
  readonly #indexers = new Map<number, Indexer>()

  constructor(options: HecOptions = {}) {
    this.options = { ...defaults, ...options }
  }

  indexer(number: number): Indexer {
    const known = this.#indexers.get(number) ?? new Indexer()
    this.#indexers.set(number, known)
    return known
  }

  /** An indexer, or all, restart in order: ids are lost and counted from 0 again; accepted events are indexed. */
  restart(indexer?: number): void {
    for (const [number, each] of this.#indexers)
      if (indexer === undefined || number === indexer) each.forget()
  }

  /** The same without order: accepted and unindexed events are gone too. What acknowledgements are for. */
  crash(now: number, indexer?: number): void {
    this.restart(indexer)
    const lost = (event: HecEvent) => indexer === undefined || event.indexer === indexer
    this.indexed = this.indexed.filter((event) => event.safeAt <= now || !lost(event))
  }

  /** Out of service: its requests go to another indexer, under another cookie. */
  takeOut(indexer: number): void {
    this.balancer.take(indexer)
  }

  putBack(indexer: number): void {
    this.balancer.giveBack(indexer)
  }

  /** Sticky sessions end: the next request gets another indexer and another cookie. */
  expireCookies(): void {
    this.balancer.expireCookies()
  }

  /** The raw events as text, in the order in which they were taken. */
  texts(): string[] {
    return this.indexed.map(({ event }) => event.toString('utf8'))
  }
}

interface Asked {
  readonly fake: FakeHec
  readonly request: HttpRequest
  readonly url: URL
  /** as Splunk reads it, or why it does not */
  readonly body: Buffer | Answered
  readonly now: number
  /** which indexer answers */
  readonly indexer: number
}

/** The token of the request, or the code that refuses its credentials. */
function tokenFault({ fake, request, url }: Asked): { token: HecToken } | { code: 1 | 2 | 3 | 4 | 16 } {
  const header = request.headers['authorization']
  let name: string | undefined
  if (header !== undefined) {
    const [scheme, value, ...rest] = header.split(' ')
    if (scheme !== 'Splunk' || value === undefined || value === '' || rest.length > 0) return { code: 3 }
    name = value
  } else if (url.searchParams.has('token')) {
    if (!fake.options.queryAuth) return { code: 16 }
    name = url.searchParams.get('token') ?? ''
  }
  if (name === undefined) return { code: 2 }
  const token = Object.hasOwn(fake.options.tokens, name) ? fake.options.tokens[name] : undefined
  if (!token) return { code: 4 }
  return token.disabled === true ? { code: 1 } : { token }
}

/** The request's channel, or the code that refuses it. */
function channelOf({ fake, request, url }: Asked): string | { code: 10 | 11 | 28 } {
  const id = request.headers['x-splunk-request-channel'] ?? url.searchParams.get('channel') ?? ''
  if (id === '') return { code: 10 }
  return guid.test(id) ? id.toLowerCase() : { code: fake.options.badChannelCode }
}

function health(asked: Asked): Answered {
  const { fake, request } = asked
  fake.counts.health++
  if (request.method !== 'GET') return page(405, 'Method Not Allowed')
  const credentials = tokenFault(asked)
  if ('code' in credentials) {
    if (credentials.code === 1) return coded(22)
    if (credentials.code !== 2 || fake.options.healthNeedsToken) return coded(21)
  }
  return coded(fake.options.health)
}

function idsAsked(body: Uint8Array | undefined): readonly number[] | undefined {
  try {
    const { acks } = JSON.parse(Buffer.from(body ?? []).toString('utf8')) as { acks?: unknown }
    return Array.isArray(acks) && acks.every((id) => Number.isSafeInteger(id))
      ? (acks as number[])
      : undefined
  } catch {
    return undefined
  }
}

/** The honest answer of the ack endpoint; `tell` false leaves the state unchanged. */
function acks(asked: Asked, tell: boolean): Answered {
  const { fake, request, now, indexer } = asked
  if (request.method !== 'POST') return page(405, 'Method Not Allowed')
  const credentials = tokenFault(asked)
  if ('code' in credentials) return coded(credentials.code)
  // A token without acknowledgements takes events all the same, channel or not: it is here that Splunk refuses.
  if (credentials.token.acks !== true) return coded(14)
  const channel = channelOf(asked)
  if (typeof channel !== 'string') return coded(channel.code)
  const ids = idsAsked(request.body)
  if (!ids) return coded(6)
  return json(200, { acks: fake.indexer(indexer).ask(channel, ids, fake.options, now, tell) })
}

/** The honest answer of the event endpoint; `take` false leaves the state unchanged. */
function events(asked: Asked, take: boolean): Answered {
  const { fake, request, now } = asked
  const { options } = fake
  if (request.method !== 'POST') return page(405, 'Method Not Allowed')
  const credentials = tokenFault(asked)
  if ('code' in credentials) return coded(credentials.code)
  const { token } = credentials
  const acked = token.acks === true && !options.ackless
  const channel = acked ? channelOf(asked) : undefined
  if (typeof channel === 'object') return coded(channel.code)
  const indexer = fake.indexer(asked.indexer)
  const full = indexer.full(channel, options, now)
  if (full !== undefined) return coded(full)
  if (!Buffer.isBuffer(asked.body)) return asked.body
  if (asked.body.length > options.disguiseBytes) return coded(6, { 'invalid-event-number': 0 })
  const { events: good, objects, fault } = readEvents(asked.body, token, options)
  if (objects === 0 && !fault) return coded(5)
  const safeAt = now + (fake.ackDelayOf?.(fake.counts.events) ?? options.ackDelayMs)
  if (take) {
    const where = { request: fake.counts.events, indexer: asked.indexer, safeAt }
    for (const event of good) fake.indexed.push({ ...event, ...where })
    indexer.queue(good.length, safeAt, options)
  }
  const numbered = take && (!fault || (good.length > 0 && options.ackOnPrefix))
  const ack =
    numbered && channel !== undefined ? { ackId: indexer.number(channel, safeAt, options, now) } : {}
  if (fault) return coded(fault.code, { 'invalid-event-number': fault.event, ...ack })
  return coded(options.warning ?? indexer.crowded(channel, options, now) ?? 0, ack)
}

function notFound(): Answered {
  return json(404, { text: 'The requested URL was not found on this server.', code: 404 })
}

function dispatch(asked: Asked): Answered {
  const { fake, url } = asked
  const { counts } = fake
  const path = url.pathname.replace(/\/1\.0$/, '')
  if (path === '/services/collector/health') return health(asked)
  if (path === '/services/collector/ack') {
    if (fake.options.ackless) return notFound()
    const fault = fake.ackFaults.shift() ?? fake.ackFaultOf?.(counts.acks + 1)
    counts.acks++
    if (!fault) return acks(asked, true)
    counts.faults++
    return faulty(fault, fault.tells === true, (tell) => acks(asked, tell))
  }
  if (path !== '/services/collector' && path !== '/services/collector/event') return notFound()
  const fault = fake.faults.shift() ?? fake.faultOf?.(counts.events + 1)
  counts.events++
  if (!fault) return events(asked, true)
  counts.faults++
  return faulty(fault, fault.indexes === true, (take) => events(asked, take))
}

/** Answers one request. No I/O, no time but the clock's. */
export function answerHec(fake: FakeHec, request: HttpRequest, clock: Pick<Clock, 'now'>): RawReply {
  fake.counts.requests++
  const url = new URL(request.url)
  const now = clock.now()
  const before = fake.indexed.length
  const routed = fake.balancer.route(request.headers['cookie'] ?? '', fake.options, now)
  const body = unpack(fake.options, request)
  let answered: Answered
  if (routed) answered = dispatch({ fake, request, url, body, now, indexer: routed.indexer })
  // A balancer without indexers answers itself; without a balancer a missing indexer does not answer.
  else if (fake.options.indexers > 1) answered = page(503, 'Service Temporarily Unavailable')
  else answered = { ...plain(0, '', ''), reset: true }
  const reply = { ...answered, headers: { ...routed?.headers, ...answered.headers } }
  fake.exchanges.push({
    path: url.pathname,
    headers: request.headers,
    wireBytes: request.body?.length ?? 0,
    bodyBytes: Buffer.isBuffer(body) ? body.length : 0,
    status: reply.status,
    code: numberIn(reply.body, 'code'),
    indexed: fake.indexed.length - before,
    indexer: routed?.indexer ?? -1,
    ackId: numberIn(reply.body, 'ackId'),
    asked: url.pathname.includes('/ack') ? (idsAsked(request.body) ?? []) : [],
  })
  return reply
}

async function* bodyOf(reply: RawReply): AsyncIterable<Uint8Array> {
  if (reply.body.length > 0) yield reply.body
  while (reply.endless) yield Buffer.alloc(16_384, 0x20)
}

/** The fake as a Transport, in memory: what a sink in a test is given instead of the network. */
export function hecTransport(fake: FakeHec, clock: Clock): Transport {
  return async (request, signal): Promise<HttpReply> => {
    const stopIfAborted = () => {
      if (signal.aborted) throw new ConnectorError('aborted', 'the request was aborted')
    }
    stopIfAborted()
    const reply = answerHec(fake, request, clock)
    if (reply.delayMs > 0) await clock.sleep(reply.delayMs, signal)
    stopIfAborted()
    if (reply.reset) throw new ConnectorError('unreachable', 'the receiver reset the connection')
    return { status: reply.status, headers: reply.headers, body: bodyOf(reply) }
  }
}

/** Several collectors, each under its host name (`a.test`); any other cannot be reached. */
export function hecTransports(byHost: Readonly<Record<string, FakeHec>>, clock: Clock): Transport {
  return async (request, signal) => {
    const { hostname } = new URL(request.url)
    const fake = byHost[hostname]
    if (!fake) throw new ConnectorError('unreachable', `${hostname} is not known`)
    return hecTransport(fake, clock)(request, signal)
  }
}

/** The fake behind a real socket on the loopback; `port` 0 takes a free one. Without a clock its time is the real one. */
export function listenHec(
  fake: FakeHec,
  options: { readonly port: number; readonly tls?: HecTls; readonly clock?: Pick<Clock, 'now'> },
): Promise<HecListener> {
  const clock = options.clock ?? Date
  return openHecServer((request) => answerHec(fake, request, clock), options)
}
