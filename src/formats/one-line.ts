// Makes text and JSON of an entry fit for one field of one line: no control character, and nothing
// that ends a line.
import { BACKSLASH, DEL, EQUALS, QUESTION_MARK, SMALL_U, SPACE } from '../core/bytes.ts'
import type { ByteWriter } from '../core/bytes.ts'

/** Not allowed in a line: control characters, Unicode's two line separators, lone surrogates. */
const forbidden = /[\p{Cc}\p{Cs}\u2028\u2029]/gu

/** Replaces each such character with `\u` and four hex digits, except those in `keep`. */
export function neutralText(text: string, keep: string): string {
  return text.replace(forbidden, (found) => (keep.includes(found) ? found : escapeOf(found.charCodeAt(0))))
}

function escapeOf(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`
}

/** Upper bound of the encoded size of one character of a string. */
const WRITTEN_BYTES = 6

/**
 * Decodes the string `raw[start, end)`, which includes its quotes: whole, or more than `longest`
 * characters of it. Only the beginning of a very long string is decoded.
 */
export function textAt(raw: Uint8Array, start: number, end: number, longest: number): string {
  const enough = start + 1 + (longest + 2) * WRITTEN_BYTES
  const until = end - 1 > enough + WRITTEN_BYTES ? cutAt(raw, start + 1, enough) : end - 1
  const inside = Buffer.from(raw.buffer, raw.byteOffset + start + 1, until - start - 1)
  const text = inside.toString()
  return inside.includes(BACKSLASH) ? (JSON.parse(`"${text}"`) as string) : text
}

/** A position at or just after `least` that is not inside an escape. */
function cutAt(raw: Uint8Array, from: number, least: number): number {
  let at = from
  while (at < least) {
    if (raw[at] !== BACKSLASH) at++
    else at += raw[at + 1] === SMALL_U ? 6 : 2
  }
  return at
}

/** Printable ASCII without escapes or spaces at the ends: copied as it is. */
export function isPlain(raw: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) {
    const byte = raw[i] as number
    if (byte < SPACE || byte >= DEL || byte === BACKSLASH || byte === EQUALS) return false
  }
  return raw[start] !== SPACE && raw[end - 1] !== SPACE
}

/** The longest encoding of one character: `\\u007f`. */
const MAX_ENCODED_BYTES = 7
const STRIDE = 4096
/** One byte can become seven: this bounds the memory for an entry made of such characters. */
const MAX_ESCAPES = 1 << 20

/**
 * Writes the JSON `raw[start, end)` on one line with the same meaning: white space between tokens
 * becomes spaces, and characters not allowed in a line become JSON escapes (after the first million
 * of them question marks, because memory is bounded). With `escapes`, a backslash precedes each `\`
 * and `=`.
 */
export function writeJson(
  out: ByteWriter,
  raw: Uint8Array,
  start: number,
  end: number,
  escapes: boolean,
): void {
  out.reserve(end - start + STRIDE * MAX_ENCODED_BYTES)
  let left = MAX_ESCAPES
  let until = start
  let { bytes: into, length: to } = out
  for (let i = start; i < end; i++) {
    if (i >= until) {
      out.length = to
      out.reserve(Math.min(end - i, STRIDE) * MAX_ENCODED_BYTES)
      into = out.bytes
      until = i + STRIDE
    }
    const byte = raw[i] as number
    if (byte === BACKSLASH || byte === EQUALS) {
      if (escapes) into[to++] = BACKSLASH
      into[to++] = byte
    } else if (byte < DEL || (byte > DEL && byte !== 0xc2 && byte !== 0xe2)) {
      into[to++] = byte < SPACE ? SPACE : byte
    } else {
      const unit = forbiddenAt(raw, i)
      if (unit === 0) into[to++] = byte
      else {
        if (left-- > 0) {
          if (escapes) into[to++] = BACKSLASH
          to += into.write(escapeOf(unit), to)
        } else into[to++] = QUESTION_MARK
        i += unit < 0x80 ? 0 : unit < 0x800 ? 1 : 2
      }
    }
  }
  out.length = to
}

/** Length of a DEL, C1 control character or Unicode line separator at `at`; 0 if there is none. */
function forbiddenAt(raw: Uint8Array, at: number): number {
  const byte = raw[at] as number
  const second = raw[at + 1] as number
  if (byte === DEL) return DEL
  if (byte === 0xc2) return second < 0xa0 ? second : 0
  if (byte !== 0xe2 || second !== 0x80) return 0
  const third = raw[at + 2] as number
  return third === 0xa8 || third === 0xa9 ? 0x2028 + third - 0xa8 : 0
}
