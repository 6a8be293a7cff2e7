// The journal as what reads the past sees it: full at half of its bound, since the other half is live reading's.
import { ConnectorError } from '../model/errors.ts'
import type { Journal } from '../model/journal.ts'
import { PAST_SHARE } from '../model/past.ts'

/** As what reads the past sees them. */
export function statsForPast(journal: Pick<Journal, 'stats'>) {
  const stats = journal.stats()
  return { ...stats, full: stats.full || stats.bytes >= stats.capacityBytes * PAST_SHARE }
}

/** An answer may be larger than the room that was there when it was asked for. Throws ConnectorError `journal_full`. */
export function assertRoom(journal: Pick<Journal, 'stats'>): void {
  if (!statsForPast(journal).full) return
  throw new ConnectorError(
    'journal_full',
    "Half of journal.max_bytes is in use, and the other half is live reading's: it goes on when the sinks have taken some",
  )
}
