// The past's share of the journal: half of its bound, since the other half is live reading's, which stops when all is full.
import { ConnectorError } from './errors.ts'
import type { JournalStats } from './journal.ts'

const PAST_SHARE = 0.5

export const PAST_SHARE_IN_USE = "half of journal.max_bytes is in use, and the other half is live reading's"

type Filling = Pick<JournalStats, 'bytes' | 'capacityBytes'>

const isInUse = ({ bytes, capacityBytes }: Filling) => bytes >= capacityBytes * PAST_SHARE

/** As what reads the past sees them: the journal is full once its share is. */
export const statsForPast = (stats: JournalStats): JournalStats => ({ ...stats, full: isInUse(stats) })

/** An answer may be larger than the room that was there when it was asked for. Throws ConnectorError `journal_full`. */
export function assertPastShare(filling: Filling): void {
  if (!isInUse(filling)) return
  throw new ConnectorError(
    'journal_full',
    `No room for the past: ${PAST_SHARE_IN_USE}; it goes on when the sinks have taken some`,
  )
}
