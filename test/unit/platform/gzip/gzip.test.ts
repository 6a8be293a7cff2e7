// Compressed data comes out again byte for byte, whatever it is, and is as small as zlib's at its fastest.
import fc from 'fast-check'
import { crc32, gunzipSync, gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { BlockWriter, gzip } from '../../../../src/platform/gzip/gzip.ts'
import { PIECE_BYTES } from '../../../../src/platform/gzip/layout.ts'

/** Deterministic, and nothing of it repeats. */
function noise(length: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(length)
  let state = seed
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    bytes[at] = state >>> 24
  }
  return bytes
}

/** These bytes in an order in which little repeats. */
function shuffled(order: readonly number[]): Buffer {
  const keys = noise(4 * order.length, 7)
  const keyed = order.map((byte, place) => ({ byte, key: keys.readUInt32LE(4 * place) }))
  return Buffer.from(keyed.sort((a, b) => a.key - b.key).map(({ byte }) => byte))
}

const entryOf = (n: number) => {
  const id = noise(16, n + 1).toString('hex')
  return `{"time":${1_795_031_555 + n}.317644,"host":"api.example","event":{"id":"${id}","type":"vault_file_viewed","user":"keiko.garcia${n % 42}@acme.example","data":{"file":"Küche ${n % 7}.docx"}},"fields":{"workspace":"acme","entry_id":"${id}"}}`
}

const entries = (count: number) => Buffer.from(Array.from({ length: count }, (_, n) => entryOf(n)).join(''))

async function throughGzip(bytes: Uint8Array): Promise<Buffer> {
  return gunzipSync(await gzip(bytes), { maxOutputLength: bytes.length + 1 })
}

/** Pieces of bytes, some of them repeated: near and far, short and long. */
const repeating = fc
  .array(
    fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.record({ back: fc.integer({ min: 1, max: 40_000 }), length: fc.integer({ min: 1, max: 700 }) }),
      fc.record({ noise: fc.integer({ min: 1, max: 34_000 }) }),
    ),
    { maxLength: 40 },
  )
  .map((steps) => {
    let bytes = Buffer.alloc(0)
    for (const step of steps) {
      if (step instanceof Uint8Array) bytes = Buffer.concat([bytes, step])
      else if ('noise' in step) bytes = Buffer.concat([bytes, noise(step.noise, step.noise)])
      else {
        const grown = Buffer.alloc(bytes.length + step.length)
        bytes.copy(grown)
        for (let at = bytes.length; at < grown.length; at++) grown[at] = grown[at - step.back] ?? 0
        bytes = grown
      }
    }
    return bytes
  })

test('compressed data comes out again, repeated bytes near and far', async () => {
  await fc.assert(
    fc.asyncProperty(repeating, async (bytes) => {
      expect((await throughGzip(bytes)).equals(bytes)).toBe(true)
    }),
    { numRuns: 300 },
  )
})

test('one byte any number of times comes out again', async () => {
  for (let length = 0; length < 600; length++) {
    const same = Buffer.alloc(length, 'x')
    expect((await throughGzip(same)).equals(same)).toBe(true)
  }
})

test.each([6, 7, 8, 11, 255, 256, 257, 258, 259, 260, 264, 265, 266, 300])(
  'bytes seen %i bytes before come out again, in the middle and at the end',
  async (length) => {
    const reported = noise(length)
    for (const after of [Buffer.alloc(0), noise(3, 9), noise(30, 9)]) {
      const bytes = Buffer.concat([reported, noise(50, 5), reported, after])
      expect(await throughGzip(bytes)).toEqual(bytes)
    }
  },
)

test('bytes up to 32 KiB back are found, bytes farther back are packed again', async () => {
  const reported = noise(400)
  const packedAt = async (back: number) => {
    const bytes = Buffer.concat([reported, Buffer.alloc(back - reported.length, 'x'), reported])
    const packed = await gzip(bytes)
    expect(gunzipSync(packed).equals(bytes)).toBe(true)
    return packed.length
  }
  for (const near of [24_576, 24_577, 32_767, 32_768])
    expect(await packedAt(near)).toBeLessThan((await packedAt(32_769)) - 300)
  expect(await packedAt(65_536 + 20)).toBeGreaterThan((await packedAt(32_768)) + 300)
})

test('codes that a short text does not need take a bit each', async () => {
  expect((await gzip(Buffer.from('abcdefgh'))).length).toBeLessThan(80)
})

test('six repeated bytes are found, whatever follows them', async () => {
  const words = Array.from({ length: 20 }, (_, n) => noise(6, 100 + n))
  const between = noise(4_000, 3)
  const bytes = Buffer.concat(
    Array.from({ length: 1_000 }, (_, n) => [words[n % 20] ?? between, between.subarray(n, n + 2)]).flat(),
  )
  expect((await gzip(bytes)).length).toBeLessThan(0.43 * bytes.length)
})

test('a repeat is found up to the last eight bytes', async () => {
  const reported = noise(8)
  const packed = async (last: Buffer) => (await gzip(Buffer.concat([reported, noise(50, 5), last]))).length
  expect(await packed(reported)).toBeLessThan(await packed(Buffer.from(reported).reverse()))
})

test('of one byte that fills a piece, 258 at a time take nine bits: one each for length and distance, seven for which distance', async () => {
  const packed = await gzip(Buffer.alloc(PIECE_BYTES, 'x'))
  expect(packed.length).toBeLessThan((9 * PIECE_BYTES) / 258 / 8 + 100)
})

test.each([-9, -1, 0, 1, 9, PIECE_BYTES])('a body of a piece and %i bytes comes out again', async (more) => {
  const text = entries(9_000)
  expect(text.length).toBeGreaterThan(2 * PIECE_BYTES)
  const bytes = text.subarray(0, PIECE_BYTES + more)
  expect((await throughGzip(bytes)).equals(bytes)).toBe(true)
})

test('data without repeats grows by an eighth at most, and comes out again', async () => {
  const bytes = noise(PIECE_BYTES + 1)
  const packed = await gzip(bytes)
  expect(packed.length).toBeLessThan(1.125 * bytes.length)
  expect(gunzipSync(packed).equals(bytes)).toBe(true)
})

test('codes that would be longer than the format allows are cut, and everything comes out again', async () => {
  const rising = [1, 1]
  while (rising.length < 24) rising.push((rising.at(-1) ?? 0) + (rising.at(-2) ?? 0))
  const order = rising.flatMap((count, byte) => Array.from({ length: count }, () => byte))
  const bytes = shuffled(order)
  expect((await throughGzip(bytes)).equals(bytes)).toBe(true)
})

test('lengths whose own codes would be longer than the format allows come out again too', async () => {
  // So many bytes each have a code of so many bits: those lengths are as unevenly common as Fibonacci's numbers.
  const numberOf = [0, 0, 0, 2, 1, 3, 34, 1, 8, 3, 0, 3, 65]
  const lengths = numberOf.flatMap((number, bits) => Array.from({ length: number }, () => bits))
  const order = lengths.flatMap((bits, byte) => Array.from({ length: 2 ** (12 - bits) }, () => byte))
  const bytes = shuffled(order)
  expect((await throughGzip(bytes)).equals(bytes)).toBe(true)
})

test('entries are packed as small as zlib makes them at its fastest, give or take a twentieth', async () => {
  const bytes = entries(2_000)
  expect((await gzip(bytes)).length).toBeLessThan(1.05 * gzipSync(bytes, { level: 1 }).length)
})

test('the same bytes are packed alike, whatever was packed before', () => {
  const bytes = entries(50)
  const reported = noise(400)
  const used = BlockWriter.open() as BlockWriter
  for (let times = 0; times < 20; times++)
    used.write(Buffer.concat([noise(70_000), reported, Buffer.alloc(30_000, 'x'), reported]))
  expect(used.write(bytes)).toEqual(BlockWriter.open()?.write(bytes))
})

test('bodies packed at the same time do not mix', async () => {
  const bodies = [entries(9_000), noise(2 * PIECE_BYTES), entries(7_000).reverse()]
  const packed = await Promise.all(bodies.map((body) => gzip(body)))
  for (const [place, body] of bodies.entries())
    expect(gunzipSync(packed[place] ?? Buffer.alloc(0)).equals(body)).toBe(true)
})

test('the header names no file, no time and no system, so that the same bytes are packed alike everywhere', async () => {
  expect([...(await gzip(entries(3))).subarray(0, 10)]).toEqual([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255])
})

test('the sum and the length at the end are those of the whole body', async () => {
  const bytes = entries(9_000)
  const packed = Buffer.from(await gzip(bytes))
  expect(packed.readUInt32LE(packed.length - 8)).toBe(crc32(bytes))
  expect(packed.readUInt32LE(packed.length - 4)).toBe(bytes.length)
})

test('a body of several pieces yields to other work between them', async () => {
  let turns = 0
  const count = () => {
    turns++
    waiting = setImmediate(count)
  }
  let waiting = setImmediate(count)
  await gzip(noise(4 * PIECE_BYTES))
  clearImmediate(waiting)
  expect(turns).toBeGreaterThanOrEqual(3)
})

test('leftovers of a longer body in memory are not taken for the end of a shorter one', async () => {
  await gzip(Buffer.alloc(3_000, 'ab'))
  const bytes = Buffer.from('ababababababababababa')
  expect(await throughGzip(bytes)).toEqual(bytes)
})
