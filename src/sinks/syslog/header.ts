// The header before an entry's text in a syslog message, by RFC 5424 or 3164; it depends only on
// the entry and the options.
import { ID_END, ID_START } from '../../contracts/entries.ts'
import { perStream } from '../../contracts/journal.ts'
import type { ChunkSlice, Shared } from '../../contracts/journal.ts'
import { BACKSLASH, DEL, QUOTE, SPACE, TAB } from '../../core/bytes.ts'
import type { ByteWriter } from '../../core/bytes.ts'
import { facilities } from './options.ts'
import type { ShapeOptions } from './options.ts'

export interface HeaderOptions extends ShapeOptions {
  hostOf(workspace: string): string
}

export interface MessagePart {
  /** counts from 1 */
  readonly number: number
  readonly of: number
}

/** Writes the header of entry `index`; the text is appended to it. */
export type Header = (
  run: ChunkSlice,
  index: number,
  severity: number,
  part: MessagePart | undefined,
  out: ByteWriter,
) => void

/** Bytes of an id in the header. Ids are UUIDs; longer ones are hostile, and whole in the text. */
const ID_BYTES = 128
const NAME_BYTES = 64

/** Names from the configuration need no escaping; other characters are replaced. */
const paramField = (text: string) => headerField(text, NAME_BYTES).replace(/["\\\]]/g, '_')

/** With RFC 3164 a colon ends the host: the name of the workspace replaces an IPv6 address. */
function hostnameOf(options: HeaderOptions, { stream: { workspace } }: Shared): string {
  const host = options.hostname ?? options.hostOf(workspace)
  return headerField(options.rfc === 3164 && host.includes(':') ? workspace : host, 255)
}

function writeId({ entries }: ChunkSlice, index: number, out: ByteWriter): void {
  const [start, end] = [entries.column(index, ID_START), entries.column(index, ID_END)]
  writeParam(out, entries.bytes, start, end, ID_BYTES)
}

/** PRI, as RFC 5424 and RFC 3164 compute it. */
const priority = ({ facility }: HeaderOptions, severity: number): string =>
  `<${facilities.indexOf(facility) * 8 + severity}>`

function header5424(options: HeaderOptions): Header {
  const stamp = stamp5424()
  const constants = perStream((shared) => {
    const { workspace, source } = shared.stream
    const fields = `${hostnameOf(options, shared)} ${headerField(options.app_name, 48)} - ${headerField(source, 32)}`
    const data = `auditferry@${options.enterprise_id} workspace="${paramField(workspace)}" source="${paramField(source)}"`
    const close = shared.replay ? '" replay="true"' : '"'
    return { middle: Buffer.from(` ${fields} [${data} id="`), close }
  })
  return (run, index, severity, part, out) => {
    const { middle, close } = constants(run)
    out.text(`${priority(options, severity)}1 ${stamp(run.entries.at(index))}`)
    out.copy(middle)
    writeId(run, index, out)
    out.text(close)
    const version = run.entries.version(index)
    if (version > 0) out.text(` version="${version}"`)
    if (part) out.text(` part="${part.number}/${part.of}"`)
    out.text('] ')
  }
}

function header3164(options: HeaderOptions): Header {
  const tag = tagField(options.app_name)
  const constants = perStream((shared) => Buffer.from(` ${hostnameOf(options, shared)} ${tag}: `))
  return (run, index, severity, part, out) => {
    out.text(priority(options, severity))
    writeStamp3164(run.entries.at(index), run.appendedAt, out)
    out.copy(constants(run))
    if (!part) return
    out.text(`[part ${part.number}/${part.of} id=`)
    writeId(run, index, out)
    out.text('] ')
  }
}

export const headerOf = (options: HeaderOptions): Header =>
  options.rfc === 5424 ? header5424(options) : header3164(options)

// The severity of a message: notice, unless the line is CEF and has its own.

const NOTICE = 5
const CAPITAL_C = 67
/** A CEF header, which precedes the extension, is searched within this many bytes. */
const LONGEST_HEADER = 4096

/** CEF counts from 0 (lowest) to 10 (highest); syslog from 7 to 0. */
const bySeverity = [6, 6, 6, 6, 5, 5, 5, 4, 4, 2, 2]
/** Six fields, in which a backslash escapes a pipe, then the severity. */
const cefSeverity = /^CEF:(?:(?:[^\\|]|\\.)*\|){6}(\d{1,2})\|/s

export function severityOf(bytes: Uint8Array, length: number): number {
  if (bytes[0] !== CAPITAL_C) return NOTICE
  const header = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(length, LONGEST_HEADER))
  const severity = cefSeverity.exec(header.toString('latin1'))?.[1]
  return bySeverity[Number(severity)] ?? NOTICE
}

// An entry's own time in syslog form, in UTC: with microseconds in RFC 5424; to the second, without
// a year, in RFC 3164.

const MINUTE_US = 60_000_000
/** Years 0001 to 9999: the range of four digits. */
const FIRST_US = -62_135_596_800_000_000
const LAST_US = 253_402_300_800_000_000

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const isTellable = (us: number) => us >= FIRST_US && us < LAST_US

/** `2026-11-21T10:00:00.123456Z`, or `-`. Caches the minute's text: entries come in order. */
function stamp5424(): (us: number) => string {
  let knownMinute = NaN
  let text = ''
  return (us) => {
    if (!isTellable(us)) return '-'
    const minute = Math.floor(us / MINUTE_US)
    if (minute !== knownMinute) {
      text = new Date(minute * 60_000).toISOString().slice(0, 17)
      knownMinute = minute
    }
    const rest = String(us - minute * MINUTE_US).padStart(8, '0')
    return `${text}${rest.slice(0, 2)}.${rest.slice(2)}Z`
  }
}

/** `Nov  1 10:00:00`. `otherwise` (epoch ms) is used if the entry has no valid time. */
function writeStamp3164(us: number, otherwise: number, out: ByteWriter): void {
  const date = new Date(isTellable(us) ? Math.floor(us / 1000) : otherwise)
  const day = String(date.getUTCDate()).padStart(2)
  out.text(`${months[date.getUTCMonth()] ?? ''} ${day} ${date.toISOString().slice(11, 19)}`)
}

// Makes external text safe for a syslog message: header fields, parameter values, the text itself.

const BRACKET = 93
const UNDERSCORE = 95

/** Printable ASCII without spaces, cut to `longest`; `-` if nothing is left. */
function headerField(text: string, longest: number): string {
  return text.replace(/[^\x21-\x7e]/gu, '_').slice(0, longest) || '-'
}

/** A tag of RFC 3164, without the characters that end it: colon and brackets. */
function tagField(text: string): string {
  return text.replace(/[^A-Za-z0-9_./-]/gu, '_').slice(0, 32)
}

/** The start of the character that contains byte `at`; invalid UTF-8 is left unchanged. */
export function characterStart(bytes: Uint8Array, at: number): number {
  let start = at
  while (start > at - 3 && start > 0 && isContinuation(bytes[start])) start--
  return isContinuation(bytes[start]) ? at : start
}

const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80

/**
 * UTF-8 `bytes[start, end)` as the inside of a PARAM-VALUE, in at most `longest` bytes: quote,
 * backslash and bracket escaped, control characters as `_`.
 */
function writeParam(out: ByteWriter, bytes: Uint8Array, start: number, end: number, longest: number): void {
  const until = end - start > longest ? characterStart(bytes, start + longest) : end
  out.reserve((until - start) * 2)
  const { bytes: into } = out
  let at = out.length
  for (let i = start; i < until; i++) {
    const byte = bytes[i] as number
    if (byte === QUOTE || byte === BACKSLASH || byte === BRACKET) into[at++] = BACKSLASH
    into[at++] = byte < SPACE || byte === DEL ? UNDERSCORE : byte
  }
  out.length = at
}

/**
 * Replaces control characters of `bytes[start, end)` with spaces, except the tab, which formats use
 * as a separator. JSON has none inside its tokens, so an entry's own bytes do not change.
 */
export function neutralise(bytes: Uint8Array, start: number, end: number): void {
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number
    if (byte < SPACE && byte !== TAB) bytes[i] = SPACE
  }
}
