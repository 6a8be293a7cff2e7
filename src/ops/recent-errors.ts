// The last errors that parts told, so that what mended itself in the night can still be read in the morning. Words as they were told, never content.
import type { ConnectorError, ErrorCode } from '../model/errors.ts'
import { causeOf } from '../model/cause.ts'
import { messageOf } from './words.ts'

const MOST = 20

/** An error that comes again, from the same part in the same words but for numbers, is counted and not told twice. */
export interface ErrorStatus {
  /** `acme audit`, or a sink's name */
  readonly part: string
  readonly code: ErrorCode
  /** as it was told last */
  readonly message: string
  readonly times: number
  readonly first_at: string
  readonly last_at: string
}

interface Told {
  readonly part: string
  readonly code: ErrorCode
  readonly message: string
  readonly cause: string
  readonly firstAt: number
  times: number
  lastAt: number
}

export interface RecentErrors {
  tell(part: string, error: ConnectorError, at: number): void
  /** newest first */
  status(): readonly ErrorStatus[]
}

export function openRecentErrors(): RecentErrors {
  /** the newest last */
  const errors: Told[] = []
  return {
    tell(part, error, at) {
      const { code } = error
      const message = messageOf(error)
      const cause = causeOf(message)
      const known = errors.findIndex((one) => one.part === part && one.code === code && one.cause === cause)
      const [again] = known < 0 ? [] : errors.splice(known, 1)
      errors.push({
        part,
        code,
        message,
        cause,
        firstAt: again?.firstAt ?? at,
        times: (again?.times ?? 0) + 1,
        lastAt: at,
      })
      if (errors.length > MOST) errors.shift()
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
