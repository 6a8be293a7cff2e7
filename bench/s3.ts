// What an entry costs on its way into a bucket: journal, walk, compression, spool, one request on the loopback. Prints, asserts nothing. `node bench/s3.ts [MiB of lines] [gzip|zstd|none]`
import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { AddressInfo } from 'node:net'
import { openJournal } from '../src/journal/sqlite/open.ts'
import { COLUMNS, Entries } from '../src/contracts/entries.ts'
import type { Log } from '../src/core/log.ts'
import { MemoryBudget } from '../src/core/memory-budget.ts'
import type { SinkDeps } from '../src/contracts/sink-kind.ts'
import type { SinkReporter } from '../src/contracts/reporter.ts'
import { systemClock } from '../src/platform/clock.ts'
import { disk } from '../src/platform/disk.ts'
import { tuneHeap } from '../src/platform/process.ts'
import { openTransport } from '../src/platform/transport.ts'
import { ObjectDispatcher } from '../src/delivery/objects.ts'
import { sinkKinds } from '../src/sinks/index.ts'
import { formatNamed } from '../src/formats/index.ts'

const PAGE = 1_000
const ENTRY_BYTES = 350
const quiet: Log = { debug() {}, info() {}, warn() {}, error() {}, with: () => quiet }
const nobody = () => undefined
const unwatched: SinkReporter = { state: nobody, probed: nobody, tried: () => true, delivering: () => nobody, asked: () => ({ moved: nobody, over: nobody }), active: nobody, retry: nobody, acknowledged: nobody, delivered: nobody, success: nobody, certificateEnds: nobody } // prettier-ignore
const never = new AbortController().signal

/** Takes whatever is put, and forgets it; a name that it knows is there already. */
function serve(): void {
  const seen = new Set<string>()
  const server = createServer((incoming, outgoing) => {
    const { method, url = '' } = incoming
    const status = method !== 'PUT' ? 404 : seen.has(url) ? 412 : 200
    if (method === 'PUT') seen.add(url)
    incoming.resume().on('end', () => outgoing.writeHead(status, { etag: '"e"' }).end())
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
}

/** A page of audit entries, each with an id, a time and an agent of its own. */
function page(from: number): Entries {
  const columns = new Uint32Array(PAGE * COLUMNS)
  const times = new Float64Array(PAGE)
  const parts: Buffer[] = []
  for (let i = 0; i < PAGE; i++) {
    const n = from + i
    const id = `${n.toString(16).padStart(8, '0')}-0000-4000-8000-${((n * 2_654_435_761) % 2 ** 40).toString(16).padStart(12, '0')}`
    const time = new Date(1_769_817_600_000 + n).toISOString().replace('Z', '000')
    const head = `{"id":"${id}","timestamp":"${time}","type":"user:create_query","user":"person${n % 997}@example.com","ip":"192.0.2.${n % 250}","detail":"${((n * 40_503) % 1e9).toString(36)}`
    const at = i * ENTRY_BYTES
    parts.push(Buffer.from(head.padEnd(ENTRY_BYTES - 2, ' Mozilla/5.0 (X11; Linux) ').concat('"}')))
    columns.set([at, at + ENTRY_BYTES, at + 7, at + 43, at + 58, at + 58 + time.length, 0, 0], i * COLUMNS)
    times[i] = (1_769_817_600_000 + n) * 1000
  }
  return new Entries(Buffer.concat(parts), PAGE, columns, times, ['user:create_query'])
}

async function deliver(url: string, folder: string, megabytes: number, compression: string): Promise<void> {
  const bounds = { maxBytes: 2 ** 32, keepKeysMs: 1e12, keepSettledBytes: 0, ballastBytes: 0 }
  const path = join(folder, `${compression}.db`)
  const journal = await openJournal({ path, ...bounds, sinks: ['s3'], clock: systemClock, log: quiet })
  const pages = Math.ceil((megabytes * 2 ** 20) / (PAGE * ENTRY_BYTES))
  const stream = { workspace: 'acme', source: 'audit' } as const
  const rest = { quarantined: [], findings: [], headUs: undefined, cursor: undefined, gaps: 0 }
  for (let i = 0; i < pages; i++) await journal.append({ stream, entries: page(i * PAGE), ...rest })
  const transport = openTransport({})
  const place = {
    bucket: 'bench',
    endpoint: url,
    force_path_style: true,
    access_key_id: 'a',
    secret_access_key: 'b',
  }
  const options = sinkKinds.s3.options.parse({
    ...place,
    compression,
    rotate: { max_bytes: `${megabytes}MiB` },
  })
  const environment = {
    clock: systemClock,
    random: Math.random,
    log: quiet,
    disk,
    spoolFolder: join(folder, 'spool'),
  }
  const sink = sinkKinds.s3.open('s3', options, {
    ...environment,
    transport: () => transport.send,
  } as unknown as SinkDeps)
  const dispatcher = new ObjectDispatcher({
    ...{
      sink,
      journal,
      format: formatNamed('raw'),
      wanted: () => true,
      shape: '',
      reporter: unwatched,
      log: quiet,
    },
    ...{
      clock: systemClock,
      random: Math.random,
      memory: new MemoryBudget(32 * 2 ** 20),
      nothingMoreComes: () => true,
      lookAgainMs: 1,
    },
  })
  let peak = 0
  const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 20)
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  while ((await dispatcher.step(never)) === 'worked');
  const seconds = (performance.now() - startedAt) / 1000
  const { user, system } = process.cpuUsage(cpu)
  clearInterval(timer)
  const count = pages * PAGE
  console.log(
    `s3, ${compression}: ${count} entries, ${Math.round(count / seconds)} entries/s, ${((user + system) / count).toFixed(1)} CPU s a million, peak ${Math.round(peak / 2 ** 20)} MiB`,
  )
  await sink.close()
  await transport.close()
  await journal.close()
}

export async function run(
  megabytes = 64,
  compressions: readonly string[] = ['none', 'gzip', 'zstd'],
): Promise<void> {
  tuneHeap()
  const server = fork(fileURLToPath(import.meta.url), ['serve'])
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-bench-s3-'))
  try {
    const port = await new Promise<number>((resolve) => server.once('message', resolve))
    for (const compression of compressions)
      await deliver(`http://127.0.0.1:${port}`, folder, megabytes, compression)
  } finally {
    server.kill()
    rmSync(folder, { recursive: true })
  }
}

if (process.argv[2] === 'serve') serve()
else if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href)
  await run(Number(process.argv[2] ?? 64), process.argv[3] === undefined ? undefined : [process.argv[3]])
