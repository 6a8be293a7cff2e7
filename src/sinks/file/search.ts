// Finds the file of a possible duplicate under its current name. It writes nothing.
import { basename, dirname, join } from 'node:path'
import type { Disk, DiskFile } from '../../contracts/platform.ts'
import { ConnectorError, errnoOf } from '../../core/errors.ts'
import { equalPrefix, holds, isWrittenOn, type BatchOffset } from './offset.ts'
import { closedOnThrow, closeQuietly } from './steps.ts'

interface Search {
  readonly disk: Disk
  /** where the sink writes */
  readonly path: string
  readonly open: (path: string) => Promise<DiskFile>
}

export interface Found {
  readonly file: DiskFile
  readonly name: string
  /** why the file cannot be written; undefined: it can */
  readonly refusal: ConnectorError | undefined
}

/** The open file that matches `start`; undefined if none does. `bytes`: those of the batch. */
export async function findOffset(
  search: Search,
  start: BatchOffset,
  bytes: Uint8Array,
): Promise<Found | undefined> {
  const { disk, path } = search
  for await (const name of namesOf(disk, path, start)) {
    const { file, refusal } = await openFound(search, name)
    const fits = name === path || name === `${path}.1` ? isOffset : holdsPart
    const isFound = async () => {
      // The file is read-only and the batch was not begun there: it goes to another file.
      if (refusal && (await file.size()) === start.offset) return false
      return fits(file, start, bytes, name === path)
    }
    if (await closedOnThrow(file, isFound)) return { file, name, refusal }
    await closeQuietly(file)
  }
  return undefined
}

/** A rotated file may be read-only. */
async function openFound({ disk, path, open }: Search, name: string): Promise<Omit<Found, 'name'>> {
  try {
    return { file: await open(name), refusal: undefined }
  } catch (error) {
    if (name === path || !(error instanceof ConnectorError) || error.code !== 'misconfigured') throw error
    return { file: await disk.openToRead(name), refusal: error }
  }
}

/**
 * After the batch the file was moved: to path.1 by our own rotation, or by another program to any
 * name in the same folder (logrotate: the day).
 */
async function* namesOf(disk: Disk, path: string, start: BatchOffset): AsyncGenerator<string> {
  if (await disk.exists(path)) yield path
  const rotated = `${path}.1`
  if ((await disk.look(rotated))?.identity === start.file) yield rotated
  const usual = [path, rotated]
  const folder = dirname(path)
  // A folder may be writable but not readable.
  const listed = await disk.list(folder).catch(() => [])
  for (const { name, kind } of listed) {
    const other = join(folder, name)
    if (kind !== 'file' || usual.some((one) => basename(one) === name)) continue
    // A file that cannot be examined does not block the sink.
    const there = await disk.look(other).catch(() => undefined)
    if (there?.identity === start.file) yield other
  }
}

/** The batch was cut in a file that is now read-only. */
export const unfinished = ({ name, refusal }: Found, offset: number): ConnectorError =>
  new ConnectorError(
    'misconfigured',
    `${name} may only be read (${errnoOf(refusal?.cause)}), but an interrupted batch must be completed in it, from byte ${offset} on: make it writable for this user; delivery then resumes automatically`,
    { cause: refusal },
  )

async function isOffset(
  file: DiskFile,
  start: BatchOffset,
  bytes: Uint8Array,
  isOurs: boolean,
): Promise<boolean> {
  if (!(await holds(file, start))) return false
  if (await isWrittenOn(file, start, bytes)) return false
  if ((await file.identity()) === start.file) return true
  // A restored copy, or a file system without stable identities: the bytes before the batch decide.
  return isOurs && start.offset > 0
}

/** Another file may have the identity by now: the batch must follow, whole or cut short. */
async function holdsPart(file: DiskFile, start: BatchOffset, bytes: Uint8Array): Promise<boolean> {
  if (!(await holds(file, start))) return false
  const behind = (await file.size()) - start.offset
  return behind > 0 && (await equalPrefix(file, start.offset, bytes)) === Math.min(behind, bytes.length)
}
