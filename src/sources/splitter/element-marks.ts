// Records where the elements of a body begin, and where the id, time and type of each are.
// It knows which keys matter, and nothing about the grammar.
import { OPEN_ARRAY, OPEN_OBJECT } from '../../core/bytes.ts'
import { ConnectorError } from '../../core/errors.ts'
import { decodeString } from './json-tokens.ts'

/** No text contains this byte, so no key equals it. */
const NO_KEY = Uint8Array.of(0xff)

/** Not there. */
export const NONE = -1

// Offsets into the slab; they are shifted when it moves.
export const ELEMENT = 0
/** start of the inside of a string that may continue in the next piece and matters */
export const STRING_START = 1
/** start and end of each wanted value, without quotes; NONE if missing or not a string */
export const ID = 2
export const TIME = 4
export const TYPE = 6
const MARKS = 8

/** Flag in `escapes`: the text contains an escape. */
export const ID_ESCAPED = 1
export const TIME_ESCAPED = 2
export const TYPE_ESCAPED = 4

/** Value of `pendingKey` before the target's own value. */
const TARGET = 4

/**
 * What the elements are: those of the body's array or of the array under `key`; or the body itself,
 * or its value under `key`.
 */
export interface Target {
  readonly kind: 'array' | 'value'
  readonly key: string | undefined
}

interface ElementOptions {
  readonly target: Target
  /** names of id, time and type, in this order; entries may have no id */
  readonly keys: readonly [string | undefined, string, string]
  readonly maxDepth: number
}

export class ElementMarks {
  readonly marks = new Int32Array(MARKS).fill(NONE)
  /** which of ID_ESCAPED, TIME_ESCAPED and TYPE_ESCAPED apply */
  escapes = 0
  /** the element is nested deeper than the limit */
  tooDeep = false
  isObject = false
  /** CR or LF occurred between the element's tokens */
  hasLineBreaks = false
  /** the key before the coming value: 1, 2, 3 for id, time, type; TARGET; 0 for any other */
  pendingKey = 0
  /** the depth of the container of the elements */
  readonly edge: number
  /** deeper containers are too deep */
  readonly deepest: number
  readonly #target: Target
  readonly #targetKey: Uint8Array | undefined
  readonly #keys: readonly Uint8Array[]
  /** inside the target's array */
  #inTarget = false
  #found = false

  constructor({ target, keys, maxDepth }: ElementOptions) {
    this.#target = target
    this.#targetKey = target.key === undefined ? undefined : Buffer.from(target.key)
    this.#keys = keys.map((key) => (key === undefined ? NO_KEY : Buffer.from(key)))
    this.edge = (target.kind === 'array' ? 1 : 0) + (target.key === undefined ? 0 : 1)
    this.deepest = this.edge + maxDepth
  }

  /** True while an element is open: its bytes so far are needed. */
  get isOpen(): boolean {
    return this.marks[ELEMENT] !== NONE
  }

  /** The slab's bytes have moved down. */
  rebase(shiftBytes: number): void {
    const { marks } = this
    for (let i = 0; i < MARKS; i++) if (marks[i] !== NONE) marks[i] = (marks[i] as number) - shiftBytes
  }

  /** The bytes of the open element are dropped up to `at`, with its id, time and type. */
  forget(at: number): void {
    this.marks.fill(NONE)
    this.marks[ELEMENT] = at
  }

  /** A key of the body's object that is this long cannot be the wanted one, even with escapes. */
  forgetLongKey(length: number): void {
    const start = this.marks[STRING_START] as number
    if (start !== NONE && length - start > 6 * (this.#targetKey?.length ?? 0)) this.marks[STRING_START] = NONE
  }

  /** A value begins outside all elements: is it one, or on the path to them? Throws otherwise. */
  enter(byte: number, depth: number, at: number): void {
    const { kind, key } = this.#target
    const isTarget = key === undefined || this.pendingKey === TARGET
    this.pendingKey = 0
    if (depth === this.edge) {
      if (kind === 'value' ? isTarget : this.#inTarget) this.#begin(byte, at)
    } else if (kind === 'array') {
      if (depth < this.edge - 1) {
        if (byte !== OPEN_OBJECT) throw unexpectedShape('an object')
      } else if (isTarget) {
        if (byte !== OPEN_ARRAY) throw unexpectedShape(this.#expected())
        this.#inTarget = true
        this.#found = true
      }
    }
  }

  /** A container has closed, and the position is now outside the target. */
  leave(): void {
    this.#inTarget = false
  }

  close(): void {
    this.marks[ELEMENT] = NONE
  }

  /** The body is over. Throws if the array never came. */
  end(): void {
    if (this.#target.kind === 'array' && !this.#found) throw unexpectedShape(this.#expected())
  }

  /** Whether the string that is open at `depth` matters, so that its start must be kept. */
  matters(inKey: boolean, depth: number): boolean {
    return inKey ? depth <= this.edge + 1 : this.pendingKey !== 0
  }

  /** Handles a key, without its quotes: called only for keys no deeper than an element's own. */
  key(bytes: Uint8Array, start: number, end: number, depth: number): void {
    this.pendingKey = 0
    if (!this.isOpen) {
      const key = this.#targetKey
      if (key !== undefined && depth === 1 && isText(key, bytes, start, end)) this.pendingKey = TARGET
    } else {
      const keys = this.#keys
      for (let i = 0; i < 3; i++)
        if (isText(keys[i] as Uint8Array, bytes, start, end)) this.pendingKey = i + 1
    }
  }

  escapedKey(written: Uint8Array, depth: number): void {
    const key = Buffer.from(decodeString(written))
    this.key(key, 0, key.length, depth)
  }

  /** The value of a wanted key; a later one under the same key replaces it. */
  record(start: number, end: number, escaped: boolean): void {
    const index = this.pendingKey - 1
    this.pendingKey = 0
    this.marks[ID + 2 * index] = start
    this.marks[ID + 2 * index + 1] = end
    this.escapes = (this.escapes & ~(1 << index)) | (escaped ? 1 << index : 0)
  }

  #begin(byte: number, at: number): void {
    const { marks } = this
    for (let i = 0; i < MARKS; i++) marks[i] = NONE
    marks[ELEMENT] = at
    this.escapes = 0
    this.tooDeep = false
    this.hasLineBreaks = false
    this.isObject = byte === OPEN_OBJECT
  }

  #expected(): string {
    const { key } = this.#target
    return key === undefined ? 'an array' : `an array under "${key}"`
  }
}

function unexpectedShape(expected: string): ConnectorError {
  return new ConnectorError('bad_reply', `the reply is JSON in an unexpected format: expected ${expected}`)
}

function isText(text: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
  if (text.length !== end - start) return false
  for (let i = 0; i < text.length; i++) if (text[i] !== bytes[start + i]) return false
  return true
}
