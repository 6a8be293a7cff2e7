// Where things stand in the memory that `recognise.wat` and its caller share, in bytes from its beginning, and what its text calls by name.
import * as ascii from '../../../model/ascii.ts'
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

/** Four letters of a literal as they stand in memory. */
const word = (text: string) => Buffer.from(text).readUInt32LE()

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

/** What stands in the text for bytes of JSON. */
export const letters = {
  ...ascii,
  PLUS: 43,
  SLASH: 47,
  /** with the bit that a small letter has and a capital one has not */
  SMALL_A: 97,
  SMALL_B: 98,
  SMALL_E: 101,
  SMALL_F: 102,
  SMALL_N: 110,
  SMALL_R: 114,
  SMALL_T: 116,
  SMALL: 32,
  TRUE: word('true'),
  NULL: word('null'),
  ALSE: word('alse'),
}
