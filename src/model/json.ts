// Bytes into a JSON string: what formats and frames share when they write text that others chose.
import { BACKSLASH, QUOTE } from './ascii.ts'
import type { ByteWriter } from './writer.ts'

const HEX = Buffer.from('0123456789abcdef')

/** Writes UTF-8 `bytes[start, end)` as the inside of a JSON string, without its quotes. */
export function writeEscaped(out: ByteWriter, bytes: Uint8Array, start: number, end: number): void {
  out.reserve((end - start) * 6)
  const { bytes: into } = out
  let at = out.length
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number
    if (byte >= 32 && byte !== QUOTE && byte !== BACKSLASH) {
      into[at++] = byte
    } else {
      into[at++] = BACKSLASH
      if (byte >= 32) {
        into[at++] = byte
      } else {
        at += into.write('u00', at)
        into[at++] = HEX[byte >> 4] as number
        into[at++] = HEX[byte & 15] as number
      }
    }
  }
  out.length = at
}
