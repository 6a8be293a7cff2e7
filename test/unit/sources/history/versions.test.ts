// The history’s two versions: rows without ids, and which of them to request.
import { hash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RowNaming } from '../../../../src/sources/history/version.ts'
import { Ordinals } from '../../../../src/sources/http/ordinals.ts'
import { openSplitter } from '../../../../src/sources/splitter/splitter.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import type { HistoryEvent } from '../../../fakes/history-server.ts'
import { DAY, driven, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { eachEntry, eventsFrom, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY

const timeless = (at: number): HistoryEvent => historyEvent(at, { id: 'same', timeless: true })

test('rows of v1 are delivered byte for byte, with their hash and their ordinal as id', async () => {
  const harness = await openHistoryHarness({ source: { version: 'v1' } })
  harness.server.events = [
    historyEvent(START - 2 * DAY, { id: 'twin' }),
    historyEvent(START - 2 * DAY, { id: 'twin' }),
    historyEvent(START - HOUR, { id: 'other' }),
  ]
  await harness.once()
  expect((await harness.raws()).sort()).toEqual(harness.server.events.map(({ v1 }) => v1).sort())
  const ids = (await harness.ids()).sort()
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}-[12]$/)
  const twins = ids.filter(
    (id) => ids.includes(id.replace(/-2$/, '-1')) && ids.includes(id.replace(/-1$/, '-2')),
  )
  expect(twins.map((id) => id.slice(-1)).sort()).toEqual(['1', '2'])
  expect(eachEntry(await harness.batch(), (entries, i) => entries.type(i))).toEqual([
    'Assistant',
    'Assistant',
    'Assistant',
  ])
  // Read again and again: nothing new.
  await harness.live(START + 12 * HOUR)
  expect(await harness.ids()).toHaveLength(3)
})

test('rows without a readable time are dated with their day, and never delivered from an empty window', async () => {
  const harness = await openHistoryHarness({ source: { version: 'v1' } })
  const perDay = [3, 0, 1, 2, 5, 1, 4, 2]
  harness.server.events = perDay.flatMap((count, day) =>
    Array.from({ length: count }, (_, i) => timeless(TODAY - (7 - day) * DAY + i * HOUR + MINUTE)),
  )
  await harness.once()
  const wanted = perDay.flatMap((count, day) =>
    Array.from(
      { length: count },
      () => `${new Date(TODAY - (7 - day) * DAY).toISOString().slice(0, 10)}T00:00:00Z`,
    ),
  )
  const read = async () => eachEntry(await harness.batch(), (entries, i) => entries.time(i)).sort()
  expect(await read()).toEqual(wanted)
  expect(harness.state().timeless).toBe(true)
  harness.asked()
  // Late twins, and days that are read again.
  harness.server.events.push(timeless(START + HOUR), {
    ...timeless(START - DAY),
    visibleAt: START + 2 * HOUR,
  })
  await harness.live(START + DAY)
  expect(await read()).toHaveLength(wanted.length + 2)
  const whole = harness.asked().every(({ from, to }) => from % DAY === 0 && (to % DAY === 0 || to >= START))
  expect(whole).toBe(true)
})

test('equal rows without a time have an id of their own on each day, the same at each read; a day does not change the id of a row with a time', async () => {
  const harness = await openHistoryHarness({ source: { version: 'v1' } })
  harness.server.events = [
    ...[2, 2, 1].map((day, i) => timeless(TODAY - day * DAY + (i + 1) * HOUR)),
    ...eventsFrom(historyEvent, START - 2 * DAY, 2, DAY),
  ]
  await harness.live(START + 2 * DAY)
  const called = eachEntry(await harness.batch(), (entries, i) => {
    const raw = Buffer.from(entries.raw(i)).toString()
    return { raw, id: entries.id(i), time: entries.time(i) }
  })
  expect(new Set(called.map(({ id }) => id)).size).toBe(5)
  expect(called).toHaveLength(5)
  const sha = (text: string) => hash('sha256', text, 'hex').slice(0, 32)
  const dayOf = (day: number) => new Date(TODAY - day * DAY).toISOString().replace('.000Z', 'Z')
  const row = called.find(({ time }) => time === dayOf(1))?.raw ?? ''
  const timed = called.filter(({ time }) => time !== dayOf(1) && time !== dayOf(2))
  expect(called.map(({ id }) => id).sort()).toEqual(
    [
      ...[`${sha(row + dayOf(2))}-1`, `${sha(row + dayOf(2))}-2`, `${sha(row + dayOf(1))}-1`],
      ...timed.map(({ raw }) => `${sha(raw)}-1`),
    ].sort(),
  )
})

test('some rows with a time and some without are each delivered once', async () => {
  const harness = await openHistoryHarness({
    source: { version: 'v1', start: { kind: 'span', ms: 40 * DAY } },
  })
  harness.server.events = [
    ...eventsFrom(historyEvent, START - 30 * DAY, 100, 5 * HOUR),
    ...eventsFrom(timeless, START - 10 * DAY, 30, 7 * HOUR),
  ]
  await harness.live(START + DAY)
  expect(await harness.ids()).toHaveLength(130)
})

test('a day of rows without a time that stays unreadable is skipped as a day, and read later as one', async () => {
  const bad = TODAY - 3 * DAY
  let broken = true
  const harness = await openHistoryHarness({
    source: { version: 'v1', lookbackMs: 0 },
    fault: ({ from, to }) => (broken && from <= bad && to >= bad + DAY ? { status: 500 } : undefined),
  })
  harness.server.events = eventsFrom(timeless, START - 7 * DAY, 7 * 24, HOUR)
  await harness.once()
  expect(await harness.ids()).toHaveLength(6 * 24)
  expect(harness.state().troubles).toMatchObject([{ from: bad, to: bad + DAY }])
  expect(harness.reporter.gaps).toBe(1)
  broken = false
  await harness.live(harness.clock.now() + DAY)
  expect(await harness.ids()).toHaveLength(7 * 24)
  expect(harness.state().troubles).toEqual([])
})

test('ordinals count each row separately, whatever the order and the table’s growth', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 40_000 }), { maxLength: 20_000 }), (rows) => {
      const ordinals = new Ordinals()
      const counts = new Map<number, number>()
      for (const row of rows) {
        const count = (counts.get(row) ?? 0) + 1
        counts.set(row, count)
        if (ordinals.next(Math.imul(row, 7919) >>> 0, row) !== count) return false
      }
      return true
    }),
    { numRuns: 20 },
  )
})

test('more different rows than the table has room for are too large for one window, not a crash', () => {
  const ordinals = new Ordinals(8192)
  const fill = () => {
    for (let i = 0; i < 8192; i++) ordinals.next(i, Math.imul(i, 0x9e3779b1) >>> 0)
  }
  expect(fill).toThrow(expect.objectContaining({ code: 'too_large' }) as Error)
})

test('rows that are left out take no memory', () => {
  const naming = new RowNaming(undefined)
  const splitter = openSplitter({
    idKey: undefined,
    timeKey: 'timestamp',
    typeKey: 'Task',
    maxDepth: 64,
    maxEntryBytes: 1 << 20,
    naming,
  })
  const row = Buffer.from(`${JSON.stringify({ email: 'a', text: 'x'.repeat(1000) })},`)
  splitter.push(Buffer.from('['))
  for (let i = 0; i < 20_000; i++) splitter.push(Buffer.from(row))
  expect(splitter.usedBytes).toBeLessThan(8 * 2 ** 20)
  expect(splitter.take()).toBeUndefined()
  expect(naming.omitted).toBe(20_000)
})

test.each([404, 403])(
  'v2 that answers %i blocks, names version: v1 and the permission, and v1 is not tried',
  async (status) => {
    const harness = await openHistoryHarness({
      fault: ({ version }) => (version === 'v2' ? { status } : undefined),
    })
    for (let i = 0; i < 3; i++) {
      const error = await harness.try()
      expect(error).toMatchObject({ code: status === 404 ? 'not_found' : 'forbidden', action: 'block' })
      expect(error?.message).toContain('history.version: v1')
      expect(error?.message).toContain('permission')
    }
    expect(harness.asked().every(({ version }) => version === 'v2')).toBe(true)
    // Nothing was delivered as v2, so v1 may follow without more.
    harness.open({ version: 'v1' })
    harness.server.events = eventsFrom(historyEvent, START - 3 * DAY, 72, HOUR)
    await harness.once()
    expect(await harness.ids()).toHaveLength(72)
  },
)

test.each([true, false])(
  'the change from v1 to v2 loses and doubles no day, lookback and late events included (both ends inclusive: %s)',
  async (inclusive) => {
    const change = TODAY + 2 * DAY
    const harness = await openHistoryHarness({
      source: { version: 'v1' },
      startInclusive: inclusive,
      endInclusive: inclusive,
    })
    harness.server.events = eventsFrom(historyEvent, START - 7 * DAY, 12 * 48, HOUR / 2)
    // One in the last second before the change, and a late one on either side of it.
    harness.server.events.push(historyEvent(change - SECOND))
    for (const at of [change - 5 * HOUR, change + 5 * HOUR])
      harness.server.events.push({ ...historyEvent(at + SECOND), visibleAt: change + 30 * HOUR })
    await harness.live(START + DAY)
    harness.open({ version: 'v2', v1Until: change })
    await harness.live(change + 3 * DAY)
    const events = harness.server.events.filter(({ at }) => at <= change + 3 * DAY - HOUR)
    const wanted = events.map((event) => (event.at < change ? event.v1 : event.v2))
    const raws = new Set(await harness.raws())
    expect(wanted.filter((raw) => !raws.has(raw))).toEqual([])
    expect(raws.size).toBe((await harness.raws()).length)
    const other = harness.server.events.map((event) => (event.at < change ? event.v2 : event.v1))
    expect(other.filter((raw) => raws.has(raw))).toEqual([])
  },
)

test('a change of version that would deliver days twice blocks, and says what to write', async () => {
  const harness = await openHistoryHarness({ source: { version: 'v1', lookbackMs: 0 } })
  harness.server.events = eventsFrom(historyEvent, START - 7 * DAY, 10 * 24, HOUR)
  await harness.live(START + HOUR)
  harness.open({ version: 'v2', lookbackMs: 0 })
  await driven(harness.clock, harness.clock.sleep(HOUR))
  expect(harness.source.plan(harness.cursor)).toMatchObject({ caughtUp: false })
  const error = await harness.try()
  expect(error).toMatchObject({ code: 'misconfigured', action: 'block' })
  expect(error?.message).toContain('days up to 2026-11-17 were read as v1')
  expect(error?.message).toContain('v1_until: 2026-11-18')
  harness.open({ version: 'v2', v1Until: TODAY, lookbackMs: 0 })
  expect((await harness.try())?.message).toContain('v1_until: 2026-11-18')
  harness.open({ version: 'v2', v1Until: TODAY + DAY, lookbackMs: 0 })
  await harness.live(START + 2 * DAY)
  expect(await harness.ids()).toHaveLength(9 * 24 + 1)
  // And back: v2 has read from the change on.
  harness.open({ version: 'v1', lookbackMs: 0 })
  await driven(harness.clock, harness.clock.sleep(HOUR))
  expect((await harness.try())?.message).toContain('days from 2026-11-18 on were read as v2')
  harness.open({ version: 'v2', v1Until: TODAY + 3 * DAY, lookbackMs: 0 })
  expect((await harness.try())?.message).toContain('v1_until: 2026-11-18')
})

test('a day of which a part was kept as v1 before a crash is known as one of v1', async () => {
  const text = 'x'.repeat(1_500_000)
  let cut = true
  const harness = await openHistoryHarness({
    source: { version: 'v1', start: { kind: 'time', atUs: TODAY * 1000 } },
    fault: () => (cut ? { cutBytes: 7_000_000 } : undefined),
  })
  harness.server.events = eventsFrom((at) => historyEvent(at, { fields: { text } }), START - HOUR, 6, SECOND)
  // The process dies in the middle of the answer: its last chunk never lands.
  const parts = harness.source.read(undefined, new AbortController().signal)
  for (let next = await parts.next(); !next.done;) {
    const part = next.value
    if (part.fault) break
    const appended = await harness.journal.append({ stream: harness.source.stream, ...part })
    next = await parts.next(appended)
  }
  await parts.return(undefined)
  cut = false
  harness.cursor = await harness.journal.cursor(harness.source.stream)
  expect((await harness.ids()).length).toBeGreaterThan(0)
  harness.open({ version: 'v2', v1Until: TODAY, start: { kind: 'time', atUs: TODAY * 1000 } })
  expect((await harness.try())?.message).toContain('v1_until: 2026-11-18')
})

test('a change of version in the middle of a live pass loses no day, without lookback too', async () => {
  const options = { lookbackMs: 0, start: { kind: 'span', ms: 2 * DAY } } as const
  const harness = await openHistoryHarness({
    source: { ...options, version: 'v1' },
    fault: ({ version }) => (version === 'v1' ? { body: '[]' } : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, START - 2 * DAY, 3 * 24, HOUR)
  await harness.once()
  // Stopped over midnight; the day before is read as v1 when the configuration changes.
  await driven(harness.clock, harness.clock.sleep(20 * HOUR))
  await harness.step()
  expect(harness.state().live).toMatchObject({ from: TODAY, at: TODAY + DAY })
  harness.open({ ...options, version: 'v2' })
  await harness.live(START + 26 * HOUR)
  expect((await harness.raws()).sort()).toEqual(harness.server.events.map(({ v2 }) => v2).sort())
})

test('unreadable windows on both sides of the change are read again as both versions, each for its own days', async () => {
  const change = TODAY - 3 * DAY
  const harness = await openHistoryHarness({ source: { version: 'v2', v1Until: change, lookbackMs: 0 } })
  await harness.once()
  const [from, to] = [change - 6 * HOUR, change + 6 * HOUR]
  const trouble = { from, to, sinceAt: START, tries: 0, dueAt: harness.clock.now() }
  harness.cursor = JSON.stringify({ ...harness.state(), troubles: [trouble] })
  harness.server.events = eventsFrom(historyEvent, from, 12, HOUR)
  for (let i = 0; i < 4; i++) await harness.step()
  expect(harness.state().troubles).toEqual([])
  const wanted = harness.server.events.map((event) => (event.at < change ? event.v1 : event.v2))
  expect((await harness.raws()).sort()).toEqual(wanted.sort())
})
