// A word where this machine's clock is far from the API server's: reading goes on, but what is asked for by time then means another time.
import type { Clock } from '../../model/clock.ts'
import type { Transport } from '../../model/http.ts'
import type { Log } from '../../model/log.ts'
import { serverTimeMs } from '../../model/retry-after.ts'
import { MINUTE_MS } from '../../model/time.ts'

/** Closer than this nothing that is asked for by time comes out wrong. */
const APART_MS = 10 * MINUTE_MS

/**
 * Passes all on. The log has it once, and once more when they agree again; `hear` is told with each answer by how much this clock is
 * ahead while it is far apart, ms, and undefined while it is not.
 */
export function tellingClocks(
  send: Transport,
  clock: Pick<Clock, 'now'>,
  log: Log,
  hear: (aheadMs: number | undefined) => void,
): Transport {
  let apart = false
  return async (request, signal) => {
    const reply = await send(request, signal)
    const serverAt = serverTimeMs(reply.headers)
    if (serverAt === undefined) return reply
    const aheadMs = clock.now() - serverAt
    const before = apart
    apart = Math.abs(aheadMs) > APART_MS
    hear(apart ? aheadMs : undefined)
    if (apart && !before)
      log.warn(
        'The clock of this machine and the API server’s are far apart: entries may be asked for at a wrong time, or be refused. Set the clock right; where it is right, it is the server’s, or that of something in between that answers from memory',
        { minutesAhead: Math.round(aheadMs / MINUTE_MS) },
      )
    if (before && !apart) log.info('The clock of this machine and the API server’s agree again')
    return reply
  }
}
