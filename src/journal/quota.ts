// Whether a quota is used up. SQLite knows a full disk by its number, a used-up quota is an I/O error to it as any other, and
// the number does not come through to us: so it is tried.
import { randomFillSync } from 'node:crypto'
import { realpathSync, rmSync, writeFileSync } from 'node:fs'
import { errnoOf } from '../model/errors.ts'
import { probePath } from '../model/journal-files.ts'

/** More than any write of SQLite's, a page of its log with a head: where that found no room this finds none either. */
const PROBE_BYTES = 64 * 1024

/** Whether a quota is used up where the journal's file lies. */
export type QuotaReached = (journalPath: string) => boolean

/**
 * Held to be so on the system's own word only. Should the disk have failed as well, nothing is believed too much: SQLite
 * has taken back the write that failed, and a sync that fails has another code and is never looked at here.
 */
export function quotaReachedAt(journalPath: string): boolean {
  try {
    // Where a link leads, SQLite writes. Not opened: POSIX would drop SQLite's lock.
    const probe = probePath(realpathSync(journalPath))
    try {
      // Random, as the ballast is.
      writeFileSync(probe, randomFillSync(Buffer.allocUnsafe(PROBE_BYTES)), { mode: 0o600 })
    } finally {
      rmSync(probe, { force: true })
    }
    return false
  } catch (error) {
    return errnoOf(error) === 'EDQUOT'
  }
}
