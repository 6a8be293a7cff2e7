// Reads a JSON number or literal, which may stop after any byte and continue in the next piece,
// without its context.
import { BACKSLASH, DASH, DOT, NINE, QUOTE, SMALL_U, ZERO } from '../../core/bytes.ts'

/** The byte does not belong to the number. */
const NOT_OF_NUMBER = 0
const NUMBER_MINUS = 1
const NUMBER_ZERO = 2
const NUMBER_INTEGER = 3
const NUMBER_POINT = 4
const NUMBER_FRACTION = 5
const NUMBER_E = 6
const NUMBER_SIGN = 7
const NUMBER_EXPONENT = 8

const CLASSES = 8
const classOf = new Uint8Array(256)
classOf.fill(2, ZERO + 1, NINE + 1)
classOf[ZERO] = 1
classOf[DASH] = 3
classOf[43] = 4 // +
classOf[DOT] = 5
classOf[101] = 6 // e
classOf[69] = 6 // E

// One row per state, one column per class: other, 0, 1 to 9, -, +, point, e.
// prettier-ignore
const transitions = Uint8Array.from([
  0, 0, 0, 0, 0, 0, 0, 0,
  0, NUMBER_ZERO, NUMBER_INTEGER, 0, 0, 0, 0, 0, // minus
  0, 0, 0, 0, 0, NUMBER_POINT, NUMBER_E, 0, // zero
  0, NUMBER_INTEGER, NUMBER_INTEGER, 0, 0, NUMBER_POINT, NUMBER_E, 0, // integer
  0, NUMBER_FRACTION, NUMBER_FRACTION, 0, 0, 0, 0, 0, // point
  0, NUMBER_FRACTION, NUMBER_FRACTION, 0, 0, 0, NUMBER_E, 0, // fraction
  0, NUMBER_EXPONENT, NUMBER_EXPONENT, NUMBER_SIGN, NUMBER_SIGN, 0, 0, 0, // e
  0, NUMBER_EXPONENT, NUMBER_EXPONENT, 0, 0, 0, 0, 0, // sign
  0, NUMBER_EXPONENT, NUMBER_EXPONENT, 0, 0, 0, 0, 0, // exponent
])

/** The state after a number's first byte; NOT_OF_NUMBER: no number begins with it. */
function numberStart(byte: number): number {
  if (byte === DASH) return NUMBER_MINUS
  if (byte === ZERO) return NUMBER_ZERO
  return byte > ZERO && byte <= NINE ? NUMBER_INTEGER : NOT_OF_NUMBER
}

function numberNext(state: number, byte: number): number {
  return transitions[state * CLASSES + (classOf[byte] as number)] as number
}

function numberMayEnd(state: number): boolean {
  return (
    state === NUMBER_ZERO ||
    state === NUMBER_INTEGER ||
    state === NUMBER_FRACTION ||
    state === NUMBER_EXPONENT
  )
}

const literals = new Map(['true', 'false', 'null'].map((text) => [text.charCodeAt(0), Buffer.from(text)]))

export class JsonScalar {
  #literal: Uint8Array | undefined
  #literalRead = 0
  #number = NOT_OF_NUMBER
  /** Result of `read`: complete; invalid; may continue in the next piece. */
  state: 'whole' | 'wrong' | 'open' = 'open'

  get isNumber(): boolean {
    return this.#literal === undefined
  }

  /** True if the body may end here: no byte closes a number. */
  get mayEnd(): boolean {
    return this.isNumber && numberMayEnd(this.#number)
  }

  /** False if no scalar begins with `byte`. */
  begin(byte: number): boolean {
    this.#literal = literals.get(byte)
    this.#literalRead = 1
    this.#number = numberStart(byte)
    return this.#literal !== undefined || this.#number !== NOT_OF_NUMBER
  }

  /** Reads on; returns where it stopped: after the scalar, at a foreign byte, or at `to`. */
  read(bytes: Uint8Array, at: number, to: number): number {
    this.state = 'open'
    return this.#literal ? this.#readLiteral(this.#literal, bytes, at, to) : this.#readNumber(bytes, at, to)
  }

  #readNumber(bytes: Uint8Array, at: number, to: number): number {
    for (; at < to; at++) {
      const next = numberNext(this.#number, bytes[at] as number)
      if (next === NOT_OF_NUMBER) {
        this.state = numberMayEnd(this.#number) ? 'whole' : 'wrong'
        return at
      }
      this.#number = next
    }
    return at
  }

  #readLiteral(literal: Uint8Array, bytes: Uint8Array, at: number, to: number): number {
    for (; at < to; at++) {
      if (bytes[at] !== literal[this.#literalRead]) {
        this.state = 'wrong'
        return at
      }
      if (++this.#literalRead === literal.length) {
        this.state = 'whole'
        return at + 1
      }
    }
    return at
  }
}

// The inside of a JSON string: where plain bytes end, and whether an escape is valid.

const ONES = 0x01010101
const TWOS = 0x02020202
const LIMITS = 0x21212121
const BACKSLASHES = 0x5c5c5c5c
const HIGHS = 0x80808080

/**
 * The first byte in `bytes[at, to)` that is a quote, a backslash or a control character; `to` if
 * there is none. `words` is a view of the same memory: four bytes are tested at once. For a byte
 * below 0x80, `(byte ^ 2) - 0x21` has its high bit set if the byte is a control character or the
 * quote (`^ 2` maps 0x22 to 0x20, and 0x20 to 0x22), and `(byte ^ backslash) - 1` if it is the
 * backslash; a borrow into the next byte only follows a true hit, and the lowest hit counts.
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

/** Right after a backslash; smaller values: number of hex digits still expected. */
export const ESCAPE = 5

/** The rest of an escape after `byte`: 0 complete, -1 invalid. */
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

/**
 * Where the inside of a valid string that begins at `start` may be cut, `maxBytes` on or just
 * before: not within an escape or a character.
 */
export function cutBefore(bytes: Uint8Array, start: number, maxBytes: number): number {
  let at = start
  for (let next = at; next <= start + maxBytes; next += widthAt(bytes, at)) at = next
  while (at > start && ((bytes[at] as number) & 0xc0) === 0x80) at--
  return at
}

function widthAt(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== BACKSLASH) return 1
  return bytes[at + 1] === SMALL_U ? 6 : 2
}

/** The text of a valid string's inside, with escapes decoded. */
export function decodeString(bytes: Uint8Array): string {
  const inside = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
  return JSON.parse(`"${inside}"`) as string
}
