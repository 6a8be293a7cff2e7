// The grammar: scans a JSON body byte by byte, in pieces of any size, and rejects what JSON.parse
// would reject.
import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  CR,
  LF,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  SPACE,
  TAB,
} from '../../core/bytes.ts'
import { ConnectorError } from '../../core/errors.ts'
import { ELEMENT, NONE, STRING_START } from './element-marks.ts'
import type { ElementMarks } from './element-marks.ts'
import { ESCAPE, JsonScalar, afterEscape, plainEnd } from './json-tokens.ts'

// What may come next, an index into `expected`. A value may come in the first two; the last three
// are within a token that continues in the next piece.
const VALUE = 0
const VALUE_OR_END = 1
const KEY = 2
const KEY_OR_END = 3
const BEFORE_COLON = 4
const AFTER_VALUE = 5
const DONE = 6
const STRING = 7
const NUMBER = 8
const LITERAL = 9

const expected = [
  'a value',
  'a value or ]',
  'a key',
  'a key or }',
  'a colon',
  'a comma or the end of its container',
  'nothing more',
  'the rest of a string',
  'the rest of a number',
  'the rest of a literal',
]

export class Scanner {
  /** bytes of the body before the slab, for messages */
  bodyOffset = 0
  readonly #elements: ElementMarks
  readonly #onElement: (end: number) => void
  readonly #levels = new Levels()
  #state = VALUE
  #inKey = false
  #escaped = false
  /** the rest of a string's escape */
  #escape = 0
  readonly #scalar = new JsonScalar()

  /** `onElement` is called with the end of an element (exclusive), while its marks are valid. */
  constructor(elements: ElementMarks, onElement: (end: number) => void) {
    this.#elements = elements
    this.#onElement = onElement
  }

  /**
   * Reads `bytes[at, to)`, the continuation of earlier pieces; `words` is a view of the same
   * memory. Throws where the body stops being JSON of the wanted shape.
   */
  scan(bytes: Uint8Array, words: DataView, at: number, to: number): void {
    if (this.#state === STRING) at = this.#string(bytes, words, at, to)
    else if (this.#state > STRING) at = this.#restOfScalar(bytes, at, to)
    while (at < to) {
      const byte = bytes[at] as number
      if (byte > SPACE) {
        at = this.#token(byte, bytes, words, at, to)
      } else {
        if (byte !== SPACE) this.#space(byte, at)
        at++
      }
    }
  }

  /** The body is over. Throws if it is incomplete. */
  end(length: number): void {
    if (this.#state === NUMBER && this.#levels.depth === 0 && this.#scalar.mayEnd) this.#valueEnd(length)
    if (this.#state !== DONE) {
      const bodyBytes = this.bodyOffset + length
      if (bodyBytes === 0) throw badReply('the reply has no body')
      throw badReply(
        `the reply ends too early: after ${bodyBytes} bytes ${expected[this.#state] ?? ''} was expected`,
      )
    }
    this.#elements.end()
  }

  #space(byte: number, at: number): void {
    if (byte === LF || byte === CR) this.#elements.hasLineBreaks = true
    else if (byte !== TAB) this.#fail(at)
  }

  /** The end of the token that begins at `at`, or of the piece. */
  #token(byte: number, bytes: Uint8Array, words: DataView, at: number, to: number): number {
    const state = this.#state
    if (state === AFTER_VALUE && byte === COMMA) {
      this.#state = this.#levels.inObject ? KEY : VALUE
      return at + 1
    }
    if (state === BEFORE_COLON && byte === COLON) {
      this.#state = VALUE
      return at + 1
    }
    if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      this.#close(byte, at)
      return at + 1
    }
    if (byte === QUOTE && (state === KEY || state === KEY_OR_END))
      return this.#beginString(bytes, words, at + 1, to, true)
    if (state > VALUE_OR_END) this.#fail(at)
    return this.#value(byte, bytes, words, at, to)
  }

  #value(byte: number, bytes: Uint8Array, words: DataView, at: number, to: number): number {
    const elements = this.#elements
    if (this.#levels.depth <= elements.edge) elements.enter(byte, this.#levels.depth, at)
    if (byte === QUOTE) return this.#beginString(bytes, words, at + 1, to, false)
    if (elements.pendingKey !== 0) elements.record(NONE, NONE, false)
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      this.#open(byte === OPEN_OBJECT)
      return at + 1
    }
    if (!this.#scalar.begin(byte)) this.#fail(at)
    this.#state = this.#scalar.isNumber ? NUMBER : LITERAL
    return this.#restOfScalar(bytes, at + 1, to)
  }

  #open(isObject: boolean): void {
    const levels = this.#levels
    if (!levels.open(isObject)) throw badReply(`the reply nests more than ${MAX_LEVELS} levels deep`)
    if (levels.depth > this.#elements.deepest) this.#elements.tooDeep = true
    this.#state = isObject ? KEY_OR_END : VALUE_OR_END
  }

  #close(byte: number, at: number): void {
    const state = this.#state
    const levels = this.#levels
    const isEmpty = state === (byte === CLOSE_OBJECT ? KEY_OR_END : VALUE_OR_END)
    const isInside = levels.inObject === (byte === CLOSE_OBJECT)
    if (!isInside || !(isEmpty || state === AFTER_VALUE)) this.#fail(at)
    levels.close()
    if (levels.depth < this.#elements.edge) this.#elements.leave()
    this.#valueEnd(at + 1)
  }

  #valueEnd(end: number): void {
    const elements = this.#elements
    this.#state = this.#levels.depth === 0 ? DONE : AFTER_VALUE
    if (this.#levels.depth !== elements.edge || elements.marks[ELEMENT] === NONE) return
    this.#onElement(end)
    elements.close()
  }

  #beginString(bytes: Uint8Array, words: DataView, start: number, to: number, inKey: boolean): number {
    const elements = this.#elements
    elements.marks[STRING_START] = elements.matters(inKey, this.#levels.depth) ? start : NONE
    this.#inKey = inKey
    this.#escaped = false
    this.#escape = 0
    this.#state = STRING
    return this.#string(bytes, words, start, to)
  }

  #string(bytes: Uint8Array, words: DataView, at: number, to: number): number {
    let escape = this.#escape
    for (;;) {
      for (; escape > 0 && at < to; at++) {
        escape = afterEscape(escape, bytes[at] as number)
        if (escape < 0) this.#fail(at)
      }
      at = plainEnd(bytes, words, at, to)
      if (at >= to) break
      const byte = bytes[at] as number
      if (byte === QUOTE) return this.#stringEnd(bytes, at)
      if (byte !== BACKSLASH) this.#fail(at)
      this.#escaped = true
      escape = ESCAPE
      at++
    }
    this.#escape = escape
    return at
  }

  #stringEnd(bytes: Uint8Array, at: number): number {
    const elements = this.#elements
    const start = elements.marks[STRING_START] as number
    elements.marks[STRING_START] = NONE
    if (this.#inKey) {
      this.#state = BEFORE_COLON
      if (start === NONE) elements.pendingKey = 0
      else if (this.#escaped) elements.escapedKey(bytes.subarray(start, at), this.#levels.depth)
      else elements.key(bytes, start, at, this.#levels.depth)
    } else {
      if (elements.pendingKey !== 0) elements.record(start, at, this.#escaped)
      this.#valueEnd(at + 1)
    }
    return at + 1
  }

  #restOfScalar(bytes: Uint8Array, at: number, to: number): number {
    const end = this.#scalar.read(bytes, at, to)
    if (this.#scalar.state === 'wrong') this.#fail(end)
    if (this.#scalar.state === 'whole') this.#valueEnd(end)
    return end
  }

  #fail(at: number): never {
    const offset = this.bodyOffset + at
    throw badReply(
      `the reply is not valid JSON: at byte ${offset} ${expected[this.#state] ?? ''} was expected`,
    )
  }
}

function badReply(message: string): ConnectorError {
  return new ConnectorError('bad_reply', message)
}

// The open containers, nested: one byte per level.

/** One byte each: at most 4 MiB. */
const MAX_LEVELS = 1 << 22

const ARRAY = 0
const OBJECT = 1

class Levels {
  /** number of open containers */
  depth = 0
  #kinds = new Uint8Array(1024)

  /** Whether the innermost container is an object. */
  get inObject(): boolean {
    return this.#kinds[this.depth - 1] === OBJECT
  }

  /** False if it would exceed the limit. */
  open(isObject: boolean): boolean {
    if (this.depth === MAX_LEVELS) return false
    if (this.depth === this.#kinds.length) this.#grow()
    this.#kinds[this.depth++] = isObject ? OBJECT : ARRAY
    return true
  }

  close(): void {
    this.depth--
  }

  #grow(): void {
    const grown = new Uint8Array(this.#kinds.length * 4)
    grown.set(this.#kinds)
    this.#kinds = grown
  }
}
