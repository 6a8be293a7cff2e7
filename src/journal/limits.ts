// The limits that a system sets beside the disk's own room: a quota, and how large a file may become.
// SQLite knows a full disk by its number, either of these is an I/O error to it as any other, and the number does not come through
// to us: so it is tried.
import { randomFillSync } from 'node:crypto'
import { closeSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs'
import { errnoOf } from '../model/errors.ts'
import { probePath } from '../model/journal-files.ts'

/** More than any write of SQLite's, a page of its log with a head: where that found no room this finds none either. */
const PROBE_BYTES = 64 * 1024

const LIMITS = new Set(['EDQUOT', 'EFBIG'])

/** What the system says where the journal's file lies, no link: an error, EDQUOT or EFBIG; undefined: neither. */
export type LimitReached = (journalPath: string) => unknown

/**
 * Held to be so on the system's own word only. Should the disk have failed as well, nothing is believed too much: SQLite
 * has taken back the write that failed, and a sync that fails has another code and is never looked at here.
 */
export function limitReachedAt(journalPath: string): unknown {
  try {
    const files = [journalPath, `${journalPath}-wal`]
    const sizes = files.map((path) => statSync(path, { throwIfNoEntry: false })?.size ?? 0)
    tryAt(probePath(journalPath), Math.max(...sizes))
    return undefined
  } catch (error) {
    return LIMITS.has(errnoOf(error)) ? error : undefined
  }
}

/** Tries it on a file of its own, as far out as the journal's reach: to open and close those would drop SQLite's lock. What lies before `offset` takes no room. */
function tryAt(probe: string, offset: number): void {
  // What is there may be a link, which is not followed.
  rmSync(probe, { force: true })
  const file = openSync(probe, 'wx', 0o600)
  try {
    // Random, as the ballast is.
    const bytes = randomFillSync(Buffer.allocUnsafe(PROBE_BYTES))
    for (let done = 0; done < PROBE_BYTES;)
      done += writeSync(file, bytes, done, PROBE_BYTES - done, offset + done)
  } finally {
    closeSync(file)
    rmSync(probe, { force: true })
  }
}

/** How large a file of this process may become, where the system tells. */
export function largestFileBytes(): number {
  try {
    const soft = /^Max file size +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
    return soft === undefined ? Infinity : Number(soft)
  } catch {
    return Infinity
  }
}
