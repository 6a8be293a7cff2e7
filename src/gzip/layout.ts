// Where things stand in the memory that `deflate.wat` and its callers share, in bytes from its beginning.

/** The most of a body that is packed in one block: 1 MiB. */
export const PIECE_BYTES = 2 ** 20

const PAGE = 2 ** 16
const PLACES = PAGE
const SOURCE = PLACES + 2 * PAGE
/** What is compared eight bytes at a time looks past a piece's end. */
const SOURCE_END = SOURCE + PIECE_BYTES + 8
const TOKENS = SOURCE_END + 8
/** A token is four bytes, and at worst each byte is one; the last one ends the block. */
const OUTPUT = TOKENS + 4 * (PIECE_BYTES + 1) + 4

/** Tables hold four bytes a symbol; `LENGTH_SLOTS` two a length. */
export const layout = {
  /** how often each literal or length occurs (286), and each distance (30) */
  LITERAL_COUNTS: 1024,
  DISTANCE_COUNTS: 3072,
  /** their codes: as they are written, the first bit lowest, with their lengths in the upper half */
  LITERAL_CODES: 4096,
  DISTANCE_CODES: 6144,
  /** of each length up to 258, where in the tables of literals its symbol stands: four times that */
  LENGTH_SLOTS: 8192,
  /** of each length's symbol, at four times that: the first length it stands for, and how many bits say which */
  LENGTH_BASES: 10240,
  LENGTH_EXTRAS: 12288,
  /** of each distance's symbol: how many bits say which */
  DISTANCE_EXTRAS: 14336,
  /** by six bytes, hashed to 15 bits: where they stood last */
  PLACES,
  SOURCE,
  TOKENS,
  OUTPUT,
  /**
   * A block's codes are at least as short on average as those of nine bits a byte that would do for any; what is longer than
   * fifteen bits costs a little. So twice a piece is never reached.
   */
  PAGES: Math.ceil((OUTPUT + 2 * PIECE_BYTES) / PAGE),
} as const
