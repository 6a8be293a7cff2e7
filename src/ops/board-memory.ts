// What the board keeps beside the present: an hour of counts and the last errors. Stands between the conductors and their part's own line.
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { SinkWatch, SourceWatch } from '../model/watch.ts'
import type { LastHour } from './last-hour.ts'
import type { Mask } from './mask.ts'
import type { RecentErrors } from './recent-errors.ts'

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
