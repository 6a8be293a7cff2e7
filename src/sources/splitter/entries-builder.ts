// Builds a group from the scanner's results: columns of offsets for valid elements, places of
// malformed ones.
import { isUtf8 } from 'node:buffer'
import {
  COLUMNS,
  Entries,
  ID_END,
  ID_START,
  RAW_END,
  RAW_START,
  TIME_END,
  TIME_START,
  TYPE,
} from '../../contracts/entries.ts'
import type { Quarantined } from '../../contracts/source.ts'
import { parseInstant } from '../../core/time.ts'
import { ID, ID_ESCAPED, NONE, TIME, TIME_ESCAPED, TYPE as TYPE_MARK, TYPE_ESCAPED } from './element-marks.ts'
import { cutBefore, decodeString } from './json-tokens.ts'
import { MalformedRanges } from './malformed.ts'
import type { LargeElement, Reason } from './malformed.ts'
import { TypeNames } from './type-names.ts'

/** Derives the id, and the time if necessary, of entries without them. */
export interface Naming {
  /**
   * The id of the entry `bytes[start, end)`, ASCII. `dated`: the result of `untimed` for it, if
   * called. Throws ConnectorError `too_large` if it can name no more entries.
   */
  id(bytes: Uint8Array, start: number, end: number, dated?: Moment): Uint8Array
  /**
   * The time of the entry `bytes[start, end)`, which has none or an unreadable one; undefined:
   * leave the entry out; 'no_entry': it is malformed.
   */
  untimed(bytes: Uint8Array, start: number, end: number): Moment | undefined | 'no_entry'
}

export interface Moment {
  readonly text: Uint8Array
  /** µs since 1970 */
  readonly at: number
}

const MAX_ID_BYTES = 1024
/** A longer type is cut to this length, because it is stored beside its entry. */
const MAX_TYPE_BYTES = 16 * 1024

export class EntriesBuilder {
  readonly #columns: Uint32Array
  readonly #times: Float64Array
  readonly #types: TypeNames
  #count = 0
  readonly #malformed = new MalformedRanges()
  readonly #texts = new TrailingTexts()
  readonly #naming: Naming | undefined

  constructor(maxEntries: number, naming?: Naming) {
    this.#naming = naming
    this.#columns = new Uint32Array(maxEntries * COLUMNS)
    this.#times = new Float64Array(maxEntries)
    this.#types = new TypeNames(maxEntries)
  }

  /** entries and quarantined elements */
  get size(): number {
    return this.#count + this.#malformed.size
  }

  /** Adds the entry `bytes[start, end)`; returns what it lacks if it is invalid. */
  add(
    bytes: Uint8Array,
    groupStart: number,
    start: number,
    end: number,
    marks: Int32Array,
    escapes: number,
  ): Reason | undefined {
    const idStart = marks[ID] as number
    const idEnd = marks[ID + 1] as number
    const timeStart = marks[TIME] as number
    const timeEnd = marks[TIME + 1] as number
    // Missing, not a string, empty; or too long for the request for the next page.
    if (idStart === idEnd || idEnd - idStart > MAX_ID_BYTES)
      return this.#naming
        ? this.#addNamed(this.#naming, bytes, groupStart, start, end, marks, escapes)
        : 'no_id'
    if (timeStart === NONE) return 'no_time'
    const time = instantOf(bytes, timeStart, timeEnd, escapes)
    // Also not a whole number of microseconds, as in years 1 or 9999, which serve as placeholders.
    if (!Number.isSafeInteger(time)) return 'no_time'
    const columns = this.#columns
    const row = this.#count * COLUMNS
    columns[row + RAW_START] = start - groupStart
    columns[row + RAW_END] = end - groupStart
    columns[row + ID_START] = idStart - groupStart
    columns[row + ID_END] = idEnd - groupStart
    columns[row + TIME_START] = timeStart - groupStart
    columns[row + TIME_END] = timeEnd - groupStart
    if (escapes & ID_ESCAPED) this.#texts.decode(row + ID_START, bytes.subarray(idStart, idEnd))
    if (escapes & TIME_ESCAPED) this.#texts.decode(row + TIME_START, bytes.subarray(timeStart, timeEnd))
    columns[row + TYPE] = this.#type(bytes, marks, (escapes & TYPE_ESCAPED) !== 0)
    this.#times[this.#count++] = time
    return undefined
  }

  #addNamed(
    naming: Naming,
    bytes: Uint8Array,
    groupStart: number,
    start: number,
    end: number,
    marks: Int32Array,
    escapes: number,
  ): Reason | undefined {
    const timeStart = marks[TIME] as number
    const timeEnd = marks[TIME + 1] as number
    let at = timeStart === NONE ? NaN : instantOf(bytes, timeStart, timeEnd, escapes)
    let moment: Moment | undefined
    if (!Number.isSafeInteger(at)) {
      const untimed = naming.untimed(bytes, start, end)
      if (untimed === undefined) return undefined
      if (untimed === 'no_entry') return 'no_id'
      moment = untimed
      at = moment.at
    }
    const columns = this.#columns
    const row = this.#count * COLUMNS
    columns[row + TIME_START] = timeStart - groupStart
    columns[row + TIME_END] = timeEnd - groupStart
    if (moment) this.#texts.add(row + TIME_START, moment.text)
    else if (escapes & TIME_ESCAPED) this.#texts.decode(row + TIME_START, bytes.subarray(timeStart, timeEnd))
    columns[row + RAW_START] = start - groupStart
    columns[row + RAW_END] = end - groupStart
    this.#texts.add(row + ID_START, naming.id(bytes, start, end, moment))
    columns[row + TYPE] = this.#type(bytes, marks, (escapes & TYPE_ESCAPED) !== 0)
    this.#times[this.#count++] = at
    return undefined
  }

  /** Marks the element `[start, end)` of the group's bytes as malformed. */
  quarantine(reason: Reason, start: number, end: number): void {
    this.#malformed.add(reason, start, end)
  }

  quarantineLarge(large: LargeElement): void {
    this.#malformed.addLarge(large)
  }

  /** bytes that the group's decoded texts need after its bytes */
  get memoryBytes(): number {
    return this.#texts.lengthBytes
  }

  /** The group of `bytes`; `slab`: the same with `memoryBytes` at its end. Empties the builder. */
  close(bytes: Uint8Array, slab: Uint8Array): ClosedGroup {
    this.#texts.write(slab, this.#columns)
    // Checked once for the group: elements begin and end with ASCII, so the whole decides.
    const count = isUtf8(bytes) ? this.#count : this.#dropInvalid(bytes)
    const columns = this.#columns.slice(0, count * COLUMNS)
    const entries =
      count === 0
        ? Entries.none
        : new Entries(slab, count, columns, this.#times.slice(0, count), this.#types.names)
    const group = { entries, quarantined: this.#malformed.close(bytes) }
    this.#count = 0
    this.#types.clear()
    return group
  }

  #type(bytes: Uint8Array, marks: Int32Array, escaped: boolean): number {
    const start = marks[TYPE_MARK] as number
    if (start === NONE) return this.#types.index(bytes, 0, 0)
    const typeEnd = marks[TYPE_MARK + 1] as number
    const end = typeEnd - start > MAX_TYPE_BYTES ? cutBefore(bytes, start, MAX_TYPE_BYTES) : typeEnd
    if (!escaped) return this.#types.index(bytes, start, end)
    const decoded = Buffer.from(decodeString(bytes.subarray(start, end)))
    return this.#types.index(decoded, 0, decoded.length)
  }

  #dropInvalid(bytes: Uint8Array): number {
    const columns = this.#columns
    let valid = 0
    for (let i = 0; i < this.#count; i++) {
      const row = i * COLUMNS
      const start = columns[row + RAW_START] as number
      const end = columns[row + RAW_END] as number
      if (!isUtf8(bytes.subarray(start, end))) this.quarantine('invalid_utf8', start, end)
      else {
        columns.copyWithin(valid * COLUMNS, row, row + COLUMNS)
        this.#times[valid++] = this.#times[i] as number
      }
    }
    return valid
  }
}

/** µs since 1970; NaN if the text has none. */
function instantOf(bytes: Uint8Array, start: number, end: number, escapes: number): number {
  if (!(escapes & TIME_ESCAPED)) return parseInstant(bytes, start, end)
  const decoded = Buffer.from(decodeString(bytes.subarray(start, end)))
  return parseInstant(decoded, 0, decoded.length)
}

// The splitter's output: some entries of a body in order, and the malformed elements between them.

export interface Group {
  readonly entries: Entries
  readonly quarantined: readonly Quarantined[]
}

/** A group whose malformed elements are not built yet. */
export interface ClosedGroup {
  readonly entries: Entries
  readonly quarantined: () => readonly Quarantined[]
}

// Texts of a group that differ from its bytes (written with escapes, or derived by us).
// They are appended after the bytes when the group closes.

interface Text {
  /** index of its start in the group's columns */
  readonly column: number
  readonly bytes: Uint8Array
}

class TrailingTexts {
  #texts: Text[] = []
  /** total of all */
  lengthBytes = 0

  add(column: number, bytes: Uint8Array): void {
    this.#texts.push({ column, bytes })
    this.lengthBytes += bytes.length
  }

  /** Half a surrogate pair has no UTF-8: it stays as written, so that texts stay different. */
  decode(column: number, written: Uint8Array): void {
    const text = decodeString(written)
    if (text.isWellFormed()) this.add(column, Buffer.from(text))
  }

  /** Writes them after the group's bytes, and points the columns there. Empties the list. */
  write(slab: Uint8Array, columns: Uint32Array): void {
    let at = slab.length - this.lengthBytes
    for (const { column, bytes } of this.#texts) {
      slab.set(bytes, at)
      columns[column] = at
      at += bytes.length
      columns[column + 1] = at
    }
    this.#texts = []
    this.lengthBytes = 0
  }
}
