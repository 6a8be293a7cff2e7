// Escapes bytes into a JSON string: shared by formats and frames for text from outside.
import type { ZodType } from 'zod'
import {
  BACKSLASH,
  ByteWriter,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  SPACE,
} from './bytes.ts'

const HEX = Buffer.from('0123456789abcdef')
const UNICODE = Buffer.from('\\u00')

/** The longest escape of one byte: `\u001f`. */
const MAX_ESCAPE_BYTES = 6
/** A huge text is escaped in pieces: in one step, six times its length would be reserved. */
const PIECE_BYTES = 64 * 1024

/** Writes UTF-8 `bytes[start, end)` as the content of a JSON string, without its quotes. */
export function writeEscaped(out: ByteWriter, bytes: Uint8Array, start: number, end: number): void {
  for (let from = start; from < end; from += PIECE_BYTES)
    writePiece(out, bytes, from, Math.min(end, from + PIECE_BYTES))
}

function writePiece(out: ByteWriter, bytes: Uint8Array, start: number, end: number): void {
  out.reserve((end - start) * MAX_ESCAPE_BYTES)
  const { bytes: into } = out
  let at = out.length
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number
    if (byte < SPACE) {
      at += UNICODE.copy(into, at)
      into[at++] = HEX[byte >> 4] as number
      into[at++] = HEX[byte & 15] as number
    } else {
      if (byte === QUOTE || byte === BACKSLASH) into[at++] = BACKSLASH
      into[at++] = byte
    }
  }
  out.length = at
}

/** Escapes the UTF-8 in `out` from `from` on, in place and backwards: a huge line needs no copy. */
export function quote(out: ByteWriter, from: number): void {
  const until = out.length
  let more = 1
  for (let i = from; i < until; i++) more += writtenBytes(out.bytes[i] as number) - 1
  out.reserve(more + 1)
  const { bytes } = out
  let to = until + more
  bytes[to] = QUOTE
  out.length = to + 1
  for (let i = until - 1; i >= from; i--) {
    const byte = bytes[i] as number
    if (byte < SPACE) {
      bytes[--to] = HEX[byte & 15] as number
      bytes[--to] = HEX[byte >> 4] as number
      to -= UNICODE.length
      UNICODE.copy(bytes, to)
    } else {
      bytes[--to] = byte
      if (byte === QUOTE || byte === BACKSLASH) bytes[--to] = BACKSLASH
    }
  }
  bytes[from] = QUOTE
}

function writtenBytes(byte: number): number {
  if (byte < SPACE) return MAX_ESCAPE_BYTES
  return byte === QUOTE || byte === BACKSLASH ? 2 : 1
}

// The top-level members of an entry, as offsets into its bytes, without parsing; duplicate keys are
// visited separately. Also shrinks an entry by whole members.

/** Offsets into the bytes that were scanned. */
export interface Member {
  /** after the brace or comma before it */
  start: number
  /** of the key, including its quotes */
  keyStart: number
  keyEnd: number
  /** of the value, without white space around */
  valueStart: number
  valueEnd: number
  /** of the comma or brace that follows */
  end: number
}

/**
 * Calls `visit` for each top-level member of the object `raw`, in order; `member` is the same
 * object each time. `raw` must be valid JSON, as every stored entry is: otherwise the result is
 * arbitrary, but the call ends.
 */
export function eachMember(raw: Uint8Array, visit: (member: Readonly<Member>) => void): void {
  const member: Member = { start: 0, keyStart: 0, keyEnd: 0, valueStart: 0, valueEnd: 0, end: 0 }
  let at = afterSpace(raw, 0)
  if (raw[at] !== OPEN_OBJECT) return
  do {
    member.start = at + 1
    member.keyStart = afterSpace(raw, at + 1)
    if (raw[member.keyStart] !== QUOTE) return
    member.keyEnd = stringEnd(raw, member.keyStart)
    // one for the colon
    member.valueStart = afterSpace(raw, afterSpace(raw, member.keyEnd) + 1)
    member.valueEnd = valueEnd(raw, member.valueStart)
    at = member.end = afterSpace(raw, member.valueEnd)
    visit(member)
  } while (raw[at] === COMMA)
}

/** The decoded string; `raw[start, end)` is its written form, including the quotes. */
export function stringAt(raw: Uint8Array, start: number, end: number): string {
  const inside = Buffer.from(raw.buffer, raw.byteOffset + start, end - start)
  if (!inside.includes(BACKSLASH)) return inside.toString('utf8', 1, inside.length - 1)
  return JSON.parse(inside.toString()) as string
}

/** The end of the white space at `at`. */
function afterSpace(raw: Uint8Array, at: number): number {
  while (at < raw.length && (raw[at] as number) <= SPACE) at++
  return at
}

/** The offset after the closing quote of the string that opens at `start`. */
function stringEnd(raw: Uint8Array, start: number): number {
  for (let at = start + 1; ; at++) {
    // Most strings are short, as are the parts of one full of quotes: use the native search
    // only for long ones.
    for (const near = Math.min(raw.length, at + 128); at < near; at++) {
      const byte = raw[at] as number
      if (byte === QUOTE) return at + 1
      if (byte === BACKSLASH) at++
    }
    const from = at
    at = raw.indexOf(QUOTE, from)
    if (at < 0) return raw.length
    let before = at
    while (before > from && raw[before - 1] === BACKSLASH) before--
    if ((at - before) % 2 === 0) return at + 1
  }
}

/** The offset after the value that begins at `at`; `at` itself if there is none. */
function valueEnd(raw: Uint8Array, at: number): number {
  let depth = 0
  while (at < raw.length) {
    const byte = raw[at] as number
    if (byte === QUOTE) {
      at = stringEnd(raw, at)
      if (depth === 0) return at
      continue
    }
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      if (depth === 0) return at
      if (--depth === 0) return at + 1
    } else if (depth === 0 && (byte === COMMA || byte <= SPACE)) return at
    at++
  }
  return raw.length
}

/**
 * The member that lists what `compactEntry` left out: `[{"field":"response","bytes":70000}]`, bytes
 * of the value as written.
 */
const DROPPED = 'auditferry_dropped'

/** Identifying members of entries of any source: id, times and type are kept, however large. */
const identifyingFields: ReadonlySet<string> = new Set([
  'id',
  'timestamp',
  'type',
  'unique_usage_id',
  'utc_time',
  'product_surface_area',
  'action',
  'created_at',
  'updated_at',
  'project_updated_at',
])
/** True for the name of an identifying member. */
export const isIdentifyingField = (field: string): boolean => identifyingFields.has(field)
const longestIdentifying = Math.max(...[DROPPED, ...identifyingFields].map((field) => field.length))

const MARK = `"${DROPPED}":[`
const FIELD = '{"field":'
const BYTES = ',"bytes":'

/**
 * The entry in at most `maxBytes`: leaves out whole top-level members, the largest value first,
 * until it fits, and adds a last member that names them. All other bytes stay unchanged. An entry
 * that fits is returned itself; undefined if leaving out all removable members is not enough. `raw`
 * is valid JSON, and so is the result.
 */
export function compactEntry(raw: Uint8Array, maxBytes: number): Uint8Array | undefined {
  if (raw.length <= maxBytes) return raw
  const { ranks, gains } = candidates(raw)
  // The parts of the mark besides its items; the comma before it; each item counts one comma, the
  // first has none.
  let size = raw.length + MARK.length + 1
  let least = Infinity
  for (let i = ranks.length - 1; i >= 0; i--) {
    const rank = ranks[i] as number
    if (size <= maxBytes && rank < FORGED) break
    size -= gains[ordinalOf(rank)] as number
    least = rank
  }
  return size > maxBytes ? undefined : without(raw, least, size)
}

// A sortable number: first the value's size, then the position, so that of equal sizes the first
// goes first.
const MAX_MEMBERS = 2 ** 22
const FORGED = 2 ** 52

function ordinalOf(rank: number): number {
  return MAX_MEMBERS - 1 - (rank % MAX_MEMBERS)
}

/** Negative: it stays, because it must, or because naming it would take as many bytes. */
function rankOf(raw: Uint8Array, member: Readonly<Member>, ordinal: number): number {
  const { keyStart, keyEnd, valueStart, valueEnd } = member
  if (valueEnd - valueStart < FIELD.length && keyEnd - keyStart < DROPPED.length) return -1
  const position = MAX_MEMBERS - 1 - ordinal
  if (position < 0) return -1
  // Six bytes a character is the longest way to write it.
  if (keyEnd - keyStart <= 6 * longestIdentifying + 2) {
    const key = stringAt(raw, keyStart, keyEnd)
    // A foreign mark is always removed: a reader must be able to trust the one present.
    if (key === DROPPED) return FORGED + position
    if (identifyingFields.has(key)) return -1
  }
  if (gainOf(member) <= 0) return -1
  return (valueEnd - valueStart) * MAX_MEMBERS + position
}

function gainOf({ start, keyStart, keyEnd, valueStart, valueEnd, end }: Readonly<Member>): number {
  const digits = String(valueEnd - valueStart).length
  const item = FIELD.length + (keyEnd - keyStart) + BYTES.length + digits + 1
  // Each side has one more comma: of the removed member, and of the added item.
  return end - start + 1 - (item + 1)
}

/** Ranks in ascending order, and the bytes saved by leaving out each, by its ordinal. */
function candidates(raw: Uint8Array): { readonly ranks: Float64Array; readonly gains: readonly number[] } {
  const ranks: number[] = []
  const gains: number[] = []
  eachMember(raw, (member) => {
    const rank = rankOf(raw, member, gains.length)
    if (rank < 0) return
    ranks.push(rank)
    gains.push(gainOf(member))
  })
  return { ranks: Float64Array.from(ranks).sort(), gains }
}

/** The entry without the members of rank `least` or above, in exactly `size` bytes. */
function without(raw: Uint8Array, least: number, size: number): Uint8Array {
  const out = new ByteWriter(size)
  const items: string[] = []
  let ordinal = 0
  let separator: string | undefined
  let behind = 0
  eachMember(raw, (member) => {
    const { start, keyStart, keyEnd, valueStart, valueEnd, end } = member
    if (separator === undefined) out.copy(raw, 0, start)
    separator ??= ''
    behind = end
    const rank = rankOf(raw, member, ordinal)
    if (rank >= 0) ordinal++
    if (rank >= least) {
      const key = Buffer.from(raw.subarray(keyStart, keyEnd)).toString()
      items.push(`${FIELD}${key}${BYTES}${valueEnd - valueStart}}`)
      return
    }
    out.text(separator)
    out.copy(raw, start, end)
    separator = ','
  })
  out.text(`${separator ?? ''}${MARK}${items.join(',')}]`)
  out.copy(raw, behind)
  return out.view()
}

// Finds a member's key among given names, written plainly or with escapes.

/** The index of the key `raw[start, end)`, with its quotes, among names; negative: it is none. */
export type FindName = (raw: Uint8Array, start: number, end: number) => number

export function findNameOf(names: readonly string[]): FindName {
  const keys = names.map((name) => Buffer.from(name))
  // Six bytes a character is the longest way to write it.
  const longestBytes = Math.max(0, ...names.map(({ length }) => 6 * length)) + 2
  return (raw, start, end) => {
    if (end - start > longestBytes) return -1
    for (let index = 0; index < keys.length; index++)
      if (isWritten(raw, start, end, keys[index] as Uint8Array)) return index
    for (let at = start + 1; at < end - 1; at++)
      if (raw[at] === BACKSLASH) return names.indexOf(stringAt(raw, start, end))
    return -1
  }
}

/** Whether `raw[start, end)` is `text` unescaped, between quotes. */
export function isWritten(raw: Uint8Array, start: number, end: number, text: Uint8Array): boolean {
  const { length } = text
  if (end - start !== length + 2) return false
  for (let i = 0; i < length; i++) if (raw[start + 1 + i] !== text[i] || text[i] === BACKSLASH) return false
  return true
}

// A text that may or may not be JSON of a given schema: written by another version, or from
// elsewhere.

/** The parsed text if it is JSON of that schema; else undefined. */
export function jsonOf<T>(form: ZodType<T>, text: string): T | undefined {
  try {
    return form.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

// Text values of an entry under a few names. Only these are decoded: parsing 16 MB of small objects
// would take twenty times that.

/** A longer text is not a name, address or time: it is ignored. */
const MAX_TEXT_BYTES = 64 * 1024

type Texts<Name extends string> = Partial<Record<Name, string | undefined>>

/**
 * Reads top-level texts of an entry under `names`; of several under one name the last, and nothing
 * if that is not a text.
 */
export function textsUnder<Name extends string>(names: readonly Name[]): (raw: Uint8Array) => Texts<Name> {
  const find = findNameOf(names)
  return (raw) => {
    const texts: Texts<Name> = {}
    eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
      const name = names[find(raw, keyStart, keyEnd)]
      if (name === undefined) return
      const isText = raw[valueStart] === QUOTE && valueEnd - valueStart <= MAX_TEXT_BYTES
      texts[name] = isText ? stringAt(raw, valueStart, valueEnd) : undefined
    })
    return texts
  }
}

// The elements of a JSON array as offsets into its bytes, like the members of objects above.
// Nothing is parsed.

/** Calls `visit` for each element of the valid JSON array `raw`; never for anything else. */
export function eachElement(raw: Uint8Array, visit: (element: Uint8Array) => void): void {
  if (raw[0] !== OPEN_ARRAY) return
  let at = 0
  do {
    const start = afterSpace(raw, at + 1)
    const end = valueEnd(raw, start)
    at = afterSpace(raw, end)
    if (end > start && (raw[at] === COMMA || raw[at] === CLOSE_ARRAY)) visit(raw.subarray(start, end))
  } while (raw[at] === COMMA)
}

/** The value of the object's member `key`, of several the last; undefined: none, or no object. */
export function memberValue(raw: Uint8Array, key: string): Uint8Array | undefined {
  let found: Uint8Array | undefined
  eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
    if (keyEnd - keyStart > 6 * key.length + 2) return
    if (keyText(raw, keyStart, keyEnd) === key) found = raw.subarray(valueStart, valueEnd)
  })
  return found
}

/** Undefined if there is no string, as in truncated bytes. */
export function keyText(raw: Uint8Array, start: number, end: number): string | undefined {
  try {
    return stringAt(raw, start, end)
  } catch {
    return undefined
  }
}

/** A decoded string; any other value, such as a number, as written. */
export function valueText(value: Uint8Array | undefined): string | undefined {
  if (value === undefined) return undefined
  if (value[0] === QUOTE) return keyText(value, 0, value.length)
  return Buffer.from(value).toString()
}
