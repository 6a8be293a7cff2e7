// Splunk's HTTP Event Collector as a sink: one batch, one request, and from the answer how far it got.
import { ConnectorError } from '../../model/errors.ts'
import { retryAfterMs } from '../../model/retry-after.ts'
import type { CheckResult, Delivery, Frame, Lines, Outcome, Sink } from '../../model/sink.ts'
import type { SinkDeps, SinkKind } from '../../model/sink-kind.ts'
import type { Transport } from '../../model/http.ts'
import { ask } from '../ask.ts'
import { framedBytes } from '../line-frame.ts'
import { tlsFiles } from '../tls-options.ts'
import { checkEndpoint } from './check.ts'
import { type Endpoint, Endpoints } from './endpoints.ts'
import { hecFrame } from './frame.ts'
import { type HecOptions, options, urlsOf } from './options.ts'
import { type HecReply, judge, readHecBody, type Sent, type Verdict } from './reply.ts'

const EVENTS = '/services/collector/event'
const HEALTH = '/services/collector/health'
/** After "accepted, but my queue is near its limit": first pause and longest. */
const PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 16_000

function channelId(random: () => number): string {
  const hex = Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16))
  hex[12] = '4'
  hex[16] = '89ab'[Math.floor(random() * 4)] ?? '8'
  const text = hex.join('')
  return [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20), text.slice(20)].join(
    '-',
  )
}

class HecSink implements Sink {
  readonly type = 'splunk_hec'
  readonly assurance = 'received'
  readonly name: string
  readonly frame: Frame
  readonly shape: string
  readonly #options: HecOptions
  readonly #deps: SinkDeps
  readonly #send: Transport
  readonly #endpoints: Endpoints
  readonly #channel: string
  readonly #packed = new WeakMap<Lines, Promise<Uint8Array>>()
  #pauseMs = 0

  constructor(name: string, hec: HecOptions, deps: SinkDeps) {
    const { index, source, sourcetype, host } = hec
    this.name = name
    this.#options = hec
    this.#deps = deps
    this.frame = hecFrame({ index, source, sourcetype, host, hostOf: (workspace) => deps.hostOf(workspace) })
    this.shape = JSON.stringify({ index, source, sourcetype, host })
    this.#send = deps.transport(hec.tls)
    this.#endpoints = new Endpoints(urlsOf(hec), deps.clock, deps.random)
    this.#channel = channelId(deps.random)
  }

  /** Compresses ahead; `deliver` of these same lines, and each retry of it, takes what this made. */
  warm(lines: Lines): void {
    if (this.#options.compression === 'gzip') void this.#pack(lines).catch(() => undefined)
  }

  async deliver({ lines }: Delivery, signal: AbortSignal): Promise<Outcome> {
    if (lines.count === 0) return { settled: 0, refused: [] }
    if (this.#pauseMs > 0) await this.#deps.clock.sleep(this.#pauseMs, signal)
    if (signal.aborted) throw new ConnectorError('aborted', 'Splunk: stopped before the batch')
    const body = await this.#pack(lines)
    const sent = { count: lines.count, bytes: framedBytes(lines).length }
    for (let tries = 1; ; tries++) {
      const endpoint = this.#endpoints.pick()
      const verdict = await this.#deliverTo(endpoint, body, { ...sent, where: endpoint.where }, signal)
      if (verdict.kind === 'done') {
        this.#pauseMs = verdict.crowded ? Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2 || PAUSE_MS) : 0
        return verdict.outcome
      }
      if (!verdict.elsewhere || tries >= this.#endpoints.all.length) throw verdict.error
    }
  }

  async #deliverTo(endpoint: Endpoint, body: Uint8Array, sent: Sent, signal: AbortSignal): Promise<Verdict> {
    let verdict: Verdict
    try {
      verdict = judge(await this.#post(endpoint, body, signal), sent)
      // A token that was changed under our feet: read again once, before anybody is told.
      if (blamesToken(verdict) && this.#options.token.refresh())
        verdict = judge(await this.#post(endpoint, body, signal), sent)
    } catch (error) {
      const ours = error instanceof ConnectorError && error.action === 'stop'
      if (!ours) this.#endpoints.failed(endpoint)
      throw error
    }
    if (verdict.kind === 'done') this.#endpoints.succeeded(endpoint)
    else if (verdict.resting) this.#endpoints.failed(endpoint, verdict.error.retryAfterMs)
    return verdict
  }

  #pack(lines: Lines): Promise<Uint8Array> {
    const bytes = framedBytes(lines)
    if (this.#options.compression === 'none') return Promise.resolve(bytes)
    let packed = this.#packed.get(lines)
    if (!packed) {
      packed = this.#deps.compress(bytes)
      this.#packed.set(lines, packed)
      packed.catch(() => this.#packed.delete(lines))
    }
    return packed
  }

  #post(endpoint: Endpoint, body: Uint8Array, signal: AbortSignal, packed = true): Promise<HecReply> {
    const gzip = packed && this.#options.compression === 'gzip'
    const url = endpoint.origin + EVENTS
    const headers = {
      ...this.#headers(),
      'content-type': 'application/json',
      ...(gzip ? { 'content-encoding': 'gzip' } : {}),
    }
    return this.#ask({ method: 'POST', url, headers, body }, signal)
  }

  #headers(): Record<string, string> {
    return {
      authorization: `Splunk ${this.#options.token.reveal()}`,
      'x-splunk-request-channel': this.#channel,
      'user-agent': 'auditferry',
    }
  }

  async #ask(request: Parameters<Transport>[0], signal: AbortSignal): Promise<HecReply> {
    const { clock } = this.#deps
    const reply = await ask(this.#send, clock, request, signal)
    return {
      status: reply.status,
      hec: readHecBody(reply.body),
      retryAfterMs: retryAfterMs(reply.headers, clock.now()),
    }
  }

  async check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const asking = {
      index: this.#options.index,
      health: ({ origin }: Endpoint, stop: AbortSignal) =>
        this.#ask({ method: 'GET', url: origin + HEALTH, headers: this.#headers() }, stop),
      post: (endpoint: Endpoint, body: Uint8Array, stop: AbortSignal) =>
        this.#post(endpoint, body, stop, false),
    }
    const results: CheckResult[] = []
    for (const endpoint of this.#endpoints.all)
      results.push(...(await checkEndpoint(asking, endpoint, signal)))
    return results
  }

  async close(): Promise<void> {
    // Its connections belong to whoever made the transport.
  }
}

function blamesToken(verdict: Verdict): boolean {
  if (verdict.kind !== 'failed') return false
  return verdict.error.code === 'unauthorized' || verdict.error.code === 'forbidden'
}

export const splunkHec: SinkKind<typeof options> = {
  options,
  urls: urlsOf,
  files: ({ tls }) => tlsFiles(tls),
  open: (name, hec, deps) => new HecSink(name, hec, deps),
}
