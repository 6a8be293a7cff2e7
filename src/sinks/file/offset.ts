// The offset at which a batch begins in a file: saved in the in-flight record before the write,
// found again after a crash.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { DiskFile } from '../../contracts/platform.ts'
import { LF } from '../../core/bytes.ts'

const TAIL_BYTES = 256
const COMPARE_BYTES = 256 * 1024

/**
 * Names a file by its identity in the file system, and by the bytes before the batch: a restored
 * copy matches only by the bytes. `bytes`: size of the batch; an older version wrote none.
 */
export const offsetSchema = z.object({
  file: z.string(),
  offset: z.int().min(0),
  tail: z.string(),
  bytes: z.int().min(0).optional(),
})
export type BatchOffset = z.output<typeof offsetSchema>

async function bytesBefore(file: DiskFile, offset: number): Promise<Uint8Array> {
  const length = Math.min(TAIL_BYTES, offset)
  return length === 0 ? new Uint8Array(0) : file.read(offset - length, length)
}

const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 32)

/** The end of a file. */
export interface FileEnd {
  readonly identity: string
  readonly size: number
  /** the last bytes of the file; all of them if it is short */
  readonly tail: Uint8Array
}

export async function endOf(file: DiskFile): Promise<FileEnd> {
  const size = await file.size()
  return { identity: await file.identity(), size, tail: await bytesBefore(file, size) }
}

/** The last line lacks its LF. */
export const isTorn = ({ tail }: FileEnd): boolean => tail.length > 0 && tail.at(-1) !== LF

/** Where the next batch, of `bytes` bytes, begins. */
export const offsetAt = ({ identity, size, tail }: FileEnd, bytes: number): BatchOffset => ({
  file: identity,
  offset: size,
  tail: hash(tail),
  bytes,
})

/** The end after `bytes` are appended. */
export function endAfter({ identity, size, tail }: FileEnd, bytes: Uint8Array): FileEnd {
  const last = bytes.length < TAIL_BYTES ? Buffer.concat([tail, bytes]) : bytes
  return { identity, size: size + bytes.length, tail: Buffer.from(last.subarray(-TAIL_BYTES)) }
}

/** True if `file` reaches to the offset and the bytes before it are unchanged. */
export async function holds(file: DiskFile, start: BatchOffset): Promise<boolean> {
  if ((await file.size()) < start.offset) return false
  return hash(await bytesBefore(file, start.offset)) === start.tail
}

/** How many bytes after `offset` equal those of `bytes`. */
export async function equalPrefix(file: DiskFile, offset: number, bytes: Uint8Array): Promise<number> {
  for (let done = 0; done < bytes.length;) {
    const want = bytes.subarray(done, done + COMPARE_BYTES)
    const got = await file.read(offset + done, want.length)
    const same = commonLength(want, got)
    done += same
    if (same < want.length) return done
  }
  return bytes.length
}

/**
 * True if another writer, such as a second sink, appended meanwhile: more bytes follow the offset
 * than a torn write can leave, and they do not start with all of `batch`. They must not be cut.
 */
export async function isWrittenOn(file: DiskFile, start: BatchOffset, batch: Uint8Array): Promise<boolean> {
  const { offset, bytes } = start
  if (bytes === undefined || (await file.size()) <= offset + bytes) return false
  return (await equalPrefix(file, offset, batch)) < batch.length
}

function commonLength(a: Uint8Array, b: Uint8Array): number {
  const shorter = Math.min(a.length, b.length)
  if (Buffer.compare(a.subarray(0, shorter), b.subarray(0, shorter)) === 0) return shorter
  let same = 0
  while (a[same] === b[same]) same++
  return same
}

/**
 * For a file that the offset does not fit: where a first part of `bytes` ends the file, or
 * undefined. A batch that went to another file and was cut there continues here.
 */
export async function begunAtEnd(file: DiskFile, bytes: Uint8Array): Promise<number | undefined> {
  const size = await file.size()
  const from = Math.max(0, size - bytes.length)
  const end = await file.read(from, size - from)
  const before = from === 0 ? LF : (await file.read(from - 1, 1))[0]
  for (let at = before === LF ? 0 : end.indexOf(LF) + 1; at < end.length;) {
    const rest = end.subarray(at)
    if (Buffer.compare(rest, bytes.subarray(0, rest.length)) === 0) return from + at
    const next = end.indexOf(LF, at)
    if (next < 0) return undefined
    at = next + 1
  }
  return undefined
}
