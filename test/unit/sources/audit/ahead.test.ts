// Entries dated in the future by mistake: they are shipped, and keep nothing else from being read (invariants 6 and 7).
import { expect, test } from 'vitest'
import { HOUR, MINUTE, START, endpoints, openHarness } from '../../app/audit-harness.ts'
import type { Harness, HarnessOptions } from '../../app/audit-harness.ts'

const AHEAD = START + 5 * HOUR

/** Entries come now and then, and each is read before the next: how many were not. */
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
  'live reading goes on before $count entries dated in the future (from $from, sweep $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs, count }) => {
    const harness = await openHarness({ source: { lookbackMs }, switches })
    // One alone: each page begins at the head, and none before was larger than what is ahead.
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
    // Such an entry costs a quiet poll nothing: twelve of them, and the sweep's own.
    expect(
      endpoints(harness.asked()).filter((name) => name === 'page' || name === 'latest').length,
    ).toBeLessThan(20)
    expect(await unreadOf(harness)).toBe(0)
    expect(await harness.ids()).toEqual(expect.arrayContaining(ahead))
    expect(harness.reporter.gaps).toBe(0)
    expect(harness.state().headUs).toBeLessThanOrEqual(harness.clock.now() * 1000)
  },
)

/** What comes of `from` is cut in its middle while `isOn`. */
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
  'pages that an outage made small let $count entries dated in the future lead no more than large ones (from $from, sweep $lookbackMs, `Date` $date)',
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

test('entries dated in the future that fill no page are no proof that our clock is slow, however many they are', async () => {
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
  'a cursor whose entry is purged is not put behind what is dated in the future (from $from, sweep $lookbackMs, `Date` $date)',
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
  'behind an entry that stays unreadable, what is dated in the future is no place to go on from (from $from, sweep $lookbackMs, `Date` $date)',
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
  'of `latest`, all that comes from then on is read where the latest is dated in the future (from $from, sweep $lookbackMs, `Date` $date)',
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
  'a log that begins with what is dated in the future is read when something comes (from $from, sweep $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs }) => {
    const harness = await openHarness({ source: { lookbackMs }, switches })
    const ahead = harness.mock.add({ at: AHEAD, visibleAt: 0 }).id
    await harness.live(START + MINUTE)
    expect(await harness.ids()).toEqual([ahead])
    expect(await unreadOf(harness)).toBe(0)
  },
)

test('without a `Date` too, what comes hours behind a first entry that is dated in the future is not late', async () => {
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

test('a `latest` that is dated in the future does not hide a cursor that is dead by silence', async () => {
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
  'pages that stay empty by mistake lose no cursor where `latest` and `search` show but what is dated in the future (from %s)',
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

test('what is dated in the future does not count as what a long drain has before it', async () => {
  const harness = await openHarness()
  harness.add(4_500)
  harness.mock.add({ at: AHEAD, visibleAt: 0 })
  await harness.drain()
  expect(harness.state().latestUs).toBeLessThanOrEqual(START * 1000)
})

test('an entry found many times the swept span behind the head makes no storm of sweeps', async () => {
  // Without the server's clock, what is dated less than an hour ahead leads the way, and all else is late by it.
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
  'behind an entry that stays unreadable, a malformed element dated in the future is no place to go on from either (from $from, sweep $lookbackMs, `Date` $date)',
  async ({ switches, lookbackMs }) => {
    const harness = await openHarness({ source: { lookbackMs }, switches })
    harness.add(5)
    await harness.live(START + MINUTE)
    harness.mock.add({ at: START + 2 * MINUTE, visibleAt: 0, defect: 'poison' })
    harness.mock.add({ at: AHEAD, visibleAt: 0, defect: 'no_id' })
    await harness.live(START + 20 * MINUTE)
    // The one as a page and where it is met alone, and the other.
    expect(harness.journal.stats().quarantined).toBe(3)
    expect(await unreadOf(harness)).toBe(0)
    expect(harness.reporter.gaps).toBe(0)
  },
)

test('a log that begins with malformed elements, the last of them dated in the future, is read when something comes', async () => {
  const harness = await openHarness()
  harness.mock.add({ at: START - MINUTE, visibleAt: 0, defect: 'no_id' })
  harness.mock.add({ at: AHEAD, visibleAt: 0, defect: 'no_id' })
  await harness.live(START + MINUTE)
  expect(await unreadOf(harness)).toBe(0)
})

test('a `search` that answers the same malformed element whatever time is asked for is not asked for ever', async () => {
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
