// What the tests of cef and leef share: entries of each source through the real splitter, and hostile ones of any shape.
import fc from 'fast-check'
import type { Format } from '../../../src/contracts/sink.ts'
import type { ChunkSlice } from '../../../src/contracts/journal.ts'
import type { SourceName } from '../../../src/contracts/source.ts'
import { ByteWriter } from '../../../src/core/bytes.ts'
import { openSplitter } from '../../../src/sources/splitter/splitter.ts'
import { readJson } from '../../fakes/json-reader.ts'
import type { Json } from '../../fakes/json-reader.ts'

export const sources = ['audit', 'history.usage', 'history.query', 'vault.projects'] as const
type Shipped = (typeof sources)[number]

const keysOf: Readonly<Record<Shipped, readonly [string, string]>> = {
  audit: ['id', 'timestamp'],
  'history.usage': ['unique_usage_id', 'utc_time'],
  'history.query': ['unique_usage_id', 'utc_time'],
  'vault.projects': ['id', 'timestamp'],
}

/** The entry as the journal has it: cut out of a page by the real splitter. */
export function runOfJson(source: Shipped, json: string, more: Partial<ChunkSlice> = {}): ChunkSlice {
  const [idKey, timeKey] = keysOf[source]
  const limits = { maxDepth: 512, maxEntryBytes: 64 * 1024 * 1024 }
  const splitter = openSplitter({ idKey, timeKey, typeKey: 'type', ...limits })
  splitter.push(Buffer.from(`[${json}]`))
  splitter.end()
  const entries = splitter.take()?.entries
  if (entries?.count !== 1) throw new Error('this is no entry')
  return {
    stream: { workspace: 'acme', source: source satisfies SourceName },
    firstSeq: 1,
    appendedAt: Date.UTC(2026, 10, 21, 10, 0, 1, 5),
    onlySink: undefined,
    replay: false,
    entries,
    ...more,
  }
}

export function lineOf(format: Format, run: ChunkSlice): string {
  const out = new ByteWriter(4)
  format(run, 0, out)
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(out.view())
}

const id = '0b0e4a3c-5a1c-4d36-9f7e-2f6a5c1d8e90'

export const plain: Readonly<Record<Shipped, Readonly<Record<string, unknown>>>> = {
  audit: {
    id,
    timestamp: '2026-11-21T10:00:00.123456',
    type: 'auth:login',
    user: 'ann@example.com',
    ip: '203.0.113.7',
    user_agent: 'Mozilla/5.0 (X11; Linux x86_64)',
    data: {},
  },
  'history.usage': {
    unique_usage_id: id,
    utc_time: '2026-11-21 10:00:00',
    user: 'ann@example.com',
    product_surface_area: 'ASSISTANT',
    subsurface: 'ASSISTANT_THREAD',
    access_point: 'WEB',
    action: 'CREATE',
    cm_id: '1042-7',
    parent_thread_id: 99120345,
    source: 'knowledge',
    playbook_name: '',
    metadata: { k: 'v=1' },
  },
  'history.query': {
    unique_usage_id: id,
    utc_time: '2026-11-21 10:00:00',
    user: 'ann@example.com',
    product_surface_area: 'VAULT',
    action: 'CREATE',
    query: 'What is\na lien?',
    response: 'A lien is…',
    link: 'https://app.example.com/h/1?a=b',
    metadata: {},
  },
  'vault.projects': {
    id,
    timestamp: '2026-03-02T03:04:05.000006Z',
    type: 'vault:user_share_added',
    seen_at: '2026-03-02T04:00:00.000000Z',
    project_id: id,
    name: 'Project | Blue',
    creator_email: 'ann@example.com',
    files_count: 12,
    size_bytes: 900719925474099312,
    share: { permission_level: 'EDIT', dest_user_email: 'bob@example.com' },
    project: { sharing: { user_count: 0, user_shares: [], workspace_count: 0, workspace_shares: [] } },
  },
}

/** Texts that have forged a field, a header or a record somewhere. */
export const hostile = [
  ' suser=root',
  'x externalId=1',
  '\\',
  'a\\',
  '\\=',
  '=',
  '|',
  'a|b|10|',
  '\\|',
  'x\nCEF:0|A|B|1|auth:login|n|10|rt=1',
  'x\r\nLEEF:2.0|A|B|1|e|x09|sev=10',
  '\tsev=10',
  '\0',
  'a\u0000b\u001b[31m',
  '\u007f',
  '\u0085',
  'a\u2028b\u2029c',
  '\ud800',
  'x\udfffy',
  '\ufeff',
  ' leading',
  'trailing ',
  '',
  '\\u0000',
  '203.0.113.7',
  '::1',
  'fe80::1%eth0',
  '::ffff:1.2.3.4',
  '999.1.1.1',
  'x'.repeat(5000),
  '😀'.repeat(700),
  `${'x'.repeat(1022)}😀`,
  '\\"'.repeat(3000),
  '\u0001'.repeat(400),
  'audit',
  'history.usage',
  '\nhistory.usage',
  'auth:login',
  'user:new_thing',
  'a:b:c',
  ':',
]

/** Each hostile text in every member of an entry at once, except its id and times. */
export function* hostileEntries(): Generator<{ readonly source: Shipped; readonly json: string }> {
  for (const text of hostile)
    for (const source of sources) {
      const members = Object.entries(plain[source]).map(([key, value]) => [
        key,
        /id$|time|_at$/.test(key) ? value : text,
      ])
      yield { source, json: JSON.stringify(Object.fromEntries(members)) }
    }
}

const anyText = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...hostile) },
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.array(fc.constantFrom(...hostile.slice(0, 20)), { maxLength: 4 }).map((parts) => parts.join('')),
)

/** A string as it may be written: plainly, or each unit with an escape. */
const writtenText = fc.tuple(anyText, fc.boolean()).map(([text, escaped]) => {
  const units = Array.from({ length: text.length }, (_, i) =>
    text.charCodeAt(i).toString(16).padStart(4, '0'),
  )
  return escaped ? `"${units.map((unit) => `\\u${unit}`).join('')}"` : JSON.stringify(text)
})

const scalar = fc.constantFrom('0', '-0', '7', '-12', '1.5', '1e400', '123456789012345678901', 'true', 'null')
const gap = fc.constantFrom('', '', ' ', '\t', '\r\n ', '\n')
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    writtenText,
    scalar,
    fc
      .tuple(gap, fc.array(tie('value'), { maxLength: 3 }))
      .map(([g, all]) => `[${g}${all.join(`${g},`)}${g}]`),
    fc
      .tuple(gap, fc.array(fc.tuple(writtenText, tie('value')), { maxLength: 3 }))
      .map(([g, all]) => `{${g}${all.map(([key, one]) => `${key}${g}:${g}${one}`).join(`${g},`)}${g}}`),
  ),
}))

const instants = [
  '2026-11-21T10:00:00.123456',
  '1969-12-31T23:59:59.999999',
  '2026-01-01 00:00:00',
  '2024-02-29T12:00:00Z',
]

/** Any entry of a source, as JSON: known members with any value, unknown ones, each at any position, some of them twice. */
export function anyEntry(source: Shipped): fc.Arbitrary<string> {
  const [idKey, timeKey] = keysOf[source]
  const known = Object.keys(plain[source]).filter((key) => key !== idKey && key !== timeKey)
  const knownKey = fc
    .constantFrom(...known, idKey, timeKey, 'email', 'timestamp', 'utc_time')
    .map((key) => JSON.stringify(key))
  const usual = fc
    .constantFrom(...known)
    .map((key) => [JSON.stringify(key), JSON.stringify(plain[source][key])] as const)
  const other = fc.tuple(fc.oneof({ weight: 3, arbitrary: knownKey }, writtenText), value)
  const idText = fc.oneof(
    fc.constant(id),
    anyText.filter((text) => text !== '' && Buffer.byteLength(text) < 150),
  )
  const last = fc.tuple(idText, fc.constantFrom(...instants), fc.boolean())
  return fc
    .tuple(fc.array(fc.oneof(usual, other), { maxLength: 10 }), last, gap)
    .map(([members, [idOf, time, before], g]) => {
      const own = [
        [JSON.stringify(idKey), JSON.stringify(idOf)],
        [JSON.stringify(timeKey), JSON.stringify(time)],
      ] as const
      // The id and time that count are the last ones.
      const isOwn = (key: string) => [idKey, timeKey].includes(JSON.parse(key) as string)
      const all = before ? [...own, ...members.filter(([key]) => !isOwn(key))] : [...members, ...own]
      return `{${g}${all.map(([key, one]) => `${key}${g}:${g}${one}`).join(`${g},`)}${g}}`
    })
}

/** The members of an entry as a reader of JSON has them. */
export function membersOf(json: string): ReadonlyMap<string, Json> {
  const read = readJson(json)
  if (!(read instanceof Map)) throw new Error('this is no object')
  return read as ReadonlyMap<string, Json>
}
