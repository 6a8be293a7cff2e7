// What stands before an entry's text in a syslog message, by RFC 5424 or 3164; the bytes follow from the entry and the options alone.
import { ID_END, ID_START } from '../../model/entries.ts'
import type { Run } from '../../model/journal.ts'
import { perOrigin, type Shared } from '../../model/per-origin.ts'
import type { ByteWriter } from '../../model/writer.ts'
import { stamp5424, writeStamp3164 } from './stamp.ts'
import { headerField, tagField, writeParam } from './text.ts'

export interface HeaderOptions {
  readonly rfc: 5424 | 3164
  /** its number */
  readonly facility: number
  readonly appName: string
  readonly hostname: string | undefined
  readonly enterpriseId: number
  hostOf(workspace: string): string
}

export interface MessagePart {
  /** counts from 1 */
  readonly number: number
  readonly of: number
}

/** Writes the header of entry `index`, to which its text is appended. */
export type Header = (
  run: Run,
  index: number,
  severity: number,
  part: MessagePart | undefined,
  out: ByteWriter,
) => void

/** So much of an entry's id stands in the header. An id is a UUID; what is longer is hostile, and stands whole in the text. */
const ID_BYTES = 128
const NAME_BYTES = 64

/** Names of the configuration, which are words: what would need escaping cannot stand there. */
const paramField = (text: string) => headerField(text, NAME_BYTES).replace(/["\\\]]/g, '_')

/** With RFC 3164 a colon ends the host: the workspace's name stands in for an IPv6 address. */
function hostnameOf(options: HeaderOptions, { origin: { workspace } }: Shared): string {
  const host = options.hostname ?? options.hostOf(workspace)
  return headerField(options.rfc === 3164 && host.includes(':') ? workspace : host, 255)
}

function writeId({ entries }: Run, index: number, out: ByteWriter): void {
  const [start, end] = [entries.column(index, ID_START), entries.column(index, ID_END)]
  writeParam(out, entries.bytes, start, end, ID_BYTES)
}

function header5424(options: HeaderOptions): Header {
  const { facility, appName, enterpriseId } = options
  const stamp = stamp5424()
  const constants = perOrigin((shared) => {
    const { workspace, source } = shared.origin
    const fields = `${hostnameOf(options, shared)} ${headerField(appName, 48)} - ${headerField(source, 32)}`
    const data = `auditferry@${enterpriseId} workspace="${paramField(workspace)}" source="${paramField(source)}"`
    const close = shared.replay ? '" replay="true"' : '"'
    return { middle: Buffer.from(` ${fields} [${data} id="`), close, end: Buffer.from(`${close}] `) }
  })
  const open = Array.from({ length: 8 }, (_, severity) => Buffer.from(`<${facility * 8 + severity}>1 `))
  return (run, index, severity, part, out) => {
    const { middle, close, end } = constants(run)
    out.copy(open[severity] as Buffer)
    stamp(run.entries.at(index), out)
    out.copy(middle)
    writeId(run, index, out)
    const version = run.entries.version(index)
    if (version === 0 && !part) {
      out.copy(end)
      return
    }
    out.text(close)
    if (version > 0) out.text(` version="${version}"`)
    if (part) out.text(` part="${part.number}/${part.of}"`)
    out.text('] ')
  }
}

function header3164(options: HeaderOptions): Header {
  const tag = tagField(options.appName)
  const constants = perOrigin((shared) => Buffer.from(` ${hostnameOf(options, shared)} ${tag}: `))
  return (run, index, severity, part, out) => {
    out.text(`<${options.facility * 8 + severity}>`)
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
