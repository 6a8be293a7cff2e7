// An id as 16 bytes: a UUID's own, of anything else a hash.
import { DASH } from '../model/ascii.ts'
import { hash } from 'node:crypto'

export const KEY_BYTES = 16

/** Values of lower-case hexadecimal digits; 255 for every other byte. */
const hexValues = new Uint8Array(256).fill(255)
for (let value = 0; value < 16; value++) hexValues[value.toString(16).charCodeAt(0)] = value

/** Where the digits of a byte of the key stand in a UUID's text. */
const digitPlaces = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34]

export function digest(bytes: Uint8Array): Buffer {
  return hash('sha256', bytes, 'buffer').subarray(0, KEY_BYTES)
}

/** A canonical lower-case UUID becomes its 16 bytes; all else, upper case too, is another id and becomes a hash. */
export function writeKey(bytes: Uint8Array, start: number, end: number, out: Buffer, at: number): void {
  if (
    end - start === 36 &&
    bytes[start + 8] === DASH &&
    bytes[start + 13] === DASH &&
    bytes[start + 18] === DASH &&
    bytes[start + 23] === DASH
  ) {
    let seen = 0
    for (let i = 0; i < KEY_BYTES; i++) {
      const place = start + (digitPlaces[i] as number)
      const high = hexValues[bytes[place] as number] as number
      const low = hexValues[bytes[place + 1] as number] as number
      seen |= high | low
      out[at + i] = (high << 4) | low
    }
    if (seen < 16) return
  }
  out.set(digest(bytes.subarray(start, end)), at)
}
