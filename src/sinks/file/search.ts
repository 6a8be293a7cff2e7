// The file of a batch in doubt, found again under whatever name it has now. It writes nothing.
import { basename, dirname, join } from 'node:path'
import type { Disk, DiskFile } from '../../contracts/platform.ts'
import { ConnectorError, errnoOf } from '../../core/errors.ts'
import { equalPrefix, holds, isWrittenOn, type Place } from './place.ts'
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
  /** what keeps us from writing there; undefined: nothing */
  readonly refusal: ConnectorError | undefined
}

/** The open file that `place` names; undefined where none fits. `bytes`: the batch's. */
export async function findPlace(search: Search, place: Place, bytes: Uint8Array): Promise<Found | undefined> {
  const { disk, path } = search
  for await (const name of namesOf(disk, path, place)) {
    const { file, refusal } = await openFound(search, name)
    const fits = name === path || name === `${path}.1` ? isPlace : holdsPart
    const isFound = async () => {
      // What was not begun where it may only be read goes elsewhere.
      if (refusal && (await file.size()) === place.offset) return false
      return fits(file, place, bytes, name === path)
    }
    if (await closedOnThrow(file, isFound)) return { file, name, refusal }
    await closeQuietly(file)
  }
  return undefined
}

/** Somebody who rotated it may have left it to be read alone. */
async function openFound({ disk, path, open }: Search, name: string): Promise<Omit<Found, 'name'>> {
  try {
    return { file: await open(name), refusal: undefined }
  } catch (error) {
    if (name === path || !(error instanceof ConnectorError) || error.code !== 'misconfigured') throw error
    return { file: await disk.openToRead(name), refusal: error }
  }
}

/**
 * Moved to path.1 after the batch: by our own rotation for the batch behind it, or by another program, which may have any
 * other name for it in the same folder (logrotate: the day).
 */
async function* namesOf(disk: Disk, path: string, place: Place): AsyncGenerator<string> {
  if (await disk.exists(path)) yield path
  const rotated = `${path}.1`
  if ((await disk.look(rotated))?.identity === place.file) yield rotated
  const usual = [path, rotated]
  const folder = dirname(path)
  // A folder may take files and not be read.
  const listed = await disk.list(folder).catch(() => [])
  for (const { name, kind } of listed) {
    const other = join(folder, name)
    if (kind !== 'file' || usual.some((one) => basename(one) === name)) continue
    // One that cannot be looked at is no reason to hold the sink.
    const there = await disk.look(other).catch(() => undefined)
    if (there?.identity === place.file) yield other
  }
}

/** A batch that is to be finished where nothing may be written. */
export const unfinished = ({ name, refusal }: Found, offset: number): ConnectorError =>
  new ConnectorError(
    'misconfigured',
    `${name} may only be read (${errnoOf(refusal?.cause)}), and a batch that was cut is to be finished there, from byte ${offset} on: let this user write there, and delivery goes on by itself`,
    { cause: refusal },
  )

async function isPlace(file: DiskFile, place: Place, bytes: Uint8Array, isOurs: boolean): Promise<boolean> {
  if (!(await holds(file, place))) return false
  if (await isWrittenOn(file, place, bytes)) return false
  if ((await file.identity()) === place.file) return true
  // A copy put back by hand, or a file system whose numbers do not last: what stands before the batch must do.
  return isOurs && place.offset > 0
}

/** Its number may be another file's by now: a beginning of the batch stands in it and nothing else, or the whole of it. */
async function holdsPart(file: DiskFile, place: Place, bytes: Uint8Array): Promise<boolean> {
  if (!(await holds(file, place))) return false
  const behind = (await file.size()) - place.offset
  return behind > 0 && (await equalPrefix(file, place.offset, bytes)) === Math.min(behind, bytes.length)
}
