// What acknowledgements make of an accepted batch: safe at once, to be asked for, or not to be believed.
import type { Clock } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Log } from '../../model/log.ts'
import type { Assurance, Later, Outcome } from '../../model/sink.ts'
import { acknowledged } from './acknowledgement.ts'
import type { Collector } from './collector.ts'
import type { HecOptions } from './options.ts'
import type { Done } from './reply.ts'
import { readTicket, type Ticket } from './ticket.ts'

interface AcksOptions {
  readonly mode: HecOptions['acks']
  readonly timeoutMs: number
  readonly clock: Clock
  readonly log: Log
  readonly collectorAt: (origin: string) => Collector | undefined
}

export class Acks {
  readonly #options: AcksOptions
  /** those whose token acknowledges for sure */
  readonly #acknowledging = new Set<Collector>()
  /** what each token does, as its last answer showed; told when it changes */
  readonly #shown = new Map<Collector, 'on' | 'off'>()

  constructor(options: AcksOptions) {
    this.#options = options
  }

  /** Before anything is sent where it could never be acknowledged: asked once, about a batch that there is not. */
  async assureOf(collector: Collector, signal: AbortSignal): Promise<void> {
    if (this.#options.mode !== true || this.#acknowledging.has(collector)) return
    const { channels, cookie } = collector
    const channel = channels.take()
    await collector.isSafe({ channel, cookie }, 0, signal)
    channels.giveBack(channel)
    this.#acknowledging.add(collector)
  }

  /** `channel`: on which the batch went out, and nothing else since. */
  outcomeAt(collector: Collector, channel: string, { outcome, ackId, whole }: Done): Outcome {
    const { mode, clock } = this.#options
    if (ackId !== undefined && mode !== false && outcome.settled > outcome.refused.length) {
      const { endpoint, cookie } = collector
      if (mode === 'auto') this.#show(collector, 'on')
      const ticket = { origin: endpoint.origin, channel, cookie, ackId, sentAt: clock.now() }
      return { ...outcome, later: this.#later(ticket, collector) }
    }
    // An id that nobody will ask for leaves its channel behind, where others are asked for.
    if (ackId === undefined || mode === false) collector.channels.giveBack(channel)
    // No sign of acknowledgements that are off where one event was refused: what stands before it Splunk says itself to be indexed.
    if (ackId === undefined && whole) this.#off(collector)
    return outcome
  }

  #off(collector: Collector): void {
    const { mode } = this.#options
    const { where } = collector.endpoint
    if (mode === true) {
      this.#acknowledging.delete(collector)
      const why = 'took the batch without an acknowledgement to ask for, which acks: true wants'
      throw new ConnectorError('misconfigured', `Splunk at ${where} ${why}; is it still on for the token?`)
    }
    if (mode === 'auto') this.#show(collector, 'off')
  }

  /** One collector without acknowledgements is enough: nobody knows which of several takes the next batch. */
  get assurance(): Assurance {
    const { mode } = this.#options
    if (mode !== 'auto') return mode ? 'stored' : 'received'
    const shown = [...this.#shown.values()]
    return shown.length > 0 && !shown.includes('off') ? 'stored' : 'received'
  }

  #show(collector: Collector, acks: 'on' | 'off'): void {
    if (this.#shown.get(collector) === acks) return
    this.#shown.set(collector, acks)
    const words =
      acks === 'on'
        ? 'The token has acknowledgements on: what the indexers have acknowledged counts as delivered (stored)'
        : 'The token has acknowledgements off: what Splunk accepts counts as delivered (received, not stored)'
    this.#options.log.info(words, { receiver: collector.endpoint.where })
  }

  /** Undefined for an intent that was never answered, and for an endpoint that left the configuration. */
  resume(detail: string): Later | undefined {
    const ticket = readTicket(detail)
    const collector = ticket && this.#options.collectorAt(ticket.origin)
    return collector && this.#later(ticket, collector)
  }

  #later(ticket: Ticket, collector: Collector): Later {
    const { clock, timeoutMs } = this.#options
    const isSafe = (asked: Ticket, signal: AbortSignal) => collector.isSafe(asked, asked.ackId, signal)
    return {
      detail: JSON.stringify(ticket),
      confirmed: async (signal) => {
        await acknowledged(ticket, { clock, timeoutMs, isSafe }, signal)
        collector.channels.giveBack(ticket.channel)
      },
    }
  }
}
