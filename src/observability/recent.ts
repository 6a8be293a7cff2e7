// The last errors of all parts, so that an error that is over can still be read later. Reported
// messages, never content.
import type { SinkReporter, StreamReporter } from '../contracts/reporter.ts'
import { causeOf } from '../core/backoff.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { ErrorCode } from '../core/errors.ts'
import type { Mask } from './log.ts'
import { messageOf } from './words.ts'

export const MAX_ERRORS = 20

/** Errors of one part that differ only in numbers are counted as one. */
export interface ErrorStatus {
  /** `acme audit`, or a sink's name */
  readonly part: string
  readonly code: ErrorCode
  /** as last reported */
  readonly message: string
  readonly times: number
  readonly first_at: string
  readonly last_at: string
}

interface RecordedError {
  readonly part: string
  readonly code: ErrorCode
  readonly message: string
  readonly cause: string
  readonly firstAt: number
  times: number
  lastAt: number
}

interface RecentErrors {
  record(part: string, error: ConnectorError, at: number): void
  /** newest first */
  status(): readonly ErrorStatus[]
}

export function openRecentErrors(): RecentErrors {
  /** newest last */
  const errors: RecordedError[] = []
  return {
    record(part, error, at) {
      const { code } = error
      const message = messageOf(error)
      const cause = causeOf(message)
      const known = errors.findIndex((one) => one.part === part && one.code === code && one.cause === cause)
      const [earlier] = known < 0 ? [] : errors.splice(known, 1)
      errors.push({
        part,
        code,
        message,
        cause,
        firstAt: earlier?.firstAt ?? at,
        times: (earlier?.times ?? 0) + 1,
        lastAt: at,
      })
      if (errors.length > MAX_ERRORS) errors.shift()
    },
    status: () =>
      errors.toReversed().map(({ part, code, message, times, firstAt, lastAt }) => ({
        part,
        code,
        message,
        times,
        first_at: new Date(firstAt).toISOString(),
        last_at: new Date(lastAt).toISOString(),
      })),
  }
}

// The history that the status registry keeps: one hour of counts, and the last errors.
// It is called between the loops and the status of their part.

export interface RegistryMemory {
  readonly clock: Pick<Clock, 'now'>
  readonly lastHour: LastHour
  readonly errors: RecentErrors
  readonly mask: Mask
}

/** A receiver may echo in its error what it was sent, including the token. */
function masked(error: ConnectorError | undefined, mask: Mask): ConnectorError | undefined {
  if (!error) return undefined
  const message = mask(error.message)
  if (message === error.message) return error
  return new ConnectorError(error.code, message, { retryAfterMs: error.retryAfterMs })
}

/** Wraps `state` of a reporter, and records errors under the part's name. */
function remembering<State>(
  part: string,
  memory: RegistryMemory,
  reporter: { state(state: State, error?: ConnectorError, tryInMs?: number): void },
): (state: State, error?: ConnectorError, tryInMs?: number) => void {
  return (state, error, tryInMs) => reporter.state(state, remembered(part, memory, error), tryInMs)
}

/** The error with its message masked. */
function remembered(
  part: string,
  { clock, errors, mask }: RegistryMemory,
  error: ConnectorError | undefined,
): ConnectorError | undefined {
  const safe = masked(error, mask)
  if (safe) errors.record(part, safe, clock.now())
  return safe
}

export function rememberSource(
  part: string,
  reporter: StreamReporter,
  memory: RegistryMemory,
): StreamReporter {
  return {
    ...reporter,
    state: remembering(part, memory, reporter),
    appended(appended) {
      memory.lastHour.arrived(appended.added + appended.late)
      reporter.appended(appended)
    },
  }
}

export function rememberSink(part: string, reporter: SinkReporter, memory: RegistryMemory): SinkReporter {
  return {
    ...reporter,
    state: remembering(part, memory, reporter),
    probed: (error, tryInMs) => reporter.probed(remembered(part, memory, error), tryInMs),
    acknowledged(counts) {
      if (counts.accepted > 0) memory.lastHour.accepted(counts.accepted)
      reporter.acknowledged(counts)
    },
  }
}

// Counts of the last hour in steps of half a minute: a fixed ring in memory, lost at the end of the
// process. It has no timer: each count and each look advances it.

const STEP_SECONDS = 30
const STEPS = 120

/** Oldest first, one number per step; the last is incomplete. A young process has fewer steps. */
export interface LastHourStatus {
  readonly step_seconds: number
  /** new entries stored in the journal */
  readonly read: readonly number[]
  /** entries accepted, sum of all sinks */
  readonly delivered: readonly number[]
  /** entries pending for at least one sink at the end of the step */
  readonly pending: readonly number[]
}

interface LastHour {
  arrived(entries: number): void
  accepted(entries: number): void
  status(): LastHourStatus
}

/** Calls `pendingNow` once per step. Monotonic: a jump of the wall clock leaves no hole. */
export function openLastHour(clock: Pick<Clock, 'elapsed'>, pendingNow: () => number): LastHour {
  const read = new Float64Array(STEPS)
  const delivered = new Float64Array(STEPS)
  const pending = new Float64Array(STEPS)
  const startedAt = clock.elapsed()
  let step = 0

  const advance = (): number => {
    const now = Math.max(step, Math.floor((clock.elapsed() - startedAt) / 1000 / STEP_SECONDS))
    if (now > step) {
      // Nothing changed since the last call, so the current number applies to each step in between.
      const level = pendingNow()
      pending[step % STEPS] = level
      for (let next = Math.max(step + 1, now - STEPS + 1); next <= now; next++) {
        read[next % STEPS] = 0
        delivered[next % STEPS] = 0
        pending[next % STEPS] = level
      }
      step = now
    }
    return step % STEPS
  }

  const add = (series: Float64Array) => (entries: number) => {
    const at = advance()
    series[at] = (series[at] ?? 0) + entries
  }
  const inOrder = (series: Float64Array): number[] => {
    const first = Math.max(0, step - STEPS + 1)
    return Array.from({ length: step - first + 1 }, (_, i) => series[(first + i) % STEPS] ?? 0)
  }

  return {
    arrived: add(read),
    accepted: add(delivered),
    status() {
      pending[advance()] = pendingNow()
      return {
        step_seconds: STEP_SECONDS,
        read: inOrder(read),
        delivered: inOrder(delivered),
        pending: inOrder(pending),
      }
    },
  }
}
