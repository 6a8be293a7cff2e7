// What packs Splunk's batches beside zlib at its quickest, on what such batches hold, and at ten times the size. Prints, asserts nothing. `node bench/gzip.ts`
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { gzip } from '../src/platform/gzip/gzip.ts'

const ROUNDS = 15
const SAMPLE_BYTES = 24 * 1024 ** 2

/** Chance that is the same each time. */
function dice(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const throwing = dice(7)
const hex = (digits: number) => Array.from({ length: digits }, () => throwing(16).toString(16)).join('')
const uuid = () => `${hex(8)}-${hex(4)}-4${hex(3)}-a${hex(3)}-${hex(12)}`
const types = ['user:create_query', 'auth:login', 'user:fetch_vault_files', 'api:history_fetch']

/** An object as HEC takes it. */
function framed(id: string, source: string, event: object): string {
  const around = { time: 1_795_031_555 + throwing(86_400), host: 'api.example', source: 'auditferry:acme' }
  const fields = { workspace: 'acme', auditferry_source: source, entry_id: id }
  return JSON.stringify({ ...around, sourcetype: `auditferry:${source}`, event, fields })
}

function auditEntry(): string {
  const id = uuid()
  return framed(id, 'audit', {
    id,
    timestamp: `2026-11-18T${10 + throwing(9)}:${10 + throwing(50)}:${10 + throwing(50)}.${100_000 + throwing(900_000)}`,
    type: types[throwing(types.length)],
    user: `person.${throwing(200)}@acme.example`,
    ip: `10.1.${throwing(256)}.${throwing(256)}`,
    user_agent: 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0',
    data: { before: { role: 'member' }, after: { role: 'editor', granted: throwing(2) === 1 } },
  })
}

const docs = join(import.meta.dirname, '../docs')
/** English as people write it: our own documentation. */
const prose = readdirSync(docs)
  .filter((name) => name.endsWith('.md'))
  .map((name) => readFileSync(join(docs, name), 'utf8'))
  .join('\n')

function queryEvent(): string {
  const id = uuid()
  const at = throwing(prose.length - 14_000)
  return framed(id, 'history.query', {
    id,
    query: prose.slice(at, at + 900),
    response: prose.slice(at + 900, at + 14_000),
  })
}

const batchOf = (entry: () => string, entries: number) =>
  Buffer.from(Array.from({ length: entries }, entry).join(''))

/** The best of all rounds, in MB/s of CPU time's own clock, and how many times smaller it came out. */
async function measure(body: Buffer, pack: (body: Buffer) => Uint8Array | Promise<Uint8Array>) {
  let best = 0
  let packed = 0
  const times = Math.ceil(SAMPLE_BYTES / body.length)
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage()
    for (let time = 0; time < times; time++) packed = (await pack(body)).length
    const { user, system } = process.cpuUsage(before)
    best = Math.max(best, (times * body.length) / (user + system))
  }
  return { rate: best, times: body.length / packed }
}

export async function run(): Promise<void> {
  const bodies = {
    'audit entries, 1,000': batchOf(auditEntry, 1_000),
    'audit entries, 10,000': batchOf(auditEntry, 10_000),
    'query events with their text, 60': batchOf(queryEvent, 60),
  }
  process.stdout.write(
    '                                    KiB    ours MB/s, smaller    zlib 1 MB/s, smaller    ratio\n',
  )
  for (const [name, body] of Object.entries(bodies)) {
    const ours = await measure(body, gzip)
    const zlib = await measure(body, (bytes) => gzipSync(bytes, { level: 1 }))
    const reported = ({ rate, times }: typeof ours) =>
      `${rate.toFixed(0).padStart(12)} ${times.toFixed(2).padStart(8)}`
    process.stdout.write(
      `${name.padEnd(32)} ${(body.length / 1024).toFixed(0).padStart(6)} ${reported(ours)} ${reported(zlib)}    ${(ours.rate / zlib.rate).toFixed(2).padStart(6)}\n`,
    )
  }
}

if (import.meta.main) await run()
