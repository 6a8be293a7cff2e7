// `leef`: the entry as QRadar's Log Event Extended Format 2.0, attributes separated by tabs.
import type { Format } from '../contracts/sink.ts'
import type { ByteWriter } from '../core/bytes.ts'
import type { EventType } from './event-types.ts'
import { fieldFormat } from './field-format.ts'
import type { Dialect, Place } from './fields.ts'
import { neutralText } from './one-line.ts'

const LONGEST_EVENT_ID = 255
const OPENING = 'LEEF:2.0|Auditferry|Workspace|1|'

function place(key: string, longest = Infinity, label?: string): Place {
  return {
    opening: Buffer.from(`\t${key}=`),
    longest,
    label: label === undefined ? undefined : Buffer.from(`\t${label}=`),
  }
}

/** Keys of LEEF if it has one; other keys describe their content. */
const places: Dialect['places'] = {
  id: place('entryId'),
  workspace: place('workspace'),
  source: place('source'),
  time: place('time', Infinity, 'timeField'),
  category: place('cat', 255),
  action: place('action', 255),
  outcome: place('outcome'),
  version: place('version'),
  replay: place('replay'),
  user: place('usrName', 255),
  ipv4: place('src'),
  ipv6: place('src'),
  agent: place('userAgent', 1023),
  url: place('url', 1023),
  matter: place('cmId', 4000),
  thread: place('parentThreadId'),
  name: place('name', 4000),
  files: place('filesCount'),
  size: place('sizeBytes'),
  details: place('details', Infinity, 'detailsField'),
  others: place('otherFields'),
}

/** LEEF has no escapes: separators become a space, in the header an underscore. */
const separators = /[\t\r\n]/g

function head(out: ByteWriter, { classId, name, severity }: EventType): boolean {
  const fit = neutralText(classId.slice(0, LONGEST_EVENT_ID), '').replaceAll('|', '_')
  // The lowest severity of LEEF is 1.
  out.text(`${OPENING}${fit}|x09|sev=${Math.max(1, severity)}\teventName=${name}\tdevTime=`)
  return fit === classId && classId.trim() === classId
}

const dialect: Dialect = {
  places,
  escapes: false,
  neutral: (text) => neutralText(text.replace(separators, ' '), ''),
  escape: (text) => text,
  head,
}

export function leef(): Format {
  return fieldFormat(dialect)
}
