// Encryption at the server, against MinIO. Its build is heavy, so that only `npm run test:minio` brings it; elsewhere this suite is skipped, loudly.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CreateBucketCommand, HeadObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ObjectGroup } from '../../src/contracts/sink.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { disk } from '../../src/platform/disk.ts'
import { openTransport } from '../../src/platform/transport.ts'
import { s3 } from '../../src/sinks/s3/sink.ts'
import { sinkDeps } from '../fakes/sink-deps.ts'
import { foundMinio, minio } from './receivers/minio.ts'

const SECRET = 'secret-5ec2e7'
const missing = foundMinio.missing !== undefined
const never = new AbortController().signal

let folder = ''
let url = ''
let client: S3Client
let stop = async () => undefined as unknown

beforeAll(async () => {
  if (missing) return
  folder = mkdtempSync(join(tmpdir(), 'auditferry-minio-'))
  const server = await minio({ folder, accessKey: 'keykey', secret: SECRET })
  stop = () => server.stop()
  await server.start()
  url = server.url
  client = new S3Client({
    ...{ endpoint: url, region: 'us-east-1', forcePathStyle: true, maxAttempts: 1 },
    credentials: { accessKeyId: 'keykey', secretAccessKey: SECRET },
  })
  await client.send(new CreateBucketCommand({ Bucket: 'locked', ObjectLockEnabledForBucket: true }))
  stop = async () => {
    client.destroy()
    await server.stop()
  }
})

afterAll(async () => {
  await stop()
  if (folder !== '') rmSync(folder, { recursive: true, force: true })
})

const group: ObjectGroup = {
  stream: { workspace: 'acme', source: 'audit' },
  day: '2026-01-31',
  replay: undefined,
}

describe.skipIf(missing)('MinIO', () => {
  test.each([
    [{ type: 's3' }, 'AES256'],
    [{ type: 'kms', kms_key_id: 'my-key' }, 'aws:kms'],
  ] as const)('encrypts objects as %j requires, locks them, and takes each once', async (sse, reported) => {
    const transport = openTransport({})
    const place = { bucket: 'locked', prefix: sse.type, endpoint: url, force_path_style: true }
    const keys = { access_key_id: 'keykey', secret_access_key: SECRET }
    const options = s3.options.parse({ ...place, ...keys, sse, object_lock: { mode: 'governance', days: 1 } })
    const environment = { clock: systemClock, random: Math.random, disk, spoolFolder: join(folder, 'spool') }
    const sink = s3.open('archive', options, sinkDeps({ ...environment, transport: () => transport.send }))
    try {
      expect((await sink.check(never)).filter(({ ok }) => !ok)).toEqual([])
      for (const there of [false, true]) {
        const object = await sink.open(0)
        await object.write(Buffer.from('{"id":"a"}\n'))
        const ready = await object.end({ group, count: 1, first: 1, last: 1, firstAtUs: 1, lastAtUs: 1 })
        const stored = await ready.put(never)
        await ready.discard()
        expect(stored.alreadyStored).toBe(there)
        const seen = await client.send(new HeadObjectCommand({ Bucket: 'locked', Key: stored.key }))
        expect(seen).toMatchObject({ ServerSideEncryption: reported, ObjectLockMode: 'GOVERNANCE' })
      }
    } finally {
      await sink.close()
      await transport.close()
    }
  })
})
