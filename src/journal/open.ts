// Opening the journal: its options, its file, and the parts that it is made of.
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
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import { TRANSACTION_BYTES } from '../model/entries.ts'
import { ownerCalls } from '../model/file-owners.ts'
import { type FolderCalls, makeFolders } from '../model/folders.ts'
import { unsafeFault } from '../model/journal-files.ts'
import type { Journal } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import { type LinkCalls, linkTarget, resolvedPath } from '../model/resolved-path.ts'
import { Ballast, type FreeBytes, freeBytesOf } from './ballast.ts'
import type { Core } from './core.ts'
import { type FileSystemType, fileSystemTypeOf, LOG_BYTES, openDatabase } from './database.ts'
import { translate } from './faults.ts'
import { Deliveries } from './deliveries.ts'
import type { Handover } from './handover.ts'
import { Keys } from './keys.ts'
import { Ledger } from './ledger.ts'
import { largestFileBytes, type LimitReached } from './limits.ts'
import { atStart } from './no-room.ts'
import { Origins } from './origins.ts'
import { Quarantine } from './quarantine.ts'
import { Shelf } from './shelf.ts'
import { Space, type VolumeBytes } from './space.ts'
import { SqliteJournal } from './journal.ts'
import { Transactions } from './transactions.ts'
import { type Configured, tellWorkspaces } from './workspaces.ts'

export interface JournalOptions {
  readonly path: string
  /** of owed payload; at the bound append refuses */
  readonly maxBytes: number
  readonly keepKeysMs: number
  readonly keepSettledBytes: number
  /** the sinks of the configuration, by name */
  readonly sinks: readonly string[]
  /** those of the configuration; absent: of none is told that it came or left */
  readonly workspaces?: readonly Configured[]
  readonly clock: Clock
  readonly log: Log
  /** of the largest entry that may come */
  readonly maxEntryBytes?: number
  /** given up when the disk is full; 0: none; default: by the largest entry */
  readonly ballastBytes?: number | undefined
  /** hard bound of the file; default: the bounds above twice, and 4 GiB for keys, letters and quarantine */
  readonly maxFileBytes?: number
  /** how large the system lets a file become */
  readonly largestFileBytes?: number
  readonly fileSystemType?: FileSystemType
  readonly freeBytes?: FreeBytes
  readonly volumeBytes?: VolumeBytes
  readonly limitReached?: LimitReached
  /** of who opens it again right after a close; absent: it is checked, whoever had it */
  readonly handover?: Handover | undefined
}

/**
 * A full log and the largest entry behind it, which may be parked at that, and stand in the log and in the file then: the
 * file may have to grow by both before the log can begin anew. Measured: with one entry less all giving out may stop.
 */
const ballastBytesFor = (maxEntryBytes: number) => Math.max(2 * LOG_BYTES, LOG_BYTES + 2 * maxEntryBytes)
const MAX_ENTRY_BYTES = 16 * 1024 ** 2
const ALLOWANCE_BYTES = 4 * 1024 ** 3

/** At once, as SQLite itself opens the file: a clock that is not this machine's would run on meanwhile. */
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

/** Where a link leads, SQLite writes, and has its log beside that: there the room is wanted. */
const endOfLinks = (path: string): string =>
  linkTarget(path, linkCalls) === undefined ? path : resolvedPath(path, linkCalls)

/**
 * Throws ConnectorError `journal_in_use`, `journal_corrupt` (damaged, or its files do not belong together), `config_invalid` (no
 * such folder, no permission, a file of another user, a network file system, a newer schema), `disk_full` or `disk_failed`.
 */
export async function openJournal(given: JournalOptions): Promise<Journal> {
  const path = endOfLinks(given.path)
  const options = {
    largestFileBytes: largestFileBytes(),
    maxFileBytes: maxFileBytesOf(given),
    ...given,
    path,
  }
  const ballastBytes = options.ballastBytes ?? ballastBytesFor(options.maxEntryBytes ?? MAX_ENTRY_BYTES)
  const ballast = new Ballast(path, ballastBytes, options.freeBytes ?? freeBytesOf)
  try {
    await makeFolders(dirname(given.path), folderCalls)
    const unsafe = unsafeFault(given.path, path, ownerCalls(lstatSync))
    if (unsafe !== undefined) throw new ConnectorError('config_invalid', `The journal ${path}: ${unsafe}`)
    const db = openFile(options, ballast)
    try {
      return new SqliteJournal(coreOf(db, ballast, options), given)
    } catch (error) {
      db.close()
      throw error
    }
  } catch (error) {
    throw atStart(translate(error, path), () => ballast.shortage)
  }
}

type Options = JournalOptions & Required<Pick<JournalOptions, 'maxFileBytes' | 'largestFileBytes'>>

const maxFileBytesOf = ({ maxBytes, keepSettledBytes }: JournalOptions) =>
  2 * (maxBytes + keepSettledBytes) + ALLOWANCE_BYTES

function openFile(options: Options, ballast: Ballast): Database {
  const { path, clock, log, maxFileBytes, largestFileBytes } = options
  if (largestFileBytes < maxFileBytes)
    log.warn(
      'The system lets no file become as large as the journal may (ulimit -f, LimitFSIZE): where it has filled that, reading pauses',
      { path, largestFileBytes, maxFileBytes },
    )
  const open = () =>
    openDatabase({
      path,
      // At a bound of its own SQLite takes in nothing and deletes; what the system refuses would never leave the log.
      maxFileBytes: Math.min(maxFileBytes, largestFileBytes),
      fileSystemType: options.fileSystemType ?? fileSystemTypeOf,
      limitReached: options.limitReached,
      nowAt: clock.now(),
      isHandedOver: options.handover?.takes(path),
    })
  try {
    return open()
  } catch (error) {
    // A start on a full disk must still be able to deliver what is kept.
    if (!(error instanceof ConnectorError && error.code === 'disk_full' && ballast.free())) throw error
    return open()
  }
}

function coreOf(db: Database, ballast: Ballast, options: Options): Core {
  const { path, clock, log, sinks, maxBytes, keepKeysMs, keepSettledBytes, limitReached } = options
  const { largestFileBytes, volumeBytes } = options
  const space = new Space({ path, db, ballast, largestFileBytes, volumeBytes, bounds: options })
  const transactions = new Transactions({ path, db, ballast, space, log, limitReached })
  if (!transactions.makeSpaceFor(TRANSACTION_BYTES))
    log.warn('There is no room for the journal: reading pauses until there is some', { path: dirname(path) })
  const origins = new Origins(db)
  const shelf = new Shelf(db, path, origins)
  const deliveries = new Deliveries(db, origins)
  const opened = transactions.write(() => {
    const ledger = new Ledger(db, sinks, log)
    if (options.workspaces) tellWorkspaces(db, options.workspaces, log)
    for (const sink of sinks) if (!deliveries.isCounted(sink)) deliveries.begin(sink, ledger.settled(sink))
    return { ledger, quarantine: new Quarantine(db, origins, clock.now() - keepKeysMs) }
  })
  const limits = { maxBytes, keepKeysMs, keepSettledBytes }
  return {
    path,
    db,
    clock,
    ...limits,
    origins,
    keys: new Keys(db),
    shelf,
    ...opened,
    deliveries,
    transactions,
  }
}
