// The inside of a JSON string: where its plain bytes end, and whether an escape is one; knows nothing of what stands around.
import { BACKSLASH, QUOTE, SMALL_U } from '../../model/ascii.ts'

const ONES = 0x01010101
const TWOS = 0x02020202
const LIMITS = 0x21212121
const BACKSLASHES = 0x5c5c5c5c
const HIGHS = 0x80808080

/**
 * The first byte in `bytes[at, to)` that is a quote, a backslash or a control character; `to` when there is none.
 * `words` looks at the same memory: four bytes are tested at once. Of a byte below 0x80, `(byte ^ 2) - 0x21` has its high bit
 * when the byte is a control character or the quote (`^ 2` makes 0x20 of 0x22, and 0x22 of 0x20), `(byte ^ backslash) - 1`
 * when it is the backslash; a borrow into the next byte only follows a true hit, and the lowest hit is the one that counts.
 */
export function plainEnd(bytes: Uint8Array, words: DataView, at: number, to: number): number {
  const last = to - 4
  while (at <= last) {
    const word = words.getInt32(at, true)
    const hits = (((word ^ TWOS) - LIMITS) | ((word ^ BACKSLASHES) - ONES)) & ~word & HIGHS
    if (hits !== 0) return at + ((31 - Math.clz32(hits & -hits)) >>> 3)
    at += 4
  }
  for (; at < to; at++) {
    const byte = bytes[at] as number
    if (byte === QUOTE || byte === BACKSLASH || byte < 32) return at
  }
  return to
}

/** Just after a backslash; below it: so many hex digits are still to come. */
export const ESCAPE = 5

/** What is still to come of an escape once `byte` was read: 0 nothing, -1 it is no escape. */
export function afterEscape(pending: number, byte: number): number {
  if (pending !== ESCAPE) {
    const lower = byte | 32
    const hex = (byte >= 48 && byte <= 57) || (lower >= 97 && lower <= 102)
    return hex ? pending - 1 : -1
  }
  if (byte === SMALL_U) return 4
  // b f n r t " \ /
  const known =
    byte === 110 ||
    byte === QUOTE ||
    byte === BACKSLASH ||
    byte === 47 ||
    byte === 116 ||
    byte === 114 ||
    byte === 98 ||
    byte === 102
  return known ? 0 : -1
}

/** Where the inside of a valid string that begins at `start` may be cut, `most` bytes on or soon before: within no escape and no character. */
export function cutBefore(bytes: Uint8Array, start: number, most: number): number {
  let at = start
  for (let next = at; next <= start + most; next += widthAt(bytes, at)) at = next
  while (at > start && ((bytes[at] as number) & 0xc0) === 0x80) at--
  return at
}

function widthAt(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== BACKSLASH) return 1
  return bytes[at + 1] === SMALL_U ? 6 : 2
}

/** The text of a valid string's inside, escapes decoded. */
export function decodeString(bytes: Uint8Array): string {
  const inside = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
  return JSON.parse(`"${inside}"`) as string
}
