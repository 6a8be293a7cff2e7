// The last errors of all parts, so that an error that is over can still be read later. Reported
// messages, never content.
import { causeOf } from '../core/backoff.ts'
import type { Clock } from '../core/clock.ts'
import type { ConnectorError, ErrorCode } from '../core/errors.ts'
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

/** An error as it may be shown. */
export type Shown = Pick<ErrorStatus, 'code' | 'message'>

interface RecentErrors {
  /** Masks secrets: a receiver may echo in its error what it was sent, including the token. */
  record(part: string, error: ConnectorError): Shown
  /** newest first */
  status(): readonly ErrorStatus[]
}

export function openRecentErrors(clock: Pick<Clock, 'now'>, mask: Mask): RecentErrors {
  /** newest last */
  const errors: { readonly status: ErrorStatus; readonly cause: string }[] = []
  return {
    record(part, error) {
      const { code } = error
      const message = messageOf({ message: mask(error.message) })
      const cause = causeOf(message)
      const isSame = ({ status, ...one }: (typeof errors)[number]) =>
        status.part === part && status.code === code && one.cause === cause
      const known = errors.findIndex(isSame)
      const [earlier] = known < 0 ? [] : errors.splice(known, 1)
      const now = new Date(clock.now()).toISOString()
      const times = (earlier?.status.times ?? 0) + 1
      const first = earlier?.status.first_at ?? now
      errors.push({ status: { part, code, message, times, first_at: first, last_at: now }, cause })
      if (errors.length > MAX_ERRORS) errors.shift()
      return { code, message }
    },
    status: () => errors.map(({ status }) => status).toReversed(),
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

export interface Recent {
  readonly errors: RecentErrors
  readonly lastHour: LastHour
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
