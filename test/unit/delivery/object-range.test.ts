// What an object says of its entries, and when a growing range is full.
import { describe, expect, test } from 'vitest'
import type { Batch, ChunkSlice } from '../../../src/contracts/journal.ts'
import type { SinkReporter } from '../../../src/contracts/reporter.ts'
import { Contents, Groups, OpenRange } from '../../../src/delivery/objects.ts'
import { raw } from '../../../src/formats/raw.ts'
import { lineFrame } from '../../../src/sinks/kit/body.ts'
import { runOf } from '../../fakes/lines.ts'

const DAY_US = 86_400_000_000
const group = new Groups().of(runOf([{ id: 'a' }]), 0)

describe('an object', () => {
  const reported = (times: readonly number[]) => {
    const contents = new Contents(group)
    times.forEach((atUs, i) => {
      contents.add(10 + i, atUs, 0)
    })
    const { count, first, last, firstAtUs, lastAtUs } = contents.whole
    return [count, first, last, firstAtUs, lastAtUs]
  }

  test('says how many entries it has, its first and last sequence number, and the span of their times in any order', () => {
    expect(reported([5])).toEqual([1, 10, 10, 5, 5])
    expect(reported([5, 3, 9, 4])).toEqual([4, 10, 13, 3, 9])
    expect(reported([-7, 0])).toEqual([2, 10, 11, -7, 0])
  })

  test('counts entries without a time, and leaves them out of the span', () => {
    expect(reported([NaN, 5, NaN, 3, NaN])).toEqual([5, 10, 14, 3, 5])
    expect(reported([NaN])).toEqual([1, 10, 10, NaN, NaN])
  })
})

describe('the delays of an object', () => {
  const tell = (timesMs: readonly number[], writtenAt: number, loggedAt: number) => {
    const contents = new Contents(group)
    timesMs.forEach((atMs, i) => {
      contents.add(i, atMs * 1000, writtenAt)
    })
    const reported: [number, number][] = []
    const reporter = { delivered: (ms: number, count: number) => void reported.push([ms, count]) }
    contents.delays.report(reporter as unknown as SinkReporter, loggedAt)
    return reported
  }

  test('are reported as a mean of similar ones, plus the time since it was written', () => {
    expect(tell([1_000, 1_200], 1_300, 1_300)).toEqual([[200, 2]])
    expect(tell([1_000, 1_200], 1_300, 61_300)).toEqual([[60_200, 2]])
    const [first, last, ...more] = tell([0, 3_600_000 * 24 * 400], 3_600_000 * 24 * 400, 3_600_000 * 24 * 400)
    expect([first, last, more]).toEqual([[0, 1], [3_600_000 * 24 * 400, 1], []])
  })

  test('exclude entries dated in the future', () => {
    expect(tell([5_000], 1_000, 1_000)).toEqual([[0, 1]])
  })
})

describe('a group', () => {
  const dayOf = (time: string) => new Groups().of(runOf([{ id: 'a', time }]), 0).day

  test('has the day of its entries, if a name can hold it', () => {
    expect(dayOf('2026-11-21T23:59:59.999999')).toBe('2026-11-21')
    expect(dayOf('1969-12-31T23:59:59')).toBe('1969-12-31')
    expect(dayOf('soon')).toBe('unknown')
    expect(['0000-01-01T00:00:00', '9999-12-31T23:59:59'].map(dayOf)).toEqual(['0000-01-01', '9999-12-31'])
  })

  test('is the same for the same stream, day and replay, whatever was in between', () => {
    const groups = new Groups()
    const other = { stream: { workspace: 'acme', source: 'history.usage' } } as const
    const run = runOf([{ id: 'a' }, { id: 'b', time: '2026-11-22T00:00:00' }, { id: 'c' }])
    const [a, b, c] = [0, 1, 2].map((i) => groups.of(run, i))
    expect([a === c, a === b, groups.of(runOf([{ id: 'd' }]), 0) === a]).toEqual([true, false, true])
    expect(groups.of(runOf([{ id: 'e' }], other), 0)).not.toBe(a)
    const again = groups.of(runOf([{ id: 'f' }], { replay: true }), 0)
    expect([again.replay, again === a]).toEqual(['20261121T100001Z', false])
  })
})

describe('a range', () => {
  const pieceOf = (...slices: readonly ChunkSlice[]): Batch =>
    ({ first: slices[0]?.firstSeq ?? 0, slices }) as unknown as Batch
  const framing = (wanted: (run: ChunkSlice, index: number) => boolean = () => true) =>
    ({ sink: { frame: lineFrame }, format: raw, wanted }) as unknown as Parameters<OpenRange['add']>[1]
  const line = (id: string) => ({ id, raw: `{"id":"${id}"}` })
  const lineBytes = '{"id":"a"}\n'.length

  test('is full where the next entry would exceed it, and counts bytes as they go out', () => {
    const piece = pieceOf(runOf(['a', 'b', 'c'].map(line), { firstSeq: 7 }))
    const add = (maxBytes: number) => {
      const stretch = new OpenRange()
      const full = stretch.add(piece, framing(), maxBytes, 'archive')
      return [full, stretch.count, stretch.first, stretch.last]
    }
    expect(add(3 * lineBytes + 1)).toEqual([false, 3, 7, 9])
    expect(add(3 * lineBytes)).toEqual([true, 3, 7, 9])
    expect(add(3 * lineBytes - 1)).toEqual([true, 2, 7, 8])
    expect(add(1)).toEqual([true, 1, 7, 7])
  })

  test('spans chunks, and is as old as its oldest wanted entry', () => {
    const stretch = new OpenRange()
    const wanted = framing((run, i) => run.entries.id(i) !== 'a')
    const oldest = { appendedAt: 1_000, firstSeq: 1 }
    expect(stretch.add(pieceOf(runOf([line('a')], oldest)), wanted, 1_000, 'archive')).toBe(false)
    expect([stretch.count, stretch.oldestAt, stretch.last]).toEqual([0, 0, 1])
    stretch.add(pieceOf(runOf([line('b')], { appendedAt: 2_000, firstSeq: 2 })), wanted, 1_000, 'archive')
    stretch.add(pieceOf(runOf([line('c')], { appendedAt: 3_000, firstSeq: 3 })), wanted, 1_000, 'archive')
    expect([stretch.count, stretch.oldestAt, stretch.first, stretch.last]).toEqual([2, 2_000, 1, 3])
  })

  test('counts unwanted entries as filtered, once, but no replayed ones and no other sink’s own', () => {
    const filtered = (more: Partial<ChunkSlice>, wanted = false) => {
      const stretch = new OpenRange()
      stretch.add(
        pieceOf(runOf([line('a'), line('b')], more)),
        framing(() => wanted),
        1_000,
        'archive',
      )
      return stretch.filtered.sums.map(({ filtered: count }) => count)
    }
    expect([filtered({}), filtered({ onlySink: 'archive' })]).toEqual([[2], [2]])
    expect([filtered({ onlySink: 'siem' }), filtered({ replay: true }), filtered({}, true)]).toEqual([
      [],
      [],
      [],
    ])
  })

  test('has at most 64 groups', () => {
    const days = Array.from({ length: 66 }, (_, i) => ({
      ...line(`d${i}`),
      time: new Date(Date.UTC(2026, 0, 1) + (i * DAY_US) / 1000).toISOString().slice(0, 19),
    }))
    const stretch = new OpenRange()
    // One more of a known day changes nothing.
    const piece = pieceOf(runOf([...days.slice(0, 64), ...days.slice(0, 1), ...days.slice(64)]))
    expect(stretch.add(piece, framing(), 1e9, 'archive')).toBe(true)
    expect([stretch.count, stretch.last]).toEqual([65, 65])
  })
})
