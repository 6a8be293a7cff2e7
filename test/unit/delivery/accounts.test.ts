// What an acknowledgement adds to the accounts of each source and day: every entry once, whatever part of the batch was acknowledged.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Batch, ChunkSlice } from '../../../src/contracts/journal.ts'
import { accountsOf } from '../../../src/delivery/reporting.ts'
import { audit, entriesOf, spec, START_US, usage } from '../../contract/journal-parts.ts'

const DAY_US = 86_400_000_000
const DAY = Math.floor(START_US / DAY_US)

interface Made {
  readonly source: 'audit' | 'history.usage'
  readonly days: readonly number[]
  readonly to: 'all' | 'mine' | 'other'
  readonly replay: boolean
}

function batchOf(slices: readonly Made[]): Batch {
  let seq = 1
  const made = slices.map(({ source, days, to, replay }): ChunkSlice => {
    const firstSeq = seq
    const specs = days.map((day) => spec(seq++, { at: START_US + day * DAY_US + seq }))
    const onlySink = to === 'all' ? undefined : to === 'mine' ? 'siem' : 'archive'
    const stream = source === 'audit' ? audit : usage
    return { stream, firstSeq, appendedAt: 0, onlySink, replay, entries: entriesOf(specs) }
  })
  return { first: 1, last: seq - 1, count: seq - 1, slices: made }
}

const run = fc.record<Made>({
  source: fc.constantFrom('audit', 'history.usage'),
  days: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 6 }),
  to: fc.constantFrom('all', 'all', 'mine', 'other'),
  replay: fc.boolean(),
})

test('each entry of the range counts once, by its outcome, on its own day', () => {
  fc.assert(
    fc.property(
      fc.array(run, { minLength: 1, maxLength: 4 }),
      fc.infiniteStream(fc.boolean()),
      fc.tuple(fc.nat(20), fc.nat(20), fc.nat(20)),
      (slices, sent, [from, length, letter]) => {
        const batch = batchOf(slices)
        const first = 1 + (from % batch.last)
        const through = Math.min(batch.last, first + length)
        const all = batch.slices.flatMap((each) =>
          Array.from({ length: each.entries.count }, (_, i) => ({
            ...{ each, seq: each.firstSeq + i, day: Math.floor(each.entries.at(i) / DAY_US) },
            sent: each.onlySink !== 'archive' && sent.next().value === true,
          })),
        )
        const lines = all.filter((entry) => entry.sent).map(({ seq }) => seq)
        const inside = lines.filter((seq) => seq >= first && seq <= through)
        const rejected = inside.slice(0, letter % 2).map((seq) => ({ seq, code: 'refused', reason: '' }))
        const reported = accountsOf('siem', batch.slices, {
          seqs: Float64Array.from(lines),
          first,
          through,
          rejected,
        })
        const slow = new Map<string, number>()
        for (const { each, seq, day, sent: was } of all) {
          if (seq < first || seq > through || each.onlySink === 'archive') continue
          if (rejected.some((one) => one.seq === seq) || (each.replay && !was)) continue
          const outcome = each.replay ? 'replayed' : was ? 'accepted' : 'filtered'
          const key = `${each.stream.source} ${day} ${outcome}`
          slow.set(key, (slow.get(key) ?? 0) + 1)
        }
        const fast = reported.flatMap(({ stream, day, ...counts }) =>
          Object.entries(counts).map(([outcome, n]) => [`${stream.source} ${day} ${outcome}`, n] as const),
        )
        expect(new Map(fast.filter(([, n]) => n > 0))).toEqual(slow)
        expect(reported.every(({ day }) => day >= DAY && day <= DAY + 2)).toBe(true)
      },
    ),
  )
})
