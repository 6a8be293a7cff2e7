// Bytes into a JSON string: what formats and frames share when they write text that others chose.
import { BACKSLASH, QUOTE, SPACE } from './ascii.ts'
import type { ByteWriter } from './writer.ts'

const HEX = Buffer.from('0123456789abcdef')
const UNICODE = Buffer.from('\\u00')

/** The longest that one byte becomes: `\u001f`. */
const LONGEST = 6
/** A huge text is escaped in pieces of this size: at once, six times its length would have to be reserved. */
const PIECE_BYTES = 64 * 1024

/** Writes UTF-8 `bytes[start, end)` as the inside of a JSON string, without its quotes. */
export function writeEscaped(out: ByteWriter, bytes: Uint8Array, start: number, end: number): void {
  for (let from = start; from < end; from += PIECE_BYTES)
    writePiece(out, bytes, from, Math.min(end, from + PIECE_BYTES))
}

function writePiece(out: ByteWriter, bytes: Uint8Array, start: number, end: number): void {
  out.reserve((end - start) * LONGEST)
  const { bytes: into } = out
  let at = out.length
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number
    if (byte < SPACE) {
      at += UNICODE.copy(into, at)
      into[at++] = HEX[byte >> 4] as number
      into[at++] = HEX[byte & 15] as number
    } else {
      if (byte === QUOTE || byte === BACKSLASH) into[at++] = BACKSLASH
      into[at++] = byte
    }
  }
  out.length = at
}

/** What stands in `out` from `from` on, UTF-8, becomes a JSON string where it stands, from its end to its start: a huge line has no copy beside it. */
export function quote(out: ByteWriter, from: number): void {
  const until = out.length
  let more = 1
  for (let i = from; i < until; i++) more += writtenBytes(out.bytes[i] as number) - 1
  out.reserve(more + 1)
  const { bytes } = out
  let to = until + more
  bytes[to] = QUOTE
  out.length = to + 1
  for (let i = until - 1; i >= from; i--) {
    const byte = bytes[i] as number
    if (byte < SPACE) {
      bytes[--to] = HEX[byte & 15] as number
      bytes[--to] = HEX[byte >> 4] as number
      to -= UNICODE.length
      UNICODE.copy(bytes, to)
    } else {
      bytes[--to] = byte
      if (byte === QUOTE || byte === BACKSLASH) bytes[--to] = BACKSLASH
    }
  }
  bytes[from] = QUOTE
}

function writtenBytes(byte: number): number {
  if (byte < SPACE) return LONGEST
  return byte === QUOTE || byte === BACKSLASH ? 2 : 1
}
