// The rules that every engine follows: which entries are new, how they are counted,
// how they are cut to limits, what a replay selects, and what may be pruned.
import { expect, test } from 'vitest'
import { TRANSACTION_ENTRIES } from '../../../../src/contracts/entries.ts'
import type { ChunkSlice, ReplayQuery } from '../../../../src/contracts/journal.ts'
import { bundlesOf, entriesOf as restored } from '../../../../src/journal/rules/dead-letters.ts'
import type { DeadLetterRow } from '../../../../src/journal/rules/dead-letters.ts'
import {
  KEY_BYTES,
  firstsOf,
  keyInto,
  storedVersion,
  versionOf,
  versionToSend,
} from '../../../../src/journal/rules/dedup.ts'
import { countsOf, isNews, wantedOf } from '../../../../src/journal/rules/outcomes.ts'
import { droppable, keyCutoffUs } from '../../../../src/journal/rules/pruning.ts'
import { selected, stepOf, sumsOf } from '../../../../src/journal/rules/replay.ts'
import { chunksOf, fitting } from '../../../../src/journal/rules/slicing.ts'
import { audit, entriesOf, spec, START_US, usage, uuid } from '../../../contract/journal-parts.ts'

const DAY = START_US / 86_400_000_000
const DAY_US = 86_400_000_000
const foundOf = (fresh: number[] | undefined, freshCount: number, knownCount: number) => ({
  ...{ fresh: fresh && Uint32Array.from(fresh), freshCount, knownCount, versions: undefined },
})

test('entries with unknown keys are new, each once, by time and id', () => {
  const entries = entriesOf([spec(1), spec(2), spec(1), spec(1, { at: START_US }), spec(3)])
  const ids = Buffer.alloc(5 * KEY_BYTES)
  for (let i = 0; i < 5; i++) expect(keyInto(ids, i, entries, i)).toBe(entries.at(i))
  expect([...firstsOf(entries, undefined, ids, Uint8Array.of(0, 1, 0, 0, 0))]).toEqual([0, 3, 4])
  const wanted = Uint32Array.of(2, 4)
  wanted.forEach((index, i) => keyInto(ids, i, entries, index))
  expect([...firstsOf(entries, wanted, ids, new Uint8Array(2))]).toEqual([2, 4])
})

test('content that differs from the last version is a new version; alternating content is new sixteen times', () => {
  const content = (text: string) => Buffer.from(text)
  let mark: Buffer | undefined
  const versions: number[] = []
  for (let i = 0; i < 20; i++) {
    const next = versionOf(content(i % 2 === 0 ? 'a' : 'b'), mark)
    versions.push(next.version)
    mark = next.mark ?? mark
  }
  expect(versions).toEqual([...Array.from({ length: 16 }, (_, i) => i + 1), 0, 0, 0, 0])
  expect(versionOf(content('c'), mark).version).toBe(17)
  expect(versionOf(content('b'), mark)).toEqual({ version: 0, mark: undefined })
  expect([versionToSend(content('b'), mark ?? Buffer.alloc(0)), storedVersion(1)]).toEqual([16, 0])
})

test('each entry of a page chunk has one outcome, counted in total and by its own day', () => {
  const specs = [
    ...[spec(1), spec(2, { type: 'skipped' }), spec(3), spec(4)],
    spec(5, { at: START_US + DAY_US }),
  ]
  const part = { entries: entriesOf(specs), wanted: (type: string) => type !== 'skipped' }
  const wanted = wantedOf(part)
  expect(wanted && [...wanted]).toEqual([0, 2, 3, 4])
  const found = foundOf([2, 3, 4], 3, 1)
  const headUs = START_US + 4_000_000
  const { outcomes, days, oldestUs } = countsOf({ ...part, headUs }, wanted, found, 2, START_US / 1000)
  expect(outcomes).toEqual({ added: 2, late: 1, known: 1, filtered: 1, latestBehindUs: 1_000_000 })
  expect([...days]).toEqual([
    [DAY, { added: 1, late: 1, known: 1, filtered: 1, quarantined: 2 }],
    [DAY + 1, { added: 1, late: 0, known: 0, filtered: 0, quarantined: 0 }],
  ])
  expect(oldestUs).toBe(START_US + 1_000_000)
  // Known, unwanted, new.
  expect([0, 1, 2].map((index) => isNews(index, wanted, found))).toEqual([false, true, true])
  expect(isNews(0, undefined, foundOf(undefined, 5, 0))).toBe(true)
})

test('a page chunk is cut into chunks of limited size; a small one is stored as it came', () => {
  const many = entriesOf(Array.from({ length: TRANSACTION_ENTRIES + 2 }, (_, i) => spec(i)))
  expect([...chunksOf(many)].map(({ count }) => count)).toEqual([TRANSACTION_ENTRIES, 2])
  const few = many.slice(0, 3)
  expect([...chunksOf(few)]).toEqual([few])
  expect([...chunksOf(few)][0]).toBe(few)
})

test('a batch ends before the entry that does not fit, and always has room for one entry', () => {
  const entries = entriesOf([spec(1), spec(2), spec(3)])
  const size = entries.rawBytes(0)
  expect(fitting(entries, 0, 3, 2 * size, true)).toEqual({ index: 2, taken: 2 * size })
  expect(fitting(entries, 1, 3, size - 1, true)).toEqual({ index: 2, taken: size })
  expect(fitting(entries, 1, 3, size - 1, false)).toEqual({ index: 1, taken: 0 })
})

test('dead letters are restored as entries, grouped by sink, stream and replay', () => {
  const entries = entriesOf([spec(1, { body: 'one' }), spec(2), spec(3)])
  const row = (i: number, more: Partial<DeadLetterRow> = {}): DeadLetterRow => ({
    ...{ id: i, sink: 'a', seq: i, source: 1, code: '6', reason: 'no', dead_lettered_at: 0, replay: 0 },
    ...{ entry_id: Buffer.from(entries.id(i)), time: Buffer.from(entries.time(i)), at: entries.at(i) },
    ...{ type: entries.type(i), version: i, bytes: entries.rawBytes(i) },
    ...more,
  })
  const rows = [row(0), row(1, { sink: 'b' }), row(2)]
  const bundles = bundlesOf(rows)
  expect(bundles.map(({ sink, rows: own }) => [sink, own.map(({ id }) => id)])).toEqual([
    ['a', [0, 2]],
    ['b', [1]],
  ])
  const back = restored(bundles[0]?.rows ?? [], (id) => Buffer.from(entries.raw(id)))
  expect([back.id(0), back.id(1), back.version(1), back.at(1)]).toEqual([uuid(1), uuid(3), 2, entries.at(2)])
  expect(Buffer.from(back.raw(0))).toEqual(Buffer.from(entries.raw(0)))
})

test('a replay selects by source, workspace and entry time, without the days that are read from the API', () => {
  const entries = entriesOf([spec(1), spec(2), spec(3, { at: START_US + DAY_US })])
  const slice: ChunkSlice = {
    ...{ stream: audit, firstSeq: 7, appendedAt: 0, onlySink: undefined, replay: false, entries },
  }
  const query: ReplayQuery = {
    ...{ sink: 'a', fromUs: START_US + 2_000_000, toUs: Infinity, sources: ['audit'], runAt: 0 },
    ...{ dryRun: true, after: 0, until: undefined },
  }
  const idsOf = (asked: Partial<ReplayQuery>) =>
    selected([slice], { ...query, ...asked }).flatMap((each) =>
      Array.from({ length: each.entries.count }, (_, i) => each.entries.id(i)),
    )
  expect(idsOf({})).toEqual([uuid(2), uuid(3)])
  expect(idsOf({ workspace: 'other' })).toEqual([])
  expect(idsOf({ sources: ['history.usage'] })).toEqual([])
  expect(idsOf({ leave: [{ stream: audit, fromDay: DAY, toDay: DAY + 1 }] })).toEqual([uuid(3)])
  expect(idsOf({ leave: [{ stream: usage, fromDay: DAY, toDay: DAY + 1 }] })).toEqual([uuid(2), uuid(3)])
  expect(sumsOf(selected([slice], query)).days).toEqual([
    { stream: audit, day: DAY, count: 1 },
    { stream: audit, day: DAY + 1, count: 1 },
  ])
  const acknowledged = { position: 4, ahead: [{ first: 6, last: 6 }] }
  const chunks = [1, 5].map((first) => ({ first, last: first + 3, payload: 1 }))
  const ranges = [{ first: 1, last: 4 }, ...acknowledged.ahead]
  expect(stepOf(chunks, acknowledged, 0, 8)).toEqual({ ranges, through: 8 })
})

test('pruning drops the oldest chunks first, only as many as needed, and never a pending one', () => {
  const chunks = [1, 3, 5].map((first) => ({ first, last: first + 1, payload: 100 }))
  const firsts = (ackedTo: number, excess: number) =>
    droppable(chunks, ackedTo, excess).chunks.map(({ first }) => first)
  expect(firsts(6, 1e9)).toEqual([1, 3, 5])
  expect(firsts(3, 1e9)).toEqual([1])
  expect(firsts(6, 101)).toEqual([1, 3])
  expect(firsts(6, 100)).toEqual([1])
  expect(droppable(chunks, 4, 1e9).bytes).toBe(200)
})

test('keys are kept for their retention, counted from the earlier of clock and newest entry, and for as far back as reading went', () => {
  const ages = { nowMs: 1_000, keepKeysMs: 100, newestUs: 2e6, lowUs: 1e6, lowBeforeUs: null }
  expect(keyCutoffUs(ages)).toBe(900_000)
  expect(keyCutoffUs({ ...ages, newestUs: 500_000 })).toBe(400_000)
  expect(keyCutoffUs({ ...ages, lowUs: 300_000.5 })).toBe(300_000)
  expect(keyCutoffUs({ ...ages, lowBeforeUs: 200_000 })).toBe(200_000)
  expect(keyCutoffUs({ ...ages, lowUs: null })).toBeUndefined()
  expect(keyCutoffUs({ ...ages, newestUs: null })).toBeUndefined()
})
