// The same parts as the daemon's with nothing around them, up to the stage named: what a run would cost that kept no promise but the journal's. `node bench/bare-pipeline.ts <stage> <api> <HEC>`, started by bare.ts
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { Pool } from 'undici'
import { gzip } from '../src/platform/gzip/gzip.ts'
import { ID_START, RAW_END, RAW_START } from '../src/contracts/entries.ts'
import type { Entries } from '../src/contracts/entries.ts'
import { tuneHeap } from '../src/platform/process.ts'
import { openSplitter } from '../src/sources/splitter/splitter.ts'

export const stages = ['read', 'split', 'keep', 'send', 'gzip'] as const
export type Stage = (typeof stages)[number]

const KEY_BYTES = 16
const splitting = {
  idKey: 'id',
  timeKey: 'timestamp',
  typeKey: 'type',
  maxDepth: 512,
  maxEntryBytes: 16 << 20,
}
const head = Buffer.from(
  '{"time":1700000000.000000,"host":"api.example.com","source":"acme:audit","sourcetype":"audit","event":',
)

const digits = new Uint8Array(256)
for (let digit = 0; digit < 16; digit++) digits[digit.toString(16).charCodeAt(0)] = digit
/** where the pairs of digits of a UUID's text stand */
const pairs = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34]

function keysOf(entries: Entries): Buffer {
  const { bytes, count } = entries
  const keys = Buffer.allocUnsafe(count * KEY_BYTES)
  const digit = (at: number) => digits[bytes[at] as number] as number
  for (let i = 0, to = 0; i < count; i++) {
    const id = entries.column(i, ID_START)
    for (const pair of pairs) keys[to++] = (digit(id + pair) << 4) | digit(id + pair + 1)
  }
  return keys
}

function openJournal(folder: string) {
  const db = new Database(join(folder, 'bare.db'))
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.exec(`
    CREATE TABLE keys (at INTEGER, id BLOB, PRIMARY KEY (at, id)) WITHOUT ROWID;
    CREATE TABLE chunks (first INTEGER PRIMARY KEY, slab BLOB);
    CREATE TABLE places (name TEXT PRIMARY KEY, value) WITHOUT ROWID`)
  const take = db.prepare(
    `INSERT OR IGNORE INTO keys SELECT value, substr(?, key * ${KEY_BYTES} + 1, ${KEY_BYTES}) FROM json_each(?)`,
  )
  const put = db.prepare('INSERT INTO chunks VALUES (?, ?)')
  const drop = db.prepare('DELETE FROM chunks WHERE first = ?')
  const place = db.prepare('INSERT OR REPLACE INTO places VALUES (?, ?)')
  return {
    append: db.transaction((first: number, entries: Entries, cursor: string) => {
      const { changes } = take.run(keysOf(entries), `[${entries.times.subarray(0, entries.count).join()}]`)
      if (changes !== entries.count) throw new Error('an entry came twice')
      put.run(first, entries.bytes)
      place.run('cursor', cursor)
    }),
    ack: db.transaction((first: number) => {
      drop.run(first)
      place.run('settled', first)
    }),
    close: () => db.close(),
  }
}

function framed(entries: Entries): Buffer {
  const { bytes, count } = entries
  const out = Buffer.allocUnsafe(bytes.length + count * (head.length + 1))
  let to = 0
  for (let i = 0; i < count; i++) {
    to += head.copy(out, to)
    const [from, end] = [entries.column(i, RAW_START), entries.column(i, RAW_END)]
    out.set(bytes.subarray(from, end), to)
    to += end - from
    out[to++] = 125
  }
  return out.subarray(0, to)
}

async function run(stage: Stage, apiUrl: string, hecUrl: string): Promise<void> {
  const reached = (wanted: Stage) => stages.indexOf(stage) >= stages.indexOf(wanted)
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-bare-'))
  const journal = openJournal(folder)
  const api = new Pool(apiUrl, { connections: 1 })
  const hec = new Pool(hecUrl, { connections: 2 })
  const authorization = 'Bearer acme-key'
  const get = (rest: string) => api.request({ method: 'GET', path: `/api/v1/logs/audit${rest}`, headers: { authorization } }) // prettier-ignore

  async function send(first: number, entries: Entries): Promise<void> {
    const body = stage === 'gzip' ? await gzip(framed(entries)) : framed(entries)
    const encoding = stage === 'gzip' ? { 'content-encoding': 'gzip' } : {}
    const headers = { authorization: 'Splunk bench', 'content-type': 'application/json', ...encoding }
    const reply = await hec.request({ method: 'POST', path: '/services/collector/event', headers, body })
    await reply.body.dump()
    journal.ack(first)
  }

  async function page(from: string): Promise<Entries[]> {
    const splitter = openSplitter(splitting)
    const groups: Entries[] = []
    for await (const chunk of (await get(`?from=${from}&take=1000`)).body) {
      splitter.push(chunk as Buffer)
      for (let group = splitter.take(); group; group = splitter.take()) groups.push(group.entries)
    }
    splitter.end()
    for (let group = splitter.take(); group; group = splitter.take()) groups.push(group.entries)
    return groups.filter(({ count }) => count > 0)
  }

  /** The id of the page's last entry as a person would find it; undefined behind the last page. */
  async function lastId(from: string): Promise<string | undefined> {
    let tail = Buffer.alloc(0)
    for await (const chunk of (await get(`?from=${from}&take=1000`)).body)
      tail = Buffer.concat([tail.subarray(-4096), chunk as Buffer])
    return [
      ...tail
        .subarray(-4096)
        .toString('latin1')
        .matchAll(/"id"\s*:\s*"([0-9a-f-]{36})"/g),
    ].at(-1)?.[1]
  }

  const { log } = (await (await get('/earliest')).body.json()) as { log: { id: string } }
  let from: string | undefined = log.id
  let first = 0
  const flying: Promise<void>[] = []
  if (stage === 'read') while (from !== undefined) from = await lastId(from)
  while (from !== undefined) {
    const groups = await page(from)
    from = undefined
    for (const entries of groups) {
      from = entries.id(entries.count - 1)
      if (reached('keep')) journal.append(first, entries, from)
      if (reached('send')) flying.push(send(first, entries))
      if (flying.length > 1) await flying.shift()
      first += entries.count
    }
  }
  await Promise.all(flying)
  journal.close()
  rmSync(folder, { recursive: true })
  await Promise.all([api.close(), hec.close()])
}

if (import.meta.main) {
  tuneHeap()
  const [, , stage = '', api = '', hec = ''] = process.argv
  await run(stage as Stage, api, hec)
}
