// One value into one field, in the way that a dialect writes it: each answers whether the field now holds the value exactly.
import { QUOTE } from '../model/ascii.ts'
import { isIPv4, isIPv6 } from 'node:net'
import type { ByteWriter } from '../model/writer.ts'
import type { Dialect, FieldName } from './fields.ts'
import { isPlain, textAt, writeJson } from './one-line.ts'

/** of the longest address as text, and its quotes */
const ADDRESS_BYTES = 47
/** as CEF's dictionary has it */
const IPV6_LABEL = 'Source IPv6 Address'
const integer = /^-?(?:0|[1-9]\d{0,17})$/

/** Where to, how, and from which bytes. */
export interface Writing {
  readonly dialect: Dialect
  readonly out: ByteWriter
  readonly raw: Uint8Array
}

/** The value of a member that has the field for its own. */
export function writeMember(
  writing: Writing,
  field: FieldName | 'address',
  member: string,
  start: number,
  end: number,
): boolean {
  const { dialect, out, raw } = writing
  if (field === 'details') {
    out.copy(dialect.places.details.opening)
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
  const { longest } = dialect.places[field]
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

/** Bytes that are their own text. */
export function writePlain(
  writing: Writing,
  field: FieldName,
  start: number,
  end: number,
  label: string,
): boolean {
  const { dialect, out, raw } = writing
  if (start === end) return false
  out.copy(dialect.places[field].opening)
  out.copy(raw, start, end)
  writeLabel(writing, field, label)
  return true
}

/** True where the field now holds the text exactly, so that a reader gets it back whoever trims. */
export function writeText(writing: Writing, field: FieldName, text: string, label: string): boolean {
  const { dialect, out } = writing
  if (text === '') return false
  const { opening, longest } = dialect.places[field]
  const fit = dialect.neutral(cut(text, longest))
  out.copy(opening)
  out.text(dialect.escape(cut(fit, longest)))
  writeLabel(writing, field, label)
  return fit === text && text.length <= longest && text.trim() === text
}

/** Half a pair at the end would be told as if the entry had it. */
function cut(text: string, longest: number): string {
  return text.length <= longest ? text : text.slice(0, longest).replace(/[\ud800-\udbff]$/, '')
}

export function writeLabel({ dialect, out }: Writing, field: FieldName, text: string): void {
  const { label } = dialect.places[field]
  if (!label) return
  out.copy(label)
  out.text(text)
}
