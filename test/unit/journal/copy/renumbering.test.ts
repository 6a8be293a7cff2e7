// Which numbers entries, positions and batches have after shards were split or joined.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Renumbering, pendingCount } from '../../../../src/journal/copy/renumbering.ts'
import { withAcked } from '../../../../src/journal/rules/acknowledgement.ts'
import type { Acknowledged } from '../../../../src/journal/rules/acknowledgement.ts'

const range = (first: number, last: number) => ({ first, last })
const acked = (position: number, ...ahead: (readonly [number, number])[]): Acknowledged => ({
  position,
  ahead: ahead.map(([first, last]) => range(first, last)),
})

/** One shard, 10 entries pruned: chunks 11 to 13 and 16 to 20 go to shard 1, 14 to 15 and 21 to 25 to shard 2. */
function split() {
  const renumbering = new Renumbering([{ shard: 1, begin: 10, lastSeq: 25 }])
  const places = [
    renumbering.add(1, range(11, 13), 1),
    renumbering.add(1, range(14, 15), 2),
    renumbering.add(1, range(16, 20), 1),
    renumbering.add(1, range(21, 23), 2),
    renumbering.add(1, range(24, 25), 2),
  ]
  renumbering.assertWhole()
  return { renumbering, places }
}

/** Shard 3 with 11 to 14 behind 10 pruned ones, and shard 5 with 5 to 7 behind 4. */
function joined() {
  const renumbering = new Renumbering([
    { shard: 3, begin: 10, lastSeq: 14 },
    { shard: 5, begin: 4, lastSeq: 7 },
  ])
  const places = [renumbering.add(3, range(11, 14), 1), renumbering.add(5, range(5, 7), 1)]
  renumbering.assertWhole()
  return { renumbering, places }
}

describe('a shard that is split', () => {
  it('gives each part consecutive numbers, behind those of pruned entries', () => {
    const { renumbering, places } = split()
    expect(places).toEqual([range(11, 13), range(11, 12), range(14, 18), range(13, 15), range(16, 17)])
    expect([renumbering.lastSeq(1), renumbering.lastSeq(2), renumbering.lastSeq(3)]).toEqual([18, 17, 10])
  })

  it.each([
    ['nothing stored', acked(10), acked(10), acked(10)],
    ['a part of the first chunk', acked(12), acked(12), acked(10)],
    ['up to an end of a chunk', acked(15), acked(13), acked(12)],
    ['everything', acked(25), acked(18), acked(17)],
    ['a range ahead in one part', acked(12, [17, 19]), acked(12, [15, 17]), acked(10)],
    ['a range ahead across parts', acked(13, [16, 22]), acked(18), acked(10, [13, 14])],
    [
      'a range that begins where the other part continues',
      acked(11, [14, 16]),
      acked(11, [14, 14]),
      acked(12),
    ],
    ['less than what is pruned', acked(7), acked(7), acked(7)],
    ['nothing at all', acked(0), acked(0), acked(0)],
  ] as const)('keeps what a sink has acknowledged: %s', (_, before, one, two) => {
    const { renumbering } = split()
    expect(renumbering.acknowledged(() => before, 1)).toEqual(one)
    expect(renumbering.acknowledged(() => before, 2)).toEqual(two)
  })

  it.each([
    ['within a chunk', range(16, 18), [{ first: 14, last: 16, to: 1 }]],
    ['over chunks that stay together', range(22, 25), [{ first: 14, last: 17, to: 2 }]],
    [
      'over chunks that go apart',
      range(13, 14),
      [
        { first: 13, last: 13, to: 1 },
        { first: 11, last: 11, to: 2 },
      ],
    ],
    [
      'over chunks that meet, with others between them',
      range(13, 16),
      [
        { first: 13, last: 14, to: 1 },
        { first: 11, last: 12, to: 2 },
      ],
    ],
  ] as const)('divides a batch into one for each shard: %s', (_, batch, moved) => {
    expect(split().renumbering.batch(1, batch, [1, 2])).toEqual(moved)
  })
})

describe('shards that are joined', () => {
  it('have the numbers of pruned entries first, each once, and then those of stored ones', () => {
    const { renumbering, places } = joined()
    expect(places).toEqual([range(15, 18), range(19, 21)])
    expect(renumbering.lastSeq(1)).toBe(21)
    expect(renumbering.moved(3, range(10, 11), 1)).toEqual([range(10, 10), range(15, 15)])
    expect(renumbering.moved(5, range(1, 5), 1)).toEqual([range(11, 14), range(19, 19)])
  })

  it.each([
    ['all of both', acked(14), acked(7), acked(21)],
    ['all of the first', acked(14), acked(5), acked(19)],
    ['all of the second', acked(12), acked(7), acked(16, [19, 21])],
    ['ranges ahead in both', acked(10, [12, 13]), acked(4, [6, 6]), acked(14, [16, 17], [20, 20])],
    ['a shard that does not know the sink', acked(14), undefined, acked(18)],
    ['a shard that the sink left long ago', acked(3), acked(7), acked(3, [11, 14], [19, 21])],
  ] as const)('keep what a sink has acknowledged: %s', (_, three, five, after) => {
    expect(joined().renumbering.acknowledged((shard) => (shard === 3 ? three : five), 1)).toEqual(after)
  })
})

/** Any journal, its chunks of any workspace, and what a sink has acknowledged of each shard. */
const journals = fc.array(
  fc.record({
    begin: fc.nat(5),
    chunks: fc.array(
      fc.record({ size: fc.integer({ min: 1, max: 4 }), to: fc.integer({ min: 1, max: 3 }) }),
      {
        maxLength: 8,
      },
    ),
    acknowledged: fc.uniqueArray(fc.integer({ min: 1, max: 40 })),
  }),
  { minLength: 1, maxLength: 3 },
)

describe('any journal that is divided anew', () => {
  it('numbers each entry once, without holes, and a sink has acknowledged the same entries', () => {
    fc.assert(
      fc.property(journals, (shards) => {
        const sizes = shards.map(({ chunks }) => chunks.reduce((sum, { size }) => sum + size, 0))
        const numbers = shards.map(({ begin }, i) => ({
          shard: i + 1,
          begin,
          lastSeq: begin + (sizes[i] ?? 0),
        }))
        const renumbering = new Renumbering(numbers)
        const entries = shards.flatMap(({ begin, chunks }, i) => {
          let last = begin
          return chunks.flatMap(({ size, to }) => {
            const [first] = [last + 1, (last += size)]
            renumbering.add(i + 1, range(first, last), to)
            return Array.from({ length: size }, (_, n) => ({ shard: i + 1, seq: first + n, to }))
          })
        })
        renumbering.assertWhole()
        const before = shards.map(({ begin, acknowledged }) =>
          acknowledged.map((seq) => range(seq, seq)).reduce(withAcked, { position: begin, ahead: [] }),
        )
        const has = ({ position, ahead }: Acknowledged, seq: number) =>
          seq <= position || ahead.some(({ first, last }) => first <= seq && seq <= last)
        const begin = shards.reduce((sum, shard) => sum + shard.begin, 0)
        for (const to of [1, 2, 3]) {
          const after = renumbering.acknowledged((shard) => before[shard - 1], to)
          const own = entries.filter((entry) => entry.to === to)
          const places = own.map(
            ({ shard, seq }) => renumbering.moved(shard, range(seq, seq), to)[0]?.first ?? 0,
          )
          expect(places).toEqual(own.map((_, i) => begin + i + 1))
          expect(places.map((seq) => has(after, seq))).toEqual(
            own.map(({ shard, seq }) => has(before[shard - 1] ?? acked(0), seq)),
          )
        }
      }),
    )
  })
})

describe('a shard that stays whole', () => {
  it('keeps all numbers, also if everything in it is pruned', () => {
    const stays = new Renumbering([{ shard: 4, begin: 10, lastSeq: 12 }])
    expect(stays.add(4, range(11, 12), 1)).toEqual(range(11, 12))
    expect(stays.moved(4, range(3, 12), 1)).toEqual([range(3, 12)])
    const pruned = new Renumbering([{ shard: 1, begin: 12, lastSeq: 12 }])
    pruned.assertWhole()
    expect(pruned.lastSeq(1)).toBe(12)
  })
})

describe('a journal that lacks entries', () => {
  it.each([
    ['at the beginning', [range(12, 14)]],
    ['in the middle', [range(11, 12), range(14, 14)]],
    ['at the end', [range(11, 13)]],
    ['and has too many', [range(11, 15)]],
  ] as const)('is not copied: %s', (_, chunks) => {
    const renumbering = new Renumbering([{ shard: 1, begin: 10, lastSeq: 14 }])
    const add = () => {
      for (const chunk of chunks) renumbering.add(1, chunk, 1)
      renumbering.assertWhole()
    }
    expect(add).toThrow(/lacks entry \d+/)
  })
})

describe('pending entries', () => {
  it.each([
    ['of a sink that has acknowledged nothing stored', acked(10), 4],
    ['beyond ranges ahead', acked(11, [13, 13]), 2],
    ['of a sink far behind, which begins at the oldest stored one', acked(2, [5, 6], [12, 12]), 3],
    ['of a sink that the shard does not know', undefined, 4],
  ] as const)('are counted: %s', (_, acknowledged, count) => {
    expect(pendingCount({ shard: 1, begin: 10, lastSeq: 14 }, acknowledged)).toBe(count)
  })
})
