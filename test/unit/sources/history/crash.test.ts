// The history’s reader dies between any two chunks of an answer.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ingestOnce } from '../../../../src/ingest/loop.ts'
import type { Appended, PageChunk } from '../../../../src/contracts/source.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import type { HistoryFault } from '../../../fakes/history-server.ts'
import { DAY, driven, SECOND, START } from '../../app/audit-harness.ts'
import { eachEntry, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY
const source = { start: { kind: 'time', atUs: TODAY * 1000 }, lookbackMs: 0 } as const

/** Some small, one that streams past the size up to which a body is held. */
const sizes = fc.oneof(
  { weight: 4, arbitrary: fc.constant(20) },
  { weight: 1, arbitrary: fc.constant(1_500_000) },
)

test.each(['v2', 'v1'] as const)(
  'cut at any byte, in any chunks, nothing is missing in the end and nothing comes twice (%s)',
  async (version) => {
    const cuts = fc.record({
      texts: fc.array(sizes, { minLength: 1, maxLength: 8 }),
      chunkBytes: fc.integer({ min: 1, max: 200_000 }),
      cuts: fc.array(
        fc.record({
          share: fc.double({ min: 0, max: 1, noNaN: true }),
          how: fc.constantFrom<'cut' | 'short' | 'stalled'>('cut', 'short', 'stalled'),
        }),
        { maxLength: 4 },
      ),
    })
    await fc.assert(
      fc.asyncProperty(cuts, async ({ texts, chunkBytes, cuts: planned }) => {
        const total = texts.reduce((sum, bytes) => sum + bytes + 250, 0)
        const left = planned.map(({ share, how }): HistoryFault => {
          const bytes = Math.floor(share * total)
          if (how === 'short') return { shortBytes: bytes }
          return { cutBytes: bytes, cutError: how === 'cut' ? 'unreachable' : 'timeout' }
        })
        const harness = await openHistoryHarness({
          keepOpen: true,
          chunkBytes: Math.max(chunkBytes, Math.ceil(total / 2_000)),
          source: { ...source, version },
          fault: () => left.shift(),
        })
        try {
          harness.server.events = texts.map((bytes, i) =>
            historyEvent(START - 500 * SECOND + i * SECOND, { fields: { text: 'x'.repeat(bytes) } }),
          )
          await harness.once()
          const wanted = harness.server.events.map((event) => event[version])
          expect((await harness.raws()).sort()).toEqual(wanted.sort())
          const versions = eachEntry(await harness.batch(), (entries, i) => entries.version(i))
          expect(versions.every((each) => each === 0)).toBe(true)
        } finally {
          await harness.close()
        }
      }),
      { numRuns: 30 },
    )
  },
  60_000,
)

test('a process that dies between any two chunks of an answer continues as if it had not', async () => {
  for (let dieAfter = 0; ; dieAfter++) {
    const harness = await openHistoryHarness({ keepOpen: true, source })
    const text = 'x'.repeat(1_500_000)
    harness.server.events = Array.from({ length: 9 }, (_, i) =>
      historyEvent(START - i * SECOND, { fields: { text } }),
    )
    const dying = dyingAfter(harness.source, dieAfter)
    const died = await driven(
      harness.clock,
      ingestOnce({ ...harness.collector, source: dying }, undefined, new AbortController().signal).then(
        ({ fault }) => fault !== undefined,
        () => true,
      ),
    )
    // What a new process finds is what the journal has.
    harness.cursor = await harness.journal.cursor(harness.source.stream)
    harness.open(source)
    await harness.once()
    expect((await harness.raws()).length).toBe(9)
    expect(harness.reporter.gaps).toBe(0)
    await harness.close()
    if (!died) {
      expect(dieAfter).toBeGreaterThan(3)
      return
    }
  }
}, 60_000)

function dyingAfter(
  source: Awaited<ReturnType<typeof openHistoryHarness>>['source'],
  parts: number,
): typeof source {
  const dying = Object.create(source) as typeof source
  dying.read = async function* (cursor, signal): AsyncGenerator<PageChunk, void, Appended> {
    const reading = source.read(cursor, signal)
    let next = await reading.next()
    for (let i = 0; !next.done; i++) {
      if (i === parts) {
        await reading.return(undefined)
        throw new Error('dead')
      }
      const appended = yield next.value
      next = await reading.next(appended)
    }
  }
  return dying
}
