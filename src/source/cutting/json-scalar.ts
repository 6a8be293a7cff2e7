// A number or a literal of JSON, which can stop after any byte and go on in the next piece; knows nothing of what stands around.
import { DASH, DOT, NINE, ZERO } from '../../model/ascii.ts'

/** The byte does not belong to the number. */
const NOT_OF_NUMBER = 0
const NUMBER_MINUS = 1
const NUMBER_ZERO = 2
const NUMBER_WHOLE = 3
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

// One row a state, one column a class: other, 0, 1 to 9, -, +, point, e.
// prettier-ignore
const transitions = Uint8Array.from([
  0, 0, 0, 0, 0, 0, 0, 0,
  0, NUMBER_ZERO, NUMBER_WHOLE, 0, 0, 0, 0, 0, // minus
  0, 0, 0, 0, 0, NUMBER_POINT, NUMBER_E, 0, // zero
  0, NUMBER_WHOLE, NUMBER_WHOLE, 0, 0, NUMBER_POINT, NUMBER_E, 0, // whole
  0, NUMBER_FRACTION, NUMBER_FRACTION, 0, 0, 0, 0, 0, // point
  0, NUMBER_FRACTION, NUMBER_FRACTION, 0, 0, 0, NUMBER_E, 0, // fraction
  0, NUMBER_EXPONENT, NUMBER_EXPONENT, NUMBER_SIGN, NUMBER_SIGN, 0, 0, 0, // e
  0, NUMBER_EXPONENT, NUMBER_EXPONENT, 0, 0, 0, 0, 0, // sign
  0, NUMBER_EXPONENT, NUMBER_EXPONENT, 0, 0, 0, 0, 0, // exponent
])

/** The state after a number's first byte; NOT_OF_NUMBER: a number cannot begin so. */
function numberStart(byte: number): number {
  if (byte === DASH) return NUMBER_MINUS
  if (byte === ZERO) return NUMBER_ZERO
  return byte > ZERO && byte <= NINE ? NUMBER_WHOLE : NOT_OF_NUMBER
}

function numberNext(state: number, byte: number): number {
  return transitions[state * CLASSES + (classOf[byte] as number)] as number
}

function numberMayEnd(state: number): boolean {
  return (
    state === NUMBER_ZERO || state === NUMBER_WHOLE || state === NUMBER_FRACTION || state === NUMBER_EXPONENT
  )
}

const literals = new Map(['true', 'false', 'null'].map((text) => [text.charCodeAt(0), Buffer.from(text)]))

export class JsonScalar {
  #literal: Uint8Array | undefined
  #literalRead = 0
  #number = NOT_OF_NUMBER
  /** What `read` saw: it is over; it is none; it may go on in the next piece. */
  state: 'whole' | 'wrong' | 'open' = 'open'

  get isNumber(): boolean {
    return this.#literal === undefined
  }

  /** True where the body may end here: a number has no byte that closes it. */
  get mayEnd(): boolean {
    return this.isNumber && numberMayEnd(this.#number)
  }

  /** False where no scalar begins with `byte`. */
  begin(byte: number): boolean {
    this.#literal = literals.get(byte)
    this.#literalRead = 1
    this.#number = numberStart(byte)
    return this.#literal !== undefined || this.#number !== NOT_OF_NUMBER
  }

  /** Reads on; answers where it stopped: behind the scalar, at the byte that is none of its own, or at `to`. */
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
