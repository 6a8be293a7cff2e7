// Asks the indexers which batches are safe by now: one question for all that wait on the same channel, until they are, or too old.
import { Tether } from '../../model/abort.ts'
import type { Clock } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Ticket } from './ticket.ts'

/** Typically true in one to two seconds; Splunk's own advice for what takes longer is 10 s. */
const FIRST_POLL_MS = 250
const LONGEST_POLL_MS = 10_000

export type Line = Pick<Ticket, 'origin' | 'channel' | 'cookie'>

/** Which of `ids` are safe. Throws ConnectorError; nothing may be concluded from that, nor from an id that is not named. */
export type AskAcks = (
  line: Line,
  ids: readonly number[],
  signal: AbortSignal,
) => Promise<ReadonlySet<number>>

interface Waiting {
  readonly ackId: number
  /** monotonic ms */
  readonly until: number
  safe(): void
  lost(error: ConnectorError): void
}

const keyOf = ({ origin, channel, cookie }: Line) => `${origin}\n${channel}\n${cookie}`
const where = ({ origin }: Line) => new URL(origin).host

export class Acks {
  readonly #clock: Clock
  readonly #ask: AskAcks
  readonly #timeoutMs: number
  readonly #lines = new Map<string, Set<Waiting>>()

  constructor(clock: Clock, timeoutMs: number, ask: AskAcks) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#ask = ask
  }

  /**
   * Resolves when the batch is safe. Throws ConnectorError `timeout` when it was not told so in time: `false` never means
   * failed, it may still be safe; `aborted` with `signal`.
   */
  confirmed({ ackId, sentAt, ...line }: Ticket, signal: AbortSignal): Promise<void> {
    // A clock that was set back must not make anybody wait longer than the whole time.
    const sinceMs = Math.max(0, this.#clock.now() - sentAt)
    const until = this.#clock.elapsed() + this.#timeoutMs - sinceMs
    return new Promise((resolve, reject) => {
      const waiting = { ackId, until, safe: resolve, lost: reject }
      const others = this.#lines.get(keyOf(line))
      if (others) {
        others.add(waiting)
        return
      }
      const first = new Set<Waiting>([waiting])
      this.#lines.set(keyOf(line), first)
      void this.#poll(line, first, signal)
    })
  }

  /** Its ids do not tell batches apart any more: all that wait there are to go out again. */
  giveUp(line: Pick<Line, 'origin' | 'channel'>): void {
    for (const [key, waiting] of this.#lines) {
      if (!key.startsWith(`${line.origin}\n${line.channel}\n`)) continue
      const words = `Splunk at ${new URL(line.origin).host}: its acknowledgements began anew, what was not acknowledged is sent again`
      for (const each of waiting) lose(waiting, each, new ConnectorError('timeout', words))
    }
  }

  async #poll(line: Line, waiting: Set<Waiting>, outer: AbortSignal): Promise<void> {
    const tether = new Tether(outer)
    const { signal } = tether
    let pollMs = FIRST_POLL_MS
    while (waiting.size > 0) {
      await this.#clock.sleep(pollMs, signal)
      if (signal.aborted) break
      const before = waiting.size
      await this.#once(line, waiting, signal)
      pollMs = waiting.size < before ? FIRST_POLL_MS : Math.min(LONGEST_POLL_MS, pollMs * 2)
    }
    this.#lines.delete(keyOf(line))
    tether.close()
    for (const each of waiting) each.lost(new ConnectorError('aborted', `Splunk at ${where(line)}: stopped`))
  }

  async #once(line: Line, waiting: Set<Waiting>, signal: AbortSignal): Promise<void> {
    let why = 'the indexer did not say so'
    try {
      const safe = await this.#ask(
        line,
        [...waiting].map(({ ackId }) => ackId),
        signal,
      )
      for (const each of waiting) {
        if (!safe.has(each.ackId)) continue
        waiting.delete(each)
        each.safe()
      }
    } catch (error) {
      // Whoever cannot be asked now is asked again; the batch's own time decides.
      if (!(error instanceof ConnectorError)) {
        for (const each of waiting) lose(waiting, each, error as ConnectorError)
        return
      }
      if (error.action === 'stop') return
      why = error.message
    }
    const now = this.#clock.elapsed()
    for (const each of waiting) {
      if (now < each.until) continue
      const time = `${this.#timeoutMs / 1000} s (ack_timeout)`
      const words = `Splunk at ${where(line)}: not acknowledged within ${time}: ${why}; the batch is sent again`
      lose(waiting, each, new ConnectorError('timeout', words))
    }
  }
}

function lose(all: Set<Waiting>, each: Waiting, error: ConnectorError): void {
  all.delete(each)
  each.lost(error)
}
