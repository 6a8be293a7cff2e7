// The steps of the file sink on its files: rotate, end the last line, write and sync, close after
// an error.
import type { DiskFile } from '../../contracts/platform.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import { endOf, type FileEnd, isTorn } from './offset.ts'
import { LF } from '../../core/bytes.ts'

export const closeQuietly = (file: DiskFile): Promise<void> => file.close().catch(() => undefined)

/** Runs `work`, and closes `file` if it throws. */
export async function closedOnThrow<T>(file: DiskFile, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await closeQuietly(file)
    throw error
  }
}

/** Shifts path.1, path.2, … up to the first free name. A crash in between loses nothing. */
export async function rotate(
  { disk, log }: Pick<SinkDeps, 'disk' | 'log'>,
  path: string,
  keep: number,
): Promise<void> {
  let free = 1
  while (free < keep && (await disk.exists(`${path}.${free}`))) free++
  const oldest = `${path}.${keep}`
  const isRemoved = free === keep && (await disk.exists(oldest))
  for (let at = free; at > 1; at--) await disk.rename(`${path}.${at - 1}`, `${path}.${at}`)
  await disk.rename(path, `${path}.1`)
  if (isRemoved) log.info('The oldest rotated file was removed (rotate.keep)', { file: oldest, keep })
}

/** Another program may have left the last line without an LF: adds one before ours. */
export async function endLine(file: DiskFile): Promise<FileEnd> {
  const end = await endOf(file)
  if (!isTorn(end)) return end
  try {
    await file.write(Uint8Array.of(LF), end.size)
    await file.sync()
  } catch (error) {
    // An LF that was not synced is removed, so that the next try does not trust it.
    await file.truncate(end.size).catch(() => undefined)
    throw error
  }
  return endOf(file)
}

/** Resolves when the bytes are synced. On a full disk it removes its torn line. */
export async function writeWhole(file: DiskFile, bytes: Uint8Array, offset: number): Promise<void> {
  try {
    await file.write(bytes, offset)
    await file.sync()
  } catch (error) {
    const full = error instanceof ConnectorError && error.code === 'disk_full'
    if (full) await file.truncate(offset).catch(() => undefined)
    throw error
  }
}
