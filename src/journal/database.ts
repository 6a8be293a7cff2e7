// Opens and closes the journal's file the one way that is safe: exclusive, WAL, every commit on the disk, checked, private to this user.
// Nothing here or elsewhere may open and close that file with fs: POSIX would drop SQLite's lock with it.
import { closeSync, existsSync, openSync, readSync, rmSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import Sqlite, { type Database } from 'better-sqlite3'
import { ConnectorError, errnoOf } from '../model/errors.ts'
import { networkFileSystem } from '../model/file-systems.ts'
import { ballastPath, spoolPath } from '../model/journal-files.ts'
import { isSqlite } from '../model/journal-mark.ts'
import { type HeadCalls, strayFault } from '../model/stray-files.ts'
import { corrupt, inUse, noJournal, translate } from './faults.ts'
import { refuseForeign } from './ours.ts'
import type { LimitReached } from './limits.ts'
import { migrate, refuseNewer, stamp } from './schema.ts'

/** Measured: chunks cost up to a third less time than with 4 KiB; with 16 each small commit would write twice as much. */
const PAGE_BYTES = 8192
/** A longer log spares checkpoints (some 15 % of an append); 16 MiB is read again in well under a second at start. */
const WAL_PAGES = 2048
export const LOG_BYTES = WAL_PAGES * PAGE_BYTES
/** The driver's own is 16 MB. What is looked up lies at the tree's right edge, and a chunk is written once and read once. */
const CACHE_KIB = 4096
const FULL = 2
/** SQLite's own bound */
const MAX_PAGES = 0xfffffffe

/** `statfs` type of the file system that holds `folder`. */
export type FileSystemType = (folder: string) => number

export function fileSystemTypeOf(folder: string): number {
  // The numbers below are Linux's; elsewhere they mean something else.
  return process.platform === 'linux' ? statfsSync(folder).type : 0
}

function refuseNetwork(path: string, typeOf: FileSystemType): void {
  const name = networkFileSystem(typeOf(dirname(path)))
  if (name === undefined) return
  throw new ConnectorError(
    'config_invalid',
    `The journal ${path} lies on a network file system (${name}), which cannot lock it or keep it whole: set journal.path to a local or block-backed volume`,
  )
}

/** Files made by `work` are this user's alone; a worker thread has no umask of its own and keeps the process's. */
function privately<T>(work: () => T): T {
  let before: number | undefined
  try {
    before = process.umask(0o077)
  } catch {
    before = undefined
  }
  try {
    return work()
  } finally {
    if (before !== undefined) process.umask(before)
  }
}

/**
 * secure_delete stays off: overwriting delivered chunks would write every byte twice, and the blocks below (SSD, snapshots)
 * would keep the old ones anyway. Encryption at rest is the volume's.
 */
function configure(db: Database, path: string): void {
  db.pragma('locking_mode = EXCLUSIVE')
  refuseForeign(db, path)
  db.pragma(`page_size = ${PAGE_BYTES}`)
  const mode = db.pragma('journal_mode = WAL', { simple: true })
  if (mode !== 'wal') throw new Error(`SQLite answered journal_mode ${String(mode)} instead of wal`)
  // The driver's own default under WAL is NORMAL, which loses the last commits in a power cut.
  db.pragma('synchronous = FULL')
  db.pragma(`wal_autocheckpoint = ${WAL_PAGES}`)
  db.pragma(`journal_size_limit = ${2 * LOG_BYTES}`)
  db.pragma('temp_store = MEMORY')
  db.pragma(`cache_size = -${CACHE_KIB}`)
}

/** Behind a migration: a file at its bound must open all the same, or nobody could make room in it. */
function bound(db: Database, maxFileBytes: number): void {
  const pageBytes = db.pragma('page_size', { simple: true }) as number
  db.pragma(`max_page_count = ${Math.min(Math.floor(maxFileBytes / pageBytes), MAX_PAGES)}`)
}

/** Reads the whole file, and nothing else is done meanwhile: minutes, for a large one on a slow disk. */
function check(db: Database, path: string): void {
  const found = db.pragma('quick_check(1)', { simple: true })
  if (found !== 'ok') throw corrupt(path, 'its check at start failed')
}

/** After a write: before the first one SQLite may still answer what was, not what is. */
function assertHeld(db: Database): void {
  const synchronous = db.pragma('synchronous', { simple: true })
  const locking = db.pragma('locking_mode', { simple: true })
  if (synchronous !== FULL || locking !== 'exclusive')
    throw new Error(
      `SQLite runs with synchronous ${String(synchronous)} and locking ${String(locking)}: commits would not be safe`,
    )
}

interface FileOptions {
  readonly path: string
  readonly maxFileBytes: number
  readonly fileSystemType: FileSystemType
  readonly limitReached?: LimitReached | undefined
  readonly nowAt: number
  /** it was closed in good order just now, by this process or by one that checked it: it is not read whole once more */
  readonly isHandedOver?: boolean | undefined
}

/**
 * A file that is there, by a process that does nothing else with it. Throws where it is not sound, or cannot be had, and leaves it
 * open: to close it would write the log into it, so that process has to end by SIGKILL.
 */
export function checkDatabase(path: string): void {
  privately(() => {
    refuseNetwork(path, fileSystemTypeOf)
    refuseStray(path)
    const db = new Sqlite(path, { timeout: 0, fileMustExist: true })
    configure(db, path)
    check(db, path)
    db.close()
  })
}

/** What only a journal has beside it: its file was one, however it begins now. To be asked before SQLite has it, which removes a log. */
function wasJournal(path: string): boolean {
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false })
  return (log?.size ?? 0) > 0 || existsSync(ballastPath(path)) || existsSync(spoolPath(path))
}

const headCalls: HeadCalls = {
  size: (path) => statSync(path, { throwIfNoEntry: false })?.size,
  head(path, bytes) {
    const file = openSync(path, 'r')
    try {
      const head = Buffer.alloc(bytes)
      return head.subarray(0, readSync(file, head))
    } finally {
      closeSync(file)
    }
  },
}

/** Before SQLite has them: it deletes or plays back what it finds beside a file. Only where this process has it open nowhere. */
function refuseStray(path: string): void {
  const fault = strayFault(path, headCalls)
  if (fault !== undefined) throw new ConnectorError('journal_corrupt', fault)
}

/** The files that this process has open, by identity. */
const opened = new Map<string, Database>()

function identityOf(path: string): string | undefined {
  const there = statSync(path, { bigint: true, throwIfNoEntry: false })
  return there && `${there.dev}:${there.ino}`
}

const isOpenHere = (path: string) => opened.get(identityOf(path) ?? '')?.open === true

const beginsAsSqlite = (path: string) => isSqlite(headCalls.head(path, 16))

/** Codes that say something of the file, or of another process. Others say that it cannot be read this way, as on a full disk. */
const SAYS = /^SQLITE_(CORRUPT|NOTADB|BUSY|LOCKED)/

/**
 * The check of a file with a log, without a right to write: a connection that has it writes the log into the file when it is
 * closed, damaged or not, and deletes it. False where it could not be made.
 */
function checkWithLog(path: string): boolean {
  let db: Database | undefined
  try {
    db = new Sqlite(path, { timeout: 0, readonly: true, fileMustExist: true })
    refuseForeign(db, path)
    refuseNewer(db, path)
    check(db, path)
    return true
  } catch (error) {
    if (error instanceof ConnectorError || SAYS.test(errnoOf(error, ''))) throw error
    return false
  } finally {
    db?.close()
  }
}

/** The file's folder must be there. */
export function openDatabase(options: FileOptions): Database {
  const { path, maxFileBytes, fileSystemType, limitReached, nowAt, isHandedOver = false } = options
  if (isOpenHere(path)) throw inUse(path)
  const isOurs = wasJournal(path)
  let db: Database | undefined
  try {
    return privately(() => {
      refuseNetwork(path, fileSystemType)
      refuseStray(path)
      const isChecked = isHandedOver || ((headCalls.size(`${path}-wal`) ?? 0) > 0 && checkWithLog(path))
      db = new Sqlite(path, { timeout: 0 })
      configure(db, path)
      // The check with a log left it, and holds nothing: the lock is ours now, and in this mode no such file is used.
      rmSync(`${path}-shm`, { force: true })
      if (!isChecked) check(db, path)
      migrate(db, path)
      bound(db, maxFileBytes)
      begin(db, nowAt)
      assertHeld(db)
      opened.set(identityOf(path) ?? '', db)
      return db
    })
  } catch (error) {
    // The first fault is the one to tell, whatever closing a damaged file adds to it.
    try {
      db?.close()
    } catch {
      /* told above */
    }
    if (errnoOf(error, '') === 'SQLITE_NOTADB' && !isOurs && !beginsAsSqlite(path))
      throw noJournal(path, error)
    throw translate(error, path, limitReached)
  }
}

function begin(db: Database, nowAt: number): void {
  db.transaction(() => {
    stamp(db)
    db.prepare(`INSERT OR REPLACE INTO notes VALUES ('journal.opened_at', ?)`).run(String(nowAt))
  })()
}

/** Leaves one file without a log beside it, unless the disk is full: then all stays in the log, where the next start finds it. */
export function closeDatabase(db: Database, judge: (error: unknown) => unknown): void {
  try {
    db.pragma('wal_checkpoint(TRUNCATE)')
  } catch (error) {
    const judged = judge(error)
    if (!(judged instanceof ConnectorError && judged.code === 'disk_full')) throw judged
  } finally {
    db.close()
  }
}
