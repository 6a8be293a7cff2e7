import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach } from 'vitest'
import type { Disk } from '../../src/model/disk.ts'
import { ConnectorError } from '../../src/model/errors.ts'
import { disk } from '../../src/ops/disk.ts'
import { sinkKinds } from '../../src/sinks/index.ts'
import { FakeDisk } from '../fakes/disk.ts'
import { sinkDeps } from '../fakes/sink-deps.ts'
import { deliveryContract } from './delivery.contract.ts'
import { hecBench } from './hec-bench.ts'
import { s3Bench } from './s3-bench.ts'
import { sinkContract } from './sink.contract.ts'
import { datagramBench, relpBench, streamBench } from './syslog-bench.ts'

const idOf = (line: string) => (JSON.parse(line) as { id: string }).id
/** Of whole lines: one that is being written is none yet. */
const idsOf = (text: string) => text.split('\n').slice(0, -1).map(idOf)

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
    name: 'console',
    open: () => sinkKinds.stdout.open('console', {}, deps),
    received: () => idsOf(text),
    down: () => (gone = true),
    up: () => (gone = false),
    // `stall` is absent: a line that is being printed is let finish, and the daemon bounds its own stop.
    clock: deps.clock,
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
    look: (path) => fake.look(path),
    rename: (from, to) => fake.rename(from, to),
    remove: (path) => fake.remove(path),
    syncFolder: (folder) => fake.syncFolder(folder),
  }
  const options = sinkKinds.file.options.parse({ path: '/out/f.ndjson' })
  return {
    name: 'archive',
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
    clock: deps.clock,
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
    name: 'archive',
    open: () => sinkKinds.file.open('archive', options, { ...deps, disk: refusing }),
    received: () => idsOf(read()),
    down: () => (gone = true),
    up: () => (gone = false),
    clock: deps.clock,
    secrets: [],
    logged: () => deps.log.lines.join(),
    leftOpen: () => open,
  }
})

sinkContract('splunk_hec', () => hecBench({ url: 'https://a.test:8088' }))
sinkContract('splunk_hec with several endpoints', () =>
  hecBench({ urls: ['https://a.test:8088', 'https://b.test:8088'] }),
)
for (const acks of ['true', 'auto'])
  sinkContract(`splunk_hec with acknowledgements, acks: ${acks}`, () =>
    hecBench({ url: 'https://a.test:8088', acks: acks === 'true' || acks }, { acks: true }),
  )
sinkContract('syslog over TCP', () => streamBench('tcp://siem.test:601'))
sinkContract('syslog over TLS', () => streamBench('tls://siem.test:6514'))
sinkContract('syslog over UDP', datagramBench)
sinkContract('syslog over RELP', relpBench)
deliveryContract('s3', s3Bench)
deliveryContract('s3, unpacked, under a prefix', () => s3Bench({ compression: 'none', prefix: 'a/b' }))
