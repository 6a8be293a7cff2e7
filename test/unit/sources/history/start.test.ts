// Where the history begins if the clock was wrong at the first start.
import { expect, test } from 'vitest'
import { Entries } from '../../../../src/contracts/entries.ts'
import type { HistoryOptions } from '../../../../src/sources/history/history.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'

const events = eventsFrom(historyEvent, START - 10 * DAY, 12 * 24, HOUR)

/** A source at START with the cursor of one that began `aheadMs` later. */
async function openAfter(aheadMs: number, source: Partial<HistoryOptions> = {}) {
  const ahead = await openHistoryHarness({ startAt: START + aheadMs, dateAt: () => START, source })
  ahead.server.events = events
  for (let i = 0; i < 5; i++) await ahead.try()
  const harness = await openHistoryHarness({ source })
  harness.server.events = events
  const { stream } = harness.source
  const nothing = { quarantined: [], findings: [], headUs: undefined, gaps: 0 }
  await harness.journal.append({ stream, entries: Entries.none, ...nothing, cursor: ahead.cursor })
  harness.cursor = ahead.cursor
  return { ahead, harness }
}

test('a start that a clock far ahead decided is decided again once the clock is right, and both are reported', async () => {
  const { ahead, harness } = await openAfter(3_000 * DAY)
  expect(await ahead.ids()).toEqual([])
  expect(ahead.log.lines.filter((line) => line.includes('3000'))).toHaveLength(1)
  await harness.live(START + DAY)
  expect(await harness.ids()).toHaveLength(8 * 24 + 1)
  expect(harness.log.lines.filter((line) => line.includes('It has been corrected'))).toHaveLength(1)
})

test('a start that is in the future by the server’s clock is decided again by it, while ours is still wrong', async () => {
  const harness = await openHistoryHarness({ startAt: START + 10 * DAY, dateAt: () => START })
  harness.server.events = events.filter(({ at }) => at <= START)
  await harness.live(START + 10 * DAY + HOUR)
  // The server's Date has whole seconds: the one event at the very edge is not counted on.
  expect((await harness.ids()).length).toBeGreaterThanOrEqual(7 * 24)
})

test('a future start that was written as a time stays', async () => {
  const { harness } = await openAfter(0, { start: { kind: 'time', atUs: (START + DAY / 2) * 1000 } })
  await harness.live(START + DAY)
  expect(await harness.ids()).toHaveLength(12 + 1)
  expect(harness.log.lines).toEqual([])
})

test('a clock that is set back behind the start changes nothing if events were read', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: DAY } } })
  harness.server.events = events.filter(({ at }) => at <= START)
  await harness.once()
  const { startAt, startUs } = harness.state()
  const back = await openHistoryHarness({
    startAt: START - 300 * DAY,
    source: { start: { kind: 'span', ms: DAY } },
  })
  back.server.events = events
  back.cursor = harness.cursor
  await back.try()
  expect(back.state()).toMatchObject({ startAt, startUs })
})

test('after a restart it reports how far it was read before any request', async () => {
  const before = await openHistoryHarness({ source: { start: { kind: 'span', ms: DAY } } })
  before.server.events = events.filter(({ at }) => at <= START)
  await before.once()
  const after = await openHistoryHarness()
  after.source.plan(before.cursor)
  expect(after.reporter.cursorUs).toBeGreaterThan(0)
  expect(after.reporter).toMatchObject({ cursorUs: before.reporter.cursorUs, headUs: before.reporter.headUs })
  expect(after.reporter.codes).toEqual([])
})

const TODAY = Math.floor(START / DAY) * DAY
const WANTED = START - HOUR

/** A source whose history begins an hour ago, at an API that cannot return the instant `poison`. */
async function openBeside(poison: number, source: Partial<HistoryOptions> = {}) {
  const start = { kind: 'time', atUs: WANTED * 1000 } as const
  const harness = await openHistoryHarness({
    source: { start, lookbackMs: 0, ...source },
    fault: ({ from, to }) => (from <= poison && poison <= to ? { status: 500 } : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, TODAY + 30 * SECOND, 20 * 60, MINUTE)
  return harness
}

test.each(['v1', 'v2'] as const)(
  'of a first day that is read in windows none is requested that ends before the start: %s',
  async (version) => {
    const harness = await openBeside(TODAY + 3 * HOUR, { version })
    await harness.live(START + HOUR)
    const parts = harness.asked().filter(({ from, to }) => from > TODAY || to < WANTED)
    expect(parts.length).toBeGreaterThan(0)
    expect(parts.filter(({ to }) => to - SECOND <= WANTED)).toEqual([])
    expect(parts.length).toBeLessThan(20)
    expect(await harness.ids()).toHaveLength(120)
    expect([harness.reporter.gaps, harness.state().troubles]).toEqual([0, []])
  },
)

test.each(['v1', 'v2'] as const)(
  'an unreadable window in %s that ends before the start is no gap, and one that contains the start is',
  async (version) => {
    const before = await openBeside(WANTED - 20 * MINUTE, { version })
    await before.live(START + HOUR)
    expect(await before.ids()).toHaveLength(120)
    expect([before.reporter.gaps, before.state().troubles]).toEqual([0, []])
    expect(before.log.lines.filter((line) => line.includes('possible gap'))).toEqual([])
    const upon = await openBeside(WANTED + SECOND, { version })
    await upon.live(START + HOUR)
    expect(upon.reporter.gaps).toBe(1)
    expect(upon.state().troubles).toHaveLength(1)
  },
)

test('a malformed element with a time before the start is skipped, and one with none or a later one is not', async () => {
  const harness = await openHistoryHarness({
    source: { start: { kind: 'time', atUs: WANTED * 1000 }, lookbackMs: 0 },
  })
  const dated = (at: number) => historyEvent(at, { fields: { unique_usage_id: null } })
  const unlogged = { ...historyEvent(WANTED - 2 * HOUR), v2: '{"utc_time":"soon","text":"?"}' }
  const wanted = dated(WANTED + MINUTE)
  harness.server.events = [dated(WANTED - HOUR), unlogged, wanted, dated(WANTED - SECOND)]
  await harness.live(START + HOUR)
  const records = await harness.journal.quarantined({})
  const raws = await Promise.all(records.map(({ id }) => harness.journal.quarantinedRaw(id)))
  expect(raws.map((raw) => Buffer.from(raw ?? []).toString()).toSorted()).toEqual(
    [unlogged.v2, wanted.v2].toSorted(),
  )
})

test('while the start is in the future, an unreadable window is no gap', async () => {
  const start = { kind: 'time', atUs: (START + 5 * HOUR) * 1000 } as const
  const harness = await openBeside(START - 30 * SECOND, { start })
  await harness.live(START + 6 * HOUR + 5 * MINUTE)
  expect(await harness.ids()).toHaveLength(60)
  expect([harness.reporter.gaps, harness.state().troubles]).toEqual([0, []])
  expect(harness.log.lines.filter((line) => line.includes('possible gap'))).toEqual([])
})
