// The beginning of a body: whoever is at the other end says how long it is, and in how many pieces it comes.

const FIRST_BYTES = 4096

/**
 * Up to `mostBytes`; what is beyond is not read, and the connection behind it is closed. Pieces are copied together: each keeps
 * the whole block alive that it was cut from, so that a body in pieces of one byte would hold a thousand times its length.
 */
export async function readUpTo(body: AsyncIterable<Uint8Array>, mostBytes: number): Promise<Uint8Array> {
  let held = Buffer.alloc(0)
  let bytes = 0
  for await (const part of body) {
    const piece = part.subarray(0, mostBytes - bytes)
    const needed = bytes + piece.length
    if (needed > held.length) {
      const grown = Buffer.allocUnsafeSlow(
        Math.min(mostBytes, Math.max(needed, held.length * 2, FIRST_BYTES)),
      )
      held.copy(grown, 0, 0, bytes)
      held = grown
    }
    held.set(piece, bytes)
    bytes = needed
    if (bytes >= mostBytes) break
  }
  return held.subarray(0, bytes)
}
