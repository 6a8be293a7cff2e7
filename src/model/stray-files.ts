// Files of SQLite that do not belong to the journal beside them: SQLite would delete them, or write them into it. Reads only.
import { firstPageIn } from './write-ahead-log.ts'
import { stampOf } from './journal-mark.ts'

/** As node:fs has it. Not for a journal that this process has open: closing the file would drop its lock. */
export interface HeadCalls {
  /** undefined where there is nothing */
  readonly size: (path: string) => number | undefined
  readonly head: (path: string, bytes: number) => Buffer
}

/** Within so much of a log stands its first page: each opening writes that first. */
const LOG_HEAD_BYTES = 4 * 2 ** 20
const PAGE_HEAD_BYTES = 100

const ROLLBACK_HEAD_BYTES = 20
const ROLLBACK_MAGIC = Buffer.from('d9d505f920a163d7', 'hex')
const PAGES_BEFORE_OFFSET = 16

const KEPT = 'not be delivered yet, so nothing was changed'
const ANEW =
  'a new journal reads again from the configured start, and may send entries again that were delivered before'

/** What is wrong and what to do, in sentences; undefined: nothing is. */
export function strayFault(path: string, calls: HeadCalls): string | undefined {
  return strayLog(path, calls) ?? strayRollback(path, calls)
}

function strayLog(path: string, { size, head }: HeadCalls): string | undefined {
  const log = `${path}-wal`
  if ((size(log) ?? 0) === 0) return undefined
  const bytes = size(path)
  // SQLite deletes a log beside an absent or empty database.
  if (bytes === undefined || bytes === 0) {
    const what = bytes === 0 ? 'is empty' : 'is not there'
    return `The log ${log} has lost its database: ${path} ${what}. What is in the log may ${KEPT}. Put ${path} back beside its log and start again. If it is gone for good, move the log away too: ${ANEW}`
  }
  const page = firstPageIn(head(log, LOG_HEAD_BYTES))
  const [logs, own] = [page ? stampOf(page) : 0, stampOf(head(path, PAGE_HEAD_BYTES))]
  if (logs === 0 || own === 0 || logs === own) return undefined
  return `The log ${log} belongs to another journal than ${path}: one of them was moved or replaced. What is in either may ${KEPT}. Put the database of this log back at ${path}, or move the log away to go on with the database that is there`
}

/** A kill in the first moments of a new journal leaves one too, of a database that had no page before. */
function strayRollback(path: string, { size, head }: HeadCalls): string | undefined {
  const rollback = `${path}-journal`
  if ((size(rollback) ?? 0) === 0) return undefined
  const found = head(rollback, ROLLBACK_HEAD_BYTES)
  const isBegun = found[0] !== 0
  const isOfNew =
    found.length === ROLLBACK_HEAD_BYTES &&
    found.subarray(0, ROLLBACK_MAGIC.length).equals(ROLLBACK_MAGIC) &&
    found.readUInt32BE(PAGES_BEFORE_OFFSET) === 0
  if (!isBegun || isOfNew) return undefined
  return `${rollback} is no file of this journal, and SQLite would write what is in it into ${path}. What is in either may ${KEPT}. Move ${rollback} away, beside the database that it belongs to`
}
