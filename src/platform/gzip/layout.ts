// Layout of the memory that `deflate.wat` and its callers share: byte offsets.

/** The largest part of a body that is compressed as one block: 1 MiB. */
export const PIECE_BYTES = 2 ** 20

const PAGE = 2 ** 16
const PLACES = PAGE
const PLACES_BYTES = 2 * PAGE
const SOURCE = PLACES + PLACES_BYTES
/** Comparing eight bytes at a time reads up to eight bytes past a piece's end. */
const TOKENS = SOURCE + PIECE_BYTES + 8
/** A token is four bytes, and at worst each byte is one; the last one ends the block. */
const OUTPUT = TOKENS + 4 * (PIECE_BYTES + 1) + 4

/**
 * A literal's symbol is a byte, 256 for the end of a block, or 257 and more for a length; there are
 * 286. Distances have 30.
 */
export const LITERALS = 286
export const DISTANCES = 30

/** Tables have four bytes per symbol; `LENGTH_SLOTS` has two per length. */
export const layout = {
  /** by symbol: how often it occurs */
  LITERAL_COUNTS: 1024,
  LITERAL_COUNTS_BYTES: 4 * LITERALS,
  DISTANCE_COUNTS: 3072,
  DISTANCE_COUNTS_BYTES: 4 * DISTANCES,
  /** by symbol: its code, the first bit lowest, and from bit 16 on how many bits that has */
  LITERAL_CODES: 4096,
  DISTANCE_CODES: 6144,
  /** by length, 3 to 258: four times its symbol, which is its offset in the tables of literals */
  LENGTH_SLOTS: 8192,
  /** by a length's symbol: the shortest length that it represents */
  LENGTH_BASES: 10240,
  /** by symbol: the number of extra bits after its code, which select a length or distance */
  LENGTH_EXTRAS: 12288,
  DISTANCE_EXTRAS: 14336,
  /** by six bytes, hashed to 15 bits: their last position */
  PLACES,
  PLACES_BYTES,
  SOURCE,
  TOKENS,
  OUTPUT,
  /**
   * On average a block's codes are at most as long as fixed codes of nine bits per byte; the limit
   * of fifteen bits costs a little. So twice a piece is never reached.
   */
  PAGES: Math.ceil((OUTPUT + 2 * PIECE_BYTES) / PAGE),
} as const
