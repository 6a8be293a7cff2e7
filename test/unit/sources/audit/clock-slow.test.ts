// Our clock is slow and the server sends no Date: entries of now
// seem to be in the future, and are read all the same (invariant 7).
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { HOUR, MINUTE, START, openHarness } from '../../app/audit-harness.ts'

test.each([
  { slowMs: HOUR, name: 'an hour, as a summer time that was not taken' },
  { slowMs: 14 * HOUR, name: '14 hours, as a local time that was taken for UTC' },
])('without a server clock nothing stays unread if our clock is slow by $name', async ({ slowMs }) => {
  const harness = await openHarness({ switches: { date_header: 'off', clock_skew_ms: slowMs } })
  harness.add(5, START + slowMs - 2 * HOUR)
  await harness.live(START + MINUTE)
  const fresh: string[] = []
  for (let i = 0; i < 40; i++) {
    fresh.push(harness.mock.add({ at: harness.clock.now() + slowMs, visibleAt: 0 }).id)
    await harness.live(harness.clock.now() + 6 * MINUTE)
    expect(await harness.ids()).toContain(fresh.at(-1))
  }
  expect(harness.reporter.gaps).toBe(0)
})

test('a slow clock does not delay the search for a purged cursor', async () => {
  const slowMs = 14 * HOUR
  const harness = await openHarness({ switches: { date_header: 'off', clock_skew_ms: slowMs } })
  const oldest = harness.add(5, START + slowMs - 2 * HOUR)
  await harness.live(START + MINUTE)
  // This many entries ahead of our clock prove it wrong.
  const known = harness.add(20, START + slowMs)
  await harness.live(START + 7 * MINUTE)
  harness.mock.purge([...oldest, ...known])
  const fresh = harness.add(5, START + slowMs + 10 * MINUTE)
  await harness.live(START + 20 * MINUTE)
  expect(await harness.ids()).toEqual(expect.arrayContaining(fresh))
  expect(harness.reporter.gaps).toBe(1)
})

test.each([2, 5])(
  'pages of at most %d entries also show that our clock is slow, before reading starts',
  async (page_cap) => {
    const slowMs = 14 * HOUR
    const harness = await openHarness({ switches: { date_header: 'off', clock_skew_ms: slowMs, page_cap } })
    const known = harness.add(30, START + slowMs - HOUR)
    await harness.live(START + 10 * MINUTE)
    expect(harness.state().head).not.toBeNull()
    expect(await harness.ids()).toEqual(known)
  },
)

test('without a server clock `start: latest` ships no older entry that a slow clock takes for the future', async () => {
  const slowMs = 14 * HOUR
  const harness = await openHarness({
    source: { start: { kind: 'latest' } },
    switches: { date_header: 'off', clock_skew_ms: slowMs },
  })
  const before = harness.add(50, START + slowMs - HOUR)
  await harness.live(START + MINUTE)
  for (let i = 0; i < 12; i++) {
    const { id } = harness.mock.add({ at: harness.clock.now() + slowMs, visibleAt: 0 })
    await harness.live(harness.clock.now() + 6 * MINUTE)
    expect(await harness.ids()).toContain(id)
  }
  const ids = new Set(await harness.ids())
  expect(before.filter((id) => ids.has(id))).toEqual([])
})

/** `page` answers the pages instead of the API. */
const paging =
  (page: () => HttpReply) =>
  (send: Transport): Transport =>
  (request, signal) =>
    request.url.includes('from=') ? Promise.resolve(page()) : send(request, signal)

const reply = (text: string): HttpReply => ({
  ...{ status: 200, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    yield Buffer.from(text)
  })(),
})

test('a failed page says nothing about the clocks: it is reported, and `start: latest` does not start', async () => {
  const harness = await openHarness({
    source: { start: { kind: 'latest' } },
    switches: { date_header: 'off' },
    wrap: paging(() => reply('[{"id":')),
  })
  harness.mock.add({ at: START + 5 * HOUR, visibleAt: 0 })
  // The first step determines the start.
  expect(await harness.try()).toMatchObject({ code: 'bad_reply' })
  expect(harness.state()).toMatchObject({ startUs: null, head: null })
})

test('in an unordered log, an entry of now after a first entry dated in the future is read', async () => {
  const ofNow = '{"id":"0b","timestamp":"2026-11-17T09:59:00.000000","type":"auth:login"}'
  const harness = await openHarness({
    switches: { date_header: 'off' },
    wrap: paging(() => reply(`[${ofNow}]`)),
  })
  const ahead = harness.mock.add({ at: START + 5 * HOUR, visibleAt: 0 }).id
  await harness.step()
  expect(harness.state().head?.id).toBe(ahead)
  await harness.live(START + MINUTE)
  expect(await harness.ids()).toContain('0b')
})

test.each((['earliest', 'latest'] as const).flatMap((kind) => [0, 3, 8].map((good) => ({ kind, good }))))(
  'an unreadable entry after $good others does not hide that our clock is slow (start: $kind)',
  async ({ kind, good }) => {
    const slowMs = 14 * HOUR
    const harness = await openHarness({
      source: { start: { kind } },
      switches: { date_header: 'off', clock_skew_ms: slowMs },
    })
    const at = START + slowMs - 2 * HOUR
    const begun = kind === 'earliest' ? harness.add(good + 1, at) : []
    if (kind === 'latest') harness.add(good + 1, at)
    harness.mock.add({ at: at + good * 1000 + 60_000, visibleAt: 0, defect: 'poison' })
    const behind = harness.add(30, at + good * 1000 + 120_000)
    await harness.live(START + 20 * MINUTE)
    expect(harness.state().head).not.toBeNull()
    const fresh = harness.mock.add({ at: harness.clock.now() + slowMs, visibleAt: 0 }).id
    await harness.live(harness.clock.now() + 6 * MINUTE)
    const wanted = kind === 'earliest' ? [...begun, ...behind, fresh] : [fresh]
    expect(await harness.ids()).toEqual(expect.arrayContaining(wanted))
    expect(harness.state().ahead).toBeUndefined()
  },
)

test('an unreadable entry dated in the future is skipped, and entries of now are read', async () => {
  const harness = await openHarness({ switches: { date_header: 'off' } })
  const ahead = [harness.mock.add({ at: START + 5 * HOUR, visibleAt: 0 }).id]
  harness.mock.add({ at: START + 5 * HOUR + 60_000, visibleAt: 0, defect: 'poison' })
  ahead.push(harness.mock.add({ at: START + 5 * HOUR + 120_000, visibleAt: 0 }).id)
  await harness.live(START + 20 * MINUTE)
  expect(harness.state().head).toBeNull()
  for (let i = 0; i < 5; i++) {
    const { id } = harness.mock.add({ at: harness.clock.now(), visibleAt: 0 })
    await harness.live(harness.clock.now() + 6 * MINUTE)
    expect(await harness.ids()).toContain(id)
  }
  expect(await harness.ids()).toContain(ahead[0])
})
