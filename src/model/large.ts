// Memory for what is large: what is dead goes before more is taken, and nothing of it is kept by the C library.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** From here on: more than any group of ordinary entries takes, so that only huge single entries pay for it. */
const LARGE_BYTES = 8 * 1024 * 1024
/** Blocks of more than 32 MiB are mapped by the C library, each by itself, and unmapped when they are freed; of smaller ones it may keep what was freed. */
const MAPPED_BYTES = 33 * 1024 * 1024

export const isLarge = (bytes: number): boolean => bytes >= LARGE_BYTES

type Collect = (how?: { readonly type: 'minor' }) => void

let collect: Collect | undefined

/**
 * Before so many bytes are taken: what is dead goes now, some 20 ms. V8 counts the bytes of buffers late: several dead entries of
 * many megabytes would stand beside the living one.
 */
export function makeWay(bytes: number): void {
  if (!isLarge(bytes)) return
  if (!collect) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as Collect
  }
  collect()
  // A collection gives dead buffers back in a thread of its own, whenever that comes to run; the next one waits for it, and a small one takes 0.2 ms.
  collect({ type: 'minor' })
}

/** Memory of its own, not zeroed. Of what is large no page counts that was not written yet, so that room to spare costs nothing. */
export function allocate(bytes: number): Buffer<ArrayBuffer> {
  makeWay(bytes)
  if (!isLarge(bytes)) return Buffer.allocUnsafeSlow(bytes)
  return Buffer.allocUnsafeSlow(Math.max(bytes, MAPPED_BYTES)).subarray(0, bytes)
}

/** Gives its memory back at once. Nothing may be reading `bytes` any more, in whatever thread: of a view nothing is left. */
export function release({ buffer }: Buffer<ArrayBuffer>): void {
  buffer.transfer(0)
}
