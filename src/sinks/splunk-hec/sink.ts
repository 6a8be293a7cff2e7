// Splunk's HTTP Event Collector as a sink: one request per batch; the answer shows how much was
// accepted.
import { ConnectorError } from '../../core/errors.ts'
import type {
  Assurance,
  CheckResult,
  Delivery,
  Frame,
  Confirmation,
  Lines,
  Outcome,
  Sink,
} from '../../contracts/sink.ts'
import type { SinkDeps, SinkKind } from '../../contracts/sink-kind.ts'
import { within } from '../../core/clock.ts'
import { addressOf, hostPort } from '../../contracts/platform.ts'
import { Certificates } from '../kit/certificate-expiry.ts'
import { Bodies, type RequestBody } from '../kit/body.ts'
import { Endpoints } from '../kit/endpoints.ts'
import { withSecrets } from '../kit/http.ts'
import { tlsFiles } from '../kit/options.ts'
import { Acks } from './acks.ts'
import { checkCollector, probeCollectors } from './check.ts'
import { Collector } from './client.ts'
import { hecFrame } from './body.ts'
import { type HecOptions, options, urlsOf } from './options.ts'
import { verdictOf, type Sent, type Verdict } from './reply.ts'

/** Less than the time that `validate --connect` gives to all checks of a sink. */
const CHECK_MS = 20_000
const SILENT = `no answer within ${CHECK_MS / 1000} s. Either a firewall drops the connection, or this is not the port of the HTTP Event Collector`

/** After "accepted, but my queue is near its limit": first and longest pause. */
const PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 16_000

/** Before the first answer. */
const assuranceOf = ({ acks }: HecOptions): Assurance => (acks === true ? 'stored' : 'received')

class HecSink implements Sink {
  readonly type = 'splunk_hec'
  readonly maxUnconfirmed: number
  readonly name: string
  readonly frame: Frame
  readonly shape: string
  readonly #options: HecOptions
  readonly #deps: SinkDeps
  readonly #endpoints: Endpoints<Collector>
  readonly #acks: Acks
  readonly #certificates: Certificates
  readonly #bodies: Bodies
  #pauseMs = 0

  constructor(name: string, hec: HecOptions, deps: SinkDeps) {
    const { index, source, sourcetype, host } = hec
    this.name = name
    this.#options = hec
    this.#deps = deps
    this.frame = hecFrame({ index, source, sourcetype, host, hostOf: (workspace) => deps.hostOf(workspace) })
    this.shape = JSON.stringify({ index, source, sourcetype, host })
    this.#bodies = new Bodies(hec.compression === 'gzip' ? (bytes) => deps.gzip(bytes) : undefined)
    const send = deps.transport(hec.tls)
    this.#certificates = new Certificates(urlsOf(hec), hec.tls, deps)
    const { clock, random } = deps
    const collectors = urlsOf(hec).map((url) => new Collector(url, hec.token, send, clock, random))
    this.#endpoints = new Endpoints(collectors, clock, random)
    this.#acks = new Acks({
      mode: hec.acks,
      timeoutMs: hec.ack_timeout,
      clock,
      log: deps.log,
      collectorAt: (origin) => collectors.find((collector) => collector.origin === origin),
    })
    this.maxUnconfirmed = hec.max_in_flight
  }

  /** `auto` learns it from the first answers. */
  get assurance(): Assurance {
    return this.#acks.assurance
  }

  warm(lines: Lines): void {
    this.#bodies.warm(lines)
  }

  async deliver({ lines }: Delivery, signal: AbortSignal): Promise<Outcome> {
    if (lines.count === 0) return { acknowledged: 0, rejected: [] }
    if (this.#pauseMs > 0) await this.#deps.clock.sleep(this.#pauseMs, signal)
    if (signal.aborted) throw new ConnectorError('aborted', 'Splunk: stopped before the batch')
    this.#certificates.lookDaily()
    const body = await this.#bodies.of(lines)
    const size = { count: lines.count, bytes: body.plainBytes, token: this.#options.token }
    for (let tries = 1; ; tries++) {
      const collector = this.#endpoints.pick()
      const channel = collector.channels.take()
      const sent = { ...size, where: collector.where }
      const verdict = await this.#deliverTo(collector, channel, body, sent, signal)
      if (verdict.kind === 'done') {
        this.#pauseMs = verdict.crowded ? Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2 || PAUSE_MS) : 0
        return this.#acks.outcomeAt(collector, channel, verdict)
      }
      if (!maybeSent(verdict.error)) collector.channels.giveBack(channel)
      if (!verdict.elsewhere || tries >= this.#endpoints.all.length) throw verdict.error
    }
  }

  async #deliverTo(
    collector: Collector,
    channel: string,
    body: RequestBody,
    sent: Sent,
    signal: AbortSignal,
  ): Promise<Verdict> {
    const post = async () => verdictOf(await collector.post(channel, body, signal), sent)
    let verdict: Verdict
    try {
      await this.#acks.assureOf(collector, signal)
      verdict = await withSecrets(collector.secrets, post, blamesToken)
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      throw error.action === 'stop' ? error : this.#endpoints.failed(collector, error)
    }
    if (verdict.kind === 'done') this.#endpoints.succeeded(collector)
    // A fault of this endpoint, not of the data or of the configuration.
    else if (verdict.error.action === 'retry')
      return { ...verdict, error: this.#endpoints.failed(collector, verdict.error) }
    return verdict
  }

  resume(detail: string): Confirmation | undefined {
    return this.#acks.resume(detail)
  }

  probe(signal: AbortSignal): Promise<void> {
    return probeCollectors(this.#endpoints.all, signal)
  }

  async check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const { index, acks } = this.#options
    const now = () => this.#deps.clock.now()
    const certificates = (origin: string, stop: AbortSignal) => this.#certificates.results(origin, stop)
    const expected = { index, acks, now, certificates }
    const checked = await Promise.all(
      this.#endpoints.all.map(async (collector) => {
        const late = new AbortController()
        const stop = AbortSignal.any([signal, late.signal])
        const found = await within(CHECK_MS, this.#deps.clock, checkCollector(collector, expected, stop))
        late.abort()
        return found ?? [{ what: collector.where, ok: false, message: SILENT }]
      }),
    )
    return checked.flat()
  }

  async close(): Promise<void> {
    this.#certificates.close()
    // The transport's connections belong to its owner.
  }
}

function blamesToken(verdict: Verdict): boolean {
  if (verdict.kind !== 'failed') return false
  return verdict.error.code === 'unauthorized' || verdict.error.code === 'forbidden'
}

/** Splunk may have taken the batch even if a proxy changed the answer, and acknowledge it later. */
function maybeSent({ code, action }: ConnectorError): boolean {
  if (code === 'unauthorized' || code === 'forbidden' || code === 'rate_limited') return false
  return action !== 'split'
}

export const splunkHec: SinkKind<typeof options> = {
  options,
  assurance: assuranceOf,
  marksReplay: () => true,
  to: (hec) => urlsOf(hec).map((url) => hostPort(addressOf(url))),
  urls: urlsOf,
  files: ({ tls }) => tlsFiles(tls),
  idle: ({ acks }) =>
    acks === false ? [{ field: 'ack_timeout', why: 'has no effect with acks: false: leave it out' }] : [],
  open: (name, hec, deps) => new HecSink(name, hec, deps),
}
