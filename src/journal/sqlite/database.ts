// Opens and closes the journal's file safely: exclusive, WAL, every commit synced, checked, private
// to this user.
// No code may open and close that file with fs: POSIX would drop SQLite's lock with it.
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
  statfsSync,
} from 'node:fs'
import { dirname } from 'node:path'
import Sqlite from 'better-sqlite3'
import type { Database } from 'better-sqlite3'
import { ConnectorError, errnoOf } from '../../core/errors.ts'
import { ballastPath, isJournal, isSqlite, networkFileSystem, spoolPath, strayFault } from './files.ts'
import type { HeadCalls } from './files.ts'
import { migrate, refuseNewer, stamp } from './schema.ts'
import { RAISE_LIMIT, diskFull, limitReachedAt } from './space.ts'
import type { LimitReached } from './space.ts'

/**
 * Measured: chunks take up to a third less time than with 4 KiB; with 16 KiB each small commit
 * would write twice as much.
 */
const PAGE_BYTES = 8192
/**
 * A longer log saves checkpoints (some 15 % of an append); 16 MiB is read again in well under a
 * second at start.
 */
const WAL_PAGES = 2048
export const LOG_BYTES = WAL_PAGES * PAGE_BYTES
/**
 * The driver's default is 16 MB. Lookups are at the tree's right edge, and a chunk is written once
 * and read once.
 */
const CACHE_KIB = 4096
const FULL = 2
/** SQLite's own bound */
const MAX_PAGES = 0xfffffffe

/** `statfs` type of the file system of `folder`. */
export type FileSystemType = (folder: string) => number

export function fileSystemTypeOf(folder: string): number {
  // The numbers below are Linux's; they differ on other systems.
  return process.platform === 'linux' ? statfsSync(folder).type : 0
}

function refuseNetwork(path: string, typeOf: FileSystemType): void {
  const name = networkFileSystem(typeOf(dirname(path)))
  if (name === undefined) return
  throw new ConnectorError(
    'config_invalid',
    `The journal ${path} is on a network file system (${name}), which cannot lock it or keep it whole: set journal.path to a local or block-backed volume`,
  )
}

/** Files created by `work` are private to this user. All threads share the process's umask. */
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
 * secure_delete stays off: overwriting delivered chunks would write every byte twice, and the
 * storage below (SSD, snapshots) would keep the old blocks anyway. Encryption at rest is up to the
 * volume.
 */
function configure(db: Database, path: string): void {
  db.pragma('locking_mode = EXCLUSIVE')
  refuseForeign(db, path)
  db.pragma(`page_size = ${PAGE_BYTES}`)
  const mode = db.pragma('journal_mode = WAL', { simple: true })
  if (mode !== 'wal') throw new Error(`SQLite answered journal_mode ${String(mode)} instead of wal`)
  // The driver's default under WAL is NORMAL, which loses the last commits in a power cut.
  db.pragma('synchronous = FULL')
  db.pragma(`wal_autocheckpoint = ${WAL_PAGES}`)
  db.pragma(`journal_size_limit = ${2 * LOG_BYTES}`)
  db.pragma('temp_store = MEMORY')
  db.pragma(`cache_size = -${CACHE_KIB}`)
}

/** Only after a migration: a file at its bound must open, or no space in it could be freed. */
function bound(db: Database, maxFileBytes: number): void {
  const pageBytes = db.pragma('page_size', { simple: true }) as number
  db.pragma(`max_page_count = ${Math.min(Math.floor(maxFileBytes / pageBytes), MAX_PAGES)}`)
}

/** Reads the whole file and blocks everything else: minutes, for a large file on a slow disk. */
function check(db: Database, path: string): void {
  const found = db.pragma('quick_check(1)', { simple: true })
  if (found !== 'ok') throw corrupt(path, 'its check at start failed')
}

/** Call after a write: before the first one SQLite may report the old values. */
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
  /** not checked again: this process, or one that checked it, has just closed it cleanly */
  readonly isHandedOver?: boolean | undefined
}

/**
 * Checks an existing file, in a process of its own. Throws if it is damaged or in use, and leaves
 * it open: closing would write the log into it, so the process has to end by SIGKILL.
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

/**
 * Files that exist only beside a journal: they prove that the file was one, even if its first
 * bytes differ now. Call before SQLite opens it, which removes a log.
 */
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

/**
 * Call before SQLite opens the file: it deletes or replays files that it finds beside it. Only if
 * this process does not have it open.
 */
function refuseStray(path: string): void {
  const fault = strayFault(path, headCalls)
  if (fault !== undefined) throw new ConnectorError('journal_corrupt', fault)
}

/** Files that this process has open, by identity. */
const opened = new Map<string, Database>()

function identityOf(path: string): string | undefined {
  const there = statSync(path, { bigint: true, throwIfNoEntry: false })
  return there && `${there.dev}:${there.ino}`
}

const isOpenHere = (path: string) => opened.get(identityOf(path) ?? '')?.open === true

const beginsAsSqlite = (path: string) => isSqlite(headCalls.head(path, 16))

/**
 * Codes about the file, or about another process. Other codes mean that it cannot be read this way,
 * as on a full disk.
 */
const SAYS = /^SQLITE_(CORRUPT|NOTADB|BUSY|LOCKED)/

/**
 * Checks a file with a log, without write permission: a connection that may write moves the log
 * into the file when it is closed, damaged or not, and deletes it. False if the check was not
 * possible.
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

/** The file's folder must exist. */
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
      // Left by the check with a log and not in use: we have the lock now, and this mode uses no
      // such file.
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
    // Report the first error, even if closing a damaged file adds another.
    try {
      db?.close()
    } catch {
      /* reported above */
    }
    if (errnoOf(error, '') === 'SQLITE_NOTADB' && !isOurs && !beginsAsSqlite(path))
      throw noJournal(path, error)
    throw translate(error, path, limitReached)
  }
}

function begin(db: Database, nowAt: number): void {
  db.transaction(() => {
    stamp(db)
    db.prepare(`INSERT OR REPLACE INTO state VALUES ('journal.opened_at', ?)`).run(String(nowAt))
  })()
}

/**
 * Leaves one file without a log, unless the disk is full: then everything stays in the log, where
 * the next start finds it.
 */
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

// Maps errors of SQLite and the file system to the error codes that the loops act on.

export function corrupt(path: string, what: string, cause?: unknown): ConnectorError {
  return new ConnectorError(
    'journal_corrupt',
    `The journal ${path} is damaged (${what}). 1. Stop the service. 2. Move ${path} aside, and ${path}-wal if it exists; keep both: they hold undelivered entries, dead letters and quarantine. 3. Put a backup in their place, or start with a new journal. ` +
      'A new journal reads again from the configured start, and sends entries again that were delivered before',
    { cause },
  )
}

/**
 * A file of any kind, with no sign that it was a journal: do not advise moving it, since it may
 * belong to another program.
 */
function noJournal(path: string, cause?: unknown): ConnectorError {
  return new ConnectorError(
    'config_invalid',
    `The file ${path} is not a journal, and is left unchanged: set journal.path to a journal of this program, or to a file that does not exist yet. If it was a journal and is damaged, restore it from a backup`,
    { cause },
  )
}

function inUse(path: string, cause?: unknown): ConnectorError {
  const pid = holderOf(path)
  const who = pid === undefined ? '' : ` (pid ${pid})`
  return new ConnectorError(
    'journal_in_use',
    `The journal ${path} is in use by another process${who}. If that is the daemon, it already runs, and there is nothing to start. Otherwise stop that process first. Do not set another journal.path instead: two daemons deliver every entry twice`,
    { cause },
  )
}

function atLimit(path: string, limit: unknown): ConnectorError {
  if (errnoOf(limit) === 'EDQUOT') {
    const remedy = { what: 'make room or raise the quota' }
    return diskFull(path, { remedy, why: 'the quota of this user or this folder is used up' }, limit)
  }
  const why = 'a file may not become larger here, by a limit of this process or of the file system'
  return diskFull(path, { remedy: RAISE_LIMIT, why }, limit)
}

/** How a size limit shows in a write, and in a file that SQLite would create. A sync differs. */
const MAYBE_LIMIT = new Set(['SQLITE_IOERR_WRITE', 'SQLITE_CANTOPEN'])

/** Errors of neither disk nor file stay unchanged: they are bugs, and stop the process. */
export function translate(
  error: unknown,
  path: string,
  limitReached: LimitReached = limitReachedAt,
): unknown {
  if (error instanceof ConnectorError) return error
  const code = errnoOf(error, '')
  if (code === 'SQLITE_FULL' || code === 'ENOSPC' || code === 'EDQUOT')
    return diskFull(path, { why: 'the disk is full or the file has reached its bound' }, error)
  const limit = MAYBE_LIMIT.has(code) ? limitReached(path) : undefined
  if (limit !== undefined) return atLimit(path, limit)
  if (code.startsWith('SQLITE_IOERR') || code === 'EIO') {
    return new ConnectorError(
      'disk_failed',
      `Reading or writing the journal ${path} failed (${code}), and it is uncertain what was stored: the program stops, and the next start opens the journal again. Check the disk and the system's log first`,
      { cause: error },
    )
  }
  if (code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB') return corrupt(path, code, error)
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED')) return inUse(path, error)
  if (/^E(NOENT|EXIST|LOOP|NAMETOOLONG)$/.test(code)) {
    return new ConnectorError(
      'config_invalid',
      `The folder of the journal ${path} cannot be created (${code}): a link in its path may point nowhere, for example because a volume is not mounted. Mount the volume, or set journal.path to a file whose folder exists or can be created`,
      { cause: error },
    )
  }
  if (/^(SQLITE_(CANTOPEN|READONLY|PERM|AUTH)|E(ACCES|PERM|ROFS|NOTDIR|ISDIR)$)/.test(code)) {
    return new ConnectorError(
      'config_invalid',
      `The journal ${path} cannot be opened for writing (${code}): make its folder writable for this user, or set journal.path to another file, which may not be a folder`,
      { cause: error },
    )
  }
  return error
}

// Between two openings of the journal: a file that was closed cleanly just now need not be checked
// again.

export class Handover {
  #closed: string | undefined

  /** It was closed just now without an error, and no other process has had it since. */
  closed(path: string): void {
    this.#closed = stateOf(path)
  }

  /** True once for that path if the file is untouched since. After a failed try it is checked. */
  takes(path: string): boolean {
    const closed = this.#closed
    this.#closed = undefined
    return closed !== undefined && closed === stateOf(path)
  }
}

/**
 * The state of the file itself, through links. Undefined if unknown, or if a log beside it contains
 * a part of the state.
 */
function stateOf(path: string): string | undefined {
  try {
    const place = realpathSync(path)
    if (statSync(`${place}-wal`, { throwIfNoEntry: false })) return undefined
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(place, { bigint: true })
    return [place, dev, ino, size, mtimeNs, ctimeNs].join('\n')
  } catch {
    return undefined
  }
}

// Which process has a journal open, as far as Linux shows: by the locks that SQLite has on its
// file.

/** SQLite locks bytes from here on, and only there (`PENDING_BYTE`). */
const LOCKED_FROM = 2 ** 30
/** `1: POSIX  ADVISORY  WRITE 2461 00:1b:91785 1073741824 1073742335` */
const line = /^\d+: POSIX +ADVISORY +(?:READ|WRITE) +(\d+) [\da-f]+:[\da-f]+:(\d+) (\d+) /gm

/** Undefined if unknown: another system, or a process outside of this container. */
export function holderOf(
  path: string,
  readLocks = () => readFileSync('/proc/locks', 'utf8'),
): number | undefined {
  try {
    const { ino } = statSync(path, { bigint: true })
    const pids = [...readLocks().matchAll(line)]
      .filter(([, , inode, from]) => inode === String(ino) && Number(from) >= LOCKED_FROM)
      .map(([, pid]) => Number(pid))
    const others = [...new Set(pids)].filter((pid) => pid > 0 && pid !== process.pid)
    // The inode number alone may belong to a file of another file system.
    return others.length === 1 ? others[0] : undefined
  } catch {
    return undefined
  }
}

// Whether a SQLite file is a journal of this program: a database of another program is neither read
// nor changed.

/** Call before any setting is made in the file: the journal mode is written into it. */
function refuseForeign(db: Database, path: string): void {
  const number = (name: string) => db.pragma(name, { simple: true }) as number
  const [mark, version] = [number('application_id'), number('user_version')]
  const names = db.prepare<[], string>('SELECT name FROM sqlite_master').pluck().all()
  if (isJournal({ mark, version, isEmpty: names.length === 0, hasTable: (name) => names.includes(name) }))
    return
  throw new ConnectorError(
    'config_invalid',
    `The file ${path} is a SQLite database of another program and no journal; nothing in it was changed. Set journal.path to a journal of this program, or to a file that is not there yet`,
  )
}

// Whether the journal's files are still where they were opened. Checks names only: opening and
// closing the file would drop SQLite's lock.

interface Identity {
  readonly dev: bigint
  readonly ino: bigint
}

/** `unknown`: the file system gives no answer now, which proves nothing. */
function markIdentity(path: string): Identity | 'gone' | 'unknown' {
  try {
    return statSync(path, { bigint: true })
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(errnoOf(error, '')) ? 'gone' : 'unknown'
  }
}

export class Presence {
  readonly #path: string
  readonly #opened: readonly (readonly [path: string, is: Identity])[]

  /**
   * Create once the journal is open and has written. `name`: where the next start looks for it,
   * possibly a link to `path`.
   */
  constructor(path: string, name: string) {
    this.#path = path
    this.#opened = [name, path, `${path}-wal`].flatMap((each) => {
      const is = markIdentity(each)
      return typeof is === 'string' ? [] : [[each, is] as const]
    })
  }

  /** As text; undefined: all files are there. */
  get lost(): string | undefined {
    for (const [path, was] of this.#opened) {
      const is = markIdentity(path)
      if (is === 'unknown') continue
      if (is === 'gone') return this.#inWords(`${path} is gone`)
      if (is.dev !== was.dev || is.ino !== was.ino)
        return this.#inWords(`${path} is another file than the one that was opened`)
    }
    return undefined
  }

  #inWords(what: string): string {
    return `The next start would not find the journal: ${what}. This process continues to deliver as long as it runs. Let it deliver what is pending, then stop it, and put ${this.#path} and ${this.#path}-wal back from a copy or start with a new journal (reading begins again at the configured start, and entries may be sent again)`
  }
}
