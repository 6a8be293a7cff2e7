// The bucket against versitygw, a real server that verifies signatures, checksums, conditions and locks. Encryption: minio.test.ts, by a command of its own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listenMock, type Listening } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import type { ObjectGroup, ObjectSink, StoredObject } from '../../src/contracts/sink.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { disk } from '../../src/platform/disk.ts'
import { openTransport } from '../../src/platform/transport.ts'
import { s3 } from '../../src/sinks/s3/sink.ts'
import { LogLines, sinkDeps } from '../fakes/sink-deps.ts'
import { HOST, until } from './receivers/ports.ts'
import { foundVersitygw, versitygw } from './receivers/versitygw.ts'

const SECRET = 'secret-5ec2e7'
const ENTRIES = 5_000
const missing = foundVersitygw.missing !== undefined
const never = new AbortController().signal

let folder = ''
let url = ''
let api: Listening
let closing: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  if (missing) return
  folder = mkdtempSync(join(tmpdir(), 'auditferry-s3-'))
  const buckets = ['plain', 'killed', 'cut']
  const server = await versitygw({ folder, buckets, accessKey: 'key', secret: SECRET })
  closing = [() => server.stop()]
  await server.start()
  url = server.url
  const client = new S3Client({
    ...{ endpoint: url, region: 'us-east-1', forcePathStyle: true, maxAttempts: 1 },
    credentials: { accessKeyId: 'key', secretAccessKey: SECRET },
  })
  await client.send(new CreateBucketCommand({ Bucket: 'locked', ObjectLockEnabledForBucket: true }))
  client.destroy()
  const mock = openMock({
    ...{ clock: systemClock, seed: 1, workspaces: [{ name: 'acme', keys: [{ key: 'k' }] }] },
    traffic: { backlog: ENTRIES },
  })
  api = await listenMock(mock, { port: 0, host: HOST })
  closing.push(() => api.close())
})

afterAll(async () => {
  for (const close of closing) await close()
  if (folder !== '') rmSync(folder, { recursive: true, force: true })
})

function objectsOf(bucket: string): string[] {
  const root = join(folder, 'data', bucket)
  return (readdirSync(root, { recursive: true }) as string[])
    .filter((name) => name.startsWith('workspace=') && statSync(join(root, name)).isFile())
    .toSorted()
}

function idsOf(bucket: string): string[] {
  return objectsOf(bucket).flatMap((name) =>
    gunzipSync(readFileSync(join(folder, 'data', bucket, name)))
      .toString()
      .split('\n')
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as { id: string }).id),
  )
}

function begin(bucket: string, more: object = {}) {
  const config = join(folder, `${bucket}.yaml`)
  // JSON is YAML.
  writeFileSync(
    config,
    JSON.stringify({
      journal: { path: join(folder, `${bucket}-state`, 'journal.db') },
      workspaces: [{ name: 'acme', base_url: api.url, api_key: 'k', audit: {} }],
      sinks: [
        { name: 'archive', type: 's3', bucket, ...place(), secret_access_key: '${env:SECRET}', ...more },
      ],
    }),
  )
  const args = ['src/main.ts', 'run', '--once', '--timeout', '2m', '--config', config]
  const child = spawn(process.execPath, args, { env: { SECRET }, stdio: ['ignore', 'ignore', 'pipe'] })
  let reported = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (reported += text))
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, reported }))
  return { child, ended }
}

const place = () => ({ endpoint: url, force_path_style: true, access_key_id: 'key' })

function openSink(given: object, log = new LogLines()) {
  const transport = openTransport({})
  const options = s3.options.parse({ ...place(), secret_access_key: SECRET, ...given })
  const environment = {
    clock: systemClock,
    random: Math.random,
    disk,
    log,
    spoolFolder: join(folder, 'spool'),
  }
  const sink = s3.open('archive', options, sinkDeps({ ...environment, transport: () => transport.send }))
  const close = async () => {
    await sink.close()
    await transport.close()
  }
  return { sink, close }
}

const group: ObjectGroup = {
  stream: { workspace: 'acme', source: 'audit' },
  day: '2026-01-31',
  replay: undefined,
}

/** One entry as an object of its own. */
async function putOne(sink: ObjectSink): Promise<StoredObject> {
  const object = await sink.open(0)
  await object.write(Buffer.from('{"id":"a"}\n'))
  const ready = await object.end({ group, count: 1, first: 1, last: 1, firstAtUs: 1, lastAtUs: 1 })
  return ready.put(never).finally(() => ready.discard())
}

describe.skipIf(missing)('a running server', () => {
  test('takes a whole backlog in objects, each entry once', async () => {
    const { code, reported } = await begin('plain').ended
    expect(reported).toMatch(/Everything visible at start was read and delivered/)
    expect(code).toBe(0)
    const ids = idsOf('plain')
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids.length).toBeGreaterThanOrEqual(ENTRIES)
    for (const name of objectsOf('plain'))
      expect(name).toMatch(
        /^workspace=acme\/source=audit\/dt=\d{4}-\d\d-\d\d\/\d{16}-\d{16}-[0-9a-f]{16}\.ndjson\.gz$/,
      )
  })

  test('has each entry once whenever the process was killed', async () => {
    for (let objects = 1; objects < 30; objects += 7) {
      const { child, ended } = begin('killed', { rotate: { max_bytes: '32KiB' } })
      const there = objectsOf('killed').length
      await Promise.race([ended, until('objects', () => objectsOf('killed').length >= there + objects)])
      child.kill('SIGKILL')
      await ended
    }
    const { code } = await begin('killed', { rotate: { max_bytes: '32KiB' } }).ended
    expect(code).toBe(0)
    const ids = idsOf('killed')
    expect(ids.length).toBeGreaterThanOrEqual(ENTRIES)
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('is identified by the check: once only, checksums, locks', async () => {
    const { sink, close } = openSink({ bucket: 'locked', object_lock: { mode: 'compliance', days: 1 } })
    try {
      const results = await sink.check(never)
      expect(results.filter(({ ok }) => !ok)).toEqual([])
      const words = results.map(({ message }) => message).join('\n')
      expect(words).toMatch(/refused \(412\)[^]*locked as asked \(COMPLIANCE\)[^]*compared and kept/)
    } finally {
      await close()
    }
  })

  test('that ignores encryption blocks the sink that requires it, and gets nothing of it', async () => {
    const { sink, close } = openSink({ bucket: 'cut', sse: { type: 's3' } })
    try {
      const error: unknown = await putOne(sink).catch((each: unknown) => each)
      expect(error).toBeInstanceOf(ConnectorError)
      expect((error as ConnectorError).action).toBe('block')
      expect((error as ConnectorError).message).toMatch(/sse is set and the server ignores it/)
      expect(objectsOf('cut')).toEqual([])
    } finally {
      await close()
    }
  })

  test.each([
    [{ bucket: 'plain', secret_access_key: 'wrong' }, 'unauthorized'],
    [{ bucket: 'plain', access_key_id: 'nobody' }, 'unauthorized'],
    [{ bucket: 'nowhere' }, 'not_found'],
    [{ bucket: 'plain', object_lock: { mode: 'governance', days: 1 } }, 'misconfigured'],
  ])('%j blocks the sink as %s', async (given, code) => {
    const { sink, close } = openSink(given)
    try {
      await expect(putOne(sink)).rejects.toMatchObject({ code, action: 'block' })
    } finally {
      await close()
    }
  })
})
