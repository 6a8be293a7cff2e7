// How acknowledgements change the outcome of an accepted batch: stored at once, to be asked about,
// or invalid.
import type { Assurance, Confirmation, Outcome } from '../../contracts/sink.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { jsonOf } from '../../core/json.ts'
import type { Log } from '../../core/log.ts'
import { ticketSchema } from './client.ts'
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
  /** those whose token is known to acknowledge */
  readonly #acknowledging = new Set<Collector>()
  /** what each token does, by its last answer; logged when it changes */
  readonly #shown = new Map<Collector, 'on' | 'off'>()

  constructor(options: AcksOptions) {
    this.#options = options
  }

  /** Before the first batch, asks about one that does not exist: the token must acknowledge. */
  async assureOf(collector: Collector, signal: AbortSignal): Promise<void> {
    if (this.#options.mode !== true || this.#acknowledging.has(collector)) return
    const { channels, cookie } = collector
    const channel = channels.take()
    await collector.isSafe({ channel, cookie }, 0, signal)
    channels.giveBack(channel)
    this.#acknowledging.add(collector)
  }

  /** `channel`: carried this batch, and nothing else since. */
  outcomeAt(collector: Collector, channel: string, { outcome, ackId, whole }: Done): Outcome {
    const { mode, clock } = this.#options
    if (ackId !== undefined && mode !== false && outcome.acknowledged > outcome.rejected.length) {
      const { origin, cookie } = collector
      if (mode === 'auto') this.#show(collector, 'on')
      const ticket = { origin, channel, cookie, ackId, sentAt: clock.now() }
      return { ...outcome, confirmation: this.#later(ticket, collector) }
    }
    // Nothing will ask for this id: its channel is discarded if others are asked about.
    if (ackId === undefined || mode === false) collector.channels.giveBack(channel)
    // After a rejected event a missing id does not mean that acknowledgements are off: Splunk says
    // that the events before it are indexed.
    if (ackId === undefined && whole) this.#off(collector)
    return outcome
  }

  #off(collector: Collector): void {
    const { mode } = this.#options
    const { where } = collector
    if (mode === true) {
      this.#acknowledging.delete(collector)
      const why = 'accepted the batch but returned no ackId, which acks: true needs'
      throw new ConnectorError(
        'misconfigured',
        `Splunk at ${where} ${why}: turn on indexer acknowledgement for the token`,
      )
    }
    if (mode === 'auto') this.#show(collector, 'off')
  }

  /** One collector without acknowledgements decides: any of them may take the next batch. */
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
    this.#options.log.info(words, { receiver: collector.where })
  }

  /** Undefined if the in-flight record has no answer, or its endpoint left the configuration. */
  resume(detail: string): Confirmation | undefined {
    const ticket = jsonOf(ticketSchema, detail)
    const collector = ticket && this.#options.collectorAt(ticket.origin)
    return collector && this.#later(ticket, collector)
  }

  #later(ticket: Ticket, collector: Collector): Confirmation {
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

// Asks the indexers until a batch is stored, or its wait is over.

/** Typically stored within one to two seconds; for longer waits Splunk recommends 10 s. */
const SHORTEST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 10_000

interface Asking {
  readonly clock: Clock
  readonly timeoutMs: number
  /** Throws ConnectorError if the answer is unknown: nothing may be concluded from that. */
  readonly isSafe: (ticket: Ticket, signal: AbortSignal) => Promise<boolean>
}

/**
 * Resolves when the batch is stored. Throws ConnectorError `timeout` if no answer says so in time
 * (`false` never means failed: Splunk sends `true` once, and that answer may be lost), `aborted`
 * with `signal`.
 * @internal for tests
 */
export async function acknowledged(ticket: Ticket, asking: Asking, signal: AbortSignal): Promise<void> {
  const { clock, timeoutMs } = asking
  const { host } = new URL(ticket.origin)
  // Monotonic, so that a clock set back does not extend the wait.
  const since = clock.elapsed()
  const until = since + timeoutMs - Math.max(0, clock.now() - ticket.sentAt)
  for (;;) {
    // Half of the time so far: a slow receiver is asked less often, and the delay is in proportion.
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

/** Undefined: it is stored. A failed question is repeated; the timeout of the batch decides. */
async function whyNot(ticket: Ticket, { isSafe }: Asking, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await isSafe(ticket, signal)) ? undefined : 'the indexer has not confirmed it'
  } catch (error) {
    if (error instanceof ConnectorError) return error.message
    throw error
  }
}
