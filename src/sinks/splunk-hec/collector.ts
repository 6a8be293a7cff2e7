// One event collector over HTTP: what is asked of it and what it answers, without a word on what that means.
import type { Clock, Random } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Transport } from '../../model/http.ts'
import { retryAfterMs, serverTimeMs } from '../../model/retry-after.ts'
import { type Secret, SecretLook } from '../../model/secret.ts'
import { ask, type WholeReply } from '../ask.ts'
import { Channels } from './channels.ts'
import type { Endpoint } from './endpoints.ts'
import { type HecReply, judge, readAcks, readHecBody } from './reply.ts'
import { strangerOf } from './stranger.ts'
import { cookiesAfter } from './ticket.ts'

const EVENTS = '/services/collector/event'
const HEALTH = '/services/collector/health'
const ACKS = '/services/collector/ack'

/** What a request goes out on: with the cookie the indexer behind a load balancer is found again. */
interface Route {
  readonly channel: string
  readonly cookie: string
}

export class Collector {
  readonly endpoint: Endpoint
  readonly channels: Channels
  readonly #token: Secret
  readonly #look: SecretLook
  readonly #send: Transport
  readonly #clock: Clock
  #cookie = ''

  constructor(endpoint: Endpoint, token: Secret, send: Transport, clock: Clock, random: Random) {
    this.endpoint = endpoint
    this.channels = new Channels(random)
    this.#token = token
    this.#look = new SecretLook([token], clock)
    this.#send = send
    this.#clock = clock
  }

  /** After a refusal of the token `bore`: true when the next request bears another one. */
  refreshToken(bore: string): boolean {
    return this.#look.refresh([bore])
  }

  /** as the next request sends it */
  get cookie(): string {
    return this.#cookie
  }

  /** Objects of events, one after the other; `gzip` when they are packed so. */
  async post(channel: string, body: Uint8Array, gzip: boolean, signal: AbortSignal): Promise<HecReply> {
    const headers = { 'content-type': 'application/json', ...(gzip ? { 'content-encoding': 'gzip' } : {}) }
    const reply = await this.#ask(
      'POST',
      EVENTS,
      { channel, cookie: this.#cookie },
      { headers, body },
      signal,
    )
    this.#cookie = cookiesAfter(this.#cookie, reply.headers['set-cookie'])
    return this.#read(reply)
  }

  async health(signal: AbortSignal): Promise<HecReply> {
    return this.#read(
      await this.#ask(
        'GET',
        HEALTH,
        { channel: this.channels.take(), cookie: this.#cookie },
        { headers: {} },
        signal,
      ),
    )
  }

  /** Whether the batch that was answered with `ackId` is safe. Throws ConnectorError when it does not say. */
  async isSafe(route: Route, ackId: number, signal: AbortSignal): Promise<boolean> {
    const body = Buffer.from(JSON.stringify({ acks: [ackId] }))
    const headers = { 'content-type': 'application/json' }
    const reply = await this.#ask('POST', ACKS, route, { headers, body }, signal)
    const safe = reply.status === 200 ? readAcks(reply.body) : undefined
    if (safe) return safe.has(ackId)
    const { where } = this.endpoint
    const verdict = judge(this.#read(reply), { count: 0, bytes: 0, where, tokenFrom: this.#token.place })
    if (verdict.kind !== 'failed')
      throw new ConnectorError('bad_reply', `Splunk at ${where} did not say what is acknowledged`)
    // A token that was changed under our feet: the next question has the new one.
    if (verdict.error.action === 'hold') this.#look.refresh()
    throw verdict.error
  }

  #ask(
    method: 'GET' | 'POST',
    path: string,
    { channel, cookie }: Route,
    { headers, body }: { readonly headers: Record<string, string>; readonly body?: Uint8Array },
    signal: AbortSignal,
  ): Promise<WholeReply> {
    this.#look.look()
    const own = {
      authorization: `Splunk ${this.#token.reveal()}`,
      'x-splunk-request-channel': channel,
      ...(cookie === '' ? {} : { cookie }),
      'user-agent': 'auditferry',
      ...headers,
    }
    const request = { method, url: this.endpoint.origin + path, headers: own, ...(body ? { body } : {}) }
    return ask(this.#send, this.#clock, request, signal)
  }

  #read({ status, headers, body, distrust }: WholeReply): HecReply {
    const hintMs = retryAfterMs(headers, this.#clock.now())
    const hec = readHecBody(body)
    if (!hec) distrust?.()
    const stranger = hec ? undefined : strangerOf(headers, body)
    return { status, hec, stranger, retryAfterMs: hintMs, serverAt: serverTimeMs(headers) }
  }
}
