// A Splunk HTTP Event Collector for tests: a function of (state, request, clock), as strict as the real one, each of its habits a switch.
import { gunzipSync } from 'node:zlib'
import type { Clock } from '../../src/model/clock.ts'
import { ConnectorError } from '../../src/model/errors.ts'
import type { HttpReply, HttpRequest, Transport } from '../../src/model/http.ts'
import { openHecServer } from './hec-server.ts'
import type { HecListener, HecTls } from './hec-server.ts'
import { Malformed, parseRange, scanObject, skipSpace } from './hec-scan.ts'
import type { Scanned } from './hec-scan.ts'

export interface HecToken {
  readonly disabled?: boolean
  /** Indexes that the token may write to; absent: any. */
  readonly indexes?: readonly string[]
  /** Where an event without `index` goes. */
  readonly defaultIndex?: string
  /** Indexer acknowledgement is on: a channel is required, and each answer carries an `ackId`. */
  readonly acks?: boolean
}

export interface HecOptions {
  readonly tokens?: Readonly<Record<string, HecToken>>
  readonly queryAuth?: boolean
  readonly gzip?: boolean
  /** 838,860,800 at Splunk Enterprise today, 1,000,000 in the days of 6.4. */
  readonly maxContentBytes?: number
  /** Splunk Cloud: a body over so many uncompressed bytes is answered with code 6, event 0. */
  readonly disguiseBytes?: number
  readonly maxEventBytes?: number
  /** After so long a batch is acknowledged; Infinity: never. */
  readonly ackDelayMs?: number
  /** More unasked acknowledgements than so many on a channel: code 27. */
  readonly maxPendingAcks?: number
  /** A 400 that indexed its prefix carries an `ackId` too. */
  readonly ackOnPrefix?: boolean
  /** Success is answered with this code: the queue, or the acknowledgements, near their limit. */
  readonly warning?: 24 | 25
  readonly health?: 17 | 18 | 19 | 20
  readonly healthNeedsToken?: boolean
  /** A load balancer with so many indexers behind it, sticky by cookie; each counts `ackId` on its own. */
  readonly indexers?: number
}

/** What goes wrong with one request for events. `indexes`: the events are indexed all the same. */
export type HecFault = { readonly indexes?: boolean } & (
  | { readonly kind: 'code'; readonly code: keyof typeof replies; readonly retryAfter?: string }
  | { readonly kind: 'status'; readonly status: number; readonly body?: string; readonly type?: string }
  | { readonly kind: 'reset' }
  | { readonly kind: 'endless' }
  | { readonly kind: 'html' }
  | { readonly kind: 'garbage' }
  | { readonly kind: 'slow'; readonly ms: number }
  | { readonly kind: 'redirect'; readonly location: string }
)

export interface HecEvent {
  /** The bytes of `event`, exactly as they were sent. */
  readonly event: Buffer
  /** As written, so that no digit is lost; undefined where none was sent. */
  readonly time: string | undefined
  readonly host: string | undefined
  readonly source: string | undefined
  readonly sourcetype: string | undefined
  readonly index: string | undefined
  readonly fields: Readonly<Record<string, unknown>>
  /** which request for events brought it, from 1 */
  readonly request: number
}

/** One answered request, in order. `status` 0: the connection was reset. */
export interface HecExchange {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly wireBytes: number
  readonly bodyBytes: number
  readonly status: number
  readonly code: number | undefined
  readonly indexed: number
}

export interface RawReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** The body never ends. */
  readonly endless: boolean
  readonly reset: boolean
  readonly delayMs: number
}

interface Channel {
  next: number
  /** when each id turns true; an id told is an id gone */
  readonly readyAt: Map<number, number>
}

const replies = {
  0: [200, 'Success'],
  1: [403, 'Token disabled'],
  2: [401, 'Token is required'],
  3: [401, 'Invalid authorization'],
  4: [403, 'Invalid token'],
  5: [400, 'No data'],
  6: [400, 'Invalid data format'],
  7: [400, 'Incorrect index'],
  8: [500, 'Internal server error'],
  9: [503, 'Server is busy'],
  10: [400, 'Data channel is missing'],
  11: [400, 'Invalid data channel'],
  12: [400, 'Event field is required'],
  13: [400, 'Event field cannot be blank'],
  14: [400, 'ACK is disabled'],
  15: [400, 'Error in handling indexed fields'],
  16: [400, 'Query string authorization is not enabled'],
  17: [200, 'HEC is healthy'],
  18: [503, 'HEC is unhealthy, queues are full'],
  19: [503, 'HEC is unhealthy, ack service unavailable'],
  20: [503, 'HEC is unhealthy, queues are full, ack service unavailable'],
  21: [400, 'Invalid token'],
  22: [400, 'Token disabled'],
  23: [503, 'Server is shutting down'],
  24: [200, 'Queue approaching maximum capacity'],
  25: [200, 'ACK channel approaching maximum capacity'],
  26: [429, 'Queue at maximum capacity'],
  27: [429, 'ACK channel at maximum capacity'],
  28: [400, 'Invalid data channel'],
} as const satisfies Record<number, readonly [number, string]>

const defaults = {
  tokens: { 'test-token': {} } as Readonly<Record<string, HecToken>>,
  queryAuth: false,
  gzip: true,
  maxContentBytes: 838_860_800,
  disguiseBytes: Infinity,
  maxEventBytes: 5 * 2 ** 20,
  ackDelayMs: 1000,
  maxPendingAcks: 1_000_000,
  ackOnPrefix: true,
  warning: undefined as 24 | 25 | undefined,
  health: 17 as 17 | 18 | 19 | 20,
  healthNeedsToken: false,
  indexers: 1,
}

const guid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const cookieName = 'hec-indexer'
const envelopeKeys = new Set(['time', 'host', 'source', 'sourcetype', 'index', 'event', 'fields'])

/** The state, and what a test reads from it. Change `options` at any time: they are looked at anew for each request. */
export class FakeHec {
  options: Required<Omit<HecOptions, 'warning'>> & Pick<typeof defaults, 'warning'>
  readonly indexed: HecEvent[] = []
  readonly exchanges: HecExchange[] = []
  readonly counts = { requests: 0, events: 0, acks: 0, health: 0, faults: 0 }
  /** Faults for the next requests for events, first come first served. */
  readonly faults: HecFault[] = []
  /** Asked when `faults` is empty; counts requests for events from 1. */
  faultOf: ((request: number) => HecFault | undefined) | undefined
  /** Changes with `restart` and `expireCookies`; part of the cookie. */
  epoch = 1
  turn = 0
  channels = new Map<string, Channel>()

  constructor(options: HecOptions = {}) {
    this.options = { ...defaults, ...options }
  }

  /** The indexers restart: every acknowledgement and every count of ids is lost; what was indexed stays. */
  restart(): void {
    this.channels = new Map()
  }

  /** Sticky sessions end: the next request gets another indexer and another cookie. */
  expireCookies(): void {
    this.epoch++
  }

  /** The raw events as text, in the order in which they were indexed. */
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
  readonly indexer: string
}

type Answered = Omit<RawReply, 'headers'> & { readonly headers?: Readonly<Record<string, string>> }

function plain(status: number, body: string | Uint8Array, type: string): Answered {
  return {
    status,
    headers: { 'content-type': type },
    body: Buffer.from(body),
    endless: false,
    reset: false,
    delayMs: 0,
  }
}

function coded(code: keyof typeof replies, more: Record<string, unknown> = {}): Answered {
  const [status, text] = replies[code]
  return plain(status, JSON.stringify({ text, code, ...more }), 'application/json; charset=UTF-8')
}

function page(status: number, title: string): Answered {
  const body = `<!doctype html><html><head><title>${status} ${title}</title></head><body><h1>${title}</h1></body></html>`
  return plain(status, body, 'text/html; charset=UTF-8')
}

/** The code that refuses the request's credentials; undefined when they are in order. */
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
function channelOf({ request, url }: Asked): string | { code: 10 | 11 } {
  const id = request.headers['x-splunk-request-channel'] ?? url.searchParams.get('channel') ?? ''
  if (id === '') return { code: 10 }
  return guid.test(id) ? id.toLowerCase() : { code: 11 }
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

function acks(asked: Asked): Answered {
  const { fake, request, now, indexer } = asked
  fake.counts.acks++
  if (request.method !== 'POST') return page(405, 'Method Not Allowed')
  const credentials = tokenFault(asked)
  if ('code' in credentials) return coded(credentials.code)
  if (credentials.token.acks !== true) return coded(14)
  const channel = channelOf(asked)
  if (typeof channel !== 'string') return coded(channel.code)
  let ids: unknown
  try {
    ids = (JSON.parse(Buffer.from(request.body ?? []).toString('utf8')) as { acks?: unknown }).acks
  } catch {
    return coded(6)
  }
  if (!Array.isArray(ids) || !ids.every((id) => Number.isSafeInteger(id))) return coded(6)
  const readyAt = fake.channels.get(`${indexer} ${channel}`)?.readyAt
  const told: Record<string, boolean> = {}
  for (const id of ids as number[]) {
    // True is told once: whoever loses that answer hears false for ever after.
    const ready = (readyAt?.get(id) ?? Infinity) <= now
    if (ready) readyAt?.delete(id)
    told[String(id)] = ready
  }
  return plain(200, JSON.stringify({ acks: told }), 'application/json; charset=UTF-8')
}

/** The body as Splunk reads it, or its refusal. */
function unpack(fake: FakeHec, request: HttpRequest): Buffer | Answered {
  const { maxContentBytes, gzip } = fake.options
  const wire = Buffer.from(request.body ?? [])
  const encoding = request.headers['content-encoding'] ?? 'identity'
  const tooLarge = () => page(413, 'Content-Length too large')
  if (wire.length > maxContentBytes) return tooLarge()
  if (encoding === 'identity') return wire
  if (encoding !== 'gzip' || !gzip) return page(415, 'Unsupported Media Type')
  try {
    return gunzipSync(wire, { maxOutputLength: maxContentBytes })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return tooLarge()
    return coded(6)
  }
}

function flat(value: unknown): boolean {
  const scalar = (item: unknown) => ['string', 'number', 'boolean'].includes(typeof item)
  return scalar(value) || (Array.isArray(value) && value.every(scalar))
}

/** `skip`: answered with 200 and not indexed. `stop`: neither this object nor any behind it is, and still 200. */
type Judged = { readonly event: HecEvent } | 'skip' | 'stop' | { readonly code: 6 | 7 | 12 | 13 | 15 }

function judge(bytes: Buffer, object: Scanned, token: HecToken, asked: Asked): Judged {
  if (object.members.some(({ key }) => !envelopeKeys.has(key))) return 'stop'
  const members = new Map(object.members.map((member) => [member.key, member]))
  const value = (key: string): unknown => {
    const member = members.get(key)
    return member && parseRange(bytes, member.start, member.end)
  }
  const texts = ['host', 'source', 'sourcetype', 'index'].map(value)
  if (texts.some((text) => text !== undefined && typeof text !== 'string')) return { code: 6 }
  const [host, source, sourcetype, named] = texts as (string | undefined)[]
  const fields = value('fields') ?? {}
  const event = members.get('event')
  if (!event) return members.has('fields') ? 'skip' : { code: 12 }
  const raw = bytes.subarray(event.start, event.end)
  if (raw.equals(Buffer.from('null'))) return { code: 12 }
  if (raw.equals(Buffer.from('""'))) return { code: 13 }
  if (raw.length > asked.fake.options.maxEventBytes) return { code: 6 }
  if (typeof fields !== 'object' || Array.isArray(fields) || !Object.values(fields).every(flat))
    return { code: 15 }
  const time = members.get('time')
  const written = time && bytes.toString('latin1', time.start, time.end).replaceAll('"', '')
  if (written !== undefined && !/^-?\d+(\.\d+)?$/.test(written)) return { code: 6 }
  const index = named ?? token.defaultIndex
  if (named !== undefined && token.indexes && !token.indexes.includes(named)) return { code: 7 }
  const kept = { event: Buffer.from(raw), time: written, host, source, sourcetype, index }
  return { event: { ...kept, fields: fields as Record<string, unknown>, request: asked.fake.counts.events } }
}

/** Reads object after object; what stood before the first bad one counts. */
function read(
  bytes: Buffer,
  token: HecToken,
  asked: Asked,
): { events: HecEvent[]; objects: number; fault?: { code: 6 | 7 | 12 | 13 | 15; event: number } } {
  const events: HecEvent[] = []
  let number = 0
  for (let at = skipSpace(bytes, 0); at < bytes.length; number++) {
    let judged: Judged
    try {
      const object = scanObject(bytes, at)
      judged = judge(bytes, object, token, asked)
      at = skipSpace(bytes, object.end)
    } catch (error) {
      if (!(error instanceof Malformed)) throw error
      judged = { code: 6 }
    }
    if (judged === 'skip') continue
    // An unknown key in the first object leaves nothing at all to index, which Splunk calls no data.
    if (judged === 'stop') return { events, objects: number }
    if ('event' in judged) events.push(judged.event)
    // Of a refused index the number names the object after the bad one.
    else
      return {
        events,
        objects: number,
        fault: { code: judged.code, event: number + (judged.code === 7 ? 1 : 0) },
      }
  }
  return { events, objects: number }
}

function ackFor({ fake, now, indexer }: Asked, channel: string): number {
  const key = `${indexer} ${channel}`
  const state = fake.channels.get(key) ?? { next: 0, readyAt: new Map<number, number>() }
  fake.channels.set(key, state)
  const id = state.next++
  state.readyAt.set(id, now + fake.options.ackDelayMs)
  return id
}

/** The honest answer of the event endpoint; `take` false leaves the state as it is. */
function events(asked: Asked, take: boolean): Answered {
  const { fake, request, indexer } = asked
  if (request.method !== 'POST') return page(405, 'Method Not Allowed')
  const credentials = tokenFault(asked)
  if ('code' in credentials) return coded(credentials.code)
  const { token } = credentials
  const channel = token.acks === true ? channelOf(asked) : ''
  if (typeof channel !== 'string') return coded(channel.code)
  const pending = fake.channels.get(`${indexer} ${channel}`)?.readyAt.size ?? 0
  if (token.acks === true && pending >= fake.options.maxPendingAcks) return coded(27)
  const bytes = asked.body
  if (!Buffer.isBuffer(bytes)) return bytes
  if (bytes.length > fake.options.disguiseBytes) return coded(6, { 'invalid-event-number': 0 })
  const { events: good, objects, fault } = read(bytes, token, asked)
  if (objects === 0 && !fault) return coded(5)
  if (take) fake.indexed.push(...good)
  const acked = take && token.acks === true && (!fault || (good.length > 0 && fake.options.ackOnPrefix))
  const ack = acked ? { ackId: ackFor(asked, channel) } : {}
  if (fault) return coded(fault.code, { 'invalid-event-number': fault.event, ...ack })
  return coded(fake.options.warning ?? 0, ack)
}

function faulty(asked: Asked, fault: HecFault): Answered {
  asked.fake.counts.faults++
  // What is answered as a success is taken, else the fake itself would lose events.
  const success = fault.kind === 'slow' || (fault.kind === 'code' && replies[fault.code][0] === 200)
  const honest = events(asked, success || fault.indexes === true)
  switch (fault.kind) {
    case 'slow':
      return { ...honest, delayMs: fault.ms }
    case 'reset':
      return { ...plain(0, '', ''), reset: true }
    case 'endless':
      return { ...plain(200, '{"text":"', 'application/json; charset=UTF-8'), endless: true }
    case 'html':
      return page(200, 'Please sign in')
    case 'garbage':
      return plain(200, Buffer.from([0xff, 0x00, 0x7b, 0xc3]), 'application/octet-stream')
    case 'redirect':
      return { ...page(307, 'Temporary Redirect'), headers: { location: fault.location } }
    case 'status':
      return plain(fault.status, fault.body ?? '', fault.type ?? 'text/plain')
    case 'code': {
      // A success is the honest answer under another code, so that an ackId stays in it.
      if (success && honest.status !== 200) return honest
      if (success) return { ...honest, body: Buffer.from(recode(honest.body, fault.code)) }
      const reply = coded(fault.code)
      const hint = fault.retryAfter === undefined ? {} : { 'retry-after': fault.retryAfter }
      return { ...reply, headers: { ...reply.headers, ...hint } }
    }
  }
}

function recode(body: Uint8Array, code: keyof typeof replies): string {
  const honest = JSON.parse(Buffer.from(body).toString('utf8')) as Record<string, unknown>
  return JSON.stringify(honest['code'] === 0 ? { ...honest, text: replies[code][1], code } : honest)
}

/** Sticky as a load balancer is: a known cookie leads back to its indexer, all else to the next in turn. */
function route(fake: FakeHec, request: HttpRequest): { indexer: string; headers: Record<string, string> } {
  if (fake.options.indexers < 2) return { indexer: '0', headers: {} }
  const cookie = new RegExp(`(?:^|; ?)${cookieName}=(\\d+)-(\\d+)(?:;|$)`).exec(
    request.headers['cookie'] ?? '',
  )
  const known = Number(cookie?.[1]) === fake.epoch && Number(cookie?.[2]) < fake.options.indexers
  if (cookie?.[2] !== undefined && known) return { indexer: cookie[2], headers: {} }
  const indexer = String(fake.turn++ % fake.options.indexers)
  return { indexer, headers: { 'set-cookie': `${cookieName}=${fake.epoch}-${indexer}; Path=/; HttpOnly` } }
}

function dispatch(asked: Asked): Answered {
  const path = asked.url.pathname.replace(/\/1\.0$/, '')
  if (path === '/services/collector/health') return health(asked)
  if (path === '/services/collector/ack') return acks(asked)
  if (path !== '/services/collector' && path !== '/services/collector/event') {
    const body = { text: 'The requested URL was not found on this server.', code: 404 }
    return plain(404, JSON.stringify(body), 'application/json; charset=UTF-8')
  }
  const number = ++asked.fake.counts.events
  const fault = asked.fake.faults.shift() ?? asked.fake.faultOf?.(number)
  return fault ? faulty(asked, fault) : events(asked, true)
}

/** Answers one request. No I/O, no time but the clock's. */
export function answerHec(fake: FakeHec, request: HttpRequest, clock: Pick<Clock, 'now'>): RawReply {
  fake.counts.requests++
  const url = new URL(request.url)
  const before = fake.indexed.length
  const { indexer, headers } = route(fake, request)
  const body = unpack(fake, request)
  const asked: Asked = { fake, request, url, body, now: clock.now(), indexer }
  const answered = dispatch(asked)
  const reply = { ...answered, headers: { ...headers, ...answered.headers } }
  fake.exchanges.push({
    path: url.pathname,
    headers: request.headers,
    wireBytes: request.body?.length ?? 0,
    bodyBytes: Buffer.isBuffer(body) ? body.length : 0,
    status: reply.status,
    code: codeOf(reply.body),
    indexed: fake.indexed.length - before,
  })
  return reply
}

function codeOf(body: Uint8Array): number | undefined {
  try {
    const { code } = JSON.parse(Buffer.from(body).toString('utf8')) as { code?: unknown }
    return typeof code === 'number' ? code : undefined
  } catch {
    return undefined
  }
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

/** The fake behind a real socket on the loopback; `port` 0 takes a free one. */
export function listenHec(
  fake: FakeHec,
  options: { readonly port: number; readonly tls?: HecTls },
): Promise<HecListener> {
  return openHecServer(fake, answerHec, options)
}
