// The bytes of an entry: mostly compact, sometimes with white space, escapes or another order, and
// malformed on demand.
import type { Random } from '../core/clock.ts'
import { DAY_MS, DAY_US } from '../core/time.ts'
import type { Defect } from './switches.ts'

interface Fields {
  readonly id: string
  readonly atUs: number
  readonly type: string
  readonly user: string
  readonly ip: string
  readonly userAgent: string
  /** JSON text */
  readonly data: string
}

let stampDay = NaN
let stampDate = ''
const twoDigits = Array.from({ length: 60 }, (_, value) => String(value).padStart(2, '0'))

/** Microseconds since 1970 in the API's format: no zone, six decimals. The text of the day is cached. */
export function stampOf(us: number): string {
  const day = Math.floor(us / DAY_US)
  if (day !== stampDay) {
    stampDay = day
    stampDate = new Date(day * DAY_MS).toISOString().slice(0, 10)
  }
  const second = Math.floor(us / 1e6)
  const ofDay = second - day * 86_400
  const hours = twoDigits[Math.floor(ofDay / 3600)] ?? ''
  const minutes = twoDigits[Math.floor(ofDay / 60) % 60] ?? ''
  const seconds = twoDigits[ofDay % 60] ?? ''
  return `${stampDate}T${hours}:${minutes}:${seconds}.${String(us - second * 1e6).padStart(6, '0')}`
}

type Member = readonly [key: string, json: string]

function compact(f: Fields): string {
  return `{"id":"${f.id}","timestamp":"${stampOf(f.atUs)}","type":${JSON.stringify(f.type)},"user":${JSON.stringify(f.user)},"ip":${JSON.stringify(f.ip)},"user_agent":${JSON.stringify(f.userAgent)},"data":${f.data}}`
}

function membersOf(f: Fields): Member[] {
  return [
    ['id', JSON.stringify(f.id)],
    ['timestamp', JSON.stringify(stampOf(f.atUs))],
    ['type', JSON.stringify(f.type)],
    ['user', JSON.stringify(f.user)],
    ['ip', JSON.stringify(f.ip)],
    ['user_agent', JSON.stringify(f.userAgent)],
    ['data', f.data],
  ]
}

function join(members: readonly Member[], comma: string, colon: string): string {
  return members.map(([key, json]) => `"${key}"${colon}${json}`).join(comma)
}

/** The same object in other spellings that JSON allows. */
const layouts: readonly ((f: Fields) => string)[] = [
  (f) => `{${join(membersOf(f), ', ', ': ')}}`,
  (f) => `{\n  ${join(membersOf(f), ',\n  ', ': ')}\n}`,
  (f) => `{\r\n\t${join(membersOf(f), ' ,\r\n\t', ' :\t')} }`,
  (f) => `{${join(membersOf(f).reverse(), ',', ':')}}`,
  (f) => compact(f).replace('"id"', '"\\u0069d"').replace('"timestamp"', '"time\\u0073tamp"'),
  (f) => compact(f).replace(f.id, f.id.replace('-', '\\u002d')).replace('"type"', '"typ\\u0065"'),
  (f) => compact(f).replace('"type":', '"type":"user:decoy","type":').replace('"id":', '"id":"decoy","id":'),
]

export interface DefectSizes {
  readonly depth: number
  readonly hugeBytes: number
}

function malformed(f: Fields, defect: Defect, sizes: DefectSizes): Buffer {
  switch (defect) {
    case 'no_id':
      return Buffer.from(compact(f).replace(`"id":"${f.id}",`, ''))
    case 'bad_time':
      return Buffer.from(compact(f).replace(stampOf(f.atUs), 'the day before yesterday'))
    case 'invalid_utf8': {
      const bytes = Buffer.from(compact({ ...f, data: '{"name":"caf? au lait"}' }))
      bytes[bytes.lastIndexOf('?')] = 0xe9
      return bytes
    }
    case 'too_deep':
      return Buffer.from(compact({ ...f, data: '[['.repeat(sizes.depth / 2) + ']]'.repeat(sizes.depth / 2) }))
    case 'not_an_object':
      return Buffer.from(JSON.stringify(`an entry was here: ${f.id}`))
    case 'huge':
      return Buffer.from(compact({ ...f, data: `{"blob":"${'x'.repeat(sizes.hugeBytes)}"}` }))
    case 'poison':
      return Buffer.from(compact({ ...f, data: '{"num_events":NaN,"note":}' }))
  }
}

/** `random` undefined: compact. */
export function render(
  fields: Fields,
  odd: Random | undefined,
  defect: Defect | undefined,
  sizes: DefectSizes,
): Buffer {
  if (defect) return malformed(fields, defect, sizes)
  const layout = odd && layouts[Math.floor(odd() * layouts.length)]
  return Buffer.from(layout ? layout(fields) : compact(fields))
}

// An object's members as JSON: mostly compact, sometimes with white space, line breaks, escapes or another order.

/** Names, and JSON texts of the values. */
export type MemberFields = readonly (readonly [name: string, json: string])[]

function joined(fields: MemberFields, comma: string, colon: string): string {
  return fields.map(([name, json]) => `"${name}"${colon}${json}`).join(comma)
}

const compactMembers = (fields: MemberFields) => `{${joined(fields, ',', ':')}}`

const memberLayouts: readonly ((fields: MemberFields) => string)[] = [
  (fields) => `{${joined(fields, ', ', ': ')}}`,
  (fields) => `{\n  ${joined(fields, ',\n  ', ': ')}\n}`,
  (fields) => `{\r\n\t${joined(fields, ' ,\r\n\t', ' :\t')} }`,
  (fields) => compactMembers([...fields].reverse()),
  (fields) => compactMembers(fields.map(([name, json]) => [name.replaceAll('_', '\\u005f'), json])),
]

/** `odd` undefined: compact. */
export function renderMembers(fields: MemberFields, odd: Random | undefined): string {
  const layout = odd && memberLayouts[Math.floor(odd() * memberLayouts.length)]
  return layout ? layout(fields) : compactMembers(fields)
}
