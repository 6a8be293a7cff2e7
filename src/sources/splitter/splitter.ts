// Splits a JSON body into entries as it arrives, as byte slices and never as objects, within limits
// of depth and size (invariant 4): slab, scanner and builder produce complete groups.
import { isUtf8 } from 'node:buffer'
import { Entries, TRANSACTION_BYTES, TRANSACTION_ENTRIES } from '../../contracts/entries.ts'
import { CR, LF, SPACE, TAB } from '../../core/bytes.ts'
import { ConnectorError } from '../../core/errors.ts'
import { ELEMENT, ElementMarks, NONE, STRING_START } from './element-marks.ts'
import type { Target } from './element-marks.ts'
import { EntriesBuilder } from './entries-builder.ts'
import type { ClosedGroup, Group, Naming } from './entries-builder.ts'
import { LargeElement } from './malformed.ts'
import type { Reason } from './malformed.ts'
import { Scanner } from './scanner.ts'
import { Slab } from './slab.ts'

export interface EntryLimits {
  /** names of an entry's keys; without one for the id, `naming` derives the ids */
  readonly idKey: string | undefined
  readonly timeKey: string
  readonly typeKey: string
  /** an entry nested deeper is quarantined; its own braces are the first level */
  readonly maxDepth: number
  /** a larger entry is quarantined as its first MiB, length and hash */
  readonly maxEntryBytes: number
  readonly naming?: Naming
}

export interface SplitterOptions extends EntryLimits {
  /** entries are the elements of this array of the body's object; absent: the body is the array */
  readonly arrayKey?: string
  readonly maxEntriesPerGroup?: number
  readonly maxGroupBytes?: number
}

/** Limits of an entry, independent of the names of its keys. */
export type SplitterLimits = Pick<EntryLimits, 'maxDepth' | 'maxEntryBytes'>

/** For the entries of an array. */
export function openSplitter(options: SplitterOptions): Splitter {
  return new Splitter({ kind: 'array', key: options.arrayKey }, options)
}

/**
 * `push` each piece of the body, `take` until it returns nothing after each, `end` when the body is
 * over, `take` the rest. A group has at most 1,000 elements or 4 MiB; one larger entry is a group
 * of its own. Elements keep their order; malformed ones are separate, with their bytes.
 *
 * If the body is not JSON or has another shape, `push` throws at that byte, `end` at the latest:
 * ConnectorError `bad_reply`, which names the offset and never shows the byte. `take` still returns
 * the complete elements before it, so the caller decides: a buffered page drops them, a streamed
 * answer keeps them. To keep them when the body breaks off, call `end` and ignore its error.
 *
 * Entries and quarantined bytes may be views into the pushed pieces, to avoid a copy: do not change
 * a piece after `push`.
 */
export class Splitter {
  readonly #elements: ElementMarks
  readonly #scanner: Scanner
  readonly #slab = new Slab()
  readonly #builder: EntriesBuilder
  readonly #maxEntryBytes: number
  readonly #maxGroupEntries: number
  readonly #maxGroupBytes: number
  /** the open group is `[#groupStart, #groupEnd)` of the slab */
  #groupStart = NONE
  #groupEnd = NONE
  #large: LargeElement | undefined
  readonly #groups: ClosedGroup[] = []
  #failure: unknown

  constructor(target: Target, options: Omit<SplitterOptions, 'arrayKey'>) {
    this.#maxEntryBytes = options.maxEntryBytes
    this.#maxGroupEntries = options.maxEntriesPerGroup ?? TRANSACTION_ENTRIES
    this.#maxGroupBytes = options.maxGroupBytes ?? TRANSACTION_BYTES
    this.#builder = new EntriesBuilder(this.#maxGroupEntries, options.naming)
    const { idKey, timeKey, typeKey, maxDepth } = options
    const keys = [idKey, timeKey, typeKey] as const
    this.#elements = new ElementMarks({ target, keys, maxDepth })
    this.#scanner = new Scanner(this.#elements, (end) => this.#elementEnded(end))
  }

  /** Bytes kept for the next push: at most an open group and an open element. */
  get usedBytes(): number {
    return this.#slab.length - this.#neededFrom()
  }

  /** `ours`: as for `Slab.append`. */
  push(piece: Uint8Array, ours = false): void {
    this.#rethrow()
    if (piece.length === 0) return
    const slab = this.#slab
    const movedBytes = slab.append(piece, this.#neededFrom(), ours)
    this.#elements.rebase(movedBytes)
    this.#scanner.bodyOffset += movedBytes
    if (this.#groupStart !== NONE) {
      this.#groupStart -= movedBytes
      this.#groupEnd -= movedBytes
    }
    const from = slab.length - piece.length
    this.#orFail(() => this.#scanner.scan(slab.bytes, slab.words, from, slab.length))
    this.#dropUnneeded()
  }

  /** The next complete group; undefined if there is none yet. */
  take(): Group | undefined {
    const group = this.#groups.shift()
    return group && { entries: group.entries, quarantined: group.quarantined() }
  }

  end(): void {
    this.#rethrow()
    this.#orFail(() => this.#scanner.end(this.#slab.length))
    this.#closeGroup()
  }

  #rethrow(): void {
    if (this.#failure !== undefined) throw this.#failure as ConnectorError
  }

  #orFail(read: () => void): void {
    try {
      read()
    } catch (error) {
      this.#failure = error
      this.#closeGroup()
      throw error
    }
  }

  /** Start of the bytes that are still needed. */
  #neededFrom(): number {
    if (this.#groupStart !== NONE) return this.#groupStart
    const { marks } = this.#elements
    if (this.#elements.isOpen) return marks[ELEMENT] as number
    return marks[STRING_START] === NONE ? this.#slab.length : (marks[STRING_START] as number)
  }

  #elementEnded(end: number): void {
    const start = this.#elements.marks[ELEMENT] as number
    if (this.#large || end - start > this.#maxEntryBytes) {
      this.#absorb(start, end)
      if (this.#large) this.#builder.quarantineLarge(this.#large)
      this.#large = undefined
    } else {
      // The whole span counts, including white space, because the slab keeps it.
      if (this.#groupStart !== NONE && end - this.#groupStart > this.#maxGroupBytes) this.#closeGroup()
      if (this.#groupStart === NONE) this.#groupStart = start
      this.#add(start, end)
      this.#groupEnd = end
    }
    if (this.#builder.size >= this.#maxGroupEntries) this.#closeGroup()
  }

  #add(start: number, end: number): void {
    const { isObject, tooDeep, hasLineBreaks, marks, escapes } = this.#elements
    if (!isObject || tooDeep) {
      const reason = isObject ? 'too_deep' : 'not_an_object'
      this.#quarantine(reason, start, end)
    } else if (hasLineBreaks) {
      this.#addOneLine(start, end)
    } else {
      const fault = this.#builder.add(this.#slab.bytes, this.#groupStart, start, end, marks, escapes)
      if (fault) this.#quarantine(fault, start, end)
    }
  }

  /** Malformed elements keep their line breaks, so validity is checked before the group closes. */
  #addOneLine(start: number, end: number): void {
    const { marks, escapes } = this.#elements
    const written = this.#slab.bytes.slice(start, end)
    if (!isUtf8(written)) {
      this.#quarantine('invalid_utf8', start, end)
      return
    }
    const bytes = this.#slab.own()
    const lineEnd = stripLineBreaks(bytes, start, end, marks)
    const fault = this.#builder.add(bytes, this.#groupStart, start, lineEnd, marks, escapes)
    if (!fault) return
    bytes.set(written, start)
    this.#quarantine(fault, start, end)
  }

  #quarantine(reason: Reason, start: number, end: number): void {
    this.#builder.quarantine(reason, start - this.#groupStart, end - this.#groupStart)
  }

  /** After each piece: bytes that are no longer needed leave the slab. */
  #dropUnneeded(): void {
    const length = this.#slab.length
    if (this.#elements.isOpen) {
      const start = this.#elements.marks[ELEMENT] as number
      if (this.#large || length - start > this.#maxEntryBytes) {
        this.#closeGroup()
        this.#absorb(start, length)
        this.#elements.forget(length)
      } else if (this.#groupStart !== NONE && length - this.#groupStart > this.#maxGroupBytes)
        this.#closeGroup()
      return
    }
    this.#elements.forgetLongKey(length)
    if (this.#groupStart === NONE || this.#elements.marks[STRING_START] !== NONE) return
    this.#slab.truncate(this.#groupEnd)
    this.#scanner.bodyOffset += length - this.#groupEnd
  }

  #absorb(start: number, end: number): void {
    this.#large ??= new LargeElement()
    this.#large.absorb(this.#slab.bytes.subarray(start, end))
  }

  #closeGroup(): void {
    if (this.#builder.size === 0) {
      // Everything was left out: its bytes are not needed any more.
      this.#groupStart = NONE
      this.#groupEnd = NONE
      return
    }
    // A group of one element above the limit has no bytes.
    const [start, end] = this.#groupStart === NONE ? [0, 0] : [this.#groupStart, this.#groupEnd]
    const bytes = this.#slab.bytes.subarray(start, end)
    this.#slab.usualBytes = bytes.length
    this.#groups.push(this.#builder.close(bytes, this.#slab.withSpare(start, end, this.#builder.memoryBytes)))
    this.#groupStart = NONE
    this.#groupEnd = NONE
  }
}

// Removes CR and LF from an element, in place, so that it fits on one line. They cannot occur in a
// JSON string, so all of them are between tokens.

/** Returns the new end; `marks` move along. The remaining bytes become white space. */
function stripLineBreaks(bytes: Uint8Array, start: number, end: number, marks: Int32Array): number {
  for (let i = ELEMENT + 1; i < marks.length; i++) {
    const mark = marks[i] as number
    if (mark !== NONE) marks[i] = mark - countLineBreaks(bytes, start, mark)
  }
  let to = start
  for (let at = start; at < end; at++) {
    const byte = bytes[at] as number
    if (byte !== LF && byte !== CR) bytes[to++] = byte
  }
  bytes.fill(SPACE, to, end)
  return to
}

function countLineBreaks(bytes: Uint8Array, start: number, end: number): number {
  let count = 0
  for (let i = start; i < end; i++) if (bytes[i] === LF || bytes[i] === CR) count++
  return count
}

// A body with a single entry, or none, split by the same code as a page.

interface SplitOneOptions extends EntryLimits {
  /**
   * the entry may be under this key, as `earliest` answers; `search` and `latest` may or may not do
   * the same (invariant 6)
   */
  readonly wrapper: string
}

const none: Group = { entries: Entries.none, quarantined: [] }

/**
 * One entry, one quarantined element, or neither: if the body is empty, `null`, `{}`, `[]`, or has
 * one of these under the wrapper. A body that is a valid entry itself is taken as such, with any
 * keys. Throws ConnectorError `bad_reply` if the body is not JSON, or is a list or a plain value.
 */
export function splitOne(body: Uint8Array, options: SplitOneOptions): Group {
  if (isBlank(body)) return none
  const bare = splitValue(body, undefined, options)
  if (bare.entries.count === 1) return bare
  const wrapped = splitValue(body, options.wrapper, options)
  const found = wrapped.entries.count + wrapped.quarantined.length > 0 ? wrapped : bare
  const malformed = found.quarantined[0]
  if (!malformed) return found
  if (isNothing(malformed.bytes)) return none
  if (malformed.reason === 'not_an_object')
    throw new ConnectorError('bad_reply', 'the reply is JSON in an unexpected format: expected one entry')
  return found
}

function splitValue(body: Uint8Array, key: string | undefined, options: SplitOneOptions): Group {
  const splitter = new Splitter({ kind: 'value', key }, options)
  splitter.push(body)
  splitter.end()
  const groups: Group[] = []
  for (let group = splitter.take(); group; group = splitter.take()) groups.push(group)
  const [group = none] = groups
  if (groups.length > 1 || group.entries.count + group.quarantined.length > 1)
    throw new ConnectorError('bad_reply', 'the reply contains more than one entry, expected exactly one')
  return group
}

function isBlank(body: Uint8Array): boolean {
  return body.every((byte) => byte === SPACE || byte === TAB || byte === LF || byte === CR)
}

function isNothing(bytes: Uint8Array): boolean {
  const text = Buffer.from(bytes.subarray(0, 64)).toString().replace(/\s/g, '')
  return text === 'null' || text === '{}' || text === '[]'
}
