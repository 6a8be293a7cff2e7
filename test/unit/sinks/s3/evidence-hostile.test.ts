// `verify` against an attacker who may write to the bucket: every object is checked, the report is made, and nothing that was changed is proved.
import { createHash, createPrivateKey } from 'node:crypto'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { reportOf } from '../../../../src/cli/verify.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import {
  manifestKey,
  manifestPlace,
  readPublicKeys,
  signedManifest,
} from '../../../../src/sinks/s3/evidence/manifest.ts'
import { readUpTo } from '../../../../src/sinks/kit/http.ts'
import { type EvidenceStore, objectFault } from '../../../../src/sinks/s3/verify/objects.ts'
import { verifyEvidence, type VerifyOptions } from '../../../../src/sinks/s3/verify/verify.ts'

import { Setup } from './evidence-setup.ts'

let setup: Setup
let whole: ReadonlyMap<string, Buffer>
let objects: Map<string, Buffer>

beforeAll(async () => {
  setup = await Setup.open()
  await setup.append(60)
  await setup.step()
  for (const packed of ['.gz', '.zst', ''] as const) {
    await setup.runDispatcher(20, { packed })
    await setup.hour()
  }
  whole = new Map(setup.bucket.objects)
})
afterAll(() => setup.close())
beforeEach(() => void (objects = new Map(whole)))

async function* once(body: Uint8Array) {
  yield body
}

async function* keysOf(keys: Iterable<string>) {
  yield* keys
}

/** In pieces of each size that matters: an end in the same piece, and one that comes in the next. */
async function* cutIn(body: Buffer, bytes: number) {
  for (let at = 0; at < body.length; at += bytes) yield body.subarray(at, at + bytes)
}

async function reported(options: Partial<VerifyOptions & EvidenceStore> & { pieceBytes?: number } = {}) {
  const { pieceBytes = 65_536, list, get, ...more } = options
  const lines: string[] = []
  const store: EvidenceStore = {
    list: list ?? (() => keysOf(objects.keys())),
    get:
      get ??
      (async (key) =>
        objects.has(key) ? cutIn(objects.get(key) ?? Buffer.alloc(0), pieceBytes) : undefined),
  }
  const keys = readPublicKeys(setup.keys.publicPem)
  const verified = await verifyEvidence(
    store,
    { keys, storedIn: setup.storedIn, ...more },
    ({ level, where, what }) => lines.push(`${level}: ${where} ${what}\n`),
  )
  return { verified, lines, out: lines.join('') + reportOf(verified, false) }
}

const named = (end: string) =>
  [...whole.keys()].filter((key) => key.startsWith('workspace=') && key.endsWith(end))
const first = (end: string) => named(end)[0] ?? ''

it('the bucket as it was stored is proved', async () => {
  const { verified, out } = await reported()
  expect([verified.faults, verified.objects, verified.byLines, verified.unread]).toEqual([0, 6, 0, 0])
  expect(out).toContain('proved: 6 objects')
})

describe('an object that was replaced', () => {
  const bodies: Record<string, Buffer> = {
    'a short gzip stream and zeros': Buffer.concat([gzipSync('{}\n'), Buffer.alloc(4096)]),
    'a short gzip stream and a megabyte of zeros': Buffer.concat([gzipSync('{}\n'), Buffer.alloc(2 ** 20)]),
    'an empty gzip stream and noise': Buffer.concat([gzipSync(''), Buffer.alloc(200_000, 'x')]),
    'a gzip header alone': gzipSync('').subarray(0, 10),
    'half a gzip stream': gzipSync(Buffer.alloc(100_000, 'x')).subarray(0, 60),
    'a gzip bomb': gzipSync(Buffer.alloc(2 ** 26)),
    'a bomb of bombs': gzipSync(gzipSync(Buffer.alloc(2 ** 26))),
    'a zstd stream and zeros': Buffer.concat([zstdCompressSync('{}\n'), Buffer.alloc(100_000)]),
    'half a zstd stream': zstdCompressSync(Buffer.alloc(100_000, 'x')).subarray(0, 12),
    'a zstd bomb': zstdCompressSync(Buffer.alloc(2 ** 26)),
    'a zstd frame of an endless window': Buffer.from('28b52ffd00ff0100000000', 'hex'),
    'a skippable zstd frame': Buffer.concat([Buffer.from('502a4d1800000100', 'hex'), Buffer.alloc(65_536)]),
    'zeros alone': Buffer.alloc(50_000),
    'line ends alone': Buffer.alloc(500, '\n'),
    nothing: Buffer.alloc(0),
    'a manifest': Buffer.from('{"type":"auditferry-manifest"}\n'),
    'deeply nested JSON': Buffer.alloc(1_000, '['),
  }
  it.each(Object.entries(bodies))(
    'by %s is a fault of that object, and all others are checked',
    async (_, body) => {
      for (const end of ['.gz', '.zst', '.ndjson'])
        for (const pieceBytes of [1 + body.length, 65_536, 7]) {
          if (pieceBytes === 7 && body.length > 10_000) continue
          objects = new Map(whole).set(first(end), body)
          const { verified, lines, out } = await reported({ pieceBytes })
          expect(lines.filter((line) => line.startsWith('fault:'))).toEqual([
            expect.stringContaining(`fault: ${first(end)} `),
          ])
          expect(verified.objects).toBe(6)
          expect(out).toContain('NOT proved: 1 fault; the manifests list 6 objects')
          expect(out).not.toContain('a bug')
        }
    },
  )

  it.each([
    ['.gz', gzipSync('{}\n'), '\0'],
    ['.gz', gzipSync(''), '\0'],
    ['.gz', gzipSync('{}\n'), 'x'],
    ['.zst', zstdCompressSync('{}\n'), '\0'],
  ])(
    'of megabytes (%s) by a short stream and bytes of its length is a fault, however the bytes come',
    async (end, body, more) => {
      const hash = sha256Of('')
      for (const pieceBytes of [1_000, 16_384, 65_536, 2 ** 21])
        for (const stored of [{}, { stored_sha256: hash, stored_bytes: 2 ** 20 }]) {
          const replaced = Buffer.concat([body, Buffer.alloc(2 ** 20 - body.length, more)])
          const fault = await objectFault(
            { list: () => keysOf([]), get: async () => cutIn(replaced, pieceBytes) },
            {
              key: `workspace=acme/source=audit/dt=2026-01-31/0000000000000001-0000000000000009-${hash.slice(0, 16)}.ndjson${end}`,
              ...{ sha256: hash, bytes: 2 ** 23, entries: 9, first_sequence: 1, last_sequence: 9 },
              ...{ first_time: null, last_time: null, ...stored },
            },
          )
          expect(fault).toMatch(/^(is cut|was changed or damaged)/)
        }
    },
  )

  it('by one that this program fails on is a fault too, reported as a bug of ours', async () => {
    const get = async (key: string) => {
      if (key === first('.gz')) throw new TypeError('planted')
      return once(objects.get(key) ?? Buffer.alloc(0))
    }
    const { verified, out } = await reported({ get })
    expect(out).toContain(`${first('.gz')} could not be checked: this program failed on it (TypeError)`)
    expect([verified.faults, verified.objects, verified.unread]).toEqual([1, 6, 1])
  })

  it('by one that the store does not return, such as under another key, is a fault, and the report says so', async () => {
    const refused = new ConnectorError('misconfigured', 'bucket x refuses\u001b[2J the request')
    async function* breaks() {
      yield Buffer.from(objects.get(first('.zst')) ?? '').subarray(0, 10)
      throw refused
    }
    const get = async (key: string) => {
      if (key === first('.gz') || key === manifestKeys()[1]) throw refused
      return key === first('.zst') ? breaks() : once(objects.get(key) ?? Buffer.alloc(0))
    }
    const { verified, out } = await reported({ get })
    for (const key of [first('.gz'), manifestKeys()[1] ?? ''])
      expect(out).toContain(`fault: ${key} could not be read: bucket x refuses\\u{1b}[2J the request\n`)
    expect(verified.unread).toBe(1)
    expect(out).toContain('not read: 1 object;')
  })

  it('is requested again if that may help, and read then', async () => {
    let failures = 2
    const pauses: number[] = []
    const get = async (key: string) => {
      if (key === first('.gz') && failures-- > 0) throw new ConnectorError('rate_limited', 'slow down')
      return once(objects.get(key) ?? Buffer.alloc(0))
    }
    const { verified } = await reported({ get, pause: async (ms) => pauses.push(ms) })
    expect([verified.faults, pauses]).toEqual([0, [1_000, 5_000]])
  })

  it('ends the verification if it was cancelled', async () => {
    const get = async () => {
      throw new ConnectorError('aborted', 'called off')
    }
    await expect(reported({ get })).rejects.toThrow('called off')
  })
})

const manifestKeys = () => [...whole.keys()].filter((key) => key.startsWith('manifest/')).sort()

/** The chain if an earlier try had stored all objects: nothing is known of their bodies. */
function withoutBodies() {
  const key = createPrivateKey(setup.keys.privatePem)
  let previous: unknown = null
  for (const name of manifestKeys()) {
    const text = objects.get(name)?.toString() ?? ''
    const manifest = JSON.parse(text.slice(0, text.indexOf('\n'))) as {
      number: number
      previous: unknown
      objects: Record<string, unknown>[]
    }
    manifest.previous = previous
    for (const object of manifest.objects) {
      delete object['stored_sha256']
      delete object['stored_bytes']
    }
    const line = `${JSON.stringify(manifest)}\n`
    objects.set(name, Buffer.from(signedManifest(line, key)))
    previous = { number: manifest.number, sha256: sha256Of(line) }
  }
}
const sha256Of = (line: string) => createHash('sha256').update(line).digest('hex')

describe('objects that were checked by their lines alone', () => {
  it('are counted in the report: an uncompressed body has nothing but its lines', async () => {
    withoutBodies()
    const { verified, out } = await reported()
    expect([verified.faults, verified.byLines]).toEqual([0, 4])
    expect(out).toContain('by their lines alone: 4 objects;')
  })

  it.each([
    ['zeros', Buffer.alloc(64)],
    ['words', Buffer.from('hidden')],
    ['a megabyte', Buffer.alloc(2 ** 19, 'x')],
  ])('are not proved with %s behind their end', async (_, more) => {
    withoutBodies()
    for (const key of [first('.gz'), first('.zst')])
      for (const pieceBytes of [2 ** 21, 5_000]) {
        const before = objects.get(key) ?? Buffer.alloc(0)
        objects.set(key, Buffer.concat([before, more]))
        expect(
          (await reported({ pieceBytes })).lines.filter((line) => line.startsWith('fault')),
        ).toHaveLength(1)
        objects.set(key, before)
      }
  })
})

describe('planted names', () => {
  const planted = [
    'workspace=acme/x\nproved: 6 objects with 60 entries: none is missing',
    'workspace=acme/x\r\u001b[2Kproved: all',
    'workspace=acme/\u202edevorp\u202c',
    'workspace=acme/\u2028proved: all',
    'workspace=acme/\u009b2Jproved',
    'workspace=acme/\u200b\u00a0\u3000x\ud800',
    'manifest/\nproved: all',
    'replay=x"/\u0000',
    '.auditferry/\nproved: all',
  ]
  it('are in the report on one line each, in quotes, without anything that a terminal interprets', async () => {
    for (const key of planted) objects.set(key, Buffer.from('x'))
    const { verified, out } = await reported()
    expect(verified.faults).toBe(8)
    expect(out).not.toMatch(/[^\n\x20-\x7e]/)
    expect(out.split('\n').filter((line) => /^\s*proved/.test(line))).toEqual([])
    expect(out).toContain(
      'fault: "workspace=acme/x\\u{a}proved: 6 objects with 60 entries: none is missing" has a name',
    )
    expect(out).toContain('fault: "workspace=acme/\\u{202e}devorp\\u{202c}" has a name')
    expect(out).toContain('fault: "replay=x\\"/\\u{0}" has a name')
    expect(out).toContain('note: ".auditferry/\\u{a}proved: all" is not what')
  })

  it('of a store are reported in the same way', async () => {
    async function* list(strange: (key: string, what: string) => void) {
      yield* objects.keys()
      strange('a\nproved: all', 'is a link that leads nowhere')
    }
    expect((await reported({ list })).out).toContain('fault: "a\\u{a}proved: all" is a link')
  })

  it('that look like a listed one are a fault, of objects and of manifests', async () => {
    const twice = [first('.gz'), manifestKeys()[1] ?? '']
    async function* list() {
      yield* objects.keys()
      yield* twice
    }
    const { verified, out } = await reported({ list })
    expect(verified.faults).toBe(2)
    for (const key of twice) expect(out).toContain(`fault: ${key} is listed twice`)
  })

  it('are no manifests if no chain counts that way', async () => {
    const place = { sink: 'archive', journal: 'a1b2c3d4e5f6a1b2c3d4e5f6' }
    for (const number of [0, 9_999_999_999_999_999]) {
      const key = manifestKey({ ...place, number: 1 }).replace(/\d{16}/, String(number).padStart(16, '0'))
      expect(manifestPlace(key)).toBeUndefined()
      objects = new Map(whole).set(key, Buffer.from('x'))
      const { verified, out } = await reported()
      expect([verified.faults, verified.objects]).toEqual([1, 6])
      expect(out).toContain(`fault: ${key} has a name that Auditferry never uses`)
    }
  })

  it('may be any number: they are counted, not kept', async () => {
    let names = 0
    async function* list() {
      yield* objects.keys()
      for (; names < 300_000; names++) yield `workspace=acme/${'x'.repeat(900)}${names}`
    }
    const before = process.memoryUsage().heapUsed
    const { verified } = await reported({ list })
    expect(verified.faults).toBe(21)
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(150e6)
  })
})

describe('a planted manifest', () => {
  const key = () => manifestKeys()[2] ?? ''
  const line = () => (whole.get(key())?.toString() ?? '').split('\n')[0] ?? ''
  const signature = () => (whole.get(key())?.toString() ?? '').split('\n')[1] ?? ''
  const bodies: Record<string, () => string> = {
    'of deep nesting': () => `${'['.repeat(200_000)}\n${'['.repeat(200_000)}\n`,
    'with keys twice': () => `${line()}\n{"signature":"x",${signature().slice(1)}\n`,
    'with a key named __proto__': () => `${line()}\n{"__proto__":{},${signature().slice(1)}\n`,
    'that is cut': () => `${line()}\n`,
    'that is empty': () => '',
    'of line ends': () => '\n\n\n',
    'of another type': () => `[]\n[]\n`,
    'with more behind it': () => `${line()}\n${signature()}\n\n`,
    'of blanks': () => `${line()}\n${' '.repeat(2 ** 20)}${signature()}\n`,
    'of no text': () => '\u0000\n\ufffd\n',
  }
  it.each(Object.entries(bodies))(
    '%s is a fault of its own, and everything else is checked',
    async (_, body) => {
      objects.set(key(), Buffer.from(body()))
      const { verified, lines } = await reported()
      expect(lines.filter((each) => each.startsWith('fault:'))).toEqual([
        expect.stringContaining(`fault: ${key()} `),
      ])
      expect(verified.objects).toBe(4)
    },
  )

  it('is not parsed before its signature is verified, however long its signature line is', async () => {
    objects.set(key(), Buffer.from(`${line()}\n${'['.repeat(15 * 2 ** 20)}\n`))
    const before = process.memoryUsage().rss
    const { out } = await reported()
    expect(out).toContain(`fault: ${key()} has no signature line of the known form`)
    expect(process.memoryUsage().rss - before).toBeLessThan(150e6)
  })
})

it('a body in pieces of one byte is held as its bytes, not as the blocks that it was cut from', async () => {
  let most = 0
  async function* drops() {
    for (let i = 0; i < 8_000; i++) {
      yield Buffer.allocUnsafeSlow(65_536)
        .fill(i % 251)
        .subarray(0, 1)
      most = Math.max(most, process.memoryUsage().arrayBuffers)
    }
  }
  const before = process.memoryUsage().arrayBuffers
  const body = await readUpTo(drops(), 2 ** 20)
  expect([body.length, body[250], body[251]]).toEqual([8_000, 250, 0])
  expect(most - before).toBeLessThan(200e6)
})
