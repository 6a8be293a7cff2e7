// The grammar: walks a JSON body byte by byte, in pieces of any cut, and refuses what JSON.parse would refuse.
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
} from '../../model/ascii.ts'
import { ConnectorError } from '../../model/errors.ts'
import { ELEMENT, NONE, TOKEN } from './element-marks.ts'
import type { ElementMarks } from './element-marks.ts'
import type { FastPath } from './fast-path.ts'
import { afterEscape, ESCAPE, plainEnd } from './json-string.ts'
import { literalOf, NUMBER_DONE, numberMayEnd, numberNext, numberStart } from './json-scalars.ts'

// What may come next. The last three stand inside a token: where a piece ended, the next one goes on there.
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

/** One level is one byte of the stack, so this bounds it at 4 MiB. */
const MAX_LEVELS = 1 << 22

export class Scanner {
  /** bytes of the body before the slab: for messages */
  bodyOffset = 0
  readonly #elements: ElementMarks
  readonly #fastPath: FastPath
  readonly #onElement: (end: number) => void
  #state = VALUE
  #depth = 0
  /** one byte a level: 1 where it is an object */
  #stack = new Uint8Array(1024)
  /** from this depth on something must be looked after */
  readonly #ceiling: number
  #inKey = false
  #escaped = false
  /** how far a token is that may go on in the next piece: what is still to come of a string's escape; the state of a number; how much was read of a literal */
  #inToken = 0
  #literal: Uint8Array = new Uint8Array(0)

  /** `onElement` is called with an element's end (exclusive), while its marks still stand. */
  constructor(elements: ElementMarks, fastPath: FastPath, onElement: (end: number) => void) {
    this.#elements = elements
    this.#fastPath = fastPath
    this.#onElement = onElement
    this.#ceiling = Math.min(this.#stack.length, elements.deepest + 1)
  }

  /**
   * Reads `bytes[at, to)`, which follow what was read before; `words` looks at the same memory. Throws where the body stops
   * being JSON of the wanted shape. A run of members with plain strings never leaves this loop; all else is a call.
   */
  scan(bytes: Uint8Array, words: DataView, at: number, to: number): void {
    const elements = this.#elements
    const edge = elements.edge
    if (this.#state >= STRING) at = this.#resume(bytes, words, at, to)
    let state = this.#state
    let depth = this.#depth
    while (at < to) {
      let byte = bytes[at] as number
      if (byte <= SPACE) {
        if (byte !== SPACE) this.#space(byte, at, state)
        at++
        continue
      }
      if (byte === COMMA && state === AFTER_VALUE) {
        state = this.#stack[depth] === 1 ? KEY : VALUE
        if (++at >= to) break
        byte = bytes[at] as number
        if (byte <= SPACE) continue
      }
      if (byte === QUOTE && (state === KEY || state === KEY_OR_END)) {
        const end = plainEnd(bytes, words, at + 1, to)
        if (end < to && bytes[end] === QUOTE) {
          if (depth <= edge + 1) elements.key(bytes, at + 1, end, depth)
          at = end + 1
          state = BEFORE_COLON
        } else {
          at = this.#slowString(bytes, words, at + 1, end, to, true)
          state = this.#state
        }
        if (at >= to) break
        byte = bytes[at] as number
        if (byte <= SPACE) continue
      }
      if (byte === COLON && state === BEFORE_COLON) {
        state = VALUE
        if (++at >= to) break
        byte = bytes[at] as number
        if (byte <= SPACE) continue
      }
      if (byte === QUOTE && depth > edge && state <= VALUE_OR_END) {
        const end = plainEnd(bytes, words, at + 1, to)
        if (end < to && bytes[end] === QUOTE) {
          if (elements.wanted !== 0) elements.record(at + 1, end, false)
          at = end + 1
          state = AFTER_VALUE
          continue
        }
        at = this.#slowString(bytes, words, at + 1, end, to, false)
      } else {
        this.#state = state
        at = this.#other(bytes, words, at, to)
      }
      state = this.#state
      depth = this.#depth
    }
    this.#state = state
  }

  /** The body is over. Throws when it should not be. */
  end(length: number): void {
    if (this.#state === NUMBER && this.#depth === 0 && numberMayEnd(this.#inToken)) this.#valueEnd(length)
    if (this.#state !== DONE) {
      const bodyBytes = this.bodyOffset + length
      if (bodyBytes === 0) throw badReply('the reply has no body')
      throw badReply(
        `the reply ends too early: after ${bodyBytes} bytes ${expected[this.#state] ?? ''} was expected`,
      )
    }
    this.#elements.end()
  }

  #resume(bytes: Uint8Array, words: DataView, at: number, to: number): number {
    if (this.#state === STRING) return this.#string(bytes, words, at, to)
    return this.#state === NUMBER ? this.#number(bytes, at, to) : this.#literalRest(bytes, at, to)
  }

  #space(byte: number, at: number, state: number): void {
    if (byte === LF || byte === CR) this.#elements.hasLineBreaks = true
    else if (byte !== TAB) this.#fail(at, state)
  }

  /** Whatever is no plain string in a container, the end of a container among it. */
  #other(bytes: Uint8Array, words: DataView, at: number, to: number): number {
    const byte = bytes[at] as number
    if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      this.#close(byte, at)
      return at + 1
    }
    if (this.#state > VALUE_OR_END) this.#fail(at, this.#state)
    const elements = this.#elements
    if (this.#depth <= elements.edge) {
      elements.enter(byte, this.#depth, at)
      const end = byte === OPEN_OBJECT && elements.isOpen ? this.#plainObjects(at) : NONE
      if (end !== NONE) return end
    }
    if (byte === QUOTE) return this.#slowString(bytes, words, at + 1, at + 1, to, false)
    if (elements.wanted !== 0) elements.record(NONE, NONE, false)
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      this.#open(byte === OPEN_OBJECT ? 1 : 0)
      return at + 1
    }
    const literal = literalOf(byte)
    if (literal) {
      this.#literal = literal
      this.#inToken = 1
      this.#state = LITERAL
      return this.#literalRest(bytes, at + 1, to)
    }
    this.#inToken = numberStart(byte)
    if (this.#inToken === NUMBER_DONE) this.#fail(at, this.#state)
    this.#state = NUMBER
    return this.#number(bytes, at + 1, to)
  }

  /** Elements one behind the other that the fast path takes: where the last one ends; NONE where it takes not even that at `at`. */
  #plainObjects(at: number): number {
    const { marks } = this.#elements
    const count = this.#fastPath.objects(at)
    let end = NONE
    for (let i = 0; i < count; i++) {
      end = this.#fastPath.mark(i, marks)
      this.#valueEnd(end)
    }
    return end
  }

  #open(isObject: 0 | 1): void {
    const depth = ++this.#depth
    if (depth >= this.#ceiling) this.#deepen(depth)
    this.#stack[depth] = isObject
    this.#state = isObject ? KEY_OR_END : VALUE_OR_END
  }

  #deepen(depth: number): void {
    if (depth > this.#elements.deepest) this.#elements.tooDeep = true
    if (depth >= MAX_LEVELS) throw badReply(`the reply nests more than ${MAX_LEVELS} levels deep`)
    if (depth >= this.#stack.length) {
      const grown = new Uint8Array(this.#stack.length * 4)
      grown.set(this.#stack)
      this.#stack = grown
    }
  }

  #close(byte: number, at: number): void {
    const state = this.#state
    const isObject = this.#stack[this.#depth] === 1
    const fits =
      byte === CLOSE_OBJECT
        ? isObject && (state === AFTER_VALUE || state === KEY_OR_END)
        : !isObject && (state === AFTER_VALUE || state === VALUE_OR_END)
    if (!fits) this.#fail(at, state)
    const depth = --this.#depth
    if (depth < this.#elements.edge) this.#elements.leave()
    this.#valueEnd(at + 1)
  }

  #valueEnd(end: number): void {
    const elements = this.#elements
    this.#state = this.#depth === 0 ? DONE : AFTER_VALUE
    if (this.#depth !== elements.edge || elements.marks[ELEMENT] === NONE) return
    this.#onElement(end)
    elements.close()
  }

  /** A string that holds an escape or goes on in the next piece; `end` is where its plain bytes end. */
  #slowString(
    bytes: Uint8Array,
    words: DataView,
    start: number,
    end: number,
    to: number,
    inKey: boolean,
  ): number {
    const elements = this.#elements
    elements.marks[TOKEN] = elements.matters(inKey, this.#depth) ? start : NONE
    this.#inKey = inKey
    this.#escaped = false
    this.#inToken = 0
    this.#state = STRING
    return this.#string(bytes, words, end, to)
  }

  #string(bytes: Uint8Array, words: DataView, at: number, to: number): number {
    let escape = this.#inToken
    for (;;) {
      for (; escape > 0 && at < to; at++) {
        escape = afterEscape(escape, bytes[at] as number)
        if (escape < 0) this.#fail(at, STRING)
      }
      at = plainEnd(bytes, words, at, to)
      if (at >= to) break
      const byte = bytes[at] as number
      if (byte === QUOTE) return this.#stringEnd(bytes, at)
      if (byte !== BACKSLASH) this.#fail(at, STRING)
      this.#escaped = true
      escape = ESCAPE
      at++
    }
    this.#inToken = escape
    return at
  }

  #stringEnd(bytes: Uint8Array, at: number): number {
    const elements = this.#elements
    const token = elements.marks[TOKEN] as number
    elements.marks[TOKEN] = NONE
    if (this.#inKey) {
      this.#state = BEFORE_COLON
      if (token === NONE) elements.wanted = 0
      else if (this.#escaped) elements.escapedKey(bytes.subarray(token, at), this.#depth)
      else elements.key(bytes, token, at, this.#depth)
    } else {
      if (elements.wanted !== 0) elements.record(token, at, this.#escaped)
      this.#valueEnd(at + 1)
    }
    return at + 1
  }

  #number(bytes: Uint8Array, at: number, to: number): number {
    let number = this.#inToken
    for (; at < to; at++) {
      const next = numberNext(number, bytes[at] as number)
      if (next === NUMBER_DONE) {
        if (!numberMayEnd(number)) this.#fail(at, NUMBER)
        this.#valueEnd(at)
        return at
      }
      number = next
    }
    this.#inToken = number
    return at
  }

  #literalRest(bytes: Uint8Array, at: number, to: number): number {
    const literal = this.#literal
    for (; at < to; at++) {
      if (bytes[at] !== literal[this.#inToken]) this.#fail(at, LITERAL)
      if (++this.#inToken < literal.length) continue
      this.#valueEnd(at + 1)
      return at + 1
    }
    return at
  }

  #fail(at: number, state: number): never {
    const offset = this.bodyOffset + at
    throw badReply(`the reply is not valid JSON: at byte ${offset} ${expected[state] ?? ''} was expected`)
  }
}

function badReply(message: string): ConnectorError {
  return new ConnectorError('bad_reply', message)
}
