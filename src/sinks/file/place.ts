// Where a batch begins in a file: written into its intent before the batch, found again after a crash.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { DiskFile } from '../../contracts/platform.ts'
import { LF } from '../../core/bytes.ts'
import { jsonOf } from '../../core/json.ts'

const TAIL_BYTES = 256
const COMPARE_BYTES = 256 * 1024

/**
 * A file by the file system's own identity, and by what stood before the batch: a restored copy has the second only. `bytes`: how
 * many the batch has; an older version wrote none.
 */
const placeSchema = z.object({
  file: z.string(),
  offset: z.int().min(0),
  tail: z.string(),
  bytes: z.int().min(0).optional(),
})
export type Place = z.output<typeof placeSchema>

/** Undefined for a text that is not of our making: another version's, or none. */
export function readPlace(detail: string): Place | undefined {
  return jsonOf(placeSchema, detail)
}

async function bytesBefore(file: DiskFile, offset: number): Promise<Uint8Array> {
  const length = Math.min(TAIL_BYTES, offset)
  return length === 0 ? new Uint8Array(0) : file.read(offset - length, length)
}

const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 32)

/** Where a file ends. */
export interface FileEnd {
  readonly identity: string
  readonly size: number
  /** the last bytes before it, all of a short file */
  readonly tail: Uint8Array
}

export async function endOf(file: DiskFile): Promise<FileEnd> {
  const size = await file.size()
  return { identity: await file.identity(), size, tail: await bytesBefore(file, size) }
}

/** The last line lacks its LF. */
export const isTorn = ({ tail }: FileEnd): boolean => tail.length > 0 && tail.at(-1) !== LF

/** Where the next batch, of `bytes` bytes, begins. */
export const placeAt = ({ identity, size, tail }: FileEnd, bytes: number): Place => ({
  file: identity,
  offset: size,
  tail: hash(tail),
  bytes,
})

/** The end once `bytes` stand behind it. */
export function endAfter({ identity, size, tail }: FileEnd, bytes: Uint8Array): FileEnd {
  const last = bytes.length < TAIL_BYTES ? Buffer.concat([tail, bytes]) : bytes
  return { identity, size: size + bytes.length, tail: Buffer.from(last.subarray(-TAIL_BYTES)) }
}

/** True when `file` reaches to the place and what stands before it is what stood there. */
export async function holds(file: DiskFile, place: Place): Promise<boolean> {
  if ((await file.size()) < place.offset) return false
  return hash(await bytesBefore(file, place.offset)) === place.tail
}

/** How many bytes behind `offset` are those of `bytes`. */
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
 * More stands behind the place than a torn write of its batch can be, and not first the whole of `batch`, its bytes now: another
 * one has written there meanwhile, such as a sink of another name, and nothing of that is ours to cut.
 */
export async function isWrittenOn(file: DiskFile, place: Place, batch: Uint8Array): Promise<boolean> {
  const { offset, bytes } = place
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
 * In a file that the place does not fit: where a first part of `bytes` stands at the very end, or undefined. So a batch
 * that had to go to a strange file and was cut there goes on where it stopped.
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
