// A span of the audit log's past: complete, without duplicates, and with an end, whatever
// the server does. With the real reader, client and rate limiter against the mock.
import { expect, test } from 'vitest'
import { AGENT, DAY, driven, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { compared, jsonReply, openRangeSetup, spread } from './range-setup.ts'
import type { RangeSetup } from './range-setup.ts'

test.each([
  { name: 'as it is', setup: {} },
  { name: 'where from is answered too', setup: { switches: { from: 'inclusive' } } },
  { name: 'where pages are sent again', setup: { faults: { repeated_page: { nth: [3, 4] } } } },
  {
    name: 'where from is answered too and pages are sent again',
    setup: { switches: { from: 'inclusive' }, faults: { repeated_page: { nth: [3, 4] } } },
  },
  { name: 'where elements come twice', setup: { faults: { duplicated: 1 } } },
  { name: 'where pages are empty by mistake', setup: { faults: { empty_page: { nth: [3, 6] } } } },
  { name: 'where every fetch is an entry', setup: { switches: { self_audit: 'all' } } },
  { name: 'where answers break off', setup: { faults: { cut: 0.3, error_500: 0.2 } } },
] as { name: string; setup: RangeSetup }[])(
  'a span is read completely and without duplicates, $name',
  async ({ setup }) => {
    const at = openRangeSetup(setup)
    spread(at, 4_500)
    const { ids, gaps } = await at.readAll()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 0 })
  },
)

test('a span older than a year is read from the earliest entry on, and only the span is returned', async () => {
  const at = openRangeSetup({ from: START - 400 * DAY, to: START - 390 * DAY })
  for (let day = 420; day > 380; day--) at.mock.add({ at: START - day * DAY + HOUR, visibleAt: 0 })
  const { ids } = await at.readAll()
  expect(compared(ids, at.expected())).toEqual({ missing: 0, strange: 0, twice: 0 })
  expect(at.expected()).toHaveLength(10)
})

test.each([
  ['on', HOUR / 2],
  ['off', HOUR / 2],
  ['on', 2 * HOUR],
] as const)(
  'own fetches do not keep a range read going, with the server’s clock behind ours (Date: %s, by %d ms)',
  async (date_header, ahead) => {
    const switches = { self_audit: 'all', date_header } as const
    const at = openRangeSetup({ switches, to: START + HOUR, ahead })
    for (let i = 50; i > 0; i--) at.mock.add({ at: START - i * MINUTE, visibleAt: 0 })
    const { steps } = await at.readAll(20)
    expect(steps).toBeLessThan(6)
  },
)

test('progress is the time of the last entry read, and at the end the end of the span', async () => {
  const at = openRangeSetup({ to: START - HOUR })
  spread(at, 4_500)
  const times = new Map(at.mock.entries().map(({ id, atUs }) => [id, atUs]))
  const unlogged = -1
  at.reporter.cursorUs = unlogged
  const reported: [number, number | undefined][] = []
  while (!at.range.plan(at.cursorOf()).caughtUp) {
    await driven(at.clock, at.step())
    const lastUs = times.get(at.read.ids.at(-1) ?? '')
    if (at.reporter.cursorUs !== unlogged) reported.push([at.reporter.cursorUs, lastUs])
  }
  expect(reported.pop()?.[0]).toBe((START - HOUR) * 1000)
  expect(reported.length).toBeGreaterThan(1)
  for (const [atUs, lastUs] of reported) expect(atUs).toBe(lastUs)
})

test('a span without entries ends at once', async () => {
  const at = openRangeSetup({ from: START - 3 * DAY, to: START - 2 * DAY })
  at.mock.add({ at: START - HOUR, visibleAt: 0 })
  expect(await at.readAll()).toEqual({ ids: [], gaps: 0, malformed: 0, steps: 1 })
})

test.each(['404', '400', '410', '422', 'empty', '204'] as const)(
  'a cursor purged during the read (%s) is found again by time',
  async (gone) => {
    const at = openRangeSetup({ switches: { gone } })
    spread(at, 3_000, DAY)
    for (let i = 0; i < 3; i++) await driven(at.clock, at.step())
    at.mock.purge([at.read.ids.at(-1) ?? ''])
    const { ids } = await at.readAll()
    expect(compared(ids, at.expected())).toEqual({ missing: 0, strange: 0, twice: 0 })
  },
)

test('an unreadable entry is quarantined and skipped without a gap, and entries after it are read', async () => {
  const at = openRangeSetup()
  spread(at, 600, DAY)
  const poison = at.mock.add({ at: START - 5 * HOUR, visibleAt: 0, defect: 'poison' })
  const { ids, gaps, malformed } = await at.readAll()
  const readable = at.expected().filter((id) => id !== poison.id)
  expect(compared(ids, readable)).toEqual({ missing: 0, strange: 0, twice: 0 })
  expect({ gaps, malformed }).toEqual({ gaps: 0, malformed: 1 })
})

test('malformed elements are returned apart, each once', async () => {
  const at = openRangeSetup({ switches: { from: 'inclusive' } })
  spread(at, 1_500, DAY)
  for (let i = 1; i <= 5; i++) at.mock.add({ at: START - i * 3 * HOUR, visibleAt: 0, defect: 'no_id' })
  const { ids, malformed } = await at.readAll()
  expect(malformed).toBe(5)
  expect(new Set(ids).size).toBe(ids.length)
})

test.each([2, 3])(
  'a page %d that belongs to another request, entirely after the span, does not end it',
  async (nth) => {
    let pages = 0
    const others: string[] = []
    const at = openRangeSetup({
      ...{ from: START - 3 * DAY, to: START - DAY },
      wrap: (send) => (request, signal) => {
        const isOthers = request.url.includes('from=') && ++pages === nth
        const url = isOthers ? request.url.replace(/from=[^&]*/, `from=${others[0]}`) : request.url
        return send({ ...request, url }, signal)
      },
    })
    for (let i = 0; i < 3_500; i++) at.mock.add({ at: START - 3 * DAY + i * 40 * SECOND, visibleAt: 0 })
    for (let i = 0; i < 20; i++) others.push(at.mock.add({ at: START - (20 - i) * MINUTE, visibleAt: 0 }).id)
    const { ids, gaps } = await at.readAll()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 0 })
  },
)

test('a range read continues from its cursor alone', async () => {
  const at = openRangeSetup()
  spread(at, 3_000, DAY)
  for (let i = 0; i < 2; i++) await driven(at.clock, at.step())
  expect(Buffer.byteLength(JSON.stringify({ cursor: at.cursorOf() }))).toBeLessThan(60_000)
  const { ids } = await at.readAll()
  expect(compared(ids, at.expected())).toEqual({ missing: 0, strange: 0, twice: 0 })
})

test('a wrongly empty page is no end if the next entries are malformed', async () => {
  let pages = 0
  const at = openRangeSetup({
    wrap: (send) => async (request, signal) =>
      request.url.includes('from=') && ++pages === 2 ? jsonReply('[]') : send(request, signal),
  })
  for (let i = 0; i < 3_000; i++) {
    const malformed = i >= 1001 && i <= 1003 ? { defect: 'no_id' as const } : {}
    at.mock.add({ at: START - DAY + i * 20 * SECOND, visibleAt: 0, ...malformed })
  }
  const { ids, gaps, malformed } = await at.readAll()
  const readable = at.mock.entries().filter(({ raw }) => Buffer.from(raw).includes('"id"'))
  const wanted = readable.map(({ id }) => id)
  expect({ ...compared(ids, wanted), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 0 })
  expect(malformed).toBe(3)
})

test.each([1, 3, Infinity])(
  'a wrongly empty page is no end if the proving `search` breaks off %d times',
  async (most) => {
    let pages = 0
    let searches = 0
    const at = openRangeSetup({
      wrap: (send) => async (request, signal) => {
        if (request.url.includes('from=') && ++pages === 2) return jsonReply('[]')
        if (request.url.includes('search') && ++searches > 1 && searches <= 1 + most)
          return jsonReply('{"log":{"id":"abc","timest')
        return send(request, signal)
      },
    })
    for (let i = 0; i < 3_000; i++) at.mock.add({ at: START - DAY + i * 20 * SECOND, visibleAt: 0 })
    const { ids, gaps } = await at.readAll()
    expect(compared(ids, at.expected())).toEqual({ missing: 0, strange: 0, twice: 0 })
    // `latest` proves it too.
    expect(gaps).toBe(0)
  },
)

test.each([
  ['on', 0],
  ['off', 0],
  ['on', 2 * HOUR],
] as const)(
  'own fetches of an earlier backfill are no end, however few entries a page has (Date: %s, our clock ahead by %d ms)',
  async (date_header, ahead) => {
    const at = openRangeSetup({ switches: { date_header }, ahead })
    for (let i = 0; i < 900; i++) {
      const own = i % 3 > 0 ? { type: 'api:audit_log_fetch', userAgent: AGENT } : {}
      at.mock.add({ at: START - DAY + i * MINUTE, visibleAt: 0, ...own })
    }
    const poison = {
      at: START - 20 * HOUR + 4 * MINUTE + 5 * SECOND,
      visibleAt: 0,
      defect: 'poison',
    } as const
    const { id: unreadable } = at.mock.add(poison)
    const { ids, gaps } = await at.readAll(800)
    const readable = at.expected().filter((id) => id !== unreadable)
    expect({ ...compared(ids, readable), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 0 })
  },
)

test('own earlier fetches that fill a small page are no end: entries after the bad one are read', async () => {
  // Without the server's clock, fetches of the last hour may be those of this read itself.
  const at = openRangeSetup({ switches: { date_header: 'off' } })
  const own = { type: 'api:audit_log_fetch', userAgent: AGENT, visibleAt: 0 }
  const from = START - 50 * MINUTE
  at.mock.add({ at: from, visibleAt: 0 })
  for (let i = 1; i <= 3; i++) at.mock.add({ ...own, at: from + i * SECOND })
  const poison = at.mock.add({ at: from + MINUTE, visibleAt: 0, defect: 'poison' })
  for (let i = 2; i <= 40; i++) at.mock.add({ at: from + i * MINUTE, visibleAt: 0 })
  const { ids, gaps } = await at.readAll()
  const readable = at.expected().filter((id) => id !== poison.id)
  expect({ ...compared(ids, readable), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 0 })
})

test('a page of only own fetches of the last hour is no end without a server clock, since others may follow', async () => {
  const at = openRangeSetup({ switches: { date_header: 'off', page_cap: 10 } })
  const own = { type: 'api:audit_log_fetch', userAgent: AGENT, visibleAt: 0 }
  at.mock.add({ at: START - 55 * MINUTE, visibleAt: 0 })
  for (let i = 0; i < 30; i++) at.mock.add({ ...own, at: START - 50 * MINUTE + i * MINUTE })
  for (let i = 0; i < 5; i++) at.mock.add({ at: START - 10 * MINUTE + i, visibleAt: 0 })
  const { ids, gaps } = await at.readAll()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 0 })
})
