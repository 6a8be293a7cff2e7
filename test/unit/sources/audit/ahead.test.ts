// Entries dated in the future by mistake: they are shipped, and
// do not stop anything else from being read (invariants 6 and 7).
import { expect, test } from 'vitest'
import { HOUR, MINUTE, START, endpoints, openHarness } from '../../app/audit-harness.ts'
import type { Harness, HarnessOptions } from '../../app/audit-harness.ts'

const AHEAD = START + 5 * HOUR

/** Adds entries now and then, each to be read before the next. Returns how many were not. */
async function unreadOf(harness: Harness, entries = 10): Promise<number> {
  const fresh: string[] = []
  for (let i = 0; i < entries; i++) {
    fresh.push(harness.mock.add({ at: harness.clock.now(), visibleAt: 0 }).id)
    await harness.live(harness.clock.now() + 6 * MINUTE)
  }
  const met = new Set(await harness.ids())
  return fresh.filter((id) => !met.has(id)).length
}

async function* emptyPage() {
  yield Buffer.from('[]')
}

const manners = (['exclusive', 'inclusive'] as const).flatMap((from) =>
  [0, 48 * HOUR].flatMap((lookbackMs) =>
    (['on', 'off'] as const).map((date) => ({
      from,
      lookbackMs,
      date,
      switches: { from, date_header: date },
    })),
  ),
)
const reported = manners.filter(({ date }) => date === 'on')

test.each(manners.flatMap((manner) => [1, 2, 5].map((count) => ({ ...manner, count }))))(
  'live reading continues before $count entries dated in the future (from $from, lookback $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs, count }) => {
    const harness = await openHarness({ source: { lookbackMs }, switches })
    // One entry: each page starts at the head, and no page so far was larger than what is ahead.
    harness.add(1)
    await harness.live(START + MINUTE)
    const ahead = Array.from(
      { length: count },
      (_, i) => harness.mock.add({ at: AHEAD + i, visibleAt: 0 }).id,
    )
    await harness.live(START + 20 * MINUTE)
    expect(harness.state().caughtUp).toBe(true)
    expect(harness.state().head?.at).toBe(START * 1000)
    harness.asked()
    await harness.live(START + 80 * MINUTE)
    // Such an entry costs a quiet poll nothing: twelve polls, and the requests of lookback.
    expect(
      endpoints(harness.asked()).filter((name) => name === 'page' || name === 'latest').length,
    ).toBeLessThan(20)
    expect(await unreadOf(harness)).toBe(0)
    expect(await harness.ids()).toEqual(expect.arrayContaining(ahead))
    expect(harness.reporter.gaps).toBe(0)
    expect(harness.state().headUs).toBeLessThanOrEqual(harness.clock.now() * 1000)
  },
)

/** Pages are cut in the middle while `isOn`. */
const cutWhile =
  (isOn: () => boolean): NonNullable<HarnessOptions['wrap']> =>
  (send) =>
  async (request, signal) => {
    const reply = await send(request, signal)
    if (!isOn() || !request.url.includes('from=')) return reply
    return { ...reply, body: cutPage() }
  }

async function* cutPage() {
  yield Buffer.from('[{"id":')
}

test.each(manners.flatMap((manner) => [1, 2].map((count) => ({ ...manner, count }))))(
  'after an outage made pages small, $count entries dated in the future do not lead the cursor ahead (from $from, lookback $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs, count }) => {
    const outage = { on: false }
    const harness = await openHarness({ source: { lookbackMs }, switches, wrap: cutWhile(() => outage.on) })
    harness.add(1)
    await harness.live(START + MINUTE)
    for (let i = 0; i < count; i++) harness.mock.add({ at: AHEAD + i, visibleAt: 0 })
    for (let tries = 1; tries <= 11; tries++) {
      outage.on = true
      while (harness.clock.advance(harness.clock.now() + 6 * MINUTE));
      for (let i = 0; i < tries; i++) await harness.try()
      outage.on = false
      await harness.live(harness.clock.now() + 6 * MINUTE)
    }
    expect(await unreadOf(harness)).toBe(0)
    expect(harness.reporter.gaps).toBe(0)
  },
)

test('entries dated in the future that fill no page are no proof that our clock is slow, however many', async () => {
  const harness = await openHarness()
  harness.add(200, START - HOUR)
  await harness.live(START + MINUTE)
  for (let i = 0; i < 30; i++) harness.mock.add({ at: AHEAD + i, visibleAt: 0 })
  await harness.live(START + 20 * MINUTE)
  expect(harness.state().head?.at).toBe((START - HOUR) * 1000)
  expect(await unreadOf(harness)).toBe(0)
})

test('malformed elements beside an entry dated in the future are no proof that our clock is slow', async () => {
  const harness = await openHarness()
  harness.add(1)
  await harness.live(START + MINUTE)
  for (let i = 0; i < 12; i++)
    harness.mock.add({ at: START + MINUTE + i, visibleAt: 0, defect: 'no_id', data: { i } })
  harness.mock.add({ at: AHEAD, visibleAt: 0 })
  await harness.live(START + 20 * MINUTE)
  expect(harness.state().head?.at).toBe(START * 1000)
  expect(await unreadOf(harness)).toBe(0)
})

test.each(manners)(
  'a purged cursor does not move past an entry dated in the future (from $from, lookback $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs }) => {
    const harness = await openHarness({ source: { lookbackMs }, switches })
    const known = harness.add(5)
    await harness.live(START + MINUTE)
    harness.mock.purge(known)
    const ahead = harness.mock.add({ at: AHEAD, visibleAt: 0 }).id
    await harness.live(START + 20 * MINUTE)
    expect(await harness.ids()).toContain(ahead)
    expect(await unreadOf(harness)).toBe(0)
    expect(harness.reporter.gaps).toBe(1)
  },
)

test.each(manners)(
  'reading does not continue at an entry dated in the future after an unreadable one (from $from, lookback $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs }) => {
    const harness = await openHarness({ source: { lookbackMs }, switches })
    harness.add(5)
    await harness.live(START + MINUTE)
    harness.mock.add({ at: START + 2 * MINUTE, visibleAt: 0, defect: 'poison' })
    const ahead = harness.mock.add({ at: AHEAD, visibleAt: 0 }).id
    await harness.live(START + 20 * MINUTE)
    expect(await harness.ids()).toContain(ahead)
    expect(await unreadOf(harness)).toBe(0)
    expect(harness.reporter.gaps).toBe(0)
  },
)

test.each(manners)(
  '`start: latest` reads everything new if the latest entry is dated in the future (from $from, lookback $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs }) => {
    const start = { kind: 'latest' } as const
    const harness = await openHarness({ source: { lookbackMs, start }, switches })
    const before = harness.add(5, START - MINUTE)
    harness.mock.add({ at: AHEAD, visibleAt: 0 })
    await harness.live(START + MINUTE)
    expect(harness.state().caughtUp).toBe(true)
    expect(await unreadOf(harness)).toBe(0)
    expect(await harness.ids()).not.toEqual(expect.arrayContaining(before))
    expect(harness.reporter.gaps).toBe(0)
  },
)

test.each(manners)(
  'new entries are read if the log starts with one dated in the future (from $from, lookback $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs }) => {
    const harness = await openHarness({ source: { lookbackMs }, switches })
    const ahead = harness.mock.add({ at: AHEAD, visibleAt: 0 }).id
    await harness.live(START + MINUTE)
    expect(await harness.ids()).toEqual([ahead])
    expect(await unreadOf(harness)).toBe(0)
  },
)

test('without a `Date`, entries hours before a first entry dated in the future do not count as late', async () => {
  const harness = await openHarness({ switches: { date_header: 'off' } })
  const id = '11111111-2222-4333-8444-555555555555'
  const timestamp = new Date(AHEAD).toISOString()
  const raw = Buffer.from(
    JSON.stringify({ id, timestamp, type: 'auth:login', user: 'a@acme.example', data: {} }),
  )
  harness.mock.add({ id, at: START - HOUR, visibleAt: 0, raw })
  const ids = harness.add(5)
  await harness.drain()
  expect(await harness.ids()).toEqual([id, ...ids])
  await harness.live(START + 2 * HOUR)
  harness.add(1)
  await harness.live(START + 3 * HOUR)
  expect(harness.reporter.sum('added')).toBe(7)
  expect(harness.reporter.sum('late')).toBe(0)
})

test('a `latest` dated in the future does not hide a dead cursor that answers empty pages', async () => {
  const harness = await openHarness({ switches: { gone: 'empty' } })
  const known = harness.add(5)
  await harness.live(START + MINUTE)
  harness.mock.purge(known)
  const fresh = harness.add(3)
  harness.mock.add({ at: AHEAD, visibleAt: 0 })
  await harness.live(START + 20 * MINUTE)
  expect(await harness.ids()).toEqual(expect.arrayContaining(fresh))
})

test.each(['exclusive', 'inclusive'] as const)(
  'pages that stay empty by mistake lose no cursor if `latest` and `search` show only an entry dated in the future (from %s)',
  async (from) => {
    let isMistaken = false
    const harness = await openHarness({
      switches: { from },
      wrap: (send) => (request, signal) =>
        isMistaken && request.url.includes('from=')
          ? send({ ...request, url: request.url.replace(/audit\?.*/, 'audit/earliest') }, signal).then(
              (reply) => ({ ...reply, body: emptyPage() }),
            )
          : send(request, signal),
    })
    harness.add(5)
    await harness.live(START + MINUTE)
    harness.mock.add({ at: AHEAD, visibleAt: 0 })
    isMistaken = true
    await harness.live(START + 7 * MINUTE)
    isMistaken = false
    expect(await unreadOf(harness)).toBe(0)
    expect(harness.reporter.gaps).toBe(0)
  },
)

test('an entry dated in the future does not count as the newest entry of a long drain', async () => {
  const harness = await openHarness()
  harness.add(4_500)
  harness.mock.add({ at: AHEAD, visibleAt: 0 })
  await harness.drain()
  expect(harness.state().latestUs).toBeLessThanOrEqual(START * 1000)
})

test('an entry found far before the head does not trigger one lookback after another', async () => {
  // Without the server's clock, an entry dated less than an
  // hour ahead becomes the head, and all others are late.
  const harness = await openHarness({ source: { lookbackMs: 20 * MINUTE }, switches: { date_header: 'off' } })
  harness.add(5)
  await harness.live(START + MINUTE)
  harness.mock.add({ at: START + 58 * MINUTE, visibleAt: 0 })
  await unreadOf(harness)
  harness.asked()
  await harness.live(harness.clock.now() + HOUR)
  expect(harness.asked().length).toBeLessThan(60)
})

test.each(reported)(
  'reading does not continue at a malformed element dated in the future after an unreadable entry (from $from, lookback $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs }) => {
    const harness = await openHarness({ source: { lookbackMs }, switches })
    harness.add(5)
    await harness.live(START + MINUTE)
    harness.mock.add({ at: START + 2 * MINUTE, visibleAt: 0, defect: 'poison' })
    harness.mock.add({ at: AHEAD, visibleAt: 0, defect: 'no_id' })
    await harness.live(START + 20 * MINUTE)
    // The bad one as a page and as a single entry, and the malformed one.
    expect(harness.journal.stats().quarantined).toBe(3)
    expect(await unreadOf(harness)).toBe(0)
    expect(harness.reporter.gaps).toBe(0)
  },
)

test('new entries are read if the log starts with malformed elements, the last dated in the future', async () => {
  const harness = await openHarness()
  harness.mock.add({ at: START - MINUTE, visibleAt: 0, defect: 'no_id' })
  harness.mock.add({ at: AHEAD, visibleAt: 0, defect: 'no_id' })
  await harness.live(START + MINUTE)
  expect(await unreadOf(harness)).toBe(0)
})

test('a `search` that always answers the same malformed element is not repeated for ever', async () => {
  const state = { isOut: false }
  const body = async function* () {
    yield Buffer.from('{"log":{"timestamp":"2026-11-17T10:00:30","type":"auth:login"}}')
  }
  const harness = await openHarness({
    wrap: (send) => (request, signal) =>
      state.isOut && request.url.includes('/search')
        ? Promise.resolve({ status: 200, headers: { 'content-type': 'application/json' }, body: body() })
        : send(request, signal),
  })
  harness.add(5)
  await harness.live(START + MINUTE)
  harness.mock.add({ at: START + 30_000, visibleAt: 0, defect: 'poison' })
  state.isOut = true
  await harness.drain(200)
  harness.asked()
  await harness.live(START + 2 * HOUR)
  expect(harness.asked().length).toBeLessThan(24 * 20)
  state.isOut = false
  expect(await unreadOf(harness)).toBe(0)
})
