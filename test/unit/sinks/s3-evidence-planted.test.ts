// What somebody who may write to the bucket puts into it: it neither brings the daemon down nor hides behind an excuse.
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../src/model/errors.ts'
import { manifestStore } from '../../../src/sinks/s3/evidence-bucket.ts'
import { objectFault } from '../../../src/sinks/s3/evidence-objects.ts'
import { options } from '../../../src/sinks/s3/options.ts'
import { systemClock } from '../../../src/ops/clock.ts'
import { never } from '../ship/quay.ts'
import { HOUR_MS, Stand } from './s3-evidence-stand.ts'

/** Bytes without end, and how many were taken of them. */
function endless() {
  const taken = { bytes: 0, left: false }
  async function* body() {
    try {
      for (;;) {
        if (taken.bytes > 2 ** 24) throw new Error('read without end')
        taken.bytes += 65_536
        yield Buffer.alloc(65_536, '{')
      }
    } finally {
      taken.left = true
    }
  }
  return { taken, body }
}

describe('a body without end under the name of the next manifest', () => {
  const bucketWith = (fetch: () => Promise<AsyncIterable<Uint8Array>>) =>
    manifestStore(
      {
        where: 'bucket logs',
        put: async () => ({ outcome: 'there', encryption: undefined }),
        fetch,
      },
      options.parse({ bucket: 'logs' }),
      systemClock,
    )

  it('is read no further than it was asked for, and then left', async () => {
    const { taken, body } = endless()
    const store = bucketWith(async () => body())
    expect(await store.get('manifest/x', 100_000, never)).toHaveLength(100_000)
    expect(taken).toEqual({ bytes: 131_072, left: true })
  })

  it('is another manifest to the daemon: held, told, and not kept in memory', async () => {
    const stand = await Stand.open()
    try {
      const { taken, body } = endless()
      const store = bucketWith(async () => body())
      await stand.step()
      stand.clock.nowMs += HOUR_MS
      Object.assign(stand.bucket, store)
      await expect(stand.step()).rejects.toThrow(/Another manifest stands under/)
      expect(taken).toEqual({ bytes: 65_536, left: true })
    } finally {
      await stand.close()
    }
  })

  it('that begins with ours is not ours', async () => {
    const stand = await Stand.open()
    try {
      await stand.step()
      stand.clock.nowMs += HOUR_MS
      stand.bucket.refuse = () => new ConnectorError('server_error', 'down')
      await expect(stand.step()).rejects.toThrow('down')
      stand.bucket.refuse = undefined
      const { key, body } = JSON.parse((await stand.journal.note('evidence:archive:pending')) ?? '') as {
        key: string
        body: string
      }
      stand.bucket.objects.set(key, Buffer.from(`${body}{"more":1}\n`))
      await expect(stand.step()).rejects.toThrow(/Another manifest stands under/)
      stand.bucket.objects.set(key, Buffer.from(body))
      await stand.step()
    } finally {
      await stand.close()
    }
  })
})

it('a body that unpacks to nothing, without end, is given up where packing cannot have made it so long', async () => {
  let bytes = 0
  const empty = Buffer.concat(Array.from({ length: 3_000 }, () => gzipSync('')))
  async function* nothings() {
    for (;;) {
      if (bytes > 2 ** 25) throw new Error('read without end')
      bytes += empty.length
      yield empty
    }
  }
  const hash = 'a'.repeat(64)
  const fault = await objectFault(
    { list: () => nothings() as never, get: async () => nothings() },
    {
      key: `workspace=acme/source=audit/dt=2026-01-31/0000000000000001-0000000000000001-${hash.slice(0, 16)}.ndjson.gz`,
      ...{ sha256: hash, bytes: 20, entries: 1, first_sequence: 1, last_sequence: 1 },
      ...{ first_time: null, last_time: null },
    },
  )
  expect(fault).toBe('is longer than its manifest says')
})
