// The beginning of a body: whoever is at the other end says how long it is.

/** Up to `mostBytes`; what is beyond is not read, and the connection behind it is closed. */
export async function readUpTo(body: AsyncIterable<Uint8Array>, mostBytes: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body) {
    parts.push(part.subarray(0, mostBytes - bytes))
    bytes += part.length
    if (bytes >= mostBytes) break
  }
  return Buffer.concat(parts)
}
