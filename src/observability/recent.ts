// The last errors that parts told, so that what mended itself in the night can still be read in the morning. Words as they were told, never content.
import type { SinkWatch, SourceWatch } from '../contracts/reporter.ts'
import { causeOf } from '../core/backoff.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { ErrorCode } from '../core/errors.ts'
import type { Mask } from './log.ts'
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

interface RecentErrors {
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

// What the board keeps beside the present: an hour of counts and the last errors. Stands between the conductors and their part's own line.

export interface BoardMemory {
  readonly clock: Pick<Clock, 'now'>
  readonly lastHour: LastHour
  readonly errors: RecentErrors
  readonly mask: Mask
}

/** A receiver may repeat in its refusal what it was sent, the token included. */
function masked(error: ConnectorError | undefined, mask: Mask): ConnectorError | undefined {
  if (!error) return undefined
  const message = mask(error.message)
  if (message === error.message) return error
  return new ConnectorError(error.code, message, { retryAfterMs: error.retryAfterMs })
}

/** `state` of a watch, remembered under the part's name. */
function remembering<State>(
  part: string,
  memory: BoardMemory,
  watch: { state(state: State, error?: ConnectorError, tryInMs?: number): void },
): (state: State, error?: ConnectorError, tryInMs?: number) => void {
  return (state, error, tryInMs) => watch.state(state, remembered(part, memory, error), tryInMs)
}

/** The error as it may be shown. */
function remembered(
  part: string,
  { clock, errors, mask }: BoardMemory,
  error: ConnectorError | undefined,
): ConnectorError | undefined {
  const safe = masked(error, mask)
  if (safe) errors.tell(part, safe, clock.now())
  return safe
}

export function rememberSource(part: string, watch: SourceWatch, memory: BoardMemory): SourceWatch {
  return {
    ...watch,
    state: remembering(part, memory, watch),
    appended(appended) {
      memory.lastHour.arrived(appended.added + appended.late)
      watch.appended(appended)
    },
  }
}

export function rememberSink(part: string, watch: SinkWatch, memory: BoardMemory): SinkWatch {
  return {
    ...watch,
    state: remembering(part, memory, watch),
    probed: (error, tryInMs) => watch.probed(remembered(part, memory, error), tryInMs),
    settled(counts) {
      if (counts.accepted > 0) memory.lastHour.accepted(counts.accepted)
      watch.settled(counts)
    },
  }
}

// What flowed in the last hour, in steps of half a minute: a fixed ring in memory, gone with the process. It has no timer: whoever counts or looks moves it on.

const STEP_SECONDS = 30
const STEPS = 120

/** Oldest first, one number a step; the last step is still running. Younger than an hour: so many steps as there were. */
export interface LastHourStatus {
  readonly step_seconds: number
  /** new entries kept in the journal */
  readonly read: readonly number[]
  /** entries accepted, all sinks together */
  readonly delivered: readonly number[]
  /** entries that some sink was owed at the end of the step */
  readonly pending: readonly number[]
}

interface LastHour {
  arrived(entries: number): void
  accepted(entries: number): void
  status(): LastHourStatus
}

/** `owedNow` is asked once a step, and by `status`. Time is the clock that only runs: a jump of the other leaves no hole. */
export function openLastHour(clock: Pick<Clock, 'elapsed'>, owedNow: () => number): LastHour {
  const read = new Float64Array(STEPS)
  const delivered = new Float64Array(STEPS)
  const owed = new Float64Array(STEPS)
  const startedAt = clock.elapsed()
  let step = 0

  const moveOn = (): number => {
    const now = Math.max(step, Math.floor((clock.elapsed() - startedAt) / 1000 / STEP_SECONDS))
    if (now > step) {
      // Nothing happened since, or this would have been called: what is owed now was owed at the end of each step between.
      const level = owedNow()
      owed[step % STEPS] = level
      for (let next = Math.max(step + 1, now - STEPS + 1); next <= now; next++) {
        read[next % STEPS] = 0
        delivered[next % STEPS] = 0
        owed[next % STEPS] = level
      }
      step = now
    }
    return step % STEPS
  }

  const add = (series: Float64Array) => (entries: number) => {
    const at = moveOn()
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
      owed[moveOn()] = owedNow()
      return {
        step_seconds: STEP_SECONDS,
        read: inOrder(read),
        delivered: inOrder(delivered),
        pending: inOrder(owed),
      }
    },
  }
}
