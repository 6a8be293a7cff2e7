// Where things stand in the memory that `deflate.wat` and its callers share, in bytes from its beginning.

/** The most of a body that is packed in one block: 1 MiB. */
export const PIECE_BYTES = 2 ** 20

const PAGE = 2 ** 16
const PLACES = PAGE
const PLACES_BYTES = 2 * PAGE
const SOURCE = PLACES + PLACES_BYTES
/** What is compared eight bytes at a time looks up to eight bytes past a piece's end. */
const TOKENS = SOURCE + PIECE_BYTES + 8
/** A token is four bytes, and at worst each byte is one; the last one ends the block. */
const OUTPUT = TOKENS + 4 * (PIECE_BYTES + 1) + 4

/** A literal's symbol is a byte, 256 for the end of a block, or 257 and more for a length; there are 286. Of distances there are 30. */
export const LITERALS = 286
export const DISTANCES = 30

/** Tables hold four bytes a symbol; `LENGTH_SLOTS` holds two a length. */
export const layout = {
  /** by symbol: how often it occurs */
  LITERAL_COUNTS: 1024,
  LITERAL_COUNTS_BYTES: 4 * LITERALS,
  DISTANCE_COUNTS: 3072,
  DISTANCE_COUNTS_BYTES: 4 * DISTANCES,
  /** by symbol: its code, the first bit lowest, and from bit 16 on how many bits that has */
  LITERAL_CODES: 4096,
  DISTANCE_CODES: 6144,
  /** by length, 3 to 258: four times its symbol, which is where that stands in the tables of literals */
  LENGTH_SLOTS: 8192,
  /** by a length's symbol: the shortest length that it stands for */
  LENGTH_BASES: 10240,
  /** by symbol: how many bits behind its code say which of its lengths, or distances, it is */
  LENGTH_EXTRAS: 12288,
  DISTANCE_EXTRAS: 14336,
  /** by six bytes, hashed to 15 bits: where they stood last */
  PLACES,
  PLACES_BYTES,
  SOURCE,
  TOKENS,
  OUTPUT,
  /**
   * A block's codes are at least as short on average as those of nine bits a byte that would do for any; what is longer than
   * fifteen bits costs a little. So twice a piece is never reached.
   */
  PAGES: Math.ceil((OUTPUT + 2 * PIECE_BYTES) / PAGE),
} as const
