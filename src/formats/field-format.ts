// Writes an entry as named fields in a dialect. Values that a field cannot hold exactly are kept as
// bytes among the others, so that nothing is lost.
import { isIPv4, isIPv6 } from 'node:net'
import { ID_END, ID_START, TIME_END, TIME_START } from '../contracts/entries.ts'
import { perStream } from '../contracts/journal.ts'
import type { ChunkSlice, Shared } from '../contracts/journal.ts'
import type { Format } from '../contracts/sink.ts'
import type { SourceName } from '../contracts/source.ts'
import { ByteWriter, CLOSE_OBJECT, COMMA, OPEN_OBJECT, QUOTE } from '../core/bytes.ts'
import { eachMember, isWritten, stringAt } from '../core/json.ts'
import { eventType } from './event-types.ts'
import { findMembers, tableOf } from './fields.ts'
import type { Dialect, FieldName, FoundMembers, Row, Table } from './fields.ts'
import { isPlain, textAt, writeJson } from './one-line.ts'

/** What the lines of one stream share. */
interface StreamParts {
  readonly table: Table
  readonly fields: Buffer
  readonly headers: Map<string, Header>
}

/** The constant part of each line of one type, written once. */
interface Header {
  readonly bytes: Buffer
  readonly typeIsExact: boolean
  readonly typed: Buffer
}

/** Types come from outside: further or longer ones are written each time. */
const MAX_HEADERS = 1000
const MAX_CACHED_TYPE = 255

export function fieldFormat(dialect: Dialect): Format {
  const scratch = new ByteWriter(4096)
  const partsOf = perStream((shared): StreamParts => {
    const table = tableOf(shared.stream.source)
    return { table, fields: makeStreamFields(dialect, scratch, shared), headers: new Map() }
  })

  function headerOf(headers: StreamParts['headers'], source: SourceName, type: string): Header {
    const known = headers.get(type)
    if (known) return known
    const made = makeHeader(dialect, scratch, source, type)
    if (headers.size < MAX_HEADERS && type.length <= MAX_CACHED_TYPE) headers.set(type, made)
    return made
  }

  return (slice, index, out) => {
    const { entries } = slice
    const { table, fields, headers } = partsOf(slice)
    const writing = { dialect, out, raw: entries.raw(index) }
    findMembers(writing.raw, table)
    const { bytes, typeIsExact, typed } = headerOf(headers, slice.stream.source, entries.type(index))
    out.copy(bytes)
    out.text(String(Math.floor(entries.at(index) / 1000)))
    const idIsExact = writeColumn(writing, slice, index, ID_START, 'id', 'id')
    out.copy(fields)
    const version = entries.version(index)
    if (version > 0) writeText(writing, 'version', String(version), 'version')
    out.copy(typed)
    const timeMember = markColumns(writing.raw, slice, index, table, typeIsExact, idIsExact)
    writeColumn(writing, slice, index, TIME_START, 'time', timeMember)
    writeMembers(writing, table)
    writeOthers(writing, table)
  }
}

function makeHeader(dialect: Dialect, out: ByteWriter, source: SourceName, type: string): Header {
  const event = eventType(source, type)
  const { category, action, outcome } = event
  const writing = { dialect, out, raw: out.bytes }
  out.clear()
  // Without a type the source replaces it: a type named like its source would look like none.
  const typeIsExact = dialect.head(out, event) && type !== '' && type !== source
  const headerBytes = out.length
  writeText(writing, 'category', category, '')
  writeText(writing, 'action', action, '')
  writeText(writing, 'outcome', outcome, '')
  const all = Buffer.from(out.view())
  return { bytes: all.subarray(0, headerBytes), typeIsExact, typed: all.subarray(headerBytes) }
}

function makeStreamFields(dialect: Dialect, out: ByteWriter, { stream, replay }: Shared): Buffer {
  const writing = { dialect, out, raw: out.bytes }
  out.clear()
  writeText(writing, 'workspace', stream.workspace, '')
  writeText(writing, 'source', stream.source, 'source')
  if (replay) writeText(writing, 'replay', 'true', 'replay')
  return Buffer.from(out.view())
}

/** Id or time, from the columns; the end follows the start. */
function writeColumn(
  { dialect, out }: Writing,
  { entries }: ChunkSlice,
  index: number,
  column: number,
  field: FieldName,
  label: string,
): boolean {
  const [start, end] = [entries.column(index, column), entries.column(index, column + 1)]
  const writing = { dialect, out, raw: entries.bytes }
  if (isPlain(entries.bytes, start, end)) return writePlain(writing, field, start, end, label)
  return writeText(writing, field, Buffer.from(entries.bytes.subarray(start, end)).toString(), label)
}

/** Marks members that are already written as id, time and type; returns the one used as time. */
function markColumns(
  raw: Uint8Array,
  { entries }: ChunkSlice,
  index: number,
  { rows, found }: Table,
  typeIsExact: boolean,
  idIsExact: boolean,
): string {
  const { bytes } = entries
  const type = entries.type(index)
  const id = bytes.subarray(entries.column(index, ID_START), entries.column(index, ID_END))
  const time = bytes.subarray(entries.column(index, TIME_START), entries.column(index, TIME_END))
  let timeMember = ''
  for (let row = 0; row < rows.length; row++) {
    if (found.counts[row] === 0) continue
    const [member, field] = rows[row] as Row
    const start = found.starts[row] as number
    const end = found.ends[row] as number
    if (field === 'time') {
      if (timeMember === '' && isString(raw, start, end, time)) timeMember = markExact(found, row, member)
    } else if (field === 'id') {
      if (idIsExact && isString(raw, start, end, id)) markExact(found, row, member)
    } else if (field === 'type' && typeIsExact) {
      if (isString(raw, start, end, Buffer.from(type))) markExact(found, row, member)
    }
  }
  return timeMember === '' ? 'time' : timeMember
}

/** A repeated member is exact in no field: its field has the last value, the others have both. */
function markExact({ counts, exact }: FoundMembers, row: number, member: string): string {
  if (counts[row] === 1) exact[row] = 1
  return member
}

/** Whether the value `raw[start, end)` is a string with this text. */
function isString(raw: Uint8Array, start: number, end: number, text: Uint8Array): boolean {
  if (isWritten(raw, start, end, text)) return raw[start] === QUOTE
  // The longest encoding has six bytes per byte.
  if (raw[start] !== QUOTE || end - start - 2 > 6 * text.length) return false
  const meant = stringAt(raw, start, end)
  return meant.isWellFormed() && Buffer.from(meant).equals(text)
}

/** The members with a field of their own; JSON comes last: a receiver cuts the end off first. */
function writeMembers(writing: Writing, { rows, found }: Table): void {
  for (let row = 0; row < rows.length; row++) {
    if (found.counts[row] === 0) continue
    const [member, field, isFallback] = rows[row] as Row
    if (field === 'id' || field === 'time' || field === 'type') continue
    // JSON may be large: a repeated member is not written a third time.
    if (field === 'details' && found.counts[row] !== 1) continue
    const start = found.starts[row] as number
    const end = found.ends[row] as number
    if (isFallback) {
      if (found.counts[row - 1] === 0) writeMember(writing, field, member, start, end)
    } else if (writeMember(writing, field, member, start, end)) markExact(found, row, member)
  }
}

/** All members that no field holds exactly, as an object, in their order. */
function writeOthers(writing: Writing, { rows, found }: Table): void {
  const { dialect, out, raw } = writing
  const { exact, starts } = found
  let remaining = found.members
  for (let row = 0; row < rows.length; row++) remaining -= exact[row] as number
  if (remaining === 0) return
  out.copy(dialect.fields.others.opening)
  let separator = OPEN_OBJECT
  eachMember(raw, ({ keyStart, valueStart, valueEnd }) => {
    for (let row = 0; row < rows.length; row++) if (exact[row] === 1 && starts[row] === valueStart) return
    out.byte(separator)
    separator = COMMA
    writeJson(out, raw, keyStart, valueEnd, dialect.escapes)
  })
  out.byte(CLOSE_OBJECT)
  writeLabel(writing, 'others', 'other_fields')
}

// Writes one value into one field; each function returns whether the field contains it exactly.

/** of the longest address as text, with quotes */
const ADDRESS_BYTES = 47
/** as in CEF's dictionary */
const IPV6_LABEL = 'Source IPv6 Address'
const integer = /^-?(?:0|[1-9]\d{0,17})$/

/** Target, dialect and source bytes. */
interface Writing {
  readonly dialect: Dialect
  readonly out: ByteWriter
  readonly raw: Uint8Array
}

/** The value of a member that has its own field. */
function writeMember(
  writing: Writing,
  field: FieldName | 'address',
  member: string,
  start: number,
  end: number,
): boolean {
  const { dialect, out, raw } = writing
  if (field === 'details') {
    out.copy(dialect.fields.details.opening)
    writeJson(out, raw, start, end, dialect.escapes)
    writeLabel(writing, field, member)
    return true
  }
  const isText = raw[start] === QUOTE
  if (field === 'thread' || field === 'files' || field === 'size') {
    if (end - start > 19 || !integer.test(latin1(raw, start, end))) return false
    return writePlain(writing, field, start, end, member)
  }
  if (!isText) return false
  if (field === 'address') return writeAddress(writing, start, end)
  const { longest } = dialect.fields[field]
  if (end - start - 2 <= longest && isPlain(raw, start + 1, end - 1))
    return writePlain(writing, field, start + 1, end - 1, member)
  return writeText(writing, field, textAt(raw, start, end, longest), member)
}

function latin1(raw: Uint8Array, start: number, end: number): string {
  return Buffer.from(raw.buffer, raw.byteOffset + start, end - start).toString('latin1')
}

function writeAddress(writing: Writing, start: number, end: number): boolean {
  if (end - start > ADDRESS_BYTES) return false
  const text = latin1(writing.raw, start + 1, end - 1)
  if (isIPv4(text)) return writePlain(writing, 'ipv4', start + 1, end - 1, '')
  return isIPv6(text) && !text.includes('%') && writePlain(writing, 'ipv6', start + 1, end - 1, IPV6_LABEL)
}

/** For bytes that need no decoding. */
function writePlain(writing: Writing, field: FieldName, start: number, end: number, label: string): boolean {
  const { dialect, out, raw } = writing
  if (start === end) return false
  out.copy(dialect.fields[field].opening)
  out.copy(raw, start, end)
  writeLabel(writing, field, label)
  return true
}

/** True if the field now holds the text exactly, even for a reader that trims. */
function writeText(writing: Writing, field: FieldName, text: string, label: string): boolean {
  const { dialect, out } = writing
  if (text === '') return false
  const { opening, longest } = dialect.fields[field]
  const fit = dialect.neutral(cut(text, longest))
  out.copy(opening)
  out.text(dialect.escape(cut(fit, longest)))
  writeLabel(writing, field, label)
  return fit === text && text.length <= longest && text.trim() === text
}

/** Does not leave half a surrogate pair at the end, which the entry does not have. */
function cut(text: string, longest: number): string {
  return text.length <= longest ? text : text.slice(0, longest).replace(/[\ud800-\udbff]$/, '')
}

function writeLabel({ dialect, out }: Writing, field: FieldName, text: string): void {
  const { label } = dialect.fields[field]
  if (!label) return
  out.copy(label)
  out.text(text)
}
