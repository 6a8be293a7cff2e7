// A number or a literal of JSON, which can stop after any byte and go on in the next piece; knows nothing of what stands around.

/** No further byte belongs to the number. */
const NUMBER_DONE = 0
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
classOf.fill(2, 49, 58)
classOf[48] = 1 // 0
classOf[45] = 3 // -
classOf[43] = 4 // +
classOf[46] = 5 // .
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

/** The state after a number's first byte; NUMBER_DONE: a number cannot begin so. */
function numberStart(byte: number): number {
  if (byte === 45) return NUMBER_MINUS
  if (byte === 48) return NUMBER_ZERO
  return byte > 48 && byte <= 57 ? NUMBER_WHOLE : NUMBER_DONE
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
  /** the state of a number; how much was read of a literal */
  #state = NUMBER_DONE
  /** Of what `read` saw: the scalar is over. Else it is to go on in the next piece, or where it stopped it is none. */
  isDone = false
  isWrong = false

  get isNumber(): boolean {
    return this.#literal === undefined
  }

  /** Could it be over where the body is? */
  get mayEnd(): boolean {
    return this.isNumber && numberMayEnd(this.#state)
  }

  /** False where no scalar begins with `byte`. */
  begin(byte: number): boolean {
    this.#literal = literals.get(byte)
    this.#state = this.#literal ? 1 : numberStart(byte)
    return this.#state !== NUMBER_DONE
  }

  /** Reads on; answers where it stopped: behind the scalar, at the byte that is none of its own, or at `to`. */
  read(bytes: Uint8Array, at: number, to: number): number {
    this.isDone = false
    this.isWrong = false
    return this.#literal ? this.#readLiteral(this.#literal, bytes, at, to) : this.#readNumber(bytes, at, to)
  }

  #readNumber(bytes: Uint8Array, at: number, to: number): number {
    let state = this.#state
    for (; at < to; at++) {
      const next = numberNext(state, bytes[at] as number)
      if (next === NUMBER_DONE) {
        this.isDone = numberMayEnd(state)
        this.isWrong = !this.isDone
        break
      }
      state = next
    }
    this.#state = state
    return at
  }

  #readLiteral(literal: Uint8Array, bytes: Uint8Array, at: number, to: number): number {
    for (; at < to && !this.isDone; at++) {
      if (bytes[at] !== literal[this.#state]) {
        this.isWrong = true
        break
      }
      this.isDone = ++this.#state === literal.length
    }
    return at
  }
}
