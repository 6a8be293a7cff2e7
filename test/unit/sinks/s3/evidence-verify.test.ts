// The verifier names any single change to a valid bucket, and names nothing that is not there.
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { constants, gunzipSync, gzipSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import {
  manifestLine,
  readPublicKeys,
  readSigningKey,
  sha256,
  signedManifest,
  type Manifest,
} from '../../../../src/sinks/s3/evidence/manifest.ts'
import { verifyEvidence } from '../../../../src/sinks/s3/verify/verify.ts'
import { keyPair, MemoryBucket, Setup, Fate } from './evidence-setup.ts'

/** Six hours with objects of each packing, one hour without any; then one range that no manifest lists yet. */
async function valid(): Promise<Setup> {
  const setup = await Setup.open()
  await setup.append(66)
  await setup.step()
  for (const packed of ['.gz', '.zst', ''] as const) {
    await setup.runDispatcher(10, { packed, filtered: 1 })
    await setup.hour()
    // Stored, but not acknowledged: the next try finds its objects there, and no manifest vouches for their bodies.
    setup.fate.dieAt(0, false)
    await setup.runDispatcher(10, { packed, parked: 1 }).catch(() => undefined)
    setup.fate.dieAt(Infinity, false)
    await setup.runDispatcher(10, { packed, parked: 1 })
    await setup.hour()
  }
  await setup.hour()
  await setup.runDispatcher(6)
  return setup
}

let setup: Setup
let original: ReadonlyMap<string, Buffer>
let manifests: string[]
let objects: string[]
/** those whose stored bodies are hashed too */
let vouched: string[]
let unlisted: string[]
beforeAll(async () => {
  setup = await valid()
  original = new Map(setup.bucket.objects)
  manifests = setup.bucket.keys('manifest/')
  const all = manifests.flatMap((_, i) => setup.manifest(i + 1)['objects'] as Manifest['objects'])
  const listed = new Set(all.map(({ key }) => key))
  vouched = all.filter((object) => object.stored_sha256 !== undefined).map(({ key }) => key)
  objects = setup.bucket.keys('workspace=').filter((key) => listed.has(key))
  unlisted = setup.bucket.keys('workspace=').filter((key) => !listed.has(key))
})
afterAll(() => setup.close())

type Bucket = Map<string, Buffer>
const zstdLevel = { params: { [constants.ZSTD_c_compressionLevel]: 19, [constants.ZSTD_c_checksumFlag]: 1 } }

async function verify(change: (bucket: Bucket) => void, options: Parameters<Setup['verify']>[0] = {}) {
  const bucket = new MemoryBucket(new Fate())
  for (const [key, body] of original) bucket.objects.set(key, Buffer.from(body))
  change(bucket.objects)
  const faults: string[] = []
  const notes: string[] = []
  const keys = readPublicKeys(setup.keys.publicPem)
  await verifyEvidence(
    bucket.seen(),
    { keys, storedIn: setup.storedIn, ...options },
    ({ level, where, what }) => (level === 'fault' ? faults : notes).push(`${where} ${what}`),
  )
  return { faults, notes }
}

const get = (bucket: Bucket, key: string | undefined): Buffer => {
  const body = bucket.get(key ?? '')
  if (!body) throw new Error(`no ${key ?? 'key'}`)
  return body
}

const unpacked = (key: string, body: Buffer) =>
  key.endsWith('.gz') ? gunzipSync(body) : key.endsWith('.zst') ? zstdDecompressSync(body) : body
const packed = (key: string, lines: Buffer) =>
  key.endsWith('.gz') ? gzipSync(lines) : key.endsWith('.zst') ? zstdCompressSync(lines) : lines

function relined(bucket: Bucket, key: string, change: (lines: string[]) => string[]): void {
  const lines = unpacked(key, get(bucket, key)).toString().split('\n').slice(0, -1)
  bucket.set(
    key,
    packed(
      key,
      Buffer.from(
        change(lines)
          .map((line) => `${line}\n`)
          .join(''),
      ),
    ),
  )
}

/** A manifest with other content, signed correctly; its followers are unchanged. */
function resigned(
  bucket: Bucket,
  key: string,
  change: (manifest: Manifest) => Manifest,
  pem = setup.keys.privatePem,
) {
  const body = get(bucket, key)
  const manifest = JSON.parse(body.subarray(0, body.indexOf(10)).toString()) as Manifest
  bucket.set(key, Buffer.from(signedManifest(manifestLine(change(manifest)), readSigningKey(pem))))
}

describe('a bucket as it was written', () => {
  it('verifies, and objects that no manifest lists yet are reported as new', async () => {
    const { faults, notes } = await verify(() => undefined)
    expect(faults).toEqual([])
    expect(notes).toEqual([expect.stringContaining('newer than the last manifest')])
    expect(manifests).toHaveLength(7)
    expect(objects).toHaveLength(12)
    expect(vouched).toHaveLength(6)
    expect(unlisted).toHaveLength(2)
  })
})

describe('one change to any object or manifest is named', () => {
  const anObject = fc.nat(11)
  const aManifest = fc.nat(6)
  const object = (n: number) => objects[n] ?? ''
  const manifest = (n: number) => manifests[n] ?? ''
  const named = async (where: string, change: (bucket: Bucket) => void) => {
    const { faults } = await verify(change)
    expect(faults.filter((fault) => fault.includes(where))).not.toEqual([])
    return faults
  }

  it('an object removed', () =>
    fc.assert(
      fc.asyncProperty(anObject, async (n) => {
        const faults = await named(object(n), (bucket) => bucket.delete(object(n)))
        expect(faults).toEqual([`${object(n)} is missing`])
      }),
      { numRuns: 12 },
    ))

  it('a manifest removed, except the last: that needs a reference from outside', () =>
    fc.assert(
      fc.asyncProperty(fc.nat(5), async (n) => {
        const faults = await named(manifest(n), (bucket) => bucket.delete(manifest(n)))
        expect(faults).toEqual([`${manifest(n)} is missing`])
      }),
      { numRuns: 6 },
    ))

  it('two objects swapped, two manifests swapped', () =>
    fc.assert(
      fc.asyncProperty(fc.boolean(), fc.nat(11), fc.nat(10), async (which, a, b) => {
        const keys = which ? objects : manifests
        const one = keys[a % keys.length] ?? ''
        const other = keys[(a + 1 + (b % (keys.length - 1))) % keys.length] ?? ''
        await named(one, (bucket) => {
          const [x, y] = [get(bucket, one), get(bucket, other)]
          bucket.set(one, y)
          bucket.set(other, x)
        })
      }),
      { numRuns: 40 },
    ))

  it('a byte edited at any place', () =>
    fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.nat(11),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        async (which, n, at, by) => {
          const keys = which ? vouched : manifests
          const key = keys[n % keys.length] ?? ''
          await named(key, (bucket) => {
            const body = get(bucket, key)
            body[at % body.length] = (body[at % body.length] ?? 0) ^ by
          })
        },
      ),
      { numRuns: 120 },
    ))

  it('cut or made longer, by however much', () =>
    fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.nat(11),
        fc.nat(),
        fc.uint8Array({ minLength: 1, maxLength: 9 }),
        fc.boolean(),
        async (which, n, at, more, cut) => {
          const keys = which ? vouched : manifests
          const key = keys[n % keys.length] ?? ''
          await named(key, (bucket) => {
            const body = get(bucket, key)
            bucket.set(key, cut ? body.subarray(0, at % body.length) : Buffer.concat([body, more]))
          })
        },
      ),
      { numRuns: 80 },
    ))

  it('a body packed again, if it is vouched for; the same lines elsewhere are the same object', async () => {
    for (const key of objects.filter((name) => !name.endsWith('.ndjson'))) {
      const anew = (bucket: Bucket) => {
        const lines = unpacked(key, get(bucket, key))
        bucket.set(
          key,
          key.endsWith('.gz') ? gzipSync(lines, { level: 1 }) : zstdCompressSync(lines, zstdLevel),
        )
        expect(bucket.get(key)?.equals(get(original as Bucket, key))).toBe(false)
      }
      const { faults } = await verify(anew)
      expect(faults).toEqual(vouched.includes(key) ? [expect.stringContaining(key)] : [])
    }
  })

  it('lines joined to one', async () => {
    const key = objects.find((name) => name.endsWith('.ndjson') && !vouched.includes(name)) ?? ''
    const faults = await named(key, (bucket) => {
      const body = get(bucket, key)
      body[body.indexOf(10)] = 32
    })
    expect(faults).toEqual([expect.stringMatching(/holds \d whole lines, expected \d/)])
  })

  it('a manifest with an extra empty line', async () => {
    await named(manifest(1), (bucket) =>
      bucket.set(manifest(1), Buffer.concat([get(bucket, manifest(1)), Buffer.from('\n')])),
    )
  })

  it('lines reordered, doubled, removed or inserted, also if everything is packed again', () =>
    fc.assert(
      fc.asyncProperty(
        anObject,
        fc.constantFrom('swap', 'double', 'remove', 'add'),
        fc.nat(),
        async (n, how, at) => {
          await named(object(n), (bucket) =>
            relined(bucket, object(n), (lines) => {
              const i = at % (lines.length - 1)
              const [one = '', two = ''] = [lines[i], lines[i + 1]]
              if (how === 'swap') return lines.with(i, two).with(i + 1, one)
              if (how === 'double') return lines.toSpliced(i, 0, one)
              if (how === 'remove') return lines.toSpliced(i, 1)
              return lines.toSpliced(i, 0, '{"id":"forged"}')
            }),
          )
        },
      ),
      { numRuns: 48 },
    ))

  it('an object copied to another name, among the entries that manifests cover', () =>
    fc.assert(
      fc.asyncProperty(anObject, async (n) => {
        const copy = object(n).replace(/-[0-9a-f]{16}\.ndjson/, '-0123456789abcdef.ndjson')
        const faults = await named(copy, (bucket) => bucket.set(copy, get(bucket, object(n))))
        expect(faults).toEqual([expect.stringContaining('is not listed by the manifest')])
      }),
      { numRuns: 12 },
    ))

  it('a signature replaced by that of another manifest, or by one of another key', () =>
    fc.assert(
      fc.asyncProperty(aManifest, fc.boolean(), async (n, otherKey) => {
        const stranger = keyPair()
        const faults = await named(manifest(n), (bucket) => {
          if (otherKey) {
            resigned(bucket, manifest(n), (same) => same, stranger.privatePem)
            return
          }
          const own = get(bucket, manifest(n)).toString().split('\n')
          const other = get(bucket, manifest((n + 1) % 7))
            .toString()
            .split('\n')
          bucket.set(manifest(n), Buffer.from([own[0], other[1], ''].join('\n')))
        })
        const why = otherKey ? 'or --public-key is the wrong file' : 'its signature does not fit'
        expect(faults[0]).toContain(why)
      }),
      { numRuns: 28 },
    ))

  it('a manifest signed again by a given key that is not the one it names', async () => {
    const second = keyPair()
    const keys = readPublicKeys(setup.keys.publicPem + second.publicPem)
    const { faults } = await verify(
      (bucket) => resigned(bucket, manifest(2), (same) => same, second.privatePem),
      { keys },
    )
    expect(faults[0]).toContain('it was signed again')
  })
})

describe('errors signed by a holder of the key are named too', () => {
  const changed = async (n: number, change: (manifest: Manifest) => Manifest) =>
    (await verify((bucket) => resigned(bucket, manifests[n - 1] ?? '', change))).faults

  it.each<[string, (manifest: Manifest) => Manifest]>([
    [
      'leaves a hole',
      (m) => ({
        ...m,
        stretches: [],
        objects: [],
        gaps: [{ first: m.sequence.after + 2, last: m.sequence.through }],
      }),
    ],
    ['covers the entries up to', (m) => ({ ...m, stretches: [], objects: [] })],
    [
      'counts 11 entries',
      (m) => ({ ...m, stretches: m.stretches.map((each) => ({ ...each, filtered: each.filtered + 1 })) }),
    ],
    ['of the entries 11 to 20, expected 9', (m) => ({ ...m, objects: m.objects.slice(1) })],
    [
      'is outside the entries',
      (m) => ({
        ...m,
        sequence: { after: 10, through: 15 },
        stretches: [{ first: 11, last: 15, delivered: 5, filtered: 0, parked: 0 }],
      }),
    ],
    [
      'other sequence numbers in its name',
      (m) => ({
        ...m,
        objects: m.objects.map((each) => ({ ...each, first_sequence: each.first_sequence + 1 })),
      }),
    ],
    [
      'another hash in its name',
      (m) => ({ ...m, objects: m.objects.map((each) => ({ ...each, sha256: sha256('x') })) }),
    ],
    [
      'more entries than its sequence range',
      (m) => ({ ...m, objects: m.objects.map((each) => ({ ...each, entries: 99 })) }),
    ],
    [
      'a name that no object',
      (m) => ({ ...m, objects: m.objects.map((each) => ({ ...each, key: `../${each.key}` })) }),
    ],
    [
      'continues after entry 9',
      (m) => ({
        ...m,
        sequence: { ...m.sequence, after: 9 },
        stretches: m.stretches.map((each) => ({ ...each, first: 10, filtered: 1 })),
      }),
    ],
    [
      'names another manifest as the one before it',
      (m) => ({ ...m, previous: { number: 1, sha256: sha256('x') } }),
    ],
    ['names another manifest as the one before it', (m) => ({ ...m, previous: null })],
    [
      'begins at 2026-01-31T10:59:00.000Z',
      (m) => ({ ...m, interval: { ...m.interval, from: '2026-01-31T10:59:00.000Z' } }),
    ],
    ['does not continue the interval', (m) => m],
    ['is listed twice', (m) => ({ ...m, objects: [...m.objects, ...m.objects] })],
    ['it was moved here', (m) => ({ ...m, journal: 'another' })],
    ['it was moved here', (m) => ({ ...m, number: 3 })],
    ['is no manifest that this version knows', (m) => ({ ...m, version: 2 as 1 })],
  ])('%s', async (what, change) => {
    const { faults } = await verify((bucket) => {
      resigned(bucket, manifests[1] ?? '', change)
      if (what.startsWith('does not continue'))
        resigned(bucket, manifests[0] ?? '', (m) => ({
          ...m,
          complete: false,
          interval: { ...m.interval, until: '2026-01-31T10:59:00.000Z' },
        }))
    })
    expect(faults.filter((fault) => fault.includes(what))).not.toEqual([])
  })

  it('the first one names none before it, and one whose predecessor is missing names it', async () => {
    const before = { number: 1, sha256: sha256('x') }
    const first = await changed(1, (m) => ({ ...m, previous: before }))
    expect(first).toContainEqual(expect.stringContaining('is the first one and names one before it'))
    for (const previous of [null, { ...before, number: 2 }]) {
      const faults = await verify((bucket) => {
        bucket.delete(manifests[0] ?? '')
        resigned(bucket, manifests[1] ?? '', (m) => ({ ...m, previous }))
      })
      expect(faults.faults).toContainEqual(expect.stringContaining('does not name the one before it'))
    }
  })

  it('the one behind it no longer fits, whatever was changed', async () => {
    const faults = await changed(2, (m) => ({ ...m, made_at: '2026-01-31T00:00:00.000Z' }))
    expect(faults).toEqual([
      expect.stringContaining(`${manifests[2] ?? ''} names another manifest as the one before it`),
    ])
  })
})

describe('the end of the chain', () => {
  const cutTail = (count: number) => (bucket: Bucket) => {
    for (const key of manifests.slice(-count)) bucket.delete(key)
  }
  const lastHash = () => {
    const body = original.get(manifests.at(-1) ?? '') ?? Buffer.alloc(0)
    return sha256(body.subarray(0, body.indexOf(10) + 1))
  }
  const untilAt = Date.parse('2026-01-31T17:00:00Z')

  it('cut is not seen from inside, but with a time or a hash from outside', () =>
    fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 6 }), async (count) => {
        expect((await verify(cutTail(count))).faults).toEqual([])
        expect((await verify(cutTail(count), { untilAt })).faults).toEqual([
          expect.stringContaining('the end of the chain was cut'),
        ])
        expect((await verify(cutTail(count), { lastSha256: [lastHash()] })).faults).toEqual([
          expect.stringContaining(lastHash()),
        ])
      }),
      { numRuns: 6 },
    ))

  it('that reaches the time and contains the hash is valid', async () => {
    expect((await verify(() => undefined, { untilAt, lastSha256: [lastHash()] })).faults).toEqual([])
    expect((await verify(() => undefined, { untilAt: untilAt + 1 })).faults).toHaveLength(1)
  })

  it('without any manifest nothing is proved', async () => {
    expect((await verify(cutTail(7))).faults).toEqual([expect.stringContaining('contains no manifest')])
  })

  it('objects in the range of a missing manifest are reported as unproved, not each as a fault', async () => {
    const { faults, notes } = await verify((bucket) => bucket.delete(manifests[1] ?? ''))
    expect(faults).toHaveLength(1)
    expect(notes).toContainEqual(expect.stringContaining('in the range of a manifest that is missing'))
  })
})

it.each([
  ['.gz', true],
  ['.gz', false],
  ['.zst', true],
  ['.zst', false],
  ['', true],
  ['', false],
])(
  'an endless object (%s, its body vouched for: %s) is read no further than its manifest allows',
  async (end, own) => {
    const key = objects.find((name) => name.endsWith(`.ndjson${end}`) && vouched.includes(name) === own) ?? ''
    const lines = Buffer.alloc(2 ** 20, 'x\n')
    const whole = packed(key, lines)
    let pieces = 0
    async function* endless() {
      for (;;) {
        if (pieces++ > 1_000) throw new Error('read without end')
        yield whole
      }
    }
    const bucket = new MemoryBucket(new Fate())
    for (const [name, body] of original) bucket.objects.set(name, body)
    const seen = bucket.seen()
    const faults: string[] = []
    const keys = readPublicKeys(setup.keys.publicPem)
    const store = { ...seen, get: async (name: string) => (name === key ? endless() : seen.get(name)) }
    await verifyEvidence(store, { keys }, ({ level, where, what }) => {
      if (level === 'fault') faults.push(`${where} ${what}`)
    })
    expect(faults).toEqual([
      expect.stringMatching(
        / was changed: it has more than \d+ (stored bytes|bytes of lines), the size in its manifest$/,
      ),
    ])
  },
)

describe('a recreated journal', () => {
  it('begins a chain of its own beside the old one, and both are reported', async () => {
    const second = await Setup.open()
    try {
      await second.journal.state.put('instance', 'ffffffffffffffffffffffff')
      await second.append(8)
      await second.step()
      await second.runDispatcher(8, { filtered: 3 })
      await second.hour()
      const both = new MemoryBucket(new Fate())
      for (const [key, body] of [...original, ...second.bucket.objects]) both.objects.set(key, body)
      const keys = readPublicKeys(setup.keys.publicPem + second.keys.publicPem)
      const faults: string[] = []
      const { chains } = await verifyEvidence(both.seen(), { keys }, ({ level, what }) => {
        if (level === 'fault') faults.push(what)
      })
      expect(faults).toEqual([])
      expect(chains.map(({ journal, through }) => [journal, through])).toEqual([
        ['a1b2c3d4e5f6a1b2c3d4e5f6', 60],
        ['ffffffffffffffffffffffff', 8],
      ])
    } finally {
      await second.close()
    }
  })

  it("that reaches a time does not vouch for another sink's chain, whose end was cut", async () => {
    const second = await Setup.open('other')
    try {
      await second.step()
      for (let hour = 0; hour < 9; hour++) await second.hour()
      const both = new MemoryBucket(new Fate())
      for (const [key, body] of [...original, ...second.bucket.objects]) both.objects.set(key, body)
      const keys = readPublicKeys(setup.keys.publicPem + second.keys.publicPem)
      const reported = async (untilAt: number) => {
        const faults: string[] = []
        await verifyEvidence(both.seen(), { keys, untilAt }, ({ level, where }) => {
          if (level === 'fault') faults.push(where)
        })
        return faults
      }
      expect(await reported(Date.parse('2026-01-31T17:00:00Z'))).toEqual([])
      expect(await reported(Date.parse('2026-01-31T18:00:00Z'))).toEqual(['manifest/sink=archive'])
    } finally {
      await second.close()
    }
  })
})
