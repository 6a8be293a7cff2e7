// What acknowledgements make of an accepted batch: safe at once, to be asked for, or not to be believed.
import type { Assurance, Later, Outcome } from '../../contracts/sink.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { readTicket } from './client.ts'
import type { Collector, Ticket } from './client.ts'
import type { HecOptions } from './options.ts'
import type { Done } from './reply.ts'

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

// Asks the indexers until a batch is safe, or too old to be waited for.

/** Typically true in one to two seconds; Splunk's own advice for what takes longer is 10 s. */
const SHORTEST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 10_000

interface Asking {
  readonly clock: Clock
  readonly timeoutMs: number
  /** Throws ConnectorError when there is no saying: nothing may be concluded from that. */
  readonly isSafe: (ticket: Ticket, signal: AbortSignal) => Promise<boolean>
}

/**
 * Resolves when the batch is safe. Throws ConnectorError `timeout` when nobody said so in time (`false` never means failed:
 * true is told once, and that answer may have been lost), `aborted` with `signal`.
 * @internal for tests
 */
export async function acknowledged(ticket: Ticket, asking: Asking, signal: AbortSignal): Promise<void> {
  const { clock, timeoutMs } = asking
  const { host } = new URL(ticket.origin)
  // A clock that was set back must not make anybody wait longer than the whole time.
  const since = clock.elapsed()
  const until = since + timeoutMs - Math.max(0, clock.now() - ticket.sentAt)
  for (;;) {
    // Half of what it took so far: who answers late is not asked often, and is heard not much later than it could be.
    const pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, (clock.elapsed() - since) / 2))
    await clock.sleep(pauseMs, signal)
    if (signal.aborted) throw new ConnectorError('aborted', `Splunk at ${host}: stopped`)
    const why = await whyNot(ticket, asking, signal)
    if (why === undefined) return
    if (clock.elapsed() < until) continue
    const waited = `not acknowledged within ${timeoutMs / 1000} s (ack_timeout)`
    throw new ConnectorError('timeout', `Splunk at ${host}: ${waited}: ${why}; the batch is sent again`)
  }
}

/** Undefined: it is safe. Whoever cannot be asked now is asked again, the batch's own time decides. */
async function whyNot(ticket: Ticket, { isSafe }: Asking, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await isSafe(ticket, signal)) ? undefined : 'the indexer did not say so'
  } catch (error) {
    if (error instanceof ConnectorError) return error.message
    throw error
  }
}
