// The beginning of a body: whoever is at the other end says how long it is.
import { Pieces } from '../model/pieces.ts'

/** Up to `mostBytes`; what is beyond is not read, and the connection behind it is closed. */
export async function readUpTo(body: AsyncIterable<Uint8Array>, mostBytes: number): Promise<Uint8Array> {
  const pieces = new Pieces()
  for await (const piece of body) {
    pieces.add(piece.subarray(0, mostBytes - pieces.length))
    if (pieces.length >= mostBytes) break
  }
  return pieces.whole()
}
