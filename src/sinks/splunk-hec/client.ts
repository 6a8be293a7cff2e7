// One event collector over HTTP: sends requests and parses answers, without interpreting them.
import { z } from 'zod'
import { addressOf, hostPort } from '../../contracts/platform.ts'
import type { HttpReply, Transport } from '../../contracts/platform.ts'
import { retryAfterMs, serverTimeMs } from '../../core/backoff.ts'
import { randomDigits } from '../../core/clock.ts'
import type { Clock, Random } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { SecretLook } from '../../core/secret.ts'
import type { Secret } from '../../core/secret.ts'
import type { RequestBody } from '../kit/body.ts'
import { ask } from '../kit/http.ts'
import type { WholeReply } from '../kit/http.ts'
import { hasErrorText, verdictOf, readAcks, readHecBody } from './reply.ts'
import type { HecReply } from './reply.ts'

const EVENTS = '/services/collector/event'
const HEALTH = '/services/collector/health'
const ACKS = '/services/collector/ack'

/** The route of a request: the cookie leads to the same indexer behind a load balancer. */
interface Route {
  readonly channel: string
  readonly cookie: string
}

export class Collector {
  /** scheme://host:port */
  readonly origin: string
  /** host:port */
  readonly where: string
  readonly channels: Channels
  readonly secrets: SecretLook
  readonly #token: Secret
  readonly #send: Transport
  readonly #clock: Clock
  #cookie = ''

  constructor(url: string, token: Secret, send: Transport, clock: Clock, random: Random) {
    this.origin = new URL(url).origin
    this.where = hostPort(addressOf(url))
    this.channels = new Channels(random)
    this.#token = token
    this.secrets = new SecretLook([token], clock)
    this.#send = send
    this.#clock = clock
  }

  /** as sent with the next request */
  get cookie(): string {
    return this.#cookie
  }

  /** A sequence of event objects. */
  async post(channel: string, body: RequestBody, signal: AbortSignal): Promise<HecReply> {
    const headers = { 'content-type': 'application/json', ...body.headers }
    const request = { headers, body: body.bytes }
    const reply = await this.#ask('POST', EVENTS, { channel, cookie: this.#cookie }, request, signal)
    this.#cookie = cookiesAfter(this.#cookie, reply.headers['set-cookie'])
    return this.#read(reply)
  }

  async health(signal: AbortSignal): Promise<HecReply> {
    const route = { channel: this.channels.take(), cookie: this.#cookie }
    return this.#read(await this.#ask('GET', HEALTH, route, { headers: {} }, signal))
  }

  /** Whether the batch with this `ackId` is stored. Throws ConnectorError if that stays unknown. */
  async isSafe(route: Route, ackId: number, signal: AbortSignal): Promise<boolean> {
    const body = Buffer.from(JSON.stringify({ acks: [ackId] }))
    const headers = { 'content-type': 'application/json' }
    const reply = await this.#ask('POST', ACKS, route, { headers, body }, signal)
    const safe = reply.status === 200 ? readAcks(reply.body) : undefined
    if (safe) return safe.has(ackId)
    const { where } = this
    const verdict = verdictOf(this.#read(reply), { count: 0, bytes: 0, where, token: this.#token })
    if (verdict.kind !== 'failed')
      throw new ConnectorError(
        'bad_reply',
        `Splunk at ${where} answered the question for acknowledgements with something else; it is asked again until ack_timeout`,
      )
    // The token changed meanwhile: the next question uses the new one.
    if (verdict.error.action === 'block') this.secrets.refresh()
    throw verdict.error
  }

  #ask(
    method: 'GET' | 'POST',
    path: string,
    { channel, cookie }: Route,
    { headers, body }: { readonly headers: Record<string, string>; readonly body?: Uint8Array },
    signal: AbortSignal,
  ): Promise<WholeReply> {
    this.secrets.look()
    const own = {
      authorization: `Splunk ${this.#token.reveal()}`,
      'x-splunk-request-channel': channel,
      ...(cookie === '' ? {} : { cookie }),
      'user-agent': 'auditferry',
      ...headers,
    }
    const request = { method, url: this.origin + path, headers: own, ...(body ? { body } : {}) }
    return ask(this.#send, this.#clock, request, signal)
  }

  #read({ status, headers, body, distrust }: WholeReply): HecReply {
    const hintMs = retryAfterMs(headers, this.#clock.now())
    const hec = readHecBody(body)
    if (!hec) distrust?.()
    const otherServer = hec ? undefined : otherServerOf(headers, body)
    return { status, hec, otherServer, retryAfterMs: hintMs, serverAt: serverTimeMs(headers) }
  }
}

// The channels of one endpoint: a batch that waits for its acknowledgement has its own channel.

function guid(random: Random): string {
  const hex = randomDigits(random, 32)
  const variant = '89ab'[Math.floor(random() * 4)] ?? '8'
  const version = `4${hex.slice(13, 16)}`
  return [hex.slice(0, 8), hex.slice(8, 12), version, variant + hex.slice(17, 20), hex.slice(20)].join('-')
}

/**
 * Ids count per channel and indexer, and restart with an indexer: on a shared channel one id could
 * mean two batches, and the answer for one would confirm the other. So a channel is reused only
 * when everything sent on it is acknowledged; after a possible duplicate it is discarded. Splunk
 * keeps a million channels.
 */
class Channels {
  readonly #random: Random
  readonly #free: string[] = []

  constructor(random: Random) {
    this.#random = random
  }

  take(): string {
    return this.#free.pop() ?? guid(this.#random)
  }

  giveBack(channel: string): void {
    this.#free.push(channel)
  }
}

// Recognises which server answers instead of an event collector. Its text is not quoted.

/** Splunk sends this header on all of its ports. */
const isSplunk = ({ server }: HttpReply['headers']) => /^splunkd/i.test(server ?? '')

/** What to do about it; undefined if the server is unknown. */
function otherServerOf(headers: HttpReply['headers'], body: Uint8Array): string | undefined {
  const type = headers['content-type'] ?? ''
  const start = Buffer.from(body.subarray(0, 512)).toString('latin1')
  if (isSplunk(headers) && (/xml/i.test(type) || /<response>/.test(start)))
    return "this is Splunk's management port (usually 8089), not an event collector: set 'url' to the collector's port (usually 8088)"
  if (isSplunk(headers) && (/html/i.test(type) || headers['location'] !== undefined))
    return "this is Splunk's web port (usually 8000), not an event collector: set 'url' to the collector's port (usually 8088)"
  if (!isSplunk(headers) && hasErrorText(body))
    return "it answers {\"error\": …} like the workspace's API, unlike an event collector: check 'url' and any gateway in between"
  return undefined
}

// What is needed to ask for an acknowledgement: kept in the in-flight record, so that a restart
// asks instead of sending again.

/** A receiver may send any cookies; this bounds what is kept. */
const COOKIES_BYTES = 16 * 1024

export const ticketSchema = z.object({
  /** scheme://host:port of the endpoint */
  origin: z.string(),
  channel: z.string(),
  /** as the `cookie` header, for the indexer behind a load balancer; '' for none */
  cookie: z.string(),
  ackId: z.int().min(0),
  /** epoch ms */
  sentAt: z.number(),
})
export type Ticket = z.output<typeof ticketSchema>

/** The old cookies, updated by the answer's: per name the last one. @internal for tests */
export function cookiesAfter(cookie: string, setCookie: string | undefined): string {
  if (setCookie === undefined) return cookie
  const jar = new Map<string, string>()
  for (const pair of cookie === '' ? [] : cookie.split('; ')) jar.set(pair.slice(0, pair.indexOf('=')), pair)
  for (const line of setCookie.split('\n')) {
    const [pair = '', ...attributes] = line.split(';').map((part) => part.trim())
    const name = pair.slice(0, Math.max(0, pair.indexOf('=')))
    if (name === '') continue
    if (attributes.some((attribute) => /^max-age=(0|-\d+)$/i.test(attribute))) jar.delete(name)
    else jar.set(name, pair)
  }
  const after = [...jar.values()].join('; ')
  return after.length > COOKIES_BYTES ? cookie : after
}
