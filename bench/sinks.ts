// What an entry costs on its way through formats, frames, compression and the file sink. Prints, asserts nothing. `node bench/sinks.ts`
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { formatNamed, type FormatName } from '../src/formats/index.ts'
import { gzip } from '../src/platform/gzip/gzip.ts'
import { COLUMNS, Entries } from '../src/contracts/entries.ts'
import type { ChunkSlice } from '../src/contracts/journal.ts'
import type { Log } from '../src/core/log.ts'
import type { Lines, Sink } from '../src/contracts/sink.ts'
import type { SinkDeps } from '../src/contracts/sink-kind.ts'
import { ByteWriter } from '../src/core/bytes.ts'
import { disk } from '../src/platform/disk.ts'
import { deniedBy, redactBy, redactedFrame, type Change } from '../src/delivery/redact.ts'
import { sinkKinds } from '../src/sinks/index.ts'

const BATCH = 1000
const ENTRY_BYTES = 350
const ROUNDS = 1000
const signal = new AbortController().signal
const quiet: Log = { debug() {}, info() {}, warn() {}, error() {}, with: () => quiet }

/** A batch of audit entries as the journal hands them out. */
function batch(): ChunkSlice {
  const columns = new Uint32Array(BATCH * COLUMNS)
  const times = new Float64Array(BATCH)
  const parts: Buffer[] = []
  for (let i = 0; i < BATCH; i++) {
    const id = `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`
    const head = `{"id":"${id}","timestamp":"2026-01-31T12:00:00.${String(i).padStart(6, '0')}",`
    const body = `${head}"type":"user:create_query","user":"someone@example.com","ip":"192.0.2.${i % 250}","user_agent":"`
    const at = i * ENTRY_BYTES
    parts.push(Buffer.from(body.padEnd(ENTRY_BYTES - 2, 'Mozilla/5.0 (X11; Linux) ').concat('"}')))
    columns.set([at, at + ENTRY_BYTES, at + 7, at + 43, at + 58, at + 84, 0, 0], i * COLUMNS)
    times[i] = 1_769_860_800_000_000 + i
  }
  const entries = new Entries(Buffer.concat(parts), BATCH, columns, times, ['user:create_query'])
  const stream = { workspace: 'acme', source: 'audit' } as const
  return { stream, firstSeq: 1, appendedAt: 1_769_860_801_000, onlySink: undefined, replay: false, entries }
}

const deps: SinkDeps = {
  clock: {
    now: () => Date.now(),
    elapsed: () => performance.now(),
    sleep: () => new Promise(() => undefined),
  },
  random: Math.random,
  log: quiet,
  disk,
  transport: () => async () => ({
    status: 200,
    headers: {},
    body: (async function* () {
      yield Buffer.from('{"text":"Success","code":0}')
    })(),
  }),
  connect: () => Promise.reject(new Error('no stream is measured here')),
  datagrams: () => Promise.reject(new Error('no datagrams are measured here')),
  print: async () => undefined,
  gzip,
  hostOf: () => 'api.example.com',
  spoolFolder: '/nowhere',
}

const url = 'https://splunk.example.com:8088'
const splunk = (compression: 'gzip' | 'none') =>
  sinkKinds.splunk_hec.open(
    'splunk',
    sinkKinds.splunk_hec.options.parse({ url, token: 'x', index: 'audit', compression }),
    deps,
  )

function frame(sink: Pick<Sink, 'frame'>, format: FormatName, run: ChunkSlice, out: ByteWriter): Lines {
  const encode = formatNamed(format)
  out.clear()
  const ends = new Uint32Array(BATCH)
  for (let i = 0; i < BATCH; i++) {
    sink.frame(run, i, out, encode)
    ends[i] = out.length
  }
  const { stream, entries } = run
  const entry = (i: number) => ({
    stream,
    id: entries.id(i),
    version: entries.version(i),
    timeUs: entries.at(i),
  })
  return { count: BATCH, bytes: out.view(), ends, seqs: new Float64Array(BATCH), entry }
}

async function measure(what: string, rounds: number, work: () => unknown): Promise<void> {
  for (let i = 0; i < rounds / 10; i++) await work()
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  for (let i = 0; i < rounds; i++) await work()
  const wallUs = ((performance.now() - startedAt) * 1000) / (rounds * BATCH)
  const { user, system } = process.cpuUsage(cpu)
  const cpuUs = (user + system) / (rounds * BATCH)
  console.log(
    `${what.padEnd(34)} ${wallUs.toFixed(3)} µs an entry, ${cpuUs.toFixed(2)} CPU s a million, ${Math.round(1e6 / wallUs)} entries/s`,
  )
}

/** What a content policy adds to the frame of `stdout`, raw. */
async function measurePolicy(run: ChunkSlice, out: ByteWriter): Promise<void> {
  const { frame: plain } = sinkKinds.stdout.open('console', {}, deps)
  const under = (fields: readonly string[], change: Change) => ({
    frame: redactedFrame(plain, redactBy([{ fields, change }])),
  })
  const key = Buffer.alloc(32, 'k')
  const rules: readonly [string, readonly string[], Change][] = [
    ['no such field', ['query', 'response'], { with: 'drop' }],
    ['drop', ['user_agent'], { with: 'drop' }],
    ['truncate', ['user_agent'], { with: 'truncate', bytes: 16 }],
    ['hash', ['user'], { with: 'hash', key }],
  ]
  for (const [what, fields, change] of rules) {
    const sink = under(fields, change)
    await measure(`redact: ${what}`, ROUNDS, () => frame(sink, 'raw', run, out))
  }
  const denied = deniedBy({ cm_id: ['0042'] })
  await measure('deny alone', ROUNDS, () => {
    let count = 0
    for (let i = 0; i < BATCH; i++) if (denied(run, i)) count++
    return count
  })
}

async function measureFile(run: ChunkSlice, out: ByteWriter): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-bench-'))
  const path = join(folder, 'entries.ndjson')
  const sink = sinkKinds.file.open('archive', sinkKinds.file.options.parse({ path }), deps)
  const lines = frame(sink, 'raw', run, out)
  try {
    await measure('file: prepare, write, sync', ROUNDS / 4, async () => {
      const detail = (await sink.prepare?.(lines, signal)) ?? ''
      await sink.deliver({ lines, detail, possibleDuplicate: false }, signal)
    })
  } finally {
    await sink.close()
    rmSync(folder, { recursive: true })
  }
}

export async function run(): Promise<void> {
  const one = batch()
  const out = new ByteWriter(2 * BATCH * ENTRY_BYTES)
  const console_ = sinkKinds.stdout.open('console', {}, deps)
  await measure('stdout frame, raw', ROUNDS, () => frame(console_, 'raw', one, out))
  await measure('stdout frame, envelope', ROUNDS, () => frame(console_, 'envelope', one, out))
  await measure('splunk_hec frame, raw', ROUNDS, () => frame(splunk('none'), 'raw', one, out))
  for (const compression of ['none', 'gzip'] as const) {
    const sink = splunk(compression)
    await measure(`splunk_hec frame, deliver, ${compression}`, ROUNDS / 4, () => {
      const lines = frame(sink, 'raw', one, out)
      return sink.deliver({ lines, detail: '', possibleDuplicate: false }, signal)
    })
  }
  await measurePolicy(one, out)
  await measureFile(one, out)
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) await run()
