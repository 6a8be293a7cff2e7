// History events that are none, or not as documented: what a reader has to put aside without losing the rest.
import type { Fields } from './render-members.ts'
import type { HistoryDefect } from './switches.ts'

const times = ['utc_time', 'timestamp']
const BAD_BYTE = '\u0002'

/** The members of an event with that defect. The last three are made of its text: see `spoiltText`. */
export function spoiltFields(fields: Fields, defect: HistoryDefect | undefined): Fields {
  switch (defect) {
    case 'history_no_id':
      return fields.filter(([name]) => name !== 'unique_usage_id')
    case 'history_bad_time':
      return fields.map(([name, json]) => [name, times.includes(name) ? '"the day before yesterday"' : json])
    case 'history_invalid_utf8':
      return [...fields, ['note', `"caf${BAD_BYTE} au lait"`]]
    case 'history_poison':
      return [...fields, ['note', 'NaN']]
    default:
      return fields
  }
}

export function spoiltText(text: string, defect: HistoryDefect | undefined): Buffer {
  if (defect === 'history_not_an_object') return Buffer.from('"an event was here"')
  const bytes = Buffer.from(text)
  if (defect === 'history_invalid_utf8') bytes[bytes.lastIndexOf(BAD_BYTE)] = 0xe9
  return bytes
}
