// Asks the indexers until a batch is safe, or too old to be waited for.
import type { Clock } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Ticket } from './ticket.ts'

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
