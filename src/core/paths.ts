// Creates a folder and its parents one by one. Node's own `recursive` loops for ever if a parent
// exists and the child answers ENOENT, as in /proc.
import { basename, dirname, join, resolve } from 'node:path'
import { errnoOf } from './errors.ts'

/** The first two as in node:fs/promises. */
export interface FolderCalls {
  stat(path: string): Promise<{ isDirectory(): boolean }>
  mkdir(path: string, options: { readonly mode: number }): Promise<unknown>
  /** makes the entries created in this folder survive a power cut */
  sync(path: string): Promise<void>
}

function notAFolder(path: string): Error {
  return Object.assign(new Error(`${path} is not a folder`), { code: 'ENOTDIR', path })
}

async function folderExists(path: string, calls: FolderCalls): Promise<boolean> {
  let found: { isDirectory(): boolean }
  try {
    found = await calls.stat(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false
    throw error
  }
  if (!found.isDirectory()) throw notAFolder(path)
  return true
}

/** Private to this user, and on disk when it resolves. Throws the errors of its calls. */
export async function makeFolders(folder: string, calls: FolderCalls): Promise<void> {
  const missing: string[] = []
  for (let at = resolve(folder); !(await folderExists(at, calls)) && at !== dirname(at); at = dirname(at))
    missing.unshift(at)
  const created: string[] = []
  for (const path of missing)
    try {
      await calls.mkdir(path, { mode: 0o700 })
      created.push(path)
    } catch (error) {
      // Another process was faster; or it is a dangling link, which exists and is not a folder.
      if (errnoOf(error) !== 'EEXIST' || !(await folderExists(path, calls))) throw error
    }
  for (const path of created.toReversed()) await calls.sync(dirname(path))
}

// Resolves a name through every link; also for one that does not exist yet.

/** As in node:fs: both throw if there is nothing, or no link. */
export interface LinkCalls {
  readlink(path: string): string
  realpath(path: string): string
}

/** More links than this in a row are a cycle. */
const MAX_LINKS = 40

export function resolvedPath(path: string, calls: LinkCalls, links = MAX_LINKS): string {
  const absolute = resolve(path)
  const folder = dirname(absolute)
  if (folder === absolute) return absolute
  const target = linkTarget(absolute, calls)
  const realParent = realFolder(folder, calls)
  if (target !== undefined && links > 0) return resolvedPath(resolve(realParent, target), calls, links - 1)
  return join(realParent, basename(absolute))
}

/** The target as written in the link; undefined if there is none. */
export function linkTarget(path: string, { readlink }: Pick<LinkCalls, 'readlink'>): string | undefined {
  try {
    return readlink(path)
  } catch {
    return undefined
  }
}

function realFolder(folder: string, calls: LinkCalls): string {
  try {
    return calls.realpath(folder)
  } catch {
    return folder === dirname(folder) ? folder : join(realFolder(dirname(folder), calls), basename(folder))
  }
}
