// Names of the files beside the journal's file, for the code that creates them and the code that
// must avoid them.
import { createHash } from 'node:crypto'
import { basename, dirname, join } from 'node:path'
import {
  besideFault,
  folderFault,
  groupFileWarning,
  groupWarning,
  ownerFault,
  privateFault,
  publicWarning,
} from '../../core/file-owners.ts'
import type { OwnerCalls } from '../../core/file-owners.ts'

/** A socket address has 104 bytes on some systems, 108 on others, including a final zero. */
const MAX_PATH_BYTES = 100

const fits = (path: string) => Buffer.byteLength(path) <= MAX_PATH_BYTES

/** Test file, written once SQLite could not write, and removed again. */
export const probePath = (place: string): string => `${place}.probe`

export const ballastPath = (place: string): string => `${place}.ballast`

/** Folder of the objects that an `s3` sink has in flight. */
export const spoolPath = (journalPath: string): string =>
  join(dirname(journalPath), 'spool', basename(journalPath))

/** The control socket: `<journal>.sock`, or a short name beside it; undefined: still too long. */
export function controlPath(journalPath: string): string | undefined {
  const full = `${journalPath}.sock`
  if (fits(full)) return full
  const digest = createHash('sha256').update(basename(journalPath)).digest('hex').slice(0, 8)
  const short = join(dirname(journalPath), `${digest}.sock`)
  return fits(short) ? short : undefined
}

const sqlites = (place: string) => ['-wal', '-shm', '-journal'].map((end) => `${place}${end}`)

/**
 * Why another user may read or change the journal, or the files beside it; undefined: none may.
 * `place`: the target of links.
 */
export function unsafeFault(journalPath: string, place: string, calls: OwnerCalls): string | undefined {
  const spool = spoolPath(journalPath)
  const faults = [
    () => folderFault(dirname(place), calls),
    () => ownerFault(journalPath, calls),
    () => privateFault(place, calls),
    ...[...sqlites(place), ballastPath(place)].map((path) => () => besideFault(path, calls)),
    ...[dirname(spool), spool].flatMap((path) => [
      () => ownerFault(path, calls),
      () => folderFault(path, calls),
    ]),
  ]
  for (const fault of faults) {
    const found = fault()
    if (found !== undefined) return found
  }
  return undefined
}

/** Which other users may read the journal, and by which permission. */
export const openWarnings = (place: string, calls: OwnerCalls): readonly string[] =>
  [
    groupWarning(dirname(place), calls),
    publicWarning(place, calls, 0o600) ?? groupFileWarning(place, calls),
  ].filter((text) => text !== undefined)

/**
 * All except the socket are beside the file itself, `place`, even if a link names it; SQLite would
 * replay a `-journal` found there.
 */
export function besideJournal(journalPath: string, place: string): readonly string[] {
  const ours = [probePath(place), ballastPath(place), controlPath(journalPath)]
  return [...sqlites(place), ...ours].filter((name) => name !== undefined)
}

// File systems that cannot be used, by their `statfs` types. These are Linux's; they differ on
// other systems.

/** WAL and POSIX locks do not work there. */
const network: Readonly<Record<number, string>> = {
  0x6969: 'NFS',
  0x517b: 'SMB',
  0xff534d42: 'CIFS',
  0xfe534d42: 'SMB',
  0x5346414f: 'AFS',
  0x564c: 'NCP',
}

/** Their folders appear writable to root, but accept no file. */
const kernel: ReadonlySet<number> = new Set([
  0x9fa0, // proc
  0x62656572, // sysfs
  0x27e0eb, // cgroup
  0x63677270, // its second version
  0x1cd1, // devpts
])

/** The name of a network file system; undefined: the type is not one. */
export const networkFileSystem = (type: number): string | undefined => network[type >>> 0]

export const isOfKernel = (type: number): boolean => kernel.has(type >>> 0)

// Which program a SQLite file belongs to: by this program's mark, or by properties of older
// journals without one.

/** SQLite's `application_id`: "afJr", at a fixed place in every file. */
export const APPLICATION_ID = 0x61664a72
/** The current schema: the number of steps in `schema.ts`. @internal for tests */
export const SCHEMA = 6
/** Journals up to this schema have no mark. */
const LAST_UNMARKED = 4
/** Tables that every journal has had since the first version. */
const FIRST_TABLES = ['chunks', 'intents', 'dead_letters', 'quarantine'] as const

/**
 * `user_version` has the schema in its lowest byte and a random stamp above it, which distinguishes
 * journals: a log names no database, and SQLite would write it into any database beside it.
 */
const SCHEMA_BITS = 8
const STAMPS = 2 ** (31 - SCHEMA_BITS)

export const schemaIn = (version: number): number => version & (2 ** SCHEMA_BITS - 1)

/** `version` with another schema and the same stamp. */
export const withSchema = (version: number, schema: number): number =>
  ((version >>> SCHEMA_BITS) << SCHEMA_BITS) | schema

/** `version` with a stamp: its own, or a new one. `random`: as `randomInt` of node:crypto. */
export const stamped = (version: number, random: (least: number, below: number) => number): number =>
  version >>> SCHEMA_BITS === 0 ? (random(1, STAMPS) << SCHEMA_BITS) | version : version

/** From the first page; 0: it has none. */
const stampOf = (page: Buffer): number => (page.length < HEADER_BYTES ? 0 : versionOf(page) >>> SCHEMA_BITS)

interface Known {
  readonly mark: number
  readonly version: number
  readonly isEmpty: boolean
  readonly hasTable: (name: string) => boolean
}

/** An empty database becomes a journal. */
export function isJournal({ mark, version, isEmpty, hasTable }: Known): boolean {
  if (mark !== 0) return mark === APPLICATION_ID
  if (version === 0) return isEmpty
  return version <= LAST_UNMARKED && FIRST_TABLES.every(hasTable)
}

/** The fault of a journal of this schema; undefined: none. */
export function newerFault(version: number): string | undefined {
  const schema = schemaIn(version)
  if (schema <= SCHEMA) return undefined
  return `was written by a newer version of this program (its schema is ${schema}, this one knows ${SCHEMA}): run that version, or set journal.path to another file`
}

/** The first bytes of every SQLite file. */
const MAGIC = Buffer.from('SQLite format 3\0')
const HEADER_BYTES = 100
/** bytes of the page after the header that contain the table names: all of them, and no others */
const LEAF = 0x0d

export const MOST_PAGE_BYTES = 65_536

const versionOf = (page: Buffer): number => page.readInt32BE(60)

export const isSqlite = (head: Buffer): boolean => head.subarray(0, MAGIC.length).equals(MAGIC)

/**
 * From the first page only, for callers that may neither open nor lock the file: true if it
 * certainly belongs to another program. Each older state of our file is one of a journal too.
 */
export function isForeign(head: Buffer): boolean {
  if (!isSqlite(head) || head.length < HEADER_BYTES) return false
  const pageBytes = head.readUInt16BE(16)
  const page = head.subarray(0, pageBytes === 1 ? MOST_PAGE_BYTES : pageBytes)
  return !isJournal({
    mark: page.readInt32BE(68),
    version: versionOf(page),
    // Each table has its own page.
    isEmpty: page.readUInt32BE(28) <= 1,
    hasTable: (name) => page[HEADER_BYTES] !== LEAF || page.includes(name),
  })
}

/** From the first page only: a journal written by this program, not an empty database. */
export const isWritten = (page: Buffer): boolean =>
  page.length >= HEADER_BYTES && isSqlite(page) && !isForeign(page) && versionOf(page) !== 0

/** `newerFault` from the first page only; a truncated page gives no result. */
export function newerPageFault(page: Buffer): string | undefined {
  return page.length < HEADER_BYTES ? undefined : newerFault(versionOf(page))
}

// SQLite files that do not belong to the journal beside them: SQLite would delete them, or write
// them into it. Reads only.

/** As in node:fs. Not for a journal that this process has open: a close drops its lock. */
export interface HeadCalls {
  /** undefined if there is nothing */
  readonly size: (path: string) => number | undefined
  readonly head: (path: string, bytes: number) => Buffer
}

/** The first page is within this many bytes of a log: each opening writes it first. */
const LOG_HEAD_BYTES = 4 * 2 ** 20
const PAGE_HEAD_BYTES = 100

const ROLLBACK_HEAD_BYTES = 20
const ROLLBACK_MAGIC = Buffer.from('d9d505f920a163d7', 'hex')
const PAGES_BEFORE_OFFSET = 16

const ANEW =
  'a new journal reads from the configured start, and may send entries again that were delivered before'

/** What is wrong and what to do, as sentences; undefined: nothing is wrong. */
export function strayFault(path: string, calls: HeadCalls): string | undefined {
  return strayLog(path, calls) ?? strayRollback(path, calls)
}

function strayLog(path: string, { size, head }: HeadCalls): string | undefined {
  const log = `${path}-wal`
  if ((size(log) ?? 0) === 0) return undefined
  const bytes = size(path)
  // SQLite deletes a log beside a missing or empty database.
  if (bytes === undefined || bytes === 0) {
    const what = bytes === 0 ? 'is empty' : 'is not there'
    return `The log ${log} has no database: ${path} ${what}. The log may contain entries that are not delivered yet, so nothing was changed. Put ${path} back beside its log and start again. If it is lost, move the log away too: ${ANEW}`
  }
  const page = firstPageIn(head(log, LOG_HEAD_BYTES))
  const [logs, own] = [page ? stampOf(page) : 0, stampOf(head(path, PAGE_HEAD_BYTES))]
  if (logs === 0 || own === 0 || logs === own) return undefined
  return `The log ${log} belongs to another journal than ${path}: one of them was moved or replaced. Either may contain entries that are not delivered yet, so nothing was changed. Put this log's own database back at ${path}, or move the log away to continue with the current database`
}

/** A kill right after the first start leaves a log too, of a database without a page. */
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
  return `${rollback} belongs to another database, and SQLite would write its contents into ${path}. Either may contain entries that are not delivered yet, so nothing was changed. Move ${rollback} to the database that it belongs to`
}

// The volume size that the journal's bounds require. The size of its keys is not known in advance:
// it depends on how many entries come.

const MIB = 2 ** 20
/** Up to this size the log and the ballast are constant. */
const USUAL_ENTRY_BYTES = 16 * MIB

export interface Bounds {
  readonly maxBytes: number
  readonly keepDeliveredBytes: number
  /** absent: the default */
  readonly maxEntryBytes?: number | undefined
}

/** The space that log and ballast may need beside the file, with a margin. */
export const besideBytes = ({ maxEntryBytes = 0 }: Pick<Bounds, 'maxEntryBytes'>): number =>
  64 * MIB + 4 * Math.max(USUAL_ENTRY_BYTES, maxEntryBytes)

/** Without the dedup keys. */
export const wantedBytes = (bounds: Bounds): number =>
  bounds.maxBytes + bounds.keepDeliveredBytes + besideBytes(bounds)

// Reads the database's first page from SQLite's log, for callers that may not open the database
// itself. Pure.

const WAL_HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24
/** The lowest bit gives the byte order of its checksums. */
const WAL_MAGIC = 0x377f0682
const LEAST_PAGE_BYTES = 512

/**
 * The newest committed first page; undefined if there is none. Frames with another salt are left
 * over from earlier use.
 */
export function firstPageIn(log: Buffer): Buffer | undefined {
  if (log.length < WAL_HEADER_BYTES || log.readUInt32BE(0) >>> 1 !== WAL_MAGIC >>> 1) return undefined
  const pageBytes = log.readUInt32BE(8)
  if (pageBytes < LEAST_PAGE_BYTES) return undefined
  const salt = log.subarray(16, 24)
  let written: Buffer | undefined
  let committed: Buffer | undefined
  const frameBytes = FRAME_HEADER_BYTES + pageBytes
  for (let at = WAL_HEADER_BYTES; at + frameBytes <= log.length; at += frameBytes) {
    if (!log.subarray(at + 8, at + 16).equals(salt)) break
    if (log.readUInt32BE(at) === 1) written = log.subarray(at + FRAME_HEADER_BYTES, at + frameBytes)
    if (log.readUInt32BE(at + 4) !== 0) committed = written
  }
  return committed
}
