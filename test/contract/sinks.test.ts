import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { afterEach } from 'vitest'
import type { Disk } from '../../src/model/disk.ts'
import { ConnectorError } from '../../src/model/errors.ts'
import type { HttpRequest, Transport } from '../../src/model/http.ts'
import { disk } from '../../src/ops/disk.ts'
import { sinkKinds } from '../../src/sinks/index.ts'
import { FakeDisk } from '../fakes/disk.ts'
import { FakeHec, hecTransport } from '../fakes/hec.ts'
import { sinkDeps } from '../fakes/sink-deps.ts'
import { type SinkBench, sinkContract } from './sink.contract.ts'

const idOf = (line: string) => (JSON.parse(line) as { id: string }).id
const idsOf = (text: string) => text.split('\n').filter(Boolean).map(idOf)

sinkContract('stdout', () => {
  let text = ''
  let gone = false
  const print = (bytes: Uint8Array) => {
    if (gone) return Promise.reject(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))
    text += Buffer.from(bytes).toString()
    return Promise.resolve()
  }
  const deps = sinkDeps({ print })
  return {
    open: () => sinkKinds.stdout.open('console', {}, deps),
    received: () => idsOf(text),
    down: () => (gone = true),
    up: () => (gone = false),
    secrets: [],
    logged: () => deps.log.lines.join(),
    leftOpen: () => 0,
  }
})

sinkContract('file, in memory', () => {
  const fake = new FakeDisk()
  const deps = sinkDeps({ disk: fake })
  let lose = false
  const lossy: Disk = {
    open: async (path) => {
      const file = await fake.open(path)
      const sync = async () => {
        if (!lose) return file.sync()
        lose = false
        throw new ConnectorError('disk_failed', 'as told')
      }
      return { ...file, sync }
    },
    exists: (path) => fake.exists(path),
    rename: (from, to) => fake.rename(from, to),
    remove: (path) => fake.remove(path),
    syncFolder: (folder) => fake.syncFolder(folder),
  }
  const options = sinkKinds.file.options.parse({ path: '/out/f.ndjson' })
  return {
    open() {
      if (fake.paths().length > 0) {
        fake.crash('kill')
        fake.restart()
      }
      return sinkKinds.file.open('archive', options, { ...deps, disk: lossy })
    },
    received: () => idsOf(fake.content('/out/f.ndjson')?.toString() ?? ''),
    down: () => (fake.capacityBytes = 0),
    up: () => (fake.capacityBytes = Infinity),
    loseAnswer: () => (lose = true),
    secrets: [],
    logged: () => deps.log.lines.join(),
    leftOpen: () => fake.openFiles,
  }
})

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

sinkContract('file, on a real disk', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sink-'))
  folders.push(folder)
  const path = join(folder, 'deep', 'f.ndjson')
  let gone = false
  let open = 0
  const refusing: Disk = {
    ...disk,
    async open(name) {
      const file = await disk.open(name)
      open++
      const write = async (bytes: Uint8Array, offset: number) => {
        if (!gone) return file.write(bytes, offset)
        await file.write(bytes.subarray(0, 10), offset)
        throw new ConnectorError('disk_full', 'no room left')
      }
      return { ...file, write, close: () => (open--, file.close()) }
    },
  }
  const deps = sinkDeps()
  const read = () => {
    try {
      return readFileSync(path, 'utf8')
    } catch {
      return ''
    }
  }
  const options = sinkKinds.file.options.parse({ path })
  return {
    open: () => sinkKinds.file.open('archive', options, { ...deps, disk: refusing }),
    received: () => idsOf(read()),
    down: () => (gone = true),
    up: () => (gone = false),
    secrets: [],
    logged: () => deps.log.lines.join(),
    leftOpen: () => open,
  }
})

/** Makes the object number `index` of a body unreadable for Splunk. */
function spoiled(request: HttpRequest, index: number): HttpRequest {
  if (!request.body) return request
  let seen = 0
  const text = gunzipSync(request.body).toString()
  const bad = text.replace(/"event":\{/g, (found) => (seen++ === index ? '"event":}' : found))
  return { ...request, body: gzipSync(bad) }
}

function hecBench(more: object): SinkBench {
  const token = 'test-token-5ec2e7'
  const fake = new FakeHec({ tokens: { [token]: {} } })
  const deps = sinkDeps()
  const send = hecTransport(fake, deps.clock)
  let spoil: number | undefined
  const transport: Transport = (request, signal) => {
    const index = spoil
    spoil = undefined
    return send(index === undefined ? request : spoiled(request, index), signal)
  }
  const options = sinkKinds.splunk_hec.options.parse({ token, ...more })
  return {
    open: () => sinkKinds.splunk_hec.open('splunk', options, { ...deps, transport: () => transport }),
    received: () => fake.texts().map(idOf),
    down: () => (fake.faultOf = () => ({ kind: 'reset' })),
    up: () => (fake.faultOf = undefined),
    loseAnswer: () => fake.faults.push({ kind: 'reset', indexes: true }),
    stall: () => fake.faults.push({ kind: 'slow', ms: 3_600_000 }),
    refuse: (index) => (spoil = index),
    secrets: [token],
    logged: () => deps.log.lines.join(),
    leftOpen: () => deps.clock.sleeping,
  }
}

sinkContract('splunk_hec', () => hecBench({ url: 'https://splunk.test:8088' }))
sinkContract('splunk_hec with several endpoints', () =>
  hecBench({ urls: ['https://a.test:8088', 'https://b.test:8088'] }),
)
