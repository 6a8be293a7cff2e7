// One event collector over HTTP: what is asked of it and what it answers, without a word on what that means.
import type { Clock, Random } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Transport } from '../../model/http.ts'
import { retryAfterMs } from '../../model/retry-after.ts'
import type { Secret } from '../../model/secret.ts'
import { ask, type WholeReply } from '../ask.ts'
import type { Line } from './acks.ts'
import { Channel } from './channel.ts'
import type { Endpoint } from './endpoints.ts'
import { type HecReply, judge, readAcks, readHecBody } from './reply.ts'

const EVENTS = '/services/collector/event'
const HEALTH = '/services/collector/health'
const ACKS = '/services/collector/ack'

export class Collector {
  readonly endpoint: Endpoint
  readonly channel: Channel
  readonly #token: Secret
  readonly #send: Transport
  readonly #clock: Clock

  constructor(endpoint: Endpoint, token: Secret, send: Transport, clock: Clock, random: Random) {
    this.endpoint = endpoint
    this.channel = new Channel(random)
    this.#token = token
    this.#send = send
    this.#clock = clock
  }

  /** The line on which batches go out now. */
  get line(): Line {
    return { origin: this.endpoint.origin, channel: this.channel.id, cookie: this.channel.cookie }
  }

  /** Objects of events, one after the other; `gzip` when they are packed so. */
  async post(body: Uint8Array, gzip: boolean, signal: AbortSignal): Promise<HecReply> {
    const headers = { 'content-type': 'application/json', ...(gzip ? { 'content-encoding': 'gzip' } : {}) }
    const reply = await this.#ask('POST', EVENTS, this.line, { headers, body }, signal)
    this.channel.remember(reply.headers['set-cookie'])
    return this.#read(reply)
  }

  async health(signal: AbortSignal): Promise<HecReply> {
    return this.#read(await this.#ask('GET', HEALTH, this.line, { headers: {} }, signal))
  }

  /** Which of `ids` on `line` are safe. Throws ConnectorError when it does not say. */
  async acknowledged(line: Line, ids: readonly number[], signal: AbortSignal): Promise<ReadonlySet<number>> {
    const body = Buffer.from(JSON.stringify({ acks: ids }))
    const headers = { 'content-type': 'application/json' }
    const reply = await this.#ask('POST', ACKS, line, { headers, body }, signal)
    const safe = reply.status === 200 ? readAcks(reply.body) : undefined
    if (safe) return safe
    const { where } = this.endpoint
    const verdict = judge(this.#read(reply), { count: 0, bytes: 0, where })
    if (verdict.kind !== 'failed')
      throw new ConnectorError('bad_reply', `Splunk at ${where} did not say what is acknowledged`)
    // A token that was changed under our feet: the next question has the new one.
    if (verdict.error.action === 'hold') this.#token.refresh()
    throw verdict.error
  }

  #ask(
    method: 'GET' | 'POST',
    path: string,
    { channel, cookie }: Line,
    { headers, body }: { readonly headers: Record<string, string>; readonly body?: Uint8Array },
    signal: AbortSignal,
  ): Promise<WholeReply> {
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

  #read({ status, headers, body }: WholeReply): HecReply {
    return { status, hec: readHecBody(body), retryAfterMs: retryAfterMs(headers, this.#clock.now()) }
  }
}
