// The bytes of entries and events: mostly compact, at times spelled otherwise, malformed on demand.
import type { Random } from '../core/clock.ts'
import type { Defect, HistoryDefect } from './switches.ts'

/** Microseconds since 1970 in the API's format: no zone, six decimals. */
export function stampOf(us: number): string {
  const ms = Math.floor(us / 1000)
  return `${new Date(ms).toISOString().slice(0, -1)}${String(us - ms * 1000).padStart(3, '0')}`
}

/** The members of an object: names, and JSON texts of the values. */
export type Fields = readonly (readonly [name: string, json: string])[]

interface EntryContent {
  readonly id: string
  readonly atUs: number
  readonly type: string
  readonly user: string
  readonly ip: string
  readonly userAgent: string
  /** JSON text */
  readonly data: string
}

function fieldsOf({ id, atUs, type, user, ip, userAgent, data }: EntryContent): Fields {
  return [
    ['id', JSON.stringify(id)],
    ['timestamp', `"${stampOf(atUs)}"`],
    ['type', JSON.stringify(type)],
    ['user', JSON.stringify(user)],
    ['ip', JSON.stringify(ip)],
    ['user_agent', JSON.stringify(userAgent)],
    ['data', data],
  ]
}

function joined(fields: Fields, comma = ',', colon = ':'): string {
  let text = ''
  for (const [name, json] of fields) text += `${text && comma}"${name}"${colon}${json}`
  return text
}

const compact = (fields: Fields) => `{${joined(fields)}}`

type Spelling = (fields: Fields) => string

/** The same object in other spellings that JSON allows. */
const spellings: readonly Spelling[] = [
  (fields) => `{${joined(fields, ', ', ': ')}}`,
  (fields) => `{\n  ${joined(fields, ',\n  ', ': ')}\n}`,
  (fields) => `{\r\n\t${joined(fields, ' ,\r\n\t', ' :\t')} }`,
  (fields) => compact([...fields].reverse()),
]

const entrySpellings: readonly Spelling[] = [
  ...spellings,
  (fields) => compact(fields).replace('"id"', '"\\u0069d"').replace('"timestamp"', '"time\\u0073tamp"'),
  ([[, id] = ['', ''], ...rest]) =>
    compact([['id', id.replace('-', '\\u002d')], ...rest]).replace('"type"', '"typ\\u0065"'),
  (fields) => `{"id":"decoy",${joined(fields).replace('"type":', '"type":"user:decoy","type":')}}`,
]

const eventSpellings: readonly Spelling[] = [
  ...spellings,
  (fields) => compact(fields.map(([name, json]) => [name.replaceAll('_', '\\u005f'), json])),
]

function spelled(fields: Fields, odd: Random | undefined, all: readonly Spelling[]): string {
  const spelling = odd && all[Math.floor(odd() * all.length)]
  return spelling ? spelling(fields) : compact(fields)
}

export interface DefectSizes {
  readonly depth: number
  readonly hugeBytes: number
}

const BAD_TIME = '"the day before yesterday"'
/** Replaced by a byte that is not UTF-8; it cannot occur in JSON text. */
const BAD_BYTE = '\u0002'

function withBadByte(text: string): Buffer {
  const bytes = Buffer.from(text)
  bytes[bytes.lastIndexOf(BAD_BYTE)] = 0xe9
  return bytes
}

function malformedEntry(fields: Fields, defect: Defect, { depth, hugeBytes }: DefectSizes): Buffer {
  const withData = (data: string) => compact([...fields.slice(0, -1), ['data', data]])
  switch (defect) {
    case 'no_id':
      return Buffer.from(compact(fields.slice(1)))
    case 'bad_time':
      return Buffer.from(
        compact(fields.map(([name, json]) => [name, name === 'timestamp' ? BAD_TIME : json])),
      )
    case 'invalid_utf8':
      return withBadByte(withData(`{"name":"caf${BAD_BYTE} au lait"}`))
    case 'too_deep':
      return Buffer.from(withData('[['.repeat(depth / 2) + ']]'.repeat(depth / 2)))
    case 'not_an_object':
      return Buffer.from(JSON.stringify(`an entry was here: ${JSON.parse(fields[0]?.[1] ?? '""') as string}`))
    case 'huge':
      return Buffer.from(withData(`{"blob":"${'x'.repeat(hugeBytes)}"}`))
    case 'poison':
      return Buffer.from(withData('{"num_events":NaN,"note":}'))
  }
}

/** `odd` undefined: compact. */
export function renderEntry(
  content: EntryContent,
  odd: Random | undefined,
  defect: Defect | undefined,
  sizes: DefectSizes,
): Buffer {
  const fields = fieldsOf(content)
  return defect ? malformedEntry(fields, defect, sizes) : Buffer.from(spelled(fields, odd, entrySpellings))
}

/** A reader must quarantine a malformed event without losing the others. */
export function renderEvent(
  fields: Fields,
  odd: Random | undefined,
  defect: HistoryDefect | undefined,
): Buffer {
  const render = (changed: Fields) => spelled(changed, odd, eventSpellings)
  switch (defect) {
    case undefined:
      return Buffer.from(render(fields))
    case 'history_no_id':
      return Buffer.from(render(fields.filter(([name]) => name !== 'unique_usage_id')))
    case 'history_bad_time': {
      const times = ['utc_time', 'timestamp']
      return Buffer.from(render(fields.map(([name, json]) => [name, times.includes(name) ? BAD_TIME : json])))
    }
    case 'history_invalid_utf8':
      return withBadByte(render([...fields, ['note', `"caf${BAD_BYTE} au lait"`]]))
    case 'history_poison':
      return Buffer.from(render([...fields, ['note', 'NaN']]))
    case 'history_not_an_object':
      return Buffer.from('"an event was here"')
  }
}
