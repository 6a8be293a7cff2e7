// Numbers and literals of JSON as small machines that can stop after any byte; they know nothing of what stands around.

/** No further byte belongs to the number. */
export const NUMBER_DONE = 0
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
export function numberStart(byte: number): number {
  if (byte === 45) return NUMBER_MINUS
  if (byte === 48) return NUMBER_ZERO
  return byte > 48 && byte <= 57 ? NUMBER_WHOLE : NUMBER_DONE
}

export function numberNext(state: number, byte: number): number {
  return transitions[state * CLASSES + (classOf[byte] as number)] as number
}

/** May a number end in this state? */
export function numberMayEnd(state: number): boolean {
  return (
    state === NUMBER_ZERO || state === NUMBER_WHOLE || state === NUMBER_FRACTION || state === NUMBER_EXPONENT
  )
}

const literals = new Map(['true', 'false', 'null'].map((text) => [text.charCodeAt(0), Buffer.from(text)]))

/** The literal that begins with this byte. */
export function literalOf(byte: number): Uint8Array | undefined {
  return literals.get(byte)
}
