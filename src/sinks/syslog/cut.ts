// Where a message that is too large may be cut: never inside a character, nor inside an escape of JSON.
import { BACKSLASH } from '../../model/ascii.ts'
import { characterStart } from './text.ts'

const SMALL_U = 117
/** `\uXXXX` */
const UNICODE_BYTES = 6

/** True where byte `at` is a backslash that begins an escape: not itself the second of a pair. */
function beginsEscape(bytes: Uint8Array, at: number, from: number): boolean {
  let first = at
  while (first > from && bytes[first - 1] === BACKSLASH) first--
  return (at - first) % 2 === 0
}

/** The last backslash before `at` that could reach over it. */
function escapeBefore(bytes: Uint8Array, from: number, at: number): number | undefined {
  for (let i = at - 1; i >= from && i > at - UNICODE_BYTES; i--)
    if (bytes[i] === BACKSLASH) return beginsEscape(bytes, i, from) ? i : undefined
  return undefined
}

/** `\ud83d\ude00` is one character: a cut between its halves moves before the first. */
function pairBefore(bytes: Uint8Array, from: number, at: number): boolean {
  const start = at - UNICODE_BYTES
  if (start < from || bytes[at] !== BACKSLASH || bytes[start] !== BACKSLASH) return false
  const text = Buffer.from(bytes.subarray(start, at + UNICODE_BYTES)).toString('latin1')
  return /^\\u[dD][89abAB]..\\u[dD][c-fC-F]/.test(text) && beginsEscape(bytes, start, from)
}

/** The last place up to `limit` to cut `bytes` at, a piece having begun at `from`. */
function cutAt(bytes: Uint8Array, from: number, limit: number): number {
  if (limit >= bytes.length) return bytes.length
  let at = characterStart(bytes, limit)
  const escape = escapeBefore(bytes, from, at)
  if (escape !== undefined) {
    const length = bytes[escape + 1] === SMALL_U ? UNICODE_BYTES : 2
    if (escape + length > at) at = escape
  }
  if (pairBefore(bytes, from, at)) at -= UNICODE_BYTES
  return at > from ? at : limit
}

/** Ends of the pieces of at most `pieceBytes` each. */
export function pieceEnds(bytes: Uint8Array, pieceBytes: number): readonly number[] {
  const ends: number[] = []
  for (let at = 0; at < bytes.length;) {
    at = cutAt(bytes, at, at + pieceBytes)
    ends.push(at)
  }
  return ends
}
