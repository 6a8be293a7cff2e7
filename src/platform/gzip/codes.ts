// Huffman codes for counted symbols: the length and the bits of each (RFC 1951 §3.2.2).
// Buffers are reused, and no loop allocates objects: a batch has three such codes, and a collection
// has nothing else to examine.

/** Symbols are below this. */
const SYMBOLS = 512
const MAX_CODE_BITS = 15

/**
 * By node of the Huffman tree, with the symbols that occur first, rarest first: the count below the
 * node, its parent, then its depth.
 */
const weights = new Uint32Array(2 * SYMBOLS)
const parents = new Uint16Array(2 * SYMBOLS)
const keys = new Uint32Array(SYMBOLS)
/** by length: how many codes have it, without the length limit */
const numberOf = new Uint32Array(SYMBOLS)
const next = new Uint32Array(MAX_CODE_BITS + 2)

/**
 * The code length of each symbol, 0 for one that does not occur. A single occurring symbol has one
 * bit. `counts`: at most 512 of them, their sum below 2^23. `longest`: in bits, at least enough for
 * this many symbols.
 */
export function codeLengths(counts: Uint32Array, longest: number): Uint8Array {
  const lengths = new Uint8Array(counts.length)
  const used = sortKeys(counts)
  if (used === 1) lengths[symbolAt(0)] = 1
  if (used < 2) return lengths
  countByLength(used)
  shorten(longest)
  let left = used
  for (let bits = 1; bits <= longest; bits++)
    for (let number = numberOf[bits] as number; number > 0; number--) lengths[symbolAt(--left)] = bits
  return lengths
}

/** Puts the occurring symbols into `keys`, rarest first; returns how many. */
function sortKeys(counts: Uint32Array): number {
  let used = 0
  for (let symbol = 0; symbol < counts.length; symbol++) {
    const count = counts[symbol] as number
    if (count > 0) keys[used++] = count * SYMBOLS + symbol
  }
  keys.subarray(0, used).sort()
  return used
}

const symbolAt = (rank: number) => (keys[rank] as number) % SYMBOLS

/** Counts codes per length in the Huffman tree: joins the two rarest nodes until one is left. */
function countByLength(leaves: number): void {
  const nodes = 2 * leaves - 1
  for (let leaf = 0; leaf < leaves; leaf++) weights[leaf] = Math.floor((keys[leaf] as number) / SYMBOLS)
  let leaf = 0
  // Joined nodes are created rarest first, so both are queues.
  let joined = leaves
  for (let made = leaves; made < nodes; made++) {
    let sum = 0
    for (let half = 0; half < 2; half++) {
      const takesLeaf =
        leaf < leaves && (joined === made || (weights[leaf] as number) <= (weights[joined] as number))
      const taken = takesLeaf ? leaf++ : joined++
      sum += weights[taken] as number
      parents[taken] = made
    }
    weights[made] = sum
  }
  numberOf.fill(0)
  const depths = parents
  depths[nodes - 1] = 0
  for (let node = nodes - 2; node >= 0; node--) {
    const bits = (depths[parents[node] as number] as number) + 1
    depths[node] = bits
    if (node < leaves) numberOf[bits] = (numberOf[bits] as number) + 1
  }
}

/**
 * Limits codes to `longest` bits and keeps their number: longer codes are cut, and for the code
 * space that this exceeds, one code is lengthened by a bit and shares its place with one of the
 * longest, as often as needed.
 */
function shorten(longest: number): void {
  let taken = 0
  for (let bits = 1; bits < SYMBOLS; bits++) {
    const number = numberOf[bits] as number
    if (number === 0) continue
    const cut = Math.min(bits, longest)
    taken += number * 2 ** (longest - cut)
    if (bits > longest) numberOf[longest] = (numberOf[longest] as number) + number
  }
  for (; taken > 2 ** longest; taken--) {
    let bits = longest - 1
    while (numberOf[bits] === 0) bits--
    numberOf[longest] = (numberOf[longest] as number) - 1
    numberOf[bits] = (numberOf[bits] as number) - 1
    numberOf[bits + 1] = (numberOf[bits + 1] as number) + 2
  }
}

/**
 * Writes the code of each symbol: its bits in output order, the first of them lowest, and its
 * length above bit 16.
 */
export function assignCodes(lengths: Uint8Array, to: Uint32Array): void {
  next.fill(0)
  for (let symbol = 0; symbol < lengths.length; symbol++) {
    const bits = lengths[symbol] as number
    if (bits > 0) next[bits + 1] = (next[bits + 1] as number) + 1
  }
  for (let bits = 1; bits <= MAX_CODE_BITS; bits++)
    next[bits + 1] = ((next[bits] as number) + (next[bits + 1] as number)) << 1
  for (let symbol = 0; symbol < lengths.length; symbol++) {
    const bits = lengths[symbol] as number
    const code = next[bits] as number
    next[bits] = code + 1
    to[symbol] = reversed(code, bits) | (bits << 16)
  }
}

function reversed(code: number, bits: number): number {
  let backwards = 0
  for (let bit = 0; bit < bits; bit++) backwards |= ((code >> bit) & 1) << (bits - 1 - bit)
  return backwards
}
