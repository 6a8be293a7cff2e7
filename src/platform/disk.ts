// The real disk of contracts/platform.ts: node's own file calls, with errors that say what to do.
import { constants } from 'node:fs'
import type { BigIntStats, Dirent, Stats } from 'node:fs'
import { lstat, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Disk, DiskFile, FileState, Listed } from '../contracts/platform.ts'
import { ConnectorError, OUT_OF_FILES, errnoOf, isDiskFull, isOutOfFiles } from '../core/errors.ts'
import { factsOf, ownerFault, thisUser } from '../core/file-owners.ts'
import type { FileFacts } from '../core/file-owners.ts'
import { makeFolders } from '../core/paths.ts'

/** Undefined if there is nothing under the name. */
async function ifThere<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work()
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

async function attempt<T>(what: string, path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw cause instanceof ConnectorError ? cause : diskError(what, path, cause)
  }
}

async function synced(path: string, work: () => Promise<void>): Promise<void> {
  await work().catch((cause: unknown) => {
    throw syncError(path, cause)
  })
}

async function writeAll(handle: FileHandle, bytes: Uint8Array, offset: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, offset + done)
    done += bytesWritten
  }
}

async function readUpTo(handle: FileHandle, offset: number, length: number): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafe(length)
  let got = 0
  while (got < length) {
    const { bytesRead } = await handle.read(bytes, got, length - got, offset + got)
    if (bytesRead === 0) break
    got += bytesRead
  }
  return bytes.subarray(0, got)
}

/** An inode number is reused once its file is removed; the birth time distinguishes the two. */
function stateOf({ ino, birthtimeNs, size, ctimeMs }: BigIntStats): FileState {
  const identity = `${ino.toString(36)}-${birthtimeNs.toString(36)}`
  return { identity, size: Number(size), changedAt: Number(ctimeMs) }
}

function kindOf(entry: Dirent): Listed['kind'] {
  if (entry.isFile()) return 'file'
  return entry.isDirectory() ? 'folder' : 'other'
}

function openedFile(handle: FileHandle, path: string): DiskFile {
  return {
    size: () => attempt('read the size of', path, async () => (await handle.stat()).size),
    identity: () =>
      attempt('read the state of', path, async () => stateOf(await handle.stat({ bigint: true })).identity),
    isNamed: () => attempt('read the state of', path, async () => (await handle.stat()).nlink > 0),
    read: (offset, length) => attempt('read', path, () => readUpTo(handle, offset, length)),
    write: (bytes, offset) => attempt('write', path, () => writeAll(handle, bytes, offset)),
    truncate: (size) => attempt('cut', path, () => handle.truncate(size)),
    sync: () => synced(path, () => handle.sync()),
    close: () => attempt('close', path, () => handle.close()),
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await attempt('open the folder', folder, () => open(folder, constants.O_RDONLY))
  try {
    await synced(folder, () => handle.sync())
  } finally {
    await handle.close().catch(() => undefined)
  }
}

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
const NEW = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW

/** For its owner only. A position in a device or a pipe could not be found again. */
async function openRegular(
  path: string,
  flags: number,
  check?: (opened: Stats) => Promise<void>,
): Promise<FileHandle> {
  const handle = await open(path, flags, 0o600)
  try {
    const stats = await handle.stat()
    if (!stats.isFile())
      throw new ConnectorError(
        'misconfigured',
        `${path} is not a regular file: use one, or a name that does not exist yet`,
      )
    await check?.(stats)
    return handle
  } catch (error) {
    await handle.close().catch(() => undefined)
    throw error
  }
}

const factsAt = (path: string) => ifThere(async () => factsOf(await lstat(path)))

/** `there`: the file under the name, or the opened one. */
async function refuseForeign(path: string, existing: FileFacts): Promise<void> {
  const folder = await factsAt(dirname(resolve(path)))
  const facts = (asked: string) => (asked === path ? existing : folder)
  const fault = ownerFault(path, { facts, user: thisUser })
  if (fault !== undefined) throw new ConnectorError('misconfigured', fault)
}

/**
 * A file that another user may have planted is neither followed nor written to, even if it appeared
 * just before.
 */
async function openOwn(path: string): Promise<FileHandle> {
  const existing = await factsAt(path)
  if (!existing) return openRegular(path, NEW)
  await refuseForeign(path, existing)
  // A link may be intended, and point to a file that does not exist yet.
  const flags = existing.kind === 'link' ? O_RDWR | O_CREAT : O_RDWR | O_NOFOLLOW
  return openRegular(path, flags, (opened) => refuseForeign(path, factsOf(opened)))
}

/** Creates the folder if there is none. */
async function openMaking(path: string, opening: () => Promise<FileHandle>): Promise<DiskFile> {
  try {
    return openedFile(await opening(), path)
  } catch (cause) {
    if (cause instanceof ConnectorError) throw cause
    if (errnoOf(cause) !== 'ENOENT') throw diskError('open', path, cause)
  }
  const folder = dirname(resolve(path))
  await attempt('make the folder', folder, () => makeFolders(folder, { stat, mkdir, sync: syncFolder }))
  return openedFile(await attempt('open', path, opening), path)
}

export const disk: Disk = {
  open: (path) => openMaking(path, () => openOwn(path)),
  openNew: (path) => openMaking(path, () => openRegular(path, NEW)),
  async openToRead(path) {
    return openedFile(await attempt('read', path, () => openRegular(path, O_RDONLY)), path)
  },
  exists: async (path) => (await disk.look(path)) !== undefined,
  look: (path) =>
    attempt('look for', path, () => ifThere(async () => stateOf(await stat(path, { bigint: true })))),
  async list(folder) {
    const reading = () => ifThere(() => readdir(folder, { withFileTypes: true }))
    const inside = (await attempt('list the folder', folder, reading)) ?? []
    return inside.map((each) => ({ name: each.name, kind: kindOf(each) }))
  },
  rename: (from, to) => attempt('rename', `${from} to ${to}`, () => rename(from, to)),
  remove: (path) => attempt('remove', path, () => rm(path, { force: true })),
  syncFolder,
}

// Maps file errors of the system to our own closed list of codes.
// None of them ends the process: one sink's files may be on a mount that goes away while the other
// sinks continue.

const CHECK_FOLDER = 'check that its folder can be made and that this user may write there'

/** Errors of a path or its permissions, which an operator has to fix. */
const pathCodes: ReadonlySet<string> = new Set([
  ...['EACCES', 'EPERM', 'ENOENT', 'ENOTDIR', 'EISDIR', 'EROFS'],
  ...['ELOOP', 'ENAMETOOLONG', 'EEXIST', 'EXDEV', 'EBUSY', 'ENXIO'],
])

const RESUMES = 'it then resumes automatically'
const remedies: Readonly<Record<string, string>> = {
  EDQUOT: `free space or raise the quota; ${RESUMES}`,
  EFBIG:
    'set rotate.max_bytes below the file size limit (ulimit -f, LimitFSIZE), or raise that limit, and start again',
}

/**
 * The same form as the journal's message, which may be on the same disk: the fact, what to do, and
 * the path last, since it may be long.
 */
function diskFullError(code: string, what: string, path: string, cause: unknown): ConnectorError {
  const remedy = remedies[code] ?? `free space; ${RESUMES}`
  return new ConnectorError('disk_full', `${what} (${code}): ${remedy}. The path is ${path}`, { cause })
}

const isSystemCode = (code: string): boolean => /^(E[A-Z0-9]+$|Unknown system error )/.test(code)

/** An error that an operator can act on; `doing` is for example "write". @internal for tests */
export function diskError(doing: string, path: string, cause: unknown): ConnectorError {
  const code = errnoOf(cause)
  const what = `cannot ${doing} ${path} (${code})`
  if (isDiskFull(code)) return diskFullError(code, `cannot ${doing}`, path, cause)
  const next = isOutOfFiles(cause) ? OUT_OF_FILES : CHECK_FOLDER
  if (isOutOfFiles(cause) || pathCodes.has(code))
    return new ConnectorError('misconfigured', `${what}: ${next}`, { cause })
  const away = 'the disk or mount does not respond as expected; check it'
  // ESTALE, ENOTCONN, EHOSTDOWN, EIO and other errors of a file system that is away.
  if (isSystemCode(code)) return new ConnectorError('unreachable', `${what}: ${away}`, { cause })
  return new ConnectorError('disk_failed', `${what}: this is a bug in Auditferry, please report it`, {
    cause,
  })
}

/**
 * The kernel may have dropped the pages that it could not write, and reports that only once: only
 * data written again is there.
 * @internal for tests
 */
export function syncError(path: string, cause: unknown): ConnectorError {
  const code = errnoOf(cause)
  const what = `cannot sync ${path} (${code})`
  const next = 'data just written may be lost, so it is written again'
  if (isDiskFull(code)) return diskFullError(code, `cannot sync, ${next}`, path, cause)
  const check = 'check the disk or mount'
  return new ConnectorError('unreachable', `${what}: ${next}; ${check}`, { cause })
}
