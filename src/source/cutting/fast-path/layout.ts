// Where things stand in the memory that `recognise.wat` and its caller share, in bytes from its beginning.
import { MARKS } from '../element-marks.ts'

/** Keys up to so many bytes are compared at once: `product_surface_area` is the longest that is read. */
export const LONGEST_KEY_BYTES = 32
/** So many objects are recognised at once. */
export const ROW_COUNT = 1_000

const PAGE = 2 ** 16
/** Nothing stands at 0: as a place it says none. */
const KEYS = 64
const KEY_BYTES = 2 * LONGEST_KEY_BYTES + 16
const KEYS_END = KEYS + 3 * KEY_BYTES
const ROWS = 2 ** Math.ceil(Math.log2(KEYS_END))
const ROW_BYTES = 4 * MARKS

export const layout = {
  /** by id, time and type: the key, padded; a mask of its bytes; how many they are; how far into a row its mark stands */
  KEYS,
  KEY_MASK: LONGEST_KEY_BYTES,
  KEY_MASK_REST: LONGEST_KEY_BYTES + 16,
  KEY_LENGTH: 2 * LONGEST_KEY_BYTES,
  KEY_PLACE: 2 * LONGEST_KEY_BYTES + 4,
  KEY_BYTES,
  KEYS_END,
  /** by object: its marks, as the element's are laid out, save that the second is its end */
  ROWS,
  ROW_BYTES,
  BODY: ROWS + ROW_COUNT * ROW_BYTES,
  /** Of a key so many bytes are looked at, wherever it ends. */
  BEHIND_BODY: LONGEST_KEY_BYTES,
  PAGE,
  /** what there is at first; it grows with the body */
  PAGES: 4,
} as const
