// Making a folder and those above it, one by one. Node's own `recursive` begins anew for ever where a parent is there and the child answers ENOENT, as in /proc.
import { dirname, resolve } from 'node:path'
import { errnoOf } from './errors.ts'

/** The first two as node:fs/promises has them. */
export interface FolderCalls {
  stat(path: string): Promise<{ isDirectory(): boolean }>
  mkdir(path: string, options: { readonly mode: number }): Promise<unknown>
  /** so that a power cut does not take back what was made in this folder */
  sync(path: string): Promise<void>
}

function inTheWay(path: string): Error {
  return Object.assign(new Error(`${path} is no folder`), { code: 'ENOTDIR', path })
}

async function isThere(path: string, calls: FolderCalls): Promise<boolean> {
  let found: { isDirectory(): boolean }
  try {
    found = await calls.stat(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false
    throw error
  }
  if (!found.isDirectory()) throw inTheWay(path)
  return true
}

/** For this user alone, and on the disk when it resolves; asks for each folder once. Throws as its calls do. */
export async function makeFolders(folder: string, calls: FolderCalls): Promise<void> {
  const lacking: string[] = []
  for (let at = resolve(folder); !(await isThere(at, calls)) && at !== dirname(at); at = dirname(at))
    lacking.unshift(at)
  const made: string[] = []
  for (const path of lacking)
    try {
      await calls.mkdir(path, { mode: 0o700 })
      made.push(path)
    } catch (error) {
      // Somebody else was faster; or it is a link that leads nowhere, which is there and is no folder.
      if (errnoOf(error) !== 'EEXIST' || !(await isThere(path, calls))) throw error
    }
  for (const path of made.toReversed()) await calls.sync(dirname(path))
}
