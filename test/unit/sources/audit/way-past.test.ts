// Skipping an unreadable entry: an answer that breaks off
// meanwhile loses no readable entry, in any reader (invariant 6).
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { DAY, HOUR, MINUTE, SECOND, START, endpoints, openHarness } from '../../app/audit-harness.ts'
import { compared, openRangeSetup } from './range-setup.ts'

const brokenOff = (): HttpReply => ({
  ...{ status: 200, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    yield Buffer.from('{"log":{"id":"abc","timest')
  })(),
})

/** `search` breaks off for its `first` request and the `most - 1` after it. */
const breaking =
  (first: number, most: number) =>
  (send: Transport): Transport => {
    let nth = 0
    return (request, signal) => {
      if (request.url.includes('/search?')) nth++
      const isStruck = request.url.includes('/search?') && nth >= first && nth < first + most
      return isStruck ? Promise.resolve(brokenOff()) : send(request, signal)
    }
  }

const strikes = [1, 2, 3].flatMap((first) => [1, 2].map((most) => ({ first, most })))

test.each(strikes)(
  'live reading: a `search` that breaks off $most times, from request $first on, hides nothing after an unreadable entry and is no gap',
  async ({ first, most }) => {
    const harness = await openHarness({ wrap: breaking(first, most) })
    const at = START - 9 * MINUTE
    const before = harness.add(5, at - SECOND)
    harness.mock.add({ at, visibleAt: 0, defect: 'poison' })
    const after = [1, 2, 3, 4, 5].map((i) => harness.mock.add({ at: at + i * SECOND, visibleAt: 0 }).id)
    await harness.drain()
    expect(new Set(await harness.ids())).toEqual(new Set([...before, ...after]))
    expect(harness.reporter.gaps).toBe(0)
  },
)

test.each([1, 2])(
  'the start: a `search` that breaks off %d times enlarges no gap if the very first entry is unreadable',
  async (most) => {
    const from = START - HOUR
    const start = { kind: 'time', atUs: from * 1000 } as const
    // Ten answers make the first entry unreadable, the eleventh shows
    // that others can be read. The next is the first to skip it.
    const harness = await openHarness({ source: { start }, wrap: breaking(12, most) })
    harness.mock.add({ at: from, visibleAt: 0, defect: 'poison' })
    const after = [1, 2, 3, 4, 5].map((i) => harness.mock.add({ at: from + i * SECOND, visibleAt: 0 }).id)
    await harness.drain()
    expect(new Set(await harness.ids())).toEqual(new Set(after))
    expect(harness.reporter.gaps).toBe(1)
  },
)

test.each([1, 2])(
  'a cursor searched by time: a `search` that breaks off %d times is repeated',
  async (most) => {
    const harness = await openHarness({ wrap: breaking(1, most) })
    const known = harness.add(5)
    await harness.live(START + MINUTE)
    harness.mock.purge(known)
    // In the very second of the purged entry.
    const fresh = [1, 2].map((i) => harness.mock.add({ at: START + i, visibleAt: 0 }).id)
    await harness.live(START + 20 * MINUTE)
    expect(await harness.ids()).toEqual([...known, ...fresh])
    expect(harness.reporter.gaps).toBe(1)
  },
)

test.each([
  { name: 'pages that broke off before it', pages: 2, searches: ['broken', 'broken'] },
  {
    name: 'answers that broke off before one that shows nothing',
    searches: ['broken', 'broken', 'none', 'broken'],
  },
])(
  'a cursor searched by time is requested three times in a row before it is skipped: $name do not count',
  async ({ pages = 0, searches }) => {
    const left = { pages: 0, searches: [] as string[] }
    const none: HttpReply = { ...brokenOff(), status: 404 }
    const wrap = (send: Transport): Transport => {
      return (request, signal) => {
        if (request.url.includes('from=') && left.pages-- > 0) return Promise.resolve(brokenOff())
        const next = request.url.includes('/search?') ? left.searches.shift() : undefined
        return next ? Promise.resolve(next === 'none' ? none : brokenOff()) : send(request, signal)
      }
    }
    const harness = await openHarness({ wrap })
    const known = harness.add(5)
    await harness.live(START + MINUTE)
    harness.mock.purge(known)
    Object.assign(left, { pages, searches: [...searches] })
    // In the very second of the purged entry.
    const fresh = [1, 2].map((i) => harness.mock.add({ at: START + i, visibleAt: 0 }).id)
    fresh.push(harness.mock.add({ at: START + 2 * MINUTE, visibleAt: 0 }).id)
    await harness.live(START + 20 * MINUTE)
    expect(left.searches).toEqual([])
    expect(await harness.ids()).toEqual([...known, ...fresh])
    expect(harness.reporter.gaps).toBe(1)
  },
)

test.each(strikes)(
  'a backfill: a `search` that breaks off $most times, from request $first on, hides nothing after an unreadable entry and is no gap',
  async ({ first, most }) => {
    const from = START - 20 * DAY
    // The first `search` finds the start.
    const setup = openRangeSetup({ from, to: from + DAY, wrap: breaking(first + 1, most) })
    const at = from + HOUR
    for (let i = 5; i > 0; i--) setup.mock.add({ at: at - i * SECOND, visibleAt: 0 })
    const { id } = setup.mock.add({ at, visibleAt: 0, defect: 'poison' })
    for (let i = 1; i <= 5; i++) setup.mock.add({ at: at + i * SECOND, visibleAt: 0 })
    setup.mock.add({ at: START - MINUTE, visibleAt: 0 })
    const readable = setup.expected().filter((one) => one !== id)
    const { ids, gaps } = await setup.readAll()
    expect({ ...compared(ids, readable), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 0 })
  },
)

test.each([0, 1, 2])(
  'lookback finds a late entry right after an unreadable one, although `search` breaks off %d times',
  async (most) => {
    // Live reading's first skip of it takes some requests of its own.
    let isSwept = false
    const wrap = (send: Transport): Transport => {
      const broken = breaking(1, most)(send)
      return (request, signal) => (isSwept ? broken : send)(request, signal)
    }
    const harness = await openHarness({ source: { lookbackMs: DAY }, wrap })
    const at = START - 9 * MINUTE
    harness.add(5, at - MINUTE)
    harness.mock.add({ at, visibleAt: 0, defect: 'poison' })
    harness.add(5)
    await harness.live(START + HOUR)
    isSwept = true
    const late = harness.mock.add({ at: at + SECOND, visibleAt: START + 2 * HOUR }).id
    await harness.live(START + 9 * HOUR)
    expect(await harness.ids()).toContain(late)
    expect(harness.reporter.gaps).toBe(0)
  },
)

test('a backfill: a skip of three unreadable entries beyond the end of the span misses nothing before that end', async () => {
  const from = START - 20 * DAY
  const at = from + HOUR
  const setup = openRangeSetup({ from, to: at + 6 * SECOND })
  setup.mock.add({ at: at - SECOND, visibleAt: 0 })
  const bad = [0, 1, 2].map(
    (second) => setup.mock.add({ at: at + second * SECOND, visibleAt: 0, defect: 'poison' }).id,
  )
  setup.mock.add({ at: at + 4 * SECOND, visibleAt: 0 })
  setup.mock.add({ at: START - MINUTE, visibleAt: 0 })
  const readable = setup.expected().filter((id) => !bad.includes(id))
  const { ids, gaps } = await setup.readAll()
  // Between them others may be missing.
  expect({ ...compared(ids, readable), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 1 })
})

test('lookback: a skip of two unreadable entries beyond the newest one finds late entries before it', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  const at = START - 9 * MINUTE
  harness.add(5, at - MINUTE)
  for (const second of [0, 1]) harness.mock.add({ at: at + second * SECOND, visibleAt: 0, defect: 'poison' })
  harness.mock.add({ at: at + 2_900, visibleAt: 0 })
  await harness.live(START + HOUR)
  const late = harness.mock.add({ at: at + 2_000, visibleAt: START + 2 * HOUR }).id
  await harness.live(START + 9 * HOUR)
  expect(await harness.ids()).toContain(late)
})

test('an answer that breaks off while an unreadable entry is skipped is not quarantined', async () => {
  const harness = await openHarness({ wrap: breaking(1, 2) })
  harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0 })
  harness.mock.add({ at: START - 9 * MINUTE + 1, visibleAt: 0, defect: 'poison' })
  harness.add(5)
  await harness.drain()
  // The bytes of its page, and no others.
  expect(harness.journal.stats().quarantined).toBe(1)
})

test('a search far after an unreadable entry that finds nothing does not hide an entry right after it', async () => {
  const harness = await openHarness({ source: { once: true } })
  const at = START - 9 * MINUTE
  const before = harness.add(5, at - MINUTE)
  // As far as the step past the second one reaches, there is nothing more.
  for (const second of [0, 1]) harness.mock.add({ at: at + second * SECOND, visibleAt: 0, defect: 'poison' })
  const last = harness.mock.add({ at: at + 2 * SECOND, visibleAt: 0 }).id
  for (let i = 0; i < 100 && !harness.source.plan(harness.cursor).caughtUp; i++) await harness.try()
  expect(await harness.ids()).toEqual([...before, last])
})

test('an entry over max_entry_bytes that `search` meets while skipping is quarantined and skipped too', async () => {
  const harness = await openHarness({ source: { maxEntryBytes: 1_000 } })
  const at = START - 9 * MINUTE
  const before = harness.add(2, at - SECOND)
  harness.mock.add({ at, visibleAt: 0, defect: 'poison' })
  harness.mock.add({ at: at + SECOND, visibleAt: 0, data: { text: 'x'.repeat(100_000) } })
  const after = harness.add(2)
  await harness.live(START + 10 * MINUTE)
  expect(await harness.ids()).toEqual([...before, ...after])
  // The page of the first, and `search`'s answers of both.
  expect(harness.journal.stats()).toMatchObject({ quarantined: 3, gaps: 1 })
})

test.each(['poison', 'no_id'] as const)(
  'an entry in the second of an unusable first entry (%s) is read if `latest` shows it, however many follow',
  async (defect) => {
    const harness = await openHarness()
    const at = START - 9 * MINUTE
    harness.mock.add({ at, visibleAt: 0, defect })
    const shown = harness.mock.add({ at: at + 300, visibleAt: 0 }).id
    await harness.live(START + HOUR)
    const later = harness.add(3)
    await harness.live(START + 8 * HOUR)
    expect(await harness.ids()).toEqual([shown, ...later])
    expect(harness.reporter.gaps).toBe(1)
  },
)

test('an entry that `latest` shows in the second of an unreadable one is read, without a gap if nothing else is in between', async () => {
  const harness = await openHarness()
  const at = START - 9 * MINUTE
  const before = harness.add(5, at - SECOND)
  harness.mock.add({ at, visibleAt: 0, defect: 'poison' })
  const shown = harness.mock.add({ at: at + 300, visibleAt: 0 }).id
  await harness.live(START + HOUR)
  const later = harness.add(3)
  await harness.live(START + 8 * HOUR)
  expect(await harness.ids()).toEqual([...before, shown, ...later])
  expect(harness.reporter.gaps).toBe(0)
})

test.each([0, 5])(
  'an entry without a readable time between two unreadable ones, after %i others, does not restart reading',
  async (count) => {
    const harness = await openHarness()
    const at = START - 9 * MINUTE
    const before = harness.add(count, at - 3 * MINUTE)
    if (count > 0) harness.mock.add({ at, visibleAt: 0, defect: 'poison' })
    harness.mock.add({ at: at + SECOND, visibleAt: 0, defect: 'bad_time' })
    harness.mock.add({ at: at + SECOND + 300, visibleAt: 0, defect: 'poison' })
    const after = [5, 6, 7].map((i) => harness.mock.add({ at: at + i * SECOND, visibleAt: 0 }).id)
    harness.asked()
    await harness.live(START + HOUR)
    expect((await harness.ids()).toSorted()).toEqual([...before, ...after].toSorted())
    expect(harness.reporter.gaps).toBeLessThanOrEqual(2)
    expect(endpoints(harness.asked()).filter((name) => name === 'earliest').length).toBeLessThan(5)
  },
)

test('an unreadable entry with a readable time is skipped in one step, however far ahead it is', async () => {
  const harness = await openHarness()
  const at = START - 3 * HOUR
  const before = harness.add(5, at - SECOND)
  harness.mock.add({ at, visibleAt: 0, defect: 'poison' })
  harness.mock.add({ at: at + HOUR, visibleAt: 0, defect: 'no_id' })
  const after = [2, 3].map((i) => harness.mock.add({ at: at + HOUR + i * SECOND, visibleAt: 0 }).id)
  await harness.drain()
  expect(await harness.ids()).toEqual([...before, ...after])
  expect(endpoints(harness.asked()).filter((name) => name === 'search').length).toBeLessThan(14)
})
