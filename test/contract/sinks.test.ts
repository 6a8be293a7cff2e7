// Each sink goes through the suite that all sinks pass; the reasons for what its receiver cannot show are here.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach } from 'vitest'
import type { Disk } from '../../src/contracts/platform.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import { disk } from '../../src/platform/disk.ts'
import { sinkKinds } from '../../src/sinks/index.ts'
import { FakeDisk } from '../fakes/disk.ts'
import { sinkDeps } from '../fakes/sink-deps.ts'
import { deliveryContract } from './delivery.contract.ts'
import { hecBench } from './hec-bench.ts'
import type { Lacks } from './means.ts'
import { s3Bench } from './s3-bench.ts'
import { type SinkBench, sinkContract } from './sink.contract.ts'
import { datagramBench, relpBench, streamBench } from './syslog-bench.ts'

const idOf = (line: string) => (JSON.parse(line) as { id: string }).id
/** Of whole lines: one that is being written is none yet. */
const idsOf = (text: string) => text.split('\n').slice(0, -1).map(idOf)

/** Of receivers that keep bytes, whatever is in them. */
const blind: Lacks = {
  refuse: 'it stores bytes without reading them',
  poison: 'it stores bytes without reading them',
  key: 'it requires no key',
  secured: 'there is no network between',
  later: 'a taken batch does not become safer later',
}

const stdoutBench = (): SinkBench => {
  let text = ''
  let gone = false
  let lose = false
  const broken = () => Promise.reject(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))
  const print = (bytes: Uint8Array) => {
    if (gone) return broken()
    text += Buffer.from(bytes).toString()
    const lost = lose
    lose = false
    return lost ? broken() : Promise.resolve()
  }
  const loseAnswer = () => void (lose = true)
  const deps = sinkDeps({ print })
  return {
    name: 'console',
    open: () => sinkKinds.stdout.open('console', {}, deps),
    // A possible duplicate has an empty line before it.
    received: () => idsOf(text.replace(/^\n/gm, '')),
    down: () => (gone = true),
    up: () => (gone = false),
    loseAnswer,
    answers: { lost: loseAnswer },
    clock: deps.clock,
    secrets: [],
    logged: () => deps.log.lines.join(),
    leftOpen: () => 0,
  }
}

const memoryFileBench = (): SinkBench => {
  const fake = new FakeDisk()
  const deps = sinkDeps({ disk: fake })
  let lose = false
  const lossy: Disk = {
    open: async (path) => {
      const file = await fake.open(path)
      const sync = async () => {
        if (!lose) return file.sync()
        lose = false
        throw new ConnectorError('unreachable', 'as told')
      }
      return { ...file, sync }
    },
    openNew: (path) => fake.openNew(path),
    openToRead: (path) => fake.openToRead(path),
    exists: (path) => fake.exists(path),
    look: (path) => fake.look(path),
    list: (folder) => fake.list(folder),
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
}

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

const realFileBench = (): SinkBench => {
  const folder = mkdtempSync(join(tmpdir(), 'sink-'))
  folders.push(folder)
  const path = join(folder, 'deep', 'f.ndjson')
  let gone = false
  let lose = false
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
      const sync = async () => {
        await file.sync()
        if (!lose) return
        lose = false
        throw new ConnectorError('unreachable', 'as told')
      }
      return { ...file, write, sync, close: () => (open--, file.close()) }
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
    loseAnswer: () => (lose = true),
    clock: deps.clock,
    secrets: [],
    logged: () => deps.log.lines.join(),
    leftOpen: () => open,
  }
}

sinkContract('stdout', stdoutBench, {
  ...blind,
  answers: 'a pipe answers nothing: it takes bytes, or it fails',
  stall: 'printing cannot be cancelled; the daemon stops waiting for it',
})

const disks: Lacks = {
  ...blind,
  answers: 'a disk succeeds or fails, nothing else',
  'answers lost': 'a failing disk ends the process; only the next one has a possible duplicate',
  stall: 'a write to a disk cannot be cancelled: it finishes',
}
sinkContract('file, in memory', memoryFileBench, disks)
sinkContract('file, on a real disk', realFileBench, disks)

const atOnce: Lacks = { later: 'without acknowledgements its answer comes at once' }
sinkContract('splunk_hec', () => hecBench({ url: 'https://a.test:8088' }), atOnce)
sinkContract(
  'splunk_hec with several endpoints',
  () => hecBench({ urls: ['https://a.test:8088', 'https://b.test:8088'] }),
  atOnce,
)
for (const acks of ['true', 'auto'])
  sinkContract(`splunk_hec with acknowledgements, acks: ${acks}`, () =>
    hecBench({ url: 'https://a.test:8088', acks: acks === 'true' || acks }, { acks: true }),
  )

const streams: Lacks = {
  refuse: 'there is no answer: a refusal cannot be seen',
  poison: 'a receiver that hangs up at a message looks unreachable: that makes no dead letter',
  'answers cut': 'there is no answer that could be cut',
  key: 'it identifies us by our client certificate alone, whose rotation the TLS suite tests',
  later: 'an acknowledgement never comes later',
}
const inTheClear: Lacks = { secured: 'no TLS; the same sink over TLS is tested separately' }
sinkContract('syslog over TCP', () => streamBench('tcp://siem.test:601'), { ...streams, ...inTheClear })
sinkContract('syslog over TLS', () => streamBench('tls://siem.test:6514'), streams)
sinkContract('syslog over UDP', datagramBench, {
  answers: 'a datagram is not answered; a late report of an unreachable port counts as the lost answer',
  stall: 'a datagram leaves at once, or not at all',
  key: 'it requires no key',
  secured: 'Auditferry has no syslog over DTLS',
  later: 'a sent datagram is not tracked',
})
const relp: Lacks = {
  key: 'it identifies us by our client certificate alone, whose rotation the TLS suite tests',
  later: 'each answer is final',
}
sinkContract('syslog over RELP', () => relpBench('relp://siem.test:2514'), { ...relp, ...inTheClear })
sinkContract('syslog over RELP and TLS', () => relpBench('relp+tls://siem.test:2514'), relp)

// It takes objects, not batches: the promises of a batch sink do not apply.
const buckets: Lacks = {
  refuse: 'a bucket takes an object whole and reads no line',
  poison: 'a bucket takes an object whole and reads no line',
  'answers cut': 'success is in the headers alone: cut, they are lost',
}
deliveryContract('s3', s3Bench, buckets)
deliveryContract(
  's3, unpacked, under a prefix',
  () => s3Bench({ compression: 'none', prefix: 'a/b' }),
  buckets,
)
