// An entry with some of its top-level members removed, hashed or cut; all other bytes stay
// unchanged. The entry is never parsed as a whole.
import { createHmac } from 'node:crypto'
import { Entries, ID_END, ID_START, TIME_END, TIME_START, TYPE, columnsOf } from '../contracts/entries.ts'
import type { ChunkSlice } from '../contracts/journal.ts'
import type { Frame } from '../contracts/sink.ts'
import { BACKSLASH, ByteWriter, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../core/bytes.ts'
import { eachMember, findNameOf, stringAt, writeEscaped } from '../core/json.ts'
import type { Member } from '../core/json.ts'

const LETTER_U = 117

/** What to do with a member's value. */
export type Change =
  | { readonly with: 'drop' }
  /** HMAC-SHA-256 of the value's text under `key` */
  | { readonly with: 'hash'; readonly key: Uint8Array }
  /** at most `bytes` of the value's text stay */
  | { readonly with: 'truncate'; readonly bytes: number }

export interface Rule {
  /** names of top-level members; each in one rule only */
  readonly fields: readonly string[]
  readonly change: Change
}

/** Writes the redacted entry. Returns false and writes nothing if the entry needs no change. */
export type Redact = (raw: Uint8Array, out: ByteWriter) => boolean

/**
 * The text of a string is its decoded value in UTF-8 (half a surrogate pair counts as U+FFFD), of
 * any other value its JSON as written. Every member with the name is changed, even if the name
 * occurs twice. `raw` is valid JSON, and so is the output.
 */
export function redactBy(rules: readonly Rule[]): Redact {
  const changes = rules.flatMap(({ fields, change }) => fields.map(() => change))
  const find = findNameOf(rules.flatMap(({ fields }) => fields))
  return (raw, out) => {
    let from = 0
    // After the calls the compiler still assumes the earlier type.
    let changed = false as boolean
    // A removed member takes the comma before it along; the first one takes the comma behind it.
    let some = false
    eachMember(raw, (member) => {
      const change = changes[find(raw, member.keyStart, member.keyEnd)]
      if (change?.with === 'drop') {
        const { start, end } = member
        out.copy(raw, from, some ? start - 1 : start)
        from = !some && raw[end] === COMMA ? end + 1 : end
        changed = true
        return
      }
      some = true
      const value = change && valueUnder(change, raw, member)
      if (!value) return
      out.copy(raw, from, member.valueStart)
      value(out)
      from = member.valueEnd
      changed = true
    })
    if (changed) out.copy(raw, from)
    return changed
  }
}

type Write = (out: ByteWriter) => void

/** Writes the replacement of the value; undefined if it stays. */
function valueUnder(
  change: Exclude<Change, { with: 'drop' }>,
  raw: Uint8Array,
  { valueStart: start, valueEnd: end }: Readonly<Member>,
): Write | undefined {
  if (change.with === 'hash') {
    const digest = createHmac('sha256', change.key)
      .update(textOf(raw, start, end))
      .digest('hex')
    return (out) => out.text(`"hmac-sha256:${digest}"`)
  }
  return raw[start] === QUOTE
    ? cutString(raw, start + 1, end - 1, change.bytes)
    : cutOther(raw, start, end, change.bytes)
}

function textOf(raw: Uint8Array, start: number, end: number): Uint8Array {
  if (raw[start] !== QUOTE) return raw.subarray(start, end)
  const inside = raw.subarray(start + 1, end - 1)
  return inside.includes(BACKSLASH) ? Buffer.from(stringAt(raw, start, end)) : inside
}

const mark = (bytes: number): string => `…[truncated ${bytes} bytes]"`

/**
 * Keeps the bytes as written, so that no escape becomes another one. `raw[start, end)` is without
 * the quotes.
 */
function cutString(raw: Uint8Array, start: number, end: number, bytes: number): Write | undefined {
  // The written form is never shorter than the decoded text.
  if (end - start <= bytes) return undefined
  const cut = cutAt(raw, start, end, bytes)
  if (cut === end) return undefined
  const gone = textBytes(raw, cut, end)
  return (out) => {
    out.copy(raw, start - 1, cut)
    out.text(mark(gone))
  }
}

/** The start of an object is not JSON, so it becomes a string. */
function cutOther(raw: Uint8Array, start: number, end: number, bytes: number): Write | undefined {
  if (end - start <= bytes) return undefined
  let cut = start + bytes
  while (((raw[cut] as number) & 0xc0) === 0x80) cut--
  return (out) => {
    out.byte(QUOTE)
    writeEscaped(out, raw, start, cut)
    out.text(mark(end - cut))
  }
}

/** Where to cut the text so that it has at most `most` bytes and no partial character. */
function cutAt(raw: Uint8Array, start: number, end: number, most: number): number {
  let size = 0
  for (let at = start; at < end;) {
    const escaped = raw[at] === BACKSLASH
    const written = escaped ? escapeBytes(raw, at) : characterBytes(raw[at] as number)
    size += escaped ? meantBytes(raw, at, written) : written
    if (size > most) return at
    at += written
  }
  return end
}

/** The length in bytes of the decoded text of `raw[start, end)`. */
function textBytes(raw: Uint8Array, start: number, end: number): number {
  const inside = raw.subarray(start, end)
  let size = 0
  for (let at = 0; ;) {
    const next = inside.indexOf(BACKSLASH, at)
    if (next < 0) return size + inside.length - at
    const written = escapeBytes(inside, next)
    size += next - at + meantBytes(inside, next, written)
    at = next + written
  }
}

function characterBytes(first: number): number {
  if (first < 0x80) return 1
  if (first < 0xe0) return 2
  return first < 0xf0 ? 3 : 4
}

function unitAt(raw: Uint8Array, at: number): number {
  return Number.parseInt(Buffer.from(raw.subarray(at + 2, at + 6)).toString('latin1'), 16)
}

/** The length of the escape that begins at `at`; a surrogate pair counts with both halves. */
function escapeBytes(raw: Uint8Array, at: number): number {
  if (raw[at + 1] !== LETTER_U) return 2
  const unit = unitAt(raw, at)
  if (unit < 0xd800 || unit > 0xdbff || raw[at + 6] !== BACKSLASH || raw[at + 7] !== LETTER_U) return 6
  const second = unitAt(raw, at + 6)
  return second >= 0xdc00 && second <= 0xdfff ? 12 : 6
}

/** Bytes in UTF-8 of the character that an escape of `written` bytes means. */
function meantBytes(raw: Uint8Array, at: number, written: number): number {
  if (written === 2) return 1
  if (written === 12) return 4
  const unit = unitAt(raw, at)
  if (unit < 0x80) return 1
  return unit < 0x800 ? 2 : 3
}

// Denied entries: those whose top-level member of a name has one of the listed values. Reads bytes,
// changes none.

/** Listed values by member name. */
export type Denied = Readonly<Record<string, readonly string[]>>

interface Listed {
  readonly values: ReadonlySet<string>
  /** bytes of a value as written; a longer one matches none of these */
  readonly longestBytes: number
}

function listedOf(values: readonly string[]): Listed {
  return {
    values: new Set(values),
    longestBytes: Math.max(0, ...values.map(({ length }) => 6 * length)) + 2,
  }
}

/**
 * True for an entry that the sink must not receive. Strings are compared decoded; numbers, `true`,
 * `false` and `null` as written; an array or object equals nothing. If a name occurs twice, either
 * value counts.
 */
export function deniedBy(rules: Denied): (slice: ChunkSlice, index: number) => boolean {
  const find = findNameOf(Object.keys(rules))
  const lists = Object.values(rules).map(listedOf)
  return ({ entries }, index) => {
    const raw = entries.raw(index)
    let denied = false
    eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
      const listed = denied ? undefined : lists[find(raw, keyStart, keyEnd)]
      if (listed && valueEnd - valueStart <= listed.longestBytes)
        denied = isListed(raw, valueStart, valueEnd, listed)
    })
    return denied
  }
}

function isListed(raw: Uint8Array, start: number, end: number, { values }: Listed): boolean {
  if (raw[start] === QUOTE) return values.has(stringAt(raw, start, end))
  if (raw[start] === OPEN_ARRAY || raw[start] === OPEN_OBJECT) return false
  return values.has(Buffer.from(raw.subarray(start, end)).toString('latin1'))
}

// A sink's frame applied to redacted entries: formats and frames see only the changed entry.

const USUAL_BYTES = 16 * 1024

export function redactedFrame(frame: Frame, redact: Redact): Frame {
  const slab = new ByteWriter(USUAL_BYTES)
  return (slice, index, out, format) => {
    if (redact(slice.entries.raw(index), slab)) {
      const entries = changedEntry(slice.entries, index, slab)
      frame({ ...slice, entries, firstSeq: slice.firstSeq + index }, 0, out, format)
    } else frame(slice, index, out, format)
    slab.clear(ENTRY_SPARE_BYTES)
  }
}

/**
 * The entry with its changed bytes in `slab`. Id and time are unchanged and copied behind those
 * bytes, because their old location may be overwritten.
 */
function changedEntry(entries: Entries, index: number, slab: ByteWriter): Entries {
  const behind = (start: number, end: number) => {
    const from = slab.length
    slab.copy(entries.bytes, entries.column(index, start), entries.column(index, end))
    return [from, slab.length] as const
  }
  const raw = [0, slab.length] as const
  const id = behind(ID_START, ID_END)
  const time = behind(TIME_START, TIME_END)
  const type = entries.column(index, TYPE)
  const columns = Uint32Array.from(columnsOf({ raw, id, time, type, version: entries.version(index) }))
  return new Entries(slab.bytes, 1, columns, Float64Array.of(entries.at(index)), entries.types)
}

// How much memory a writer keeps for reuse: growth caused by one huge entry is released.

/** For a writer that frames one entry at a time. */
export const ENTRY_SPARE_BYTES = 1024 * 1024
/** For a writer that frames the entries of one object from a piece of the journal. */
export const PIECE_SPARE_BYTES = 2 * 1024 * 1024
/** For a writer that frames a batch. */
export const BATCH_SPARE_BYTES = 4 * 1024 * 1024
