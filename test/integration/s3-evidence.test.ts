// Evidence in a real bucket: versitygw keeps it, verify reads it over the network and as the folder that it is there, and tampering is named.
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { runProgram } from '../../src/cli/program.ts'
import type { CommandContext } from '../../src/cli/shared/context.ts'
import { openRegistered } from '../fakes/registered.ts'
import type { Journal } from '../../src/contracts/journal.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import { MemoryBudget } from '../../src/core/memory-budget.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { disk } from '../../src/platform/disk.ts'
import { openTransport } from '../../src/platform/transport.ts'
import { ObjectDispatcher } from '../../src/delivery/objects.ts'
import { s3 } from '../../src/sinks/s3/sink.ts'
import { logOf, part, spec } from '../contract/journal-parts.ts'
import { rawFormat } from '../fakes/lines.ts'
import { sinkDeps } from '../fakes/sink-deps.ts'
import { SinkNotes } from '../fakes/reporters.ts'
import { foundVersitygw, versitygw } from './receivers/versitygw.ts'

const SECRET = 'secret-5ec2e7'
const HOUR_MS = 3_600_000
const missing = foundVersitygw.missing !== undefined
const never = new AbortController().signal

let folder = ''
let url = ''
let close = async () => {}

beforeAll(async () => {
  if (missing) return
  folder = mkdtempSync(join(tmpdir(), 'auditferry-evidence-'))
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  writeFileSync(join(folder, 'key.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }))
  writeFileSync(join(folder, 'public.pem'), publicKey.export({ type: 'spki', format: 'pem' }))
  const server = await versitygw({ folder, buckets: ['audit'], accessKey: 'key', secret: SECRET })
  close = () => server.stop()
  await server.start()
  url = server.url
})

afterAll(async () => {
  await close()
  if (folder !== '') rmSync(folder, { recursive: true, force: true })
})

let runs = 0
let prefix = ''
let journal: Journal
let closing: (() => Promise<unknown>)[] = []
beforeEach(() => {
  prefix = `run-${++runs}/logs`
})
afterEach(async () => {
  vi.unstubAllEnvs()
  for (const each of closing.reverse()) await each()
  closing = []
})

const copyOf = () => join(folder, 'data', 'audit', prefix)
const filesUnder = (beginning: string) =>
  (readdirSync(copyOf(), { recursive: true }) as string[])
    .filter((name) => name.startsWith(beginning) && statSync(join(copyOf(), name)).isFile())
    .toSorted()

async function verify(...argv: string[]) {
  const said = { out: '', err: '' }
  const context: CommandContext = {
    ...{ env: {}, version: '0.0.0', signal: never },
    stdout: (text) => void (said.out += text),
    stderr: (text) => void (said.err += text),
    print: async () => undefined,
  }
  const code = await runProgram(['verify', ...argv, '--public-key', join(folder, 'public.pem')], context)
  return { code, ...said }
}

async function putTheirs(key: string): Promise<void> {
  const client = new S3Client({
    ...{ endpoint: url, region: 'us-east-1', forcePathStyle: true },
    credentials: { accessKeyId: 'key', secretAccessKey: SECRET },
  })
  await client.send(new PutObjectCommand({ Bucket: 'audit', Key: key, Body: 'theirs' }))
  client.destroy()
}

const overNetwork = () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'key')
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', SECRET)
  return verify(`s3://audit/${prefix}`, '--endpoint', url, '--region', 'us-east-1')
}
const offline = () => verify(copyOf())

/** Entries in, through the real sink; hours pass on demand. */
async function openFeed(compression: 'gzip' | 'zstd' | 'none') {
  let aheadMs = 0
  const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }
  const state = join(folder, `state-${runs}`)
  journal = await openRegistered({
    ...{ path: join(state, 'journal.db'), sinks: ['archive'], clock, log: logOf(), ballastBytes: 0 },
    ...{ maxBytes: 2 ** 30, keepKeysMs: 1e12, keepDeliveredBytes: 0 },
  })
  await journal.state.put('instance', 'a1b2c3d4e5f6a1b2c3d4e5f6')
  closing.push(() => journal.close())
  const options = s3.options.parse({
    ...{ bucket: 'audit', prefix, endpoint: url, region: 'us-east-1', force_path_style: true, compression },
    ...{ access_key_id: 'key', secret_access_key: SECRET },
    evidence: { signing_key_file: join(folder, 'key.pem') },
  })
  let network: ReturnType<typeof openTransport>
  let dispatcher: ObjectDispatcher
  const begin = () => {
    network = openTransport({ tls: undefined, proxy: { https: undefined, http: undefined, none: undefined } })
    closing.push(() => network.close())
    const parts = { clock, disk, transport: () => network.send, spoolFolder: join(state, 'spool') }
    const sink = s3.open('archive', options, sinkDeps(parts))
    closing.push(() => sink.close())
    dispatcher = new ObjectDispatcher({
      ...{ sink, journal, reporter: new SinkNotes(), log: logOf(), clock, format: rawFormat, shape: 'one' },
      ...{
        random: () => 0.5,
        memory: new MemoryBudget(2 ** 25),
        nothingMoreComes: () => false,
        lookAgainMs: Infinity,
      },
      wanted: () => true,
    })
  }
  begin()
  let appended = 0
  return {
    begin,
    step: () => dispatcher.step(never),
    async append(count: number) {
      await journal.append(part(Array.from({ length: count }, (_, i) => spec(appended + i + 1))))
      appended += count
    },
    async hour() {
      aheadMs += HOUR_MS
      for (let i = 0; i < 1_000 && (await dispatcher.step(never)) === 'worked'; i++) continue
    },
  }
}

describe.skipIf(missing)('versitygw', () => {
  test.each(['gzip', 'zstd', 'none'] as const)(
    'objects stored as %s verify over the network and from the folder, with the same report except for the location',
    async (compression) => {
      const feed = await openFeed(compression)
      for (let hour = 0; hour < 3; hour++) {
        await feed.append(500)
        await feed.hour()
      }
      await feed.hour()
      const [there, here] = [await overNetwork(), await offline()]
      expect([there.code, there.err]).toEqual([0, ''])
      expect(there.out).toContain('proved: 3 objects with 1500 entries')
      // A folder alone does not know where it came from, and says so first.
      const [reported = '', ...rest] = here.out.split('\n')
      expect(reported).toContain(`says that it was stored in s3://audit/${prefix}: a folder cannot show`)
      expect({ ...here, out: rest.join('\n') }).toEqual(there)
    },
  )

  test('killed between any two steps, it is one chain and each object is listed once', async () => {
    const feed = await openFeed('gzip')
    for (let round = 0; round < 4; round++) {
      await feed.append(50)
      for (let steps = 0; steps < round * 3; steps++) await feed.step()
      feed.begin()
      await feed.hour()
    }
    await feed.hour()
    const { code, out } = await overNetwork()
    expect([code, out]).toEqual([0, expect.stringContaining('with 200 entries')])
  })

  test('another manifest under the next number is not replaced: the sink is blocked and says so', async () => {
    const feed = await openFeed('gzip')
    await feed.append(10)
    await feed.hour()
    await feed.hour()
    const [first = ''] = filesUnder('manifest')
    const next = first.replace('1.ndjson', '2.ndjson')
    await putTheirs(`${prefix}/${next}`)
    const error = await feed.hour().catch((each: unknown) => each)
    expect(error).toBeInstanceOf(ConnectorError)
    expect(error).toMatchObject({
      code: 'misconfigured',
      message: expect.stringContaining('would split in two') as string,
    })
    expect(readFileSync(join(copyOf(), next), 'utf8')).toBe('theirs')
  })

  test('a removed or changed object or manifest is named', async () => {
    const feed = await openFeed('gzip')
    for (let hour = 0; hour < 3; hour++) {
      await feed.append(20)
      await feed.hour()
    }
    await feed.hour()
    const [object = ''] = filesUnder('workspace=')
    const [, manifest = ''] = filesUnder('manifest')
    for (const name of [object, manifest]) {
      const path = join(copyOf(), name)
      const body = readFileSync(path)
      const changed = Buffer.from(body)
      changed[40] = (changed[40] ?? 0) ^ 1
      writeFileSync(path, changed)
      const reported = await overNetwork()
      expect([reported.code, reported.out]).toEqual([1, expect.stringContaining(`fault: ${name} `)])
      rmSync(path)
      const gone = await overNetwork()
      expect([gone.code, gone.out]).toEqual([1, expect.stringContaining(`fault: ${name} is missing`)])
      writeFileSync(path, body)
    }
    expect((await offline()).code).toBe(0)
  })
})
