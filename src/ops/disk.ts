// The real disk behind model/disk.ts: node's own file calls, with errors that say what to do.
import { type BigIntStats, constants, type Dirent } from 'node:fs'
import { access, type FileHandle, lstat, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Disk, DiskFile, FileState, Listed } from '../model/disk.ts'
import { ConnectorError, errnoOf } from '../model/errors.ts'
import { type FileFacts, factsOf, ownerFault, thisUser } from '../model/file-owners.ts'
import { makeFolders } from '../model/folders.ts'
import { diskError, syncError } from './disk-errors.ts'

async function attempt<T>(what: string, path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw cause instanceof ConnectorError ? cause : diskError(what, path, cause)
  }
}

async function synced(path: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (cause) {
    throw syncError(path, cause)
  }
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

/** The inode's number alone is given to the next file once this one is removed; the instant of birth tells them apart. */
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

/** For its owner alone. In a device or a pipe no place could be found again. */
async function openRegular(path: string, flags: number): Promise<FileHandle> {
  const handle = await open(path, flags, 0o600)
  try {
    if ((await handle.stat()).isFile()) return handle
    throw new ConnectorError('misconfigured', `${path} is no regular file: want one, or a name where none is`)
  } catch (error) {
    await handle.close().catch(() => undefined)
    throw error
  }
}

async function factsAt(path: string): Promise<FileFacts | undefined> {
  try {
    return factsOf(await lstat(path))
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** `there`: what bears the name, or what was opened by it. */
async function refuseForeign(path: string, there: FileFacts): Promise<void> {
  const folder = await factsAt(dirname(resolve(path)))
  const facts = (asked: string) => (asked === path ? there : folder)
  const fault = ownerFault(path, { facts, user: thisUser })
  if (fault !== undefined) throw new ConnectorError('misconfigured', fault)
}

/** What another user may have put there is neither followed nor written to, however soon before. */
async function openOwn(path: string): Promise<FileHandle> {
  const there = await factsAt(path)
  if (!there) return openRegular(path, NEW)
  await refuseForeign(path, there)
  // A link may be there on purpose, and lead to a file that is yet to be made.
  const handle = await openRegular(path, there.kind === 'link' ? O_RDWR | O_CREAT : O_RDWR | O_NOFOLLOW)
  try {
    await refuseForeign(path, factsOf(await handle.stat()))
    return handle
  } catch (error) {
    await handle.close().catch(() => undefined)
    throw error
  }
}

/** Makes the folder where there is none. */
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
  async exists(path) {
    try {
      await access(path, constants.F_OK)
      return true
    } catch (cause) {
      if (errnoOf(cause) === 'ENOENT') return false
      throw diskError('look for', path, cause)
    }
  },
  async look(path) {
    try {
      return stateOf(await stat(path, { bigint: true }))
    } catch (cause) {
      if (errnoOf(cause) === 'ENOENT') return undefined
      throw diskError('look for', path, cause)
    }
  },
  async list(folder) {
    try {
      const inside = await readdir(folder, { withFileTypes: true })
      return inside.map((each) => ({ name: each.name, kind: kindOf(each) }))
    } catch (cause) {
      if (errnoOf(cause) === 'ENOENT') return []
      throw diskError('list the folder', folder, cause)
    }
  },
  rename: (from, to) => attempt('rename', `${from} to ${to}`, () => rename(from, to)),
  remove: (path) => attempt('remove', path, () => rm(path, { force: true })),
  syncFolder,
}
