// The way past an entry that stays unreadable: an answer on it that breaks off takes nothing readable with it, whoever reads (invariant 6).
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { DAY, HOUR, MINUTE, SECOND, START, endpoints, openDesk } from '../../app/desk.ts'
import { compared, openRangeStand } from './range-stand.ts'

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
  'live reading: `search` that breaks off $most times, from request $first on, hides nothing behind an unreadable entry, and is no gap',
  async ({ first, most }) => {
    const desk = await openDesk({ wrap: breaking(first, most) })
    const at = START - 9 * MINUTE
    const before = desk.add(5, at - SECOND)
    desk.mock.add({ at, visibleAt: 0, defect: 'poison' })
    const after = [1, 2, 3, 4, 5].map((i) => desk.mock.add({ at: at + i * SECOND, visibleAt: 0 }).id)
    await desk.drain()
    expect(new Set(await desk.ids())).toEqual(new Set([...before, ...after]))
    expect(desk.reporter.gaps).toBe(0)
  },
)

test.each([1, 2])(
  'the beginning: `search` that breaks off %d times widens no gap where the first entry of all is unreadable',
  async (most) => {
    const from = START - HOUR
    const start = { kind: 'time', atUs: from * 1000 } as const
    // Ten answers make the first entry an unreadable one, the eleventh shows that others are read: the next is the first on the way past it.
    const desk = await openDesk({ source: { start }, wrap: breaking(12, most) })
    desk.mock.add({ at: from, visibleAt: 0, defect: 'poison' })
    const after = [1, 2, 3, 4, 5].map((i) => desk.mock.add({ at: from + i * SECOND, visibleAt: 0 }).id)
    await desk.drain()
    expect(new Set(await desk.ids())).toEqual(new Set(after))
    expect(desk.reporter.gaps).toBe(1)
  },
)

test.each([1, 2])(
  'a place that is found again by time: `search` that breaks off %d times is asked once more',
  async (most) => {
    const desk = await openDesk({ wrap: breaking(1, most) })
    const known = desk.add(5)
    await desk.live(START + MINUTE)
    desk.mock.purge(known)
    // In the very second of the entry that is gone.
    const fresh = [1, 2].map((i) => desk.mock.add({ at: START + i, visibleAt: 0 }).id)
    await desk.live(START + 20 * MINUTE)
    expect(await desk.ids()).toEqual([...known, ...fresh])
    expect(desk.reporter.gaps).toBe(1)
  },
)

test.each([
  { name: 'pages that broke off before it', pages: 2, searches: ['broken', 'broken'] },
  {
    name: 'answers that broke off before one that shows nothing',
    searches: ['broken', 'broken', 'none', 'broken'],
  },
])(
  'a place that is found again by time is asked for three times in a row before it is passed: $name do not count',
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
    const desk = await openDesk({ wrap })
    const known = desk.add(5)
    await desk.live(START + MINUTE)
    desk.mock.purge(known)
    Object.assign(left, { pages, searches: [...searches] })
    // In the very second of the entry that is gone.
    const fresh = [1, 2].map((i) => desk.mock.add({ at: START + i, visibleAt: 0 }).id)
    fresh.push(desk.mock.add({ at: START + 2 * MINUTE, visibleAt: 0 }).id)
    await desk.live(START + 20 * MINUTE)
    expect(left.searches).toEqual([])
    expect(await desk.ids()).toEqual([...known, ...fresh])
    expect(desk.reporter.gaps).toBe(1)
  },
)

test.each(strikes)(
  'the past: `search` that breaks off $most times, from request $first on, hides nothing behind an unreadable entry, and is no gap',
  async ({ first, most }) => {
    const from = START - 20 * DAY
    // The first `search` finds the beginning.
    const stand = openRangeStand({ from, to: from + DAY, wrap: breaking(first + 1, most) })
    const at = from + HOUR
    for (let i = 5; i > 0; i--) stand.mock.add({ at: at - i * SECOND, visibleAt: 0 })
    const { id } = stand.mock.add({ at, visibleAt: 0, defect: 'poison' })
    for (let i = 1; i <= 5; i++) stand.mock.add({ at: at + i * SECOND, visibleAt: 0 })
    stand.mock.add({ at: START - MINUTE, visibleAt: 0 })
    const readable = stand.expected().filter((one) => one !== id)
    const { ids, gaps } = await stand.walk()
    expect({ ...compared(ids, readable), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 0 })
  },
)

test.each([0, 1, 2])(
  'the sweep finds what is late right behind an unreadable entry, though `search` breaks off %d times',
  async (most) => {
    // Live reading's first way past it takes some requests of its own.
    let isSwept = false
    const wrap = (send: Transport): Transport => {
      const broken = breaking(1, most)(send)
      return (request, signal) => (isSwept ? broken : send)(request, signal)
    }
    const desk = await openDesk({ source: { lookbackMs: DAY }, wrap })
    const at = START - 9 * MINUTE
    desk.add(5, at - MINUTE)
    desk.mock.add({ at, visibleAt: 0, defect: 'poison' })
    desk.add(5)
    await desk.live(START + HOUR)
    isSwept = true
    const late = desk.mock.add({ at: at + SECOND, visibleAt: START + 2 * HOUR }).id
    await desk.live(START + 9 * HOUR)
    expect(await desk.ids()).toContain(late)
    expect(desk.reporter.gaps).toBe(0)
  },
)

test('the past: a step past three unreadable entries that leads beyond the end of the span leaves out nothing before that end', async () => {
  const from = START - 20 * DAY
  const at = from + HOUR
  const stand = openRangeStand({ from, to: at + 6 * SECOND })
  stand.mock.add({ at: at - SECOND, visibleAt: 0 })
  const bad = [0, 1, 2].map(
    (second) => stand.mock.add({ at: at + second * SECOND, visibleAt: 0, defect: 'poison' }).id,
  )
  stand.mock.add({ at: at + 4 * SECOND, visibleAt: 0 })
  stand.mock.add({ at: START - MINUTE, visibleAt: 0 })
  const readable = stand.expected().filter((id) => !bad.includes(id))
  const { ids, gaps } = await stand.walk()
  // Between them others may be missing.
  expect({ ...compared(ids, readable), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 1 })
})

test('lookback: a step past two unreadable entries that leads beyond the newest one finds what is late before that', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY } })
  const at = START - 9 * MINUTE
  desk.add(5, at - MINUTE)
  for (const second of [0, 1]) desk.mock.add({ at: at + second * SECOND, visibleAt: 0, defect: 'poison' })
  desk.mock.add({ at: at + 2_900, visibleAt: 0 })
  await desk.live(START + HOUR)
  const late = desk.mock.add({ at: at + 2_000, visibleAt: START + 2 * HOUR }).id
  await desk.live(START + 9 * HOUR)
  expect(await desk.ids()).toContain(late)
})

test('what breaks off on the way past an unreadable entry is no malformed element: of it nothing is quarantined', async () => {
  const desk = await openDesk({ wrap: breaking(1, 2) })
  desk.mock.add({ at: START - 9 * MINUTE, visibleAt: 0 })
  desk.mock.add({ at: START - 9 * MINUTE + 1, visibleAt: 0, defect: 'poison' })
  desk.add(5)
  await desk.drain()
  // Its bytes as a page, and no others.
  expect(desk.journal.stats().quarantined).toBe(1)
})

test('nothing found far behind an unreadable entry does not hide what stands right behind it at the end of the log', async () => {
  const desk = await openDesk({ source: { once: true } })
  const at = START - 9 * MINUTE
  const before = desk.add(5, at - MINUTE)
  // As far as the step past the second one goes, there is nothing any more.
  for (const second of [0, 1]) desk.mock.add({ at: at + second * SECOND, visibleAt: 0, defect: 'poison' })
  const last = desk.mock.add({ at: at + 2 * SECOND, visibleAt: 0 }).id
  for (let i = 0; i < 100 && !desk.source.plan(desk.cursor).caughtUp; i++) await desk.try()
  expect(await desk.ids()).toEqual([...before, last])
})

test('an entry over max_entry_bytes that `search` meets on the way past an unreadable one is quarantined and passed too', async () => {
  const desk = await openDesk({ source: { maxEntryBytes: 1_000 } })
  const at = START - 9 * MINUTE
  const before = desk.add(2, at - SECOND)
  desk.mock.add({ at, visibleAt: 0, defect: 'poison' })
  desk.mock.add({ at: at + SECOND, visibleAt: 0, data: { text: 'x'.repeat(100_000) } })
  const after = desk.add(2)
  await desk.live(START + 10 * MINUTE)
  expect(await desk.ids()).toEqual([...before, ...after])
  // The page of the first, and `search`'s answers of both.
  expect(desk.journal.stats()).toMatchObject({ quarantined: 3, gaps: 1 })
})

test.each(['poison', 'no_id'] as const)(
  'what `latest` shows in the very second of a first entry that cannot be gone on from (%s) is read, however much comes behind it',
  async (defect) => {
    const desk = await openDesk()
    const at = START - 9 * MINUTE
    desk.mock.add({ at, visibleAt: 0, defect })
    const shown = desk.mock.add({ at: at + 300, visibleAt: 0 }).id
    await desk.live(START + HOUR)
    const later = desk.add(3)
    await desk.live(START + 8 * HOUR)
    expect(await desk.ids()).toEqual([shown, ...later])
    expect(desk.reporter.gaps).toBe(1)
  },
)

test('what `latest` shows in the very second of an entry that stays unreadable is read, without a gap where nothing else stands between them', async () => {
  const desk = await openDesk()
  const at = START - 9 * MINUTE
  const before = desk.add(5, at - SECOND)
  desk.mock.add({ at, visibleAt: 0, defect: 'poison' })
  const shown = desk.mock.add({ at: at + 300, visibleAt: 0 }).id
  await desk.live(START + HOUR)
  const later = desk.add(3)
  await desk.live(START + 8 * HOUR)
  expect(await desk.ids()).toEqual([...before, shown, ...later])
  expect(desk.reporter.gaps).toBe(0)
})

test.each([0, 5])(
  'an entry without a readable time that stands between two unreadable ones, behind %i others, sends nobody back to the beginning',
  async (count) => {
    const desk = await openDesk()
    const at = START - 9 * MINUTE
    const before = desk.add(count, at - 3 * MINUTE)
    if (count > 0) desk.mock.add({ at, visibleAt: 0, defect: 'poison' })
    desk.mock.add({ at: at + SECOND, visibleAt: 0, defect: 'bad_time' })
    desk.mock.add({ at: at + SECOND + 300, visibleAt: 0, defect: 'poison' })
    const after = [5, 6, 7].map((i) => desk.mock.add({ at: at + i * SECOND, visibleAt: 0 }).id)
    desk.asked()
    await desk.live(START + HOUR)
    expect((await desk.ids()).toSorted()).toEqual([...before, ...after].toSorted())
    expect(desk.reporter.gaps).toBeLessThanOrEqual(2)
    expect(endpoints(desk.asked()).filter((name) => name === 'earliest').length).toBeLessThan(5)
  },
)

test('what cannot be read either, but tells its own time, is stepped over in one step, however far ahead that is', async () => {
  const desk = await openDesk()
  const at = START - 3 * HOUR
  const before = desk.add(5, at - SECOND)
  desk.mock.add({ at, visibleAt: 0, defect: 'poison' })
  desk.mock.add({ at: at + HOUR, visibleAt: 0, defect: 'no_id' })
  const after = [2, 3].map((i) => desk.mock.add({ at: at + HOUR + i * SECOND, visibleAt: 0 }).id)
  await desk.drain()
  expect(await desk.ids()).toEqual([...before, ...after])
  expect(endpoints(desk.asked()).filter((name) => name === 'search').length).toBeLessThan(14)
})
