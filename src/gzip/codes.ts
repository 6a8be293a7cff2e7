// Huffman's codes for symbols that were counted: how long each is to be, and what it is (RFC 1951 §3.2.2).

/** A symbol is less than this. */
const SYMBOLS = 512

/**
 * The length of each symbol's code, 0 for what does not occur. What occurs alone has one bit.
 * `counts`: at most 512 of them, their sum below 2^23. `longest`: in bits, at least what so many symbols need.
 */
export function codeLengths(counts: Uint32Array, longest: number): Uint8Array {
  const lengths = new Uint8Array(counts.length)
  const rarestFirst = sortedSymbols(counts)
  if (rarestFirst.length === 1) lengths[rarestFirst[0] ?? 0] = 1
  if (rarestFirst.length < 2) return lengths
  const numberOf = shortened(codesByLength(rarestFirst, counts), longest)
  let next = rarestFirst.length
  for (let bits = 1; bits <= longest; bits++)
    for (let left = numberOf[bits] ?? 0; left > 0; left--) lengths[rarestFirst[--next] ?? 0] = bits
  return lengths
}

function sortedSymbols(counts: Uint32Array): Uint32Array {
  const keys = new Uint32Array(counts.length)
  let used = 0
  for (const [symbol, count] of counts.entries()) if (count > 0) keys[used++] = count * SYMBOLS + symbol
  return keys
    .subarray(0, used)
    .sort()
    .map((key) => key % SYMBOLS)
}

/** How many codes have how many bits in Huffman's tree: of what is left the two rarest are joined until one is left. */
function codesByLength(rarestFirst: Uint32Array, counts: Uint32Array): Uint32Array {
  const leaves = rarestFirst.length
  const weights = new Uint32Array(2 * leaves - 1)
  const parents = new Uint32Array(2 * leaves - 1)
  for (const [leaf, symbol] of rarestFirst.entries()) weights[leaf] = counts[symbol] ?? 0
  let leaf = 0
  // Joined ones come into being the rarest first, so both are queues.
  let joined = leaves
  for (let made = leaves; made < weights.length; made++) {
    for (let half = 0; half < 2; half++) {
      const takesLeaf = leaf < leaves && (joined === made || (weights[leaf] ?? 0) <= (weights[joined] ?? 0))
      const taken = takesLeaf ? leaf++ : joined++
      weights[made] = (weights[made] ?? 0) + (weights[taken] ?? 0)
      parents[taken] = made
    }
  }
  const depth = new Uint8Array(weights.length)
  const numberOf = new Uint32Array(leaves)
  for (let node = weights.length - 2; node >= 0; node--) {
    const bits = (depth[parents[node] ?? 0] ?? 0) + 1
    depth[node] = bits
    if (node < leaves) numberOf[bits] = (numberOf[bits] ?? 0) + 1
  }
  return numberOf
}

/**
 * No code longer than `longest`, and as many codes: what was longer is cut, and for the room that this took too much, one code
 * is lengthened by a bit and shares its place with one of the longest, as often as needed.
 */
function shortened(numberOf: Uint32Array, longest: number): Uint32Array {
  const fitting = new Uint32Array(longest + 1)
  let taken = 0
  for (const [bits, number] of numberOf.entries()) {
    const cut = Math.min(bits, longest)
    fitting[cut] = (fitting[cut] ?? 0) + number
    taken += number * 2 ** (longest - cut)
  }
  for (; taken > 2 ** longest; taken--) {
    let bits = longest - 1
    while (fitting[bits] === 0) bits--
    fitting[longest] = (fitting[longest] ?? 0) - 1
    fitting[bits] = (fitting[bits] ?? 0) - 1
    fitting[bits + 1] = (fitting[bits + 1] ?? 0) + 2
  }
  return fitting
}

/** Writes the code of each symbol: its bits as they are written, the first of them lowest, and its length above bit 16. */
export function assignCodes(lengths: Uint8Array, to: Uint32Array): void {
  const numberOf = new Uint32Array(16)
  for (const bits of lengths) numberOf[bits] = (numberOf[bits] ?? 0) + 1
  const next = new Uint32Array(16)
  for (let bits = 1; bits < 15; bits++) next[bits + 1] = ((next[bits] ?? 0) + (numberOf[bits] ?? 0)) << 1
  for (const [symbol, bits] of lengths.entries()) {
    const code = next[bits] ?? 0
    next[bits] = code + 1
    to[symbol] = reversed(code, bits) | (bits << 16)
  }
}

function reversed(code: number, bits: number): number {
  let backwards = 0
  for (let bit = 0; bit < bits; bit++) backwards |= ((code >> bit) & 1) << (bits - 1 - bit)
  return backwards
}
