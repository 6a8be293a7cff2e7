// The disk, as far as a configuration refers to it. The real one reads; nothing here writes.
import {
  accessSync,
  closeSync,
  constants,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  statfsSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { type OwnerCalls, ownerCalls } from '../core/file-owners.ts'
import {
  firstPageIn,
  isForeign,
  isOfKernel,
  isSqlite,
  isWritten,
  MOST_PAGE_BYTES,
  networkFileSystem,
  newerPageFault,
} from '../journal/sqlite/files.ts'
import { type LinkCalls, resolvedPath } from '../core/paths.ts'

/** Keys, certificates and configurations are small; a larger file is the wrong one. */
const MOST_BYTES = 2 ** 20

interface Look {
  /** `nowhere`: a link whose other end is not there */
  readonly kind: 'file' | 'folder' | 'other' | 'nowhere'
  readonly mode: number
}

export interface Files {
  /** Throws as node:fs does. */
  read(path: string): string
  /** Its first bytes. Throws as node:fs does. Not for a journal that this process has open: closing the file would drop its lock. */
  head(path: string, bytes: number): Buffer
  /** The working directory of this process. */
  cwd(): string
  /** In bytes; undefined where there is nothing. */
  size(path: string): number | undefined
  readonly owners: OwnerCalls
  /** Permission bits and kind of what a name leads to; undefined where there is nothing. */
  look(path: string): Look | undefined
  writable(path: string): boolean
  /** A name for the file that stays the same whatever path or link leads to it; also for one that is yet to be made. */
  identity(path: string): string
  /** Where a name comes to lie once every link is followed; also for one that is yet to be made. */
  place(path: string): string
  /** How much the file system of that name holds for this user, full and free; undefined where it does not say. */
  volumeBytes(path: string): number | undefined
  /** `statfs` type of the file system that holds a folder that is there; 0 where that tells nothing. */
  fileSystemType(folder: string): number
}

const linkCalls: LinkCalls = {
  readlink: (path) => readlinkSync(path),
  realpath: (path) => realpathSync(path),
}

function identityOf(path: string): string {
  try {
    const { dev, ino } = statSync(path, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    // Not there yet: the folders that are there decide, and where a link leads.
    return resolvedPath(path, linkCalls)
  }
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path).isSymbolicLink()
  } catch {
    return false
  }
}

const unusable = (code: string): Error => Object.assign(new Error(code), { code })

/** A file's text, 1 MiB at most. Throws as node:fs does, with EFBIG over the limit, and NOT_REGULAR for what may never end or answer. */
export function readTextFile(path: string): string {
  const stats = statSync(path)
  if (!stats.isFile() && !stats.isDirectory()) throw unusable('NOT_REGULAR')
  return readConfigFile(path)
}

/** The configuration itself may come through a pipe: `--config /dev/stdin`, `--config <(…)`. */
export function readConfigFile(path: string): string {
  if (statSync(path).size > MOST_BYTES) throw unusable('EFBIG')
  return readFileSync(path, 'utf8')
}

function headOf(path: string, bytes: number): Buffer {
  const file = openSync(path, 'r')
  try {
    const head = Buffer.alloc(bytes)
    return head.subarray(0, readSync(file, head))
  } finally {
    closeSync(file)
  }
}

function volumeBytesOf(path: string): number | undefined {
  try {
    const { blocks, bfree, bavail, bsize } = statfsSync(path)
    // Some that are made of other machines' disks answer nought.
    return (blocks - bfree + bavail) * bsize || undefined
  } catch {
    return dirname(path) === path ? undefined : volumeBytesOf(dirname(path))
  }
}

export const realFiles: Files = {
  volumeBytes: (path) => volumeBytesOf(resolvedPath(path, linkCalls)),
  fileSystemType: (folder) => (process.platform === 'linux' ? statfsSync(folder).type : 0),
  cwd: () => process.cwd(),
  read: readTextFile,
  head: headOf,
  size: (path) => statSync(path, { throwIfNoEntry: false })?.size,
  owners: ownerCalls(lstatSync),
  identity: identityOf,
  place: (path) => resolvedPath(path, linkCalls),
  look(path) {
    try {
      const stats = statSync(path)
      const kind = stats.isDirectory() ? 'folder' : stats.isFile() ? 'file' : 'other'
      return { kind, mode: stats.mode & 0o777 }
    } catch {
      return isLink(path) ? { kind: 'nowhere', mode: 0 } : undefined
    }
  },
  writable(path) {
    try {
      accessSync(path, constants.W_OK)
      return true
    } catch {
      return false
    }
  },
}

/** What stands at `path` and can never be a file to write to; undefined where a file is, or nothing. */
export function kindFault(path: string, files: Files): string | undefined {
  const there = files.look(path)
  if (there?.kind === 'folder') return 'is a folder: expected a file name'
  if (there?.kind === 'other') return 'is a device, pipe or socket: expected a regular file'
  return undefined
}

/** Why a file could not be created or opened for writing at `path`; undefined when it could. Creates nothing. */
export function writeFault(path: string, files: Files): string | undefined {
  const wrongKind = kindFault(path, files)
  if (wrongKind !== undefined) return wrongKind
  const there = files.look(path)
  if (there?.kind === 'nowhere') return throughLink(path, files)
  if (there) return files.writable(path) ? undefined : 'cannot be written: give this user the permission'
  const folder = folderOf(path, files)
  if (files.look(folder)?.kind === 'nowhere')
    return `cannot be created: ${folder} is a link that leads nowhere (is a volume not mounted?)`
  if (files.look(folder)?.kind !== 'folder') return `cannot be created: ${folder} is not a folder`
  if (isOfKernel(files.fileSystemType(folder)))
    return `cannot be created: ${folder} belongs to the kernel and takes no files: use a folder on a disk`
  return files.writable(folder)
    ? undefined
    : `cannot be created: this user cannot write to ${folder}; give it the permission`
}

/** A link whose other end is yet to be made. */
function throughLink(path: string, files: Files): string | undefined {
  const end = files.identity(path)
  return files.look(end)?.kind === 'nowhere'
    ? 'is a link in a circle: expected a file name'
    : writeFault(end, files)
}

/** The nearest that is there: those between are created at start. */
function folderOf(path: string, files: Files): string {
  let folder = dirname(path)
  while (!files.look(folder) && dirname(folder) !== folder) folder = dirname(folder)
  return folder
}

/** The name of the network file system that a journal would lie on; undefined where it is none. */
export function networkUnder(path: string, files: Files): string | undefined {
  const folder = folderOf(files.place(path), files)
  return files.look(folder)?.kind === 'folder' ? networkFileSystem(files.fileSystemType(folder)) : undefined
}

/** Within so much of a log stands what made a database of its file. */
const LOG_BYTES = 4 * 2 ** 20

/** The first page as SQLite would see it: what the log beside the file has of it is newer. */
function firstPage(path: string, files: Files, head: Buffer): Buffer {
  try {
    return firstPageIn(files.head(`${files.place(path)}-wal`, LOG_BYTES)) ?? head
  } catch {
    return head
  }
}

/** Whether there is a journal of this program at `path`. Not for one that this process has open, like `head`. */
export function isJournalThere(path: string, files: Files): boolean {
  try {
    return (
      files.look(path)?.kind === 'file' &&
      isWritten(firstPage(path, files, files.head(path, MOST_PAGE_BYTES)))
    )
  } catch {
    return false
  }
}

/** What stands at `path` and is no journal, or one that is not ours to open, nor can become one; undefined where it may be. */
export function journalFault(path: string, files: Files): string | undefined {
  if (files.look(path)?.kind !== 'file') return undefined
  let head: Buffer
  try {
    head = files.head(path, MOST_PAGE_BYTES)
  } catch {
    // That it may not be read is told of its permissions.
    return undefined
  }
  // An empty one becomes a journal.
  if (head.length === 0) return undefined
  const page = isSqlite(head) ? firstPage(path, files, head) : head
  if (isSqlite(page) && !isForeign(page)) return newerPageFault(page)
  const what = isSqlite(head)
    ? 'a SQLite database of another program and no journal'
    : 'a file that is not a journal'
  return `is ${what}, and is left unchanged: use the name of a journal, or of a file that does not exist yet`
}
