// Opens the journal: its options, its file, and its modules.
import { fork } from 'node:child_process'
import type { ForkOptions } from 'node:child_process'
import {
  closeSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import type { Database } from 'better-sqlite3'
import { TRANSACTION_BYTES } from '../../contracts/entries.ts'
import type { Journal } from '../../contracts/journal.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { ownerCalls } from '../../core/file-owners.ts'
import type { Log } from '../../core/log.ts'
import { linkTarget, makeFolders, resolvedPath } from '../../core/paths.ts'
import type { FolderCalls, LinkCalls } from '../../core/paths.ts'
import { UNFINISHED_COPY } from '../rules/state.ts'
import { DeliveryAccounts } from './accounts.ts'
import { ChunkStore } from './chunk-store.ts'
import type { Core } from './core.ts'
import { Handover, LOG_BYTES, fileSystemTypeOf, openDatabase, translate } from './database.ts'
import type { FileSystemType } from './database.ts'
import { DedupIndex } from './dedup-index.ts'
import { unsafeFault } from './files.ts'
import { SqliteJournal } from './journal.ts'
import { Pending } from './pending.ts'
import { Quarantine } from './quarantine.ts'
import { Ballast, Space, atStart, freeBytesOf, largestFileBytes } from './space.ts'
import type { FreeBytes, LimitReached, VolumeBytes } from './space.ts'
import { StateTable } from './state.ts'
import { Streams } from './streams.ts'
import { Transactions } from './transactions.ts'

export interface JournalOptions {
  readonly path: string
  /** of pending payload; at the bound append throws `journal_full` */
  readonly maxBytes: number
  readonly keepKeysMs: number
  readonly keepDeliveredBytes: number
  readonly clock: Clock
  readonly log: Log
  /** of the largest entry that may come */
  readonly maxEntryBytes?: number
  /** deleted when the disk is full; 0: none; default: by the largest entry */
  readonly ballastBytes?: number | undefined
  /**
   * hard bound of the file; default: twice the bounds above, and 4 GiB for keys, dead letters and
   * quarantine
   */
  readonly maxFileBytes?: number
  /** the system's limit on the size of a file */
  readonly largestFileBytes?: number
  readonly fileSystemType?: FileSystemType
  readonly freeBytes?: FreeBytes
  readonly volumeBytes?: VolumeBytes
  readonly limitReached?: LimitReached
  /** for a caller that opens it again right after a close; absent: it is always checked */
  readonly handover?: Handover | undefined
}

/**
 * A full log followed by the largest entry, which may become a dead letter then and be both in the
 * log and in the file: the file may have to grow by both before the log can start over. Measured:
 * with one entry less, delivery can stop for good.
 */
const ballastBytesFor = (maxEntryBytes: number) => Math.max(2 * LOG_BYTES, LOG_BYTES + 2 * maxEntryBytes)
const MAX_ENTRY_BYTES = 16 * 1024 ** 2
const ALLOWANCE_BYTES = 4 * 1024 ** 3

/** Immediate, like SQLite's own opening of the file: a test clock would run on meanwhile. */
const folderCalls: FolderCalls = {
  stat: async (path) => statSync(path),
  mkdir: async (path, options) => mkdirSync(path, options),
  sync: async (path) => syncFolder(path),
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

const linkCalls: LinkCalls = {
  readlink: (path) => readlinkSync(path),
  realpath: (path) => realpathSync(path),
}

/** SQLite writes to a link's target, with its log beside that: the space is needed there. */
const endOfLinks = (path: string): string =>
  linkTarget(path, linkCalls) === undefined ? path : resolvedPath(path, linkCalls)

/**
 * Locks and migrates the file, and registers nothing. Throws ConnectorError `journal_in_use`,
 * `journal_corrupt` (damaged, or its files do not belong together), `config_invalid` (no such
 * folder, no permission, a file of another user, a network file system, a newer schema),
 * `disk_full` or `disk_failed`.
 */
export function openJournal(given: JournalOptions): Promise<Journal> {
  return opened(
    given,
    (db, { ballast, options, startError }) =>
      new SqliteJournal(coreOf(db, ballast, options), { ...given, startError }),
  )
}

/** As `openJournal`, for a copy, which works on the tables. */
export function openTables(given: JournalOptions): Promise<Database> {
  return opened(given, (db) => db)
}

interface Opening {
  readonly ballast: Ballast
  readonly options: Options
  readonly startError: (error: unknown) => unknown
}

async function opened<T>(given: JournalOptions, use: (db: Database, opening: Opening) => T): Promise<T> {
  const path = endOfLinks(given.path)
  const options = {
    largestFileBytes: largestFileBytes(),
    maxFileBytes: maxFileBytesOf(given),
    ...given,
    path,
  }
  const ballastBytes = options.ballastBytes ?? ballastBytesFor(options.maxEntryBytes ?? MAX_ENTRY_BYTES)
  const ballast = new Ballast(path, ballastBytes, options.freeBytes ?? freeBytesOf)
  const startError = (error: unknown) => atStart(translate(error, path), () => ballast.shortage)
  try {
    await makeFolders(dirname(given.path), folderCalls)
    const unsafe = unsafeFault(given.path, path, ownerCalls(lstatSync))
    if (unsafe !== undefined) throw new ConnectorError('config_invalid', `The journal ${path}: ${unsafe}`)
    const db = openFile(options, ballast)
    try {
      refuseUnfinished(db, path)
      return use(db, { ballast, options, startError })
    } catch (error) {
      db.close()
      throw error
    }
  } catch (error) {
    throw startError(error)
  }
}

function refuseUnfinished(db: Database, path: string): void {
  const found = db.prepare('SELECT 1 FROM state WHERE name = ?').get(UNFINISHED_COPY)
  if (found !== undefined)
    throw new ConnectorError(
      'config_invalid',
      `The journal ${path} is an unfinished copy: remove the file and its -wal, then run "auditferry journal copy" again`,
    )
}

type Options = JournalOptions & Required<Pick<JournalOptions, 'maxFileBytes' | 'largestFileBytes'>>

const maxFileBytesOf = ({ maxBytes, keepDeliveredBytes }: JournalOptions) =>
  2 * (maxBytes + keepDeliveredBytes) + ALLOWANCE_BYTES

function openFile(options: Options, ballast: Ballast): Database {
  const { path, clock, log, maxFileBytes, largestFileBytes } = options
  if (largestFileBytes < maxFileBytes)
    log.warn(
      'The limit on the size of a file (ulimit -f, LimitFSIZE) is lower than the size that the journal may reach: at the limit, reading pauses. Raise the limit and restart',
      { path, largestFileBytes, maxFileBytes },
    )
  const open = () =>
    openDatabase({
      path,
      // At its own bound SQLite accepts no inserts but still deletes; writes refused by the system
      // would stay in the log for ever.
      maxFileBytes: Math.min(maxFileBytes, largestFileBytes),
      fileSystemType: options.fileSystemType ?? fileSystemTypeOf,
      limitReached: options.limitReached,
      nowAt: clock.now(),
      isHandedOver: options.handover?.takes(path),
    })
  try {
    return open()
  } catch (error) {
    // A start on a full disk must still be able to deliver stored entries.
    if (!(error instanceof ConnectorError && error.code === 'disk_full' && ballast.free())) throw error
    return open()
  }
}

function coreOf(db: Database, ballast: Ballast, options: Options): Core {
  const { path, clock, log, maxBytes, keepKeysMs, keepDeliveredBytes, limitReached } = options
  const { largestFileBytes, volumeBytes } = options
  const space = new Space({ path, db, ballast, largestFileBytes, volumeBytes, bounds: options })
  const transactions = new Transactions({ path, db, ballast, space, log, limitReached })
  if (!transactions.makeSpaceFor(TRANSACTION_BYTES))
    log.warn('There is no room for the journal: reading pauses until there is some', { path: dirname(path) })
  const streams = new Streams(db)
  return {
    ...{ path, db, clock, maxBytes, keepKeysMs, keepDeliveredBytes, streams, transactions },
    dedupIndex: new DedupIndex(db),
    chunkStore: new ChunkStore(db, path, streams),
    pending: new Pending(db),
    accounts: new DeliveryAccounts(db, streams),
    quarantine: new Quarantine(db, streams),
    state: new StateTable(db, transactions),
  }
}

// A large journal is checked by another process before this one opens it: the check is one long
// call, which would block signal handling.

/** Read within 3 s at 25 MB/s. For a smaller file another process would only take longer. */
const APART_BYTES = 64 * 2 ** 20

interface CheckOptions {
  readonly path: string
  /** path of `journal-check.ts`; undefined: nothing is checked here */
  readonly program: string | undefined
  readonly log: Pick<Log, 'info'>
}

/**
 * Returns the function that opens the journal from now on. It reads the whole file only if it was
 * neither found sound here nor closed cleanly by the last opening. Small files and unclear cases
 * are left to the opening, which checks too and has the messages. Ends as soon as `signal` aborts.
 */
export async function checkApart(
  options: CheckOptions,
  signal: AbortSignal,
): Promise<(options: JournalOptions) => Promise<Journal>> {
  const handover = new Handover()
  await check(options, handover, signal)
  return (opening) => openJournal({ ...opening, handover })
}

async function check(
  { path, program, log }: CheckOptions,
  handover: Handover,
  signal: AbortSignal,
): Promise<void> {
  const bytes = bytesOf(path)
  if (program === undefined || bytes < APART_BYTES) return
  log.info('The journal is checked, before anything else', { path, bytes })
  if (await isSound(path, program, signal)) handover.closed(path)
  if (signal.aborted) log.info('Stopped while the journal was checked: nothing had begun', { path })
}

function bytesOf(path: string): number {
  try {
    return statSync(path).size
  } catch {
    return 0
  }
}

function isSound(path: string, program: string, signal: AbortSignal): Promise<boolean> {
  const options: ForkOptions = {
    // In its own session: Ctrl-C reaches only us, and we end it.
    detached: true,
    signal,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  }
  return new Promise((resolve) => {
    fork(program, [path], options)
      .once('error', () => resolve(false))
      .once('exit', (code) => resolve(code === 0))
  })
}
