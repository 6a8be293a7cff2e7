// The bucket of the replicas: of versitygw where it is installed, else of the S3 fake.
import { mkdirSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { GetObjectCommand, paginateListObjectsV2, S3Client } from '@aws-sdk/client-s3'
import { FakeS3 } from '../fakes/s3.ts'
import { openS3Server } from '../fakes/s3-server.ts'
import { find } from '../integration/receivers/program.ts'
import { program, versitygwOf } from '../integration/receivers/versitygw-program.ts'

export const BUCKET = 'logs'
export const ACCESS = { access_key_id: 'id', secret_access_key: 'secret', region: 'us-east-1' }

export interface Bucket {
  /** whose it is */
  readonly name: string
  readonly url: string
  /** of all objects */
  lines(): Promise<readonly string[]>
  close(): Promise<void>
}

/** `folder`: for what it stores. */
export const openBucket = (folder: string): Promise<Bucket> =>
  program.local.there() ? realBucket(folder) : fakeBucket()

async function fakeBucket(): Promise<Bucket> {
  const fake = new FakeS3()
  const server = await openS3Server(fake)
  return { name: 'the S3 fake', url: server.url, lines: async () => fake.lines, close: () => server.close() }
}

async function realBucket(folder: string): Promise<Bucket> {
  mkdirSync(folder)
  const { access_key_id: accessKey, secret_access_key: secret, region } = ACCESS
  const found = await find(program, 'local')
  const server = await versitygwOf(found, { folder, buckets: [BUCKET], accessKey, secret })
  await server.start()
  const client = new S3Client({
    ...{ endpoint: server.url, region, forcePathStyle: true },
    credentials: { accessKeyId: accessKey, secretAccessKey: secret },
  })
  /** by name: no object ever changes */
  const read = new Map<string, readonly string[]>()
  async function linesOf(key: string): Promise<readonly string[]> {
    const known = read.get(key)
    if (known) return known
    const { Body: body } = await client.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }))
    const bytes = gunzipSync((await body?.transformToByteArray()) ?? Buffer.alloc(0))
    const lines = bytes.toString().split('\n').slice(0, -1)
    read.set(key, lines)
    return lines
  }
  return {
    name: 'versitygw',
    url: server.url,
    async lines() {
      const all: string[] = []
      for await (const page of paginateListObjectsV2({ client }, { Bucket: BUCKET })) {
        const keys = (page.Contents ?? []).flatMap(({ Key: key = '' }) => (isOfEntries(key) ? [key] : []))
        for (let at = 0; at < keys.length; at += AT_ONCE)
          all.push(...(await Promise.all(keys.slice(at, at + AT_ONCE).map(linesOf))).flat())
      }
      return all
    },
    async close() {
      client.destroy()
      await server.stop()
    },
  }
}

const AT_ONCE = 16
const isOfEntries = (key: string) => key.startsWith('workspace=') && key.includes('/source=')
