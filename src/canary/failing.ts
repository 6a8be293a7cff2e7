// What is said, and how long is waited, where a canary does not come back or cannot be sent.
import { backoffMs } from '../model/backoff.ts'
import type { Random } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Log } from '../model/log.ts'
import type { Streak } from '../model/streak.ts'
import type { CanaryTrace, SourceWatch } from '../model/watch.ts'
import type { Round } from './round.ts'

const RETRY_BASE_MS = 60_000

export const nameOf = ({ stage, sink }: CanaryTrace): string =>
  sink === undefined ? stage : `${stage} ${sink}`

export function alarmOf({ sentAt }: Round, lacking: readonly CanaryTrace[], boundMs: number): ConnectorError {
  const minutes = Math.round(boundMs / 60_000)
  return new ConnectorError(
    'timeout',
    `The canary of ${new Date(sentAt).toISOString()} did not come back within ${minutes} min: missing ${lacking.map(nameOf).join(', ')}. docs/operations.md tells what each means`,
  )
}

interface Teller {
  readonly log: Log
  readonly watch: SourceWatch
  readonly random: Random
  readonly intervalMs: number
}

/** Says why nothing could be asked, and how long to wait. Throws what no waiting cures. */
export function delayAfter(
  error: unknown,
  { log, watch, random, intervalMs }: Teller,
  streak: Streak,
): number {
  if (!(error instanceof ConnectorError) || error.action === 'exit') throw error
  const { count, tell } = streak.next(error)
  const { code, message, action } = error
  if (tell) log.warn('The canary could not ask and will try again', { code, error: message, attempt: count })
  const span = { baseMs: RETRY_BASE_MS, capMs: Math.max(RETRY_BASE_MS, intervalMs) }
  const delayMs = Math.max(error.retryAfterMs ?? 0, backoffMs(count, span, random))
  watch.state(action === 'hold' ? 'held' : 'failing', error, delayMs)
  return delayMs
}
