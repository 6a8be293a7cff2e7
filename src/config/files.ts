// File system checks for the configuration. Reads only.
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
  /** `nowhere`: a link without a target */
  readonly kind: 'file' | 'folder' | 'other' | 'nowhere'
  readonly mode: number
}

export interface Files {
  /** Throws as node:fs does. */
  read(path: string): string
  /** Throws like node:fs. Never for a journal open in this process: closing drops its lock. */
  head(path: string, bytes: number): Buffer
  /** The working directory of this process. */
  cwd(): string
  /** In bytes; undefined if there is no file. */
  size(path: string): number | undefined
  readonly owners: OwnerCalls
  /** Permissions and kind, links followed; undefined if there is nothing. */
  look(path: string): Look | undefined
  writable(path: string): boolean
  /** Identity of the file whatever path or link leads to it; also if it does not exist yet. */
  identity(path: string): string
  /** The path with every link resolved; also if it does not exist yet. */
  place(path: string): string
  /** Capacity of the file system for this user; undefined if unknown. */
  volumeBytes(path: string): number | undefined
  /** `statfs` type of an existing folder's file system; 0 if unknown. */
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
    // The file does not exist yet: resolve existing folders and links.
    return resolvedPath(path, linkCalls)
  }
}

const unusable = (code: string): Error => Object.assign(new Error(code), { code })

/** Throws like node:fs, EFBIG over 1 MiB, and NOT_REGULAR for pipes and devices. */
export function readTextFile(path: string): string {
  const stats = statSync(path)
  if (!stats.isFile() && !stats.isDirectory()) throw unusable('NOT_REGULAR')
  return readConfigFile(path)
}

/** The configuration itself may be a pipe: `--config /dev/stdin`, `--config <(…)`. */
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
    // Some network file systems report zero.
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
      return realFiles.owners.facts(path)?.kind === 'link' ? { kind: 'nowhere', mode: 0 } : undefined
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

/** The fault if `path` can never be a file; undefined for a file or a free name. */
export function kindFault(path: string, files: Files): string | undefined {
  const found = files.look(path)
  if (found?.kind === 'folder') return 'is a folder: expected a file name'
  if (found?.kind === 'other') return 'is a device, pipe or socket: expected a regular file'
  return undefined
}

/** Why no file can be created or written at `path`; undefined if it can. Creates nothing. */
export function writeFault(path: string, files: Files): string | undefined {
  const wrongKind = kindFault(path, files)
  if (wrongKind !== undefined) return wrongKind
  const found = files.look(path)
  if (found?.kind === 'nowhere') return linkFault(path, files)
  if (found) return files.writable(path) ? undefined : 'cannot be written: give this user the permission'
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

/** A link whose target does not exist yet. */
function linkFault(path: string, files: Files): string | undefined {
  const end = files.identity(path)
  return files.look(end)?.kind === 'nowhere'
    ? 'is a link in a circle: expected a file name'
    : writeFault(end, files)
}

/** The nearest existing folder: missing ones are created at start. */
function folderOf(path: string, files: Files): string {
  let folder = dirname(path)
  while (!files.look(folder) && dirname(folder) !== folder) folder = dirname(folder)
  return folder
}

/** Name of the network file system under the path; undefined for a local one. */
export function networkUnder(path: string, files: Files): string | undefined {
  const folder = folderOf(files.place(path), files)
  return files.look(folder)?.kind === 'folder' ? networkFileSystem(files.fileSystemType(folder)) : undefined
}

/** A WAL contains the page that initialised the database within this many bytes. */
const LOG_BYTES = 4 * 2 ** 20

/** The first page as SQLite sees it: the WAL may have a newer one. */
function firstPage(path: string, files: Files, head: Buffer): Buffer {
  try {
    return firstPageIn(files.head(`${files.place(path)}-wal`, LOG_BYTES)) ?? head
  } catch {
    return head
  }
}

/** True if `path` is a journal. Never for one that this process has open, see `head`. */
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

/** The fault if the file at `path` is not a journal of this version; else undefined. */
export function journalFault(path: string, files: Files): string | undefined {
  if (files.look(path)?.kind !== 'file') return undefined
  let head: Buffer
  try {
    head = files.head(path, MOST_PAGE_BYTES)
  } catch {
    // Missing permissions are reported elsewhere.
    return undefined
  }
  // An empty file becomes a journal.
  if (head.length === 0) return undefined
  const page = isSqlite(head) ? firstPage(path, files, head) : head
  if (isSqlite(page) && !isForeign(page)) return newerPageFault(page)
  const what = isSqlite(head)
    ? 'a SQLite database of another program and no journal'
    : 'a file that is not a journal'
  return `is ${what}, and is left unchanged: use the name of a journal, or of a file that does not exist yet`
}
