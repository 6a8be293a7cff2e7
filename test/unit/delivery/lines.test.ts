// A batch as lines: bounded in bytes, filtered, each with its sequence number and time.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { reportAccepted } from '../../../src/delivery/reporting.ts'
import { frameBatch, memoryBytes } from '../../../src/delivery/loader.ts'
import type { BatchFraming } from '../../../src/delivery/loader.ts'
import type { Batch } from '../../../src/contracts/journal.ts'
import { ByteWriter } from '../../../src/core/bytes.ts'
import { rawFormat, runOf, someEntries } from '../../fakes/lines.ts'
import { FakeSink, textsOf } from '../../fakes/sink.ts'
import { SinkNotes } from '../../fakes/reporters.ts'

const sink = new FakeSink()
const release = () => undefined

function batchOf(sizes: readonly number[], first = 1): Batch {
  let seq = first
  const slices = sizes.map((size) => {
    const run = runOf(someEntries(size, seq), { firstSeq: seq })
    seq += size
    return run
  })
  return { first, last: seq - 1, count: seq - first, slices }
}

function framing(more: Partial<BatchFraming> = {}): BatchFraming {
  return { sink, format: rawFormat, wanted: () => true, maxBytes: 1e9, ...more }
}

it('a batch of several chunk slices is one buffer of lines in journal order', () => {
  const batch = batchOf([3, 1, 2], 7)
  const { lines, first, last } = frameBatch(batch, framing(), new ByteWriter(), release)
  expect([first, last, lines.count, [...lines.seqs]]).toEqual([7, 12, 6, [7, 8, 9, 10, 11, 12]])
  const raws = batch.slices.flatMap(({ entries }) =>
    Array.from({ length: entries.count }, (_, i) => Buffer.from(entries.raw(i)).toString()),
  )
  expect(textsOf(lines)).toEqual(raws)
})

it('for any filter and byte limit, the lines are the wanted ones up to `last`, within the limit or alone', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 1, max: 1_500 }),
      fc.integer({ min: 1, max: 4 }),
      (sizes, maxBytes, modulus) => {
        const batch = batchOf(sizes, 10)
        const wanted: BatchFraming['wanted'] = (run, index) => (run.firstSeq + index) % modulus === 0
        const { lines, last } = frameBatch(batch, framing({ maxBytes, wanted }), new ByteWriter(16), release)
        const all = Array.from({ length: batch.count }, (_, i) => 10 + i).filter((seq) => seq % modulus === 0)
        expect([...lines.seqs]).toEqual(all.filter((seq) => seq <= last))
        expect(lines.bytes.length).toBe(lines.count === 0 ? 0 : lines.ends[lines.count - 1])
        expect(lines.count <= 1 || lines.bytes.length <= maxBytes).toBe(true)
        // It ends only where the next line would not fit, or at the batch's end.
        expect(last === batch.last || lines.count > 0).toBe(true)
      },
    ),
  )
})

it('a reused writer holds only the new lines', () => {
  const writer = new ByteWriter()
  frameBatch(batchOf([5]), framing(), writer, release)
  const { lines } = frameBatch(batchOf([1], 6), framing(), writer, release)
  expect(textsOf(lines)).toHaveLength(1)
})

it('a batch takes memory for its raw bytes and its lines', () => {
  const batch = batchOf([3])
  const { lines } = frameBatch(batch, framing(), new ByteWriter(), release)
  expect(memoryBytes(batch)).toBeGreaterThanOrEqual(lines.bytes.length)
  expect(memoryBytes({ ...batch, slices: [] })).toBe(0)
})

it('delays are reported in one call per bucket, with their mean, and none is negative', () => {
  const reporter = new SinkNotes()
  const reported: [number, number][] = []
  reporter.delivered = (delayMs, entries) => void reported.push([delayMs, entries])
  const now = Date.UTC(2026, 10, 21)
  const ago = [200, 600, 70_000, 80_000, -5_000, 1e10].map((ms) => (now - ms) * 1000)
  reportAccepted(reporter, now, Float64Array.from(ago))
  expect(reported.map(([delayMs, entries]) => [Math.round(delayMs), entries])).toEqual([
    [267, 3],
    [75_000, 2],
    [1e10, 1],
  ])
  expect(reporter.successes).toBe(1)
})

it('each line has its entry’s id, version, own time and stream, filtered neighbours or not', () => {
  const made = [
    { id: 'a', time: '2026-11-21T10:00:00.000001' },
    { id: 'not wanted' },
    { id: 'zoë', time: '2026-11-21T10:00:00.000003', version: 2 },
  ]
  const usage = { workspace: 'acme', source: 'history.usage' } as const
  const slices = [runOf(made, { firstSeq: 5 }), runOf([{ id: 'b' }], { firstSeq: 8, stream: usage })]
  const batch = { first: 5, last: 8, count: 4, slices }
  const wanted: BatchFraming['wanted'] = ({ firstSeq }, index) => firstSeq + index !== 6
  const { lines, times } = frameBatch(
    batch,
    framing({ wanted, keepsEntries: true }),
    new ByteWriter(),
    release,
  )
  const [audit, other] = slices.map(({ stream }) => stream)
  expect([0, 1, 2].map((index) => lines.entry(index))).toEqual([
    { stream: audit, id: 'a', version: 0, timeUs: times[0] },
    { stream: audit, id: 'zoë', version: 2, timeUs: (times[0] as number) + 2 },
    { stream: other, id: 'b', version: 0, timeUs: times[2] },
  ])
})

it('ids are kept only for a sink that uses them: without that, asking for one is a bug of the sink', () => {
  const { lines } = frameBatch(batchOf([1]), framing(), new ByteWriter(), release)
  expect(() => lines.entry(0)).toThrow('usesEntries')
})
