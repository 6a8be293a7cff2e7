// `leef`: the entry as QRadar's Log Event Extended Format 2.0, attributes separated by tabs.
import type { Format } from '../contracts/sink.ts'
import type { ByteWriter } from '../core/bytes.ts'
import type { EventType } from './event-types.ts'
import { fieldFormat } from './field-format.ts'
import { layoutsAfter } from './fields.ts'
import type { Dialect } from './fields.ts'
import { neutralText } from './one-line.ts'

const MAX_EVENT_ID = 255
const OPENING = 'LEEF:2.0|Auditferry|Workspace|1|'

const field = layoutsAfter('\t')

/** Keys of LEEF if it has one; other keys describe their content. */
const fields: Dialect['fields'] = {
  id: field('entryId'),
  workspace: field('workspace'),
  source: field('source'),
  time: field('time', Infinity, 'timeField'),
  category: field('cat', 255),
  action: field('action', 255),
  outcome: field('outcome'),
  version: field('version'),
  replay: field('replay'),
  user: field('usrName', 255),
  ipv4: field('src'),
  ipv6: field('src'),
  agent: field('userAgent', 1023),
  url: field('url', 1023),
  matter: field('cmId', 4000),
  thread: field('parentThreadId'),
  name: field('name', 4000),
  files: field('filesCount'),
  size: field('sizeBytes'),
  details: field('details', Infinity, 'detailsField'),
  others: field('otherFields'),
}

/** LEEF has no escapes: separators become a space, in the header an underscore. */
const separators = /[\t\r\n]/g

function head(out: ByteWriter, { classId, name, severity }: EventType): boolean {
  const fit = neutralText(classId.slice(0, MAX_EVENT_ID), '').replaceAll('|', '_')
  // The lowest severity of LEEF is 1.
  out.text(`${OPENING}${fit}|x09|sev=${Math.max(1, severity)}\teventName=${name}\tdevTime=`)
  return fit === classId && classId.trim() === classId
}

const dialect: Dialect = {
  fields,
  escapes: false,
  neutral: (text) => neutralText(text.replace(separators, ' '), ''),
  escape: (text) => text,
  head,
}

export function leef(): Format {
  return fieldFormat(dialect)
}
