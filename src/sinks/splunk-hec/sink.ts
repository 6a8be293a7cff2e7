// Splunk's HTTP Event Collector as a sink: one batch, one request, and from the answer how far it got.
import { ConnectorError } from '../../model/errors.ts'
import type {
  Assurance,
  CheckResult,
  Delivery,
  Frame,
  Later,
  Lines,
  Outcome,
  Sink,
} from '../../model/sink.ts'
import type { SinkDeps, SinkKind } from '../../model/sink-kind.ts'
import { framedBytes } from '../line-frame.ts'
import { tlsFiles } from '../tls-options.ts'
import { Acks } from './acks.ts'
import { checkCollector } from './check.ts'
import { Collector } from './collector.ts'
import { type Endpoint, Endpoints } from './endpoints.ts'
import { hecFrame } from './frame.ts'
import { type HecOptions, options, urlsOf } from './options.ts'
import { type Done, judge, type Sent, type Verdict } from './reply.ts'
import { readTicket, type Ticket } from './ticket.ts'

/** After "accepted, but my queue is near its limit": first pause and longest. */
const PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 16_000

class HecSink implements Sink {
  readonly type = 'splunk_hec'
  readonly assurance: Assurance
  readonly maxUnconfirmed: number
  readonly name: string
  readonly frame: Frame
  readonly shape: string
  readonly #options: HecOptions
  readonly #deps: SinkDeps
  readonly #endpoints: Endpoints
  readonly #collectors: ReadonlyMap<string, Collector>
  readonly #acks: Acks
  /** endpoints whose token acknowledges for sure */
  readonly #acknowledging = new Set<string>()
  #toldOff = false
  readonly #packed = new WeakMap<Lines, Promise<Uint8Array>>()
  #pauseMs = 0

  constructor(name: string, hec: HecOptions, deps: SinkDeps) {
    const { index, source, sourcetype, host } = hec
    this.name = name
    this.#options = hec
    this.#deps = deps
    this.frame = hecFrame({ index, source, sourcetype, host, hostOf: (workspace) => deps.hostOf(workspace) })
    this.shape = JSON.stringify({ index, source, sourcetype, host })
    const send = deps.transport(hec.tls)
    this.#endpoints = new Endpoints(urlsOf(hec), deps.clock, deps.random)
    const open = (endpoint: Endpoint) => new Collector(endpoint, hec.token, send, deps.clock, deps.random)
    this.#collectors = new Map(this.#endpoints.all.map((endpoint) => [endpoint.origin, open(endpoint)]))
    this.#acks = new Acks(deps.clock, hec.ack_timeout, (line, ids, signal) =>
      this.#collectorAt(line.origin).acknowledged(line, ids, signal),
    )
    this.assurance = hec.acks === true ? 'stored' : 'received'
    this.maxUnconfirmed = hec.max_in_flight
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
        return this.#outcomeAt(endpoint, verdict)
      }
      if (!verdict.elsewhere || tries >= this.#endpoints.all.length) throw verdict.error
    }
  }

  async #deliverTo(endpoint: Endpoint, body: Uint8Array, sent: Sent, signal: AbortSignal): Promise<Verdict> {
    const collector = this.#collectorAt(endpoint.origin)
    const gzip = this.#options.compression === 'gzip'
    let verdict: Verdict
    try {
      if (this.#options.acks === true) await this.#mustAcknowledge(endpoint, signal)
      verdict = judge(await collector.post(body, gzip, signal), sent)
      // A token that was changed under our feet: read again once, before anybody is told.
      if (blamesToken(verdict) && this.#options.token.refresh())
        verdict = judge(await collector.post(body, gzip, signal), sent)
    } catch (error) {
      const ours = error instanceof ConnectorError && error.action === 'stop'
      if (!ours) this.#endpoints.failed(endpoint)
      throw error
    }
    if (verdict.kind === 'done') this.#endpoints.succeeded(endpoint)
    else if (verdict.resting) this.#endpoints.failed(endpoint, verdict.error.retryAfterMs)
    return verdict
  }

  /** Before anything is sent where it could never be acknowledged: asked once, about a batch that there is not. */
  async #mustAcknowledge({ origin }: Endpoint, signal: AbortSignal): Promise<void> {
    if (this.#acknowledging.has(origin)) return
    const collector = this.#collectorAt(origin)
    await collector.acknowledged(collector.line, [0], signal)
    this.#acknowledging.add(origin)
  }

  #outcomeAt({ origin, where }: Endpoint, { outcome, ackId }: Done): Outcome {
    const { acks } = this.#options
    const acceptedAny = outcome.settled > outcome.refused.length
    if (acks === false || !acceptedAny) return outcome
    if (ackId === undefined) {
      // Of a batch that was refused in its middle Splunk has said itself that what stands before is indexed.
      if (acks === 'auto' || outcome.refused.length > 0) return this.#unacknowledged(outcome, where)
      this.#acknowledging.delete(origin)
      const words =
        'took the batch without an acknowledgement to ask for, which acks: true wants; is it still on for the token?'
      throw new ConnectorError('misconfigured', `Splunk at ${where} ${words}`)
    }
    const { channel, line } = this.#collectorAt(origin)
    if (!channel.follows(ackId)) {
      this.#acks.giveUp({ origin, channel: channel.id })
      channel.renew()
      const words =
        'counts acknowledgements anew, a restart or another indexer: the batch is sent again under a new channel'
      throw new ConnectorError('timeout', `Splunk at ${where} ${words}`)
    }
    return {
      ...outcome,
      later: this.#later({ ...line, ackId, sentAt: this.#deps.clock.now() }),
    }
  }

  #unacknowledged(outcome: Outcome, where: string): Outcome {
    if (outcome.refused.length === 0 && !this.#toldOff) {
      this.#toldOff = true
      const words =
        'The token has acknowledgements off: what Splunk accepts counts as delivered (received, not stored)'
      this.#deps.log.info(words, { receiver: where })
    }
    return outcome
  }

  resume(detail: string): Later | undefined {
    const ticket = readTicket(detail)
    return ticket && this.#collectors.has(ticket.origin) ? this.#later(ticket) : undefined
  }

  #later(ticket: Ticket): Later {
    return {
      detail: JSON.stringify(ticket),
      confirmed: async (signal) => {
        try {
          await this.#acks.confirmed(ticket, signal)
        } catch (error) {
          const { channel } = this.#collectorAt(ticket.origin)
          if (!signal.aborted && channel.id === ticket.channel) channel.renew()
          throw error
        }
      },
    }
  }

  #collectorAt(origin: string): Collector {
    const collector = this.#collectors.get(origin)
    if (!collector) throw new Error('a collector was asked for that no endpoint has')
    return collector
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

  async check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const results: CheckResult[] = []
    const { index, acks } = this.#options
    for (const collector of this.#collectors.values())
      results.push(...(await checkCollector(collector, { index, acks }, signal)))
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
