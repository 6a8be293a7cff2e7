// Memory for what is large. V8 counts the bytes of buffers late: several dead entries of many megabytes would stand beside the living one.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** From here on: more than any group of ordinary entries takes, so that only huge single entries pay for it. */
const LARGE_BYTES = 8 * 1024 * 1024

type Collect = (how?: { readonly type: 'minor' }) => void

let collect: Collect | undefined

/** Before so many bytes are taken: what is dead goes now, some 20 ms. */
export function makeWay(bytes: number): void {
  if (bytes < LARGE_BYTES) return
  if (!collect) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as Collect
  }
  collect()
  // A collection gives dead buffers back in a thread of its own, whenever that comes to run; the next one waits for it, and a small one takes 0.2 ms.
  collect({ type: 'minor' })
}

/** Memory of its own, not zeroed. */
export function allocate(bytes: number): Buffer<ArrayBuffer> {
  makeWay(bytes)
  return Buffer.allocUnsafeSlow(bytes)
}
