// `cef`: the entry as ArcSight's Common Event Format, keys from its dictionary.
import type { Format } from '../contracts/sink.ts'
import type { ByteWriter } from '../core/bytes.ts'
import type { EventType } from './event-types.ts'
import { fieldFormat } from './field-format.ts'
import { layoutsAfter } from './fields.ts'
import type { Dialect, FieldLayout } from './fields.ts'
import { neutralText } from './one-line.ts'

const MAX_CLASS_ID = 255
const OPENING = 'CEF:0|Auditferry|Workspace|1|'

const field = layoutsAfter(' ')

/** A key whose meaning is in a second key, its label. */
const labelled = (key: string, longest: number): FieldLayout => field(key, longest, `${key}Label`)

/** Lengths as in the dictionary. Ids and JSON are not cut; a receiver may (docs/formats.md). */
const fields: Dialect['fields'] = {
  id: field('externalId', Infinity),
  workspace: field('deviceExternalId', 255),
  source: labelled('cs3', Infinity),
  time: labelled('cs2', Infinity),
  category: field('cat', 1023),
  action: field('act', 63),
  outcome: field('outcome', 63),
  version: labelled('cn1', 19),
  replay: labelled('cs6', Infinity),
  user: field('suser', 1023),
  ipv4: field('src', 15),
  ipv6: labelled('c6a2', 45),
  agent: field('requestClientApplication', 1023),
  url: field('request', 1023),
  matter: labelled('cs5', 4000),
  thread: labelled('cn2', 19),
  name: labelled('cs5', 4000),
  files: labelled('cn2', 19),
  size: labelled('cn3', 19),
  details: labelled('cs1', Infinity),
  others: labelled('cs4', Infinity),
}

const breaks: Readonly<Record<string, string>> = { '\r': '\\r', '\n': '\\n' }

function head(out: ByteWriter, { classId, name, severity }: EventType): boolean {
  const fit = neutralText(classId.slice(0, MAX_CLASS_ID), '')
  out.text(`${OPENING}${fit.replace(/[\\|]/g, '\\$&')}|${name}|${severity}|rt=`)
  return fit === classId && classId.trim() === classId
}

const dialect: Dialect = {
  fields,
  escapes: true,
  neutral: (text) => neutralText(text, '\r\n'),
  escape: (text) => text.replace(/[\\=\r\n]/g, (found) => breaks[found] ?? `\\${found}`),
  head,
}

export function cef(): Format {
  return fieldFormat(dialect)
}
