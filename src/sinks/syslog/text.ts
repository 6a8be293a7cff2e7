// Text that others chose, made safe for a syslog message: header fields, parameter values, the message itself.
import { BACKSLASH, DEL, QUOTE, SPACE, TAB } from '../../model/ascii.ts'
import type { ByteWriter } from '../../model/writer.ts'

const BRACKET = 93
const UNDERSCORE = 95

/** Printable ASCII without a space, cut to `longest`; `-` where nothing is left. */
export function headerField(text: string, longest: number): string {
  return text.replace(/[^\x21-\x7e]/gu, '_').slice(0, longest) || '-'
}

/** A tag of RFC 3164: what may end it, a colon or a bracket, may not stand in it. */
export function tagField(text: string): string {
  return text.replace(/[^A-Za-z0-9_./-]/gu, '_').slice(0, 32)
}

/** Where the character that holds byte `at` begins; bytes that are no UTF-8 are left where they are. */
export function characterStart(bytes: Uint8Array, at: number): number {
  let start = at
  while (start > at - 3 && start > 0 && isContinuation(bytes[start])) start--
  return isContinuation(bytes[start]) ? at : start
}

const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80

/**
 * UTF-8 `bytes[start, end)` as the inside of a PARAM-VALUE: quote, backslash and bracket escaped, control characters as `_`,
 * no more than `longest` bytes of it.
 */
export function writeParam(
  out: ByteWriter,
  bytes: Uint8Array,
  start: number,
  end: number,
  longest: number,
): void {
  const until = end - start > longest ? characterStart(bytes, start + longest) : end
  out.reserve((until - start) * 2)
  const { bytes: into } = out
  let at = out.length
  for (let i = start; i < until; i++) {
    const byte = bytes[i] as number
    if (byte === QUOTE || byte === BACKSLASH || byte === BRACKET) into[at++] = BACKSLASH
    into[at++] = byte < SPACE || byte === DEL ? UNDERSCORE : byte
  }
  out.length = at
}

/**
 * Control characters of `bytes[start, end)` become spaces, save the tab, which formats separate with. JSON has none inside
 * its tokens, so an entry's own bytes stay as they are.
 */
export function neutralise(bytes: Uint8Array, start: number, end: number): void {
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number
    if (byte < SPACE && byte !== TAB) bytes[i] = SPACE
  }
}
