// Objects that an attacker puts into the bucket: they neither crash the daemon nor hide behind an excuse.
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { manifestStore } from '../../../../src/sinks/s3/evidence-bucket.ts'
import { objectFault } from '../../../../src/sinks/s3/verify/objects.ts'
import type { WalkedChain } from '../../../../src/sinks/s3/verify/chain.ts'
import { TouchedSum, verifyEvidence } from '../../../../src/sinks/s3/verify/verify.ts'
import { excuseOf } from '../../../../src/sinks/s3/verify/unlisted.ts'
import type { Finding } from '../../../../src/sinks/s3/verify/objects.ts'
import { readPublicKeys, sha256 } from '../../../../src/sinks/s3/evidence/manifest.ts'
import { options } from '../../../../src/sinks/s3/options.ts'
import { systemClock } from '../../../../src/platform/clock.ts'
import { never } from '../../delivery/rig.ts'
import { Fate, HOUR_MS, MemoryBucket, Setup } from './evidence-setup.ts'

/** Endless bytes, and how many of them were taken. */
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

describe('an endless body under the name of the next manifest', () => {
  const bucketWith = (fetch: () => Promise<AsyncIterable<Uint8Array>>) =>
    manifestStore(
      {
        where: 'bucket logs',
        put: async () => ({ outcome: 'exists', encryption: undefined }),
        fetch,
      },
      options.parse({ bucket: 'logs' }),
      systemClock,
    )

  it('is read no further than requested, and then closed', async () => {
    const { taken, body } = endless()
    const store = bucketWith(async () => body())
    expect(await store.get('manifest/x', 100_000, never)).toHaveLength(100_000)
    expect(taken).toEqual({ bytes: 131_072, left: true })
  })

  it('is another manifest to the daemon: it is blocked, reports it and does not keep it in memory', async () => {
    const setup = await Setup.open()
    try {
      const { taken, body } = endless()
      const store = bucketWith(async () => body())
      await setup.step()
      setup.clock.nowMs += HOUR_MS
      Object.assign(setup.bucket, store)
      await expect(setup.step()).rejects.toThrow(/Another manifest exists under/)
      expect(taken).toEqual({ bytes: 65_536, left: true })
    } finally {
      await setup.close()
    }
  })

  it('is larger than any manifest to a verifier: reported, and read no further', async () => {
    const setup = await Setup.open()
    try {
      await setup.step()
      await setup.hour()
      const [key = ''] = setup.bucket.keys('manifest/')
      const seen = setup.bucket.seen()
      let bytes = 0
      async function* body() {
        for (; bytes < 2 ** 26; bytes += 2 ** 20) yield Buffer.alloc(2 ** 20, '{')
      }
      setup.bucket.seen = () => ({ ...seen, get: async () => body() })
      expect((await setup.verify()).faultLines).toEqual([`${key} is larger than any manifest`])
      expect(bytes).toBe(2 ** 24)
    } finally {
      await setup.close()
    }
  })

  it('that begins like ours is not ours', async () => {
    const setup = await Setup.open()
    try {
      await setup.step()
      setup.clock.nowMs += HOUR_MS
      setup.bucket.refuse = () => new ConnectorError('server_error', 'down')
      await expect(setup.step()).rejects.toThrow('down')
      setup.bucket.refuse = undefined
      const { key, body } = JSON.parse((await setup.journal.state.get('evidence:archive:pending')) ?? '') as {
        key: string
        body: string
      }
      setup.bucket.objects.set(key, Buffer.from(`${body}{"more":1}\n`))
      await expect(setup.step()).rejects.toThrow(/Another manifest exists under/)
      setup.bucket.objects.set(key, Buffer.from(body))
      await setup.step()
    } finally {
      await setup.close()
    }
  })
})

it('a body that unpacks to nothing, endlessly, is given up at the length that packing cannot exceed', async () => {
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
  expect(fault).toBe('was changed: it has more than 1048616 stored bytes, the size in its manifest')
})

const lines = Buffer.from('{"id":"forged"}\n')
const digits = (seq: number) => String(seq).padStart(16, '0')
const forged = (first: number, last = first) =>
  `workspace=acme/source=audit/dt=2026-01-31/${digits(first)}-${digits(last)}-${sha256(lines).slice(0, 16)}.ndjson.gz`

describe('objects that no manifest lists', () => {
  let long: Setup
  let short: Setup
  /** One chain of the entries 1 to 60 with a gap from 41 to 50, and a second journal's of 1 to 8. */
  beforeAll(async () => {
    long = await Setup.open()
    await long.append(60)
    await long.step()
    await long.runDispatcher(40)
    await long.hour()
    await long.runDispatcher(10, { evidence: false })
    await long.runDispatcher(10)
    await long.hour()
    short = await Setup.open()
    await short.journal.state.put('instance', 'ffffffffffffffffffffffff')
    await short.append(8)
    await short.step()
    await short.runDispatcher(8)
    await short.hour()
  })
  afterAll(async () => {
    await long.close()
    await short.close()
  })

  async function reported(setups: readonly Setup[], planted: readonly string[], without?: string) {
    const bucket = new MemoryBucket(new Fate())
    for (const setup of setups) for (const [key, body] of setup.bucket.objects) bucket.objects.set(key, body)
    for (const key of planted) bucket.objects.set(key, gzipSync(lines))
    if (without !== undefined) bucket.objects.delete(without)
    const findings: Finding[] = []
    const keys = readPublicKeys(setups.map((setup) => setup.keys.publicPem).join(''))
    const acceptedGaps = [{ first: 41, last: 50 }]
    await verifyEvidence(bucket.seen(), { keys, acceptedGaps, storedIn: long.storedIn }, (finding) =>
      findings.push(finding),
    )
    const of = (level: Finding['level']) =>
      findings.filter((each) => each.level === level).map(({ where, what }) => `${where} ${what}`)
    return { faults: of('fault'), notes: of('note') }
  }

  it('are a fault if a chain covers their numbers, whatever another chain would excuse', async () => {
    for (const setups of [[long], [long, short], [short, long]]) {
      const { faults } = await reported(setups, [forged(20)])
      expect(faults).toEqual([expect.stringContaining(`${forged(20)} is not listed by the manifest`)])
    }
    expect((await reported([long, short], [forged(20)])).faults[0]).toContain('or the chain of sink archive')
    expect((await reported([long], [forged(20)])).faults[0]).not.toContain('or the chain')
  })

  it('are excused by the end of all chains, and by a gap that no other chain covers', async () => {
    const { faults, notes } = await reported([long, short], [forged(61), forged(45)])
    expect(faults).toEqual([])
    // Two objects were really stored meanwhile.
    expect(notes).toContainEqual(
      expect.stringContaining(
        `${forged(61)} is newer than the last manifest: no manifest lists this yet; if it is genuine`,
      ),
    )
    expect(notes).toContainEqual(expect.stringContaining('and 2 more are stored while evidence was off'))
  })

  it('are excused by a missing manifest of the chain itself, but not if another chain covers them', async () => {
    const [first] = long.bucket.keys('manifest/')
    const { faults } = await reported([long, short], [forged(20), forged(7)], first)
    expect(faults).not.toContainEqual(expect.stringContaining(forged(20)))
    expect(faults).toContainEqual(`${first ?? ''} is missing`)
    expect(faults).toContainEqual(expect.stringContaining(forged(7)))
  })

  it('are a fault if they straddle the edge of the covered range', async () => {
    for (const key of [forged(60, 61), forged(40, 41), forged(50, 51), forged(1, 99)]) {
      const { faults } = await reported([long], [key])
      expect(faults).toEqual([expect.stringContaining(`${key} is not listed by the manifest`)])
    }
  })

  it('are inside or outside an edge, exact to the number', () => {
    const base = { sink: 'archive', journal: 'a', manifests: 1, last: undefined, filtered: 0, parked: 0 }
    const chain = (after: number, through: number): WalkedChain => ({
      ...{ ...base, after, through, hashes: new Set<string>(), intervals: [], blind: [], gaps: [] },
    })
    const one = [chain(10, 20)]
    expect(
      (
        [
          [9, 10],
          [10, 11],
          [11, 11],
          [20, 20],
          [20, 21],
          [21, 22],
        ] as const
      ).map(([first, last]) => excuseOf(forged(first, last), one)),
    ).toEqual(['older', undefined, undefined, undefined, undefined, 'newer'])
    const two = [chain(0, 8), chain(30, 40)]
    expect([8, 9, 30, 31, 41].map((seq) => excuseOf(forged(seq), two))).toEqual([
      ...[undefined, 'outside', 'outside', undefined, 'newer'],
    ])
    const blind = [{ ...chain(0, 20), blind: [{ after: 5, through: 9 }] }]
    expect(
      (
        [
          [5, 6],
          [6, 9],
          [9, 10],
        ] as const
      ).map(([first, last]) => excuseOf(forged(first, last), blind)),
    ).toEqual([undefined, 'blind', undefined])
  })

  it('under a name of their own are a fault if tables or manifests are read from there', async () => {
    const planted = [
      'workspace=acme/source=audit/dt=2026-01-31/part-0.ndjson',
      'workspace=acme/part-0.ndjson.gz',
      'workspace=',
      'replay=x/part-0.ndjson',
      'manifest/sink=archive/journal=a1b2c3d4e5f6a1b2c3d4e5f6/part-0.ndjson',
    ]
    for (const key of planted)
      expect((await reported([long], [key])).faults).toEqual([
        expect.stringContaining(`${key} has a name that Auditferry never uses`),
      ])
    expect((await reported([long], planted)).faults).toHaveLength(5)
    const many = Array.from({ length: 30 }, (_, i) => `workspace=acme/part-${i}`)
    const { faults } = await reported([long], many)
    expect(faults).toHaveLength(21)
    expect(faults.at(-1)).toContain('10 more names like it')
  })

  it.each([
    [0, 0],
    [0, 5],
    [5, 0],
    [66, 0],
    [67, 3],
    [9_999_999_999_999_999, 5],
    [67, 9_007_199_254_740_992],
  ])('are a fault under the numbers %i to %i, which no journal assigns', async (first, last) => {
    for (const setups of [[long], [long, short]])
      expect((await reported(setups, [forged(first, last)])).faults).toEqual([
        expect.stringContaining(`${forged(first, last)} has a name that Auditferry never uses`),
      ])
  })

  it('elsewhere are a note, and so are foreign objects beside the probes', async () => {
    const probes = ['.auditferry/probe-0a1b2c3d', '.auditferry/check-0a1b2c3d4e5f-race']
    const { faults, notes } = await reported(
      [long],
      [...probes, 'other/part-0', 'sink=a/journal=0a/0000000000000001.ndjson', '.auditferry/x/part-0.ndjson'],
    )
    expect(faults).toEqual([])
    expect(notes.filter((note) => !/says nothing|evidence was off/.test(note))).toEqual([
      ...[".auditferry/x/part-0.ndjson is not what the sink's probes leave there"],
      ". holds 1 of this program's manifests in another place: name the folder or prefix that contains manifest/",
      ...[". holds 1 more objects that are none of this program's"],
    ])
  })
})

describe('a chain that was made for another location, signed with the same key', () => {
  it('is a fault, reported once; if the location is unknown, the report says what the manifests name', async () => {
    const setup = await Setup.open()
    try {
      await setup.append(4)
      await setup.step()
      await setup.runDispatcher(4)
      await setup.hour()
      await setup.hour()
      expect((await setup.verify()).faultLines).toEqual([])
      for (const storedIn of [
        { bucket: 'other', prefix: 'logs/acme' },
        { bucket: 'acme-audit', prefix: 'logs' },
      ])
        expect((await setup.verify({ storedIn })).faultLines).toEqual([
          expect.stringContaining('was made for s3://acme-audit/logs/acme: it was copied here, to s3://'),
        ])
      const { faultLines, noteLines } = await setup.verify({ storedIn: undefined })
      expect(faultLines).toEqual([])
      expect(noteLines).toEqual([
        expect.stringContaining('says that it was stored in s3://acme-audit/logs/acme: a folder cannot show'),
      ])
    } finally {
      await setup.close()
    }
  })

  it('is a fault from the manifest on at which the location changes', async () => {
    const setup = await Setup.open()
    try {
      await setup.step()
      await setup.hour()
      Object.assign(setup.storedIn, { bucket: 'moved' })
      setup.evidence = setup.anew()
      await setup.hour()
      await setup.hour()
      const { faultLines } = await setup.verify({ storedIn: { bucket: 'acme-audit', prefix: 'logs/acme' } })
      expect(faultLines).toEqual([expect.stringMatching(/0002\.ndjson was made for s3:\/\/moved/)])
    } finally {
      await setup.close()
    }
  })
})

it('what several faults name is counted once, and a fault without a time leaves the time unchanged', () => {
  const sum = new TouchedSum()
  const time = '2026-01-31T00:00:00.000000Z'
  sum.add('a', { entries: 3, first: 5, last: 9, from: time, until: time })
  sum.add('a', { entries: 3, first: 5, last: 9, from: time, until: time })
  sum.add('b', { entries: 1, first: 2, last: 2, from: null, until: null })
  sum.add('c', { first: 30, last: 31 })
  expect(sum.all()).toEqual({
    listed: { count: 2, entries: 4, first: 2, last: 9, from: time, until: time },
    planted: { count: 1, entries: 0, first: 30, last: 31, from: undefined, until: undefined },
  })
})
