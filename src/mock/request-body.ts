// The body of a request, held whole under a bound.

/** Undefined when it is longer than `bound`; the rest is left unread. */
export async function heardBody(
  given: Uint8Array | AsyncIterable<Uint8Array>,
  bound: number,
): Promise<Uint8Array | undefined> {
  if (given instanceof Uint8Array) return given.length > bound ? undefined : given
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of given) {
    bytes += piece.length
    if (bytes > bound) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
