// The disk, as far as a configuration refers to it. The real one reads; nothing here writes.
import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** Keys, certificates and configurations are small; a larger file is the wrong one. */
const MOST_BYTES = 2 ** 20

export interface Files {
  /** Throws as node:fs does. */
  read(path: string): string
  /** Permission bits and kind; undefined where there is nothing. */
  look(path: string): { readonly kind: 'file' | 'folder'; readonly mode: number } | undefined
  writable(path: string): boolean
}

/** A file's text, 1 MiB at most. Throws as node:fs does, with EFBIG over the limit. */
export function readTextFile(path: string): string {
  if (statSync(path).size > MOST_BYTES) throw Object.assign(new Error('too large'), { code: 'EFBIG' })
  return readFileSync(path, 'utf8')
}

export const realFiles: Files = {
  read: readTextFile,
  look(path) {
    try {
      const stats = statSync(path)
      return { kind: stats.isDirectory() ? 'folder' : 'file', mode: stats.mode & 0o777 }
    } catch {
      return undefined
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

/** Why a file could not be created or opened for writing at `path`; undefined when it could. Creates nothing. */
export function writeFault(path: string, files: Files): string | undefined {
  const there = files.look(path)
  if (there?.kind === 'folder') return 'is a folder: want a file name'
  if (there) return files.writable(path) ? undefined : 'may not be written: give this user the permission'
  let folder = dirname(path)
  // The folders between are created at start: the nearest that exists decides.
  while (!files.look(folder) && dirname(folder) !== folder) folder = dirname(folder)
  if (files.look(folder)?.kind !== 'folder') return `cannot be created: ${folder} is no folder`
  return files.writable(folder)
    ? undefined
    : `cannot be created: ${folder} may not be written, give this user the permission`
}
