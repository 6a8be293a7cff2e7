// Lookback finds late entries with spare requests, and nothing before the start (invariant 6).
import { expect, it } from 'vitest'
import { DAY, HOUR, MINUTE, SECOND, START, endpoints, openHarness } from '../../app/audit-harness.ts'
import type { Harness, HarnessOptions } from '../../app/audit-harness.ts'

async function wait(harness: Harness, ms: number): Promise<void> {
  while (harness.clock.advance(harness.clock.now() + ms));
}

/** The times requested from `search` since the last call, epoch ms. */
const searchedAt = (harness: Harness): number[] =>
  harness
    .asked()
    .filter(({ endpoint }) => endpoint === 'search')
    .map(({ target }) => Number(new URL(target, 'http://x').searchParams.get('time')) * 1000)

it('lookback finds an entry hours late, and counts it as late', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  const known = harness.add(50, START - SECOND)
  const late = harness.mock.add({ at: START - 30 * SECOND, visibleAt: START + 5 * HOUR }).id
  await harness.live(START + 4 * HOUR)
  harness.add(1)
  await harness.live(START + 12 * HOUR)
  const ids = await harness.ids()
  expect(ids).toContain(late)
  expect(ids.filter((id) => id === late)).toHaveLength(1)
  expect(ids.slice(0, 50)).toEqual(known)
  expect(harness.reporter.sum('late')).toBe(1)
})

it('without lookback an entry hours late is not found', async () => {
  const harness = await openHarness({ source: { lookbackMs: 0 } })
  harness.add(50, START - SECOND)
  const late = harness.mock.add({ at: START - 30 * SECOND, visibleAt: START + 5 * HOUR }).id
  await harness.live(START + 4 * HOUR)
  harness.add(1)
  await harness.live(START + 12 * HOUR)
  expect(await harness.ids()).not.toContain(late)
})

it('lookback ships nothing before the start', async () => {
  const atUs = (START - MINUTE) * 1000
  const harness = await openHarness({ source: { lookbackMs: DAY, start: { kind: 'time', atUs } } })
  harness.add(600, START - SECOND)
  const before = harness.mock.add({ at: START - 61 * SECOND, visibleAt: START + HOUR }).id
  const after = harness.mock.add({ at: START - 59 * SECOND, visibleAt: START + HOUR }).id
  await harness.live(START + 13 * HOUR)
  const ids = await harness.ids()
  expect(ids).toContain(after)
  expect(ids).not.toContain(before)
  expect(harness.reporter.sum('late')).toBe(1)
  expect(Math.min(...searchedAt(harness))).toBeGreaterThanOrEqual(START - MINUTE)
})

it('with `start: latest` lookback ships nothing older than the start', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY, start: { kind: 'latest' } } })
  harness.add(10, START - SECOND)
  const before = harness.mock.add({ at: START - 5 * SECOND, visibleAt: START + HOUR }).id
  await harness.step()
  await wait(harness, MINUTE)
  const fresh = harness.add(3)
  await harness.live(START + 13 * HOUR)
  expect(await harness.ids()).toEqual(fresh)
  expect(await harness.ids()).not.toContain(before)
})

it('lookback ships nothing twice', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  const ids = harness.add(2_500, START - SECOND)
  await harness.live(START + 13 * HOUR)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.reporter.sum('known')).toBeGreaterThan(2_500)
})

it('the whole span is read several times within its own length', async () => {
  const harness = await openHarness({ source: { lookbackMs: 8 * HOUR } })
  harness.add(10, START - SECOND)
  await harness.live(START + HOUR)
  harness.asked()
  await harness.live(START + 25 * HOUR)
  const searches = searchedAt(harness)
  expect(searches.length).toBeGreaterThanOrEqual(11)
  expect(searches.length).toBeLessThanOrEqual(13)
})

it('a tiny span is read once a minute, not continuously', async () => {
  const harness = await openHarness({ source: { lookbackMs: 1 } })
  harness.add(10, START - SECOND)
  await harness.live(START + MINUTE)
  harness.asked()
  await harness.live(START + 31 * MINUTE)
  expect(searchedAt(harness).length).toBeLessThanOrEqual(31)
})

it('after a late entry lookback runs more often, and slows down again without one', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY, intervalMs: 3 * HOUR } })
  harness.add(200, START - SECOND)
  harness.mock.add({ at: START - 30 * SECOND, visibleAt: START + 20 * MINUTE })
  await harness.live(START + 7 * HOUR)
  expect(harness.reporter.sum('late')).toBe(1)
  harness.asked()
  await harness.live(START + 13 * HOUR)
  const searches = () => searchedAt(harness).length
  expect(searches()).toBeGreaterThan(3)
  await harness.live(START + 20 * DAY)
  harness.asked()
  await harness.live(START + 21 * DAY)
  expect(searches()).toBeLessThanOrEqual(5)
})

/**
 * Stops for `downMs` after 25 minutes; an entry becomes visible late
 * shortly after that. Returns its id, and how far back lookback searched.
 */
async function afterDowntime(downMs: number, source: HarnessOptions['source'] = {}) {
  const stop = START + 25 * MINUTE
  const harness = await openHarness({ source: { lookbackMs: DAY, ...source } })
  harness.add(50, START - SECOND)
  const late = harness.mock.add({ at: START - 30 * SECOND, visibleAt: START + 30 * MINUTE }).id
  await harness.live(stop - 5 * MINUTE)
  harness.add(30)
  await harness.live(stop)
  await wait(harness, downMs)
  harness.add(3)
  harness.asked()
  await harness.live(stop + downMs + 12 * HOUR)
  return { harness, late, oldest: Math.min(...searchedAt(harness)) }
}

it.each([10 * HOUR, 30 * HOUR, 10 * DAY])(
  'an entry that became visible during a downtime is found, also if it was longer than the lookback (%i ms)',
  async (downMs) => {
    const { harness, late } = await afterDowntime(downMs)
    expect(await harness.ids()).toContain(late)
    expect(harness.reporter.sum('late')).toBe(1)
  },
)

it('after a downtime lookback reaches back no further than keys are kept, and the next one only its span', async () => {
  const { harness, oldest } = await afterDowntime(10 * DAY, { keepKeysMs: 5 * DAY })
  expect(oldest).toBeGreaterThan(START + 5 * DAY)
  expect(oldest).toBeLessThan(START + 6 * DAY)
  harness.asked()
  await harness.live(harness.clock.now() + 7 * HOUR)
  const [time] = searchedAt(harness)
  expect(time).toBeGreaterThan(harness.clock.now() - DAY - 7 * HOUR)
})

it.each([
  ['lookback', false],
  ['first lookback', true],
])('an abandoned %s does not count: the next one starts where it had to', async (_, fromTheStart) => {
  let isBroken = fromTheStart
  const wrap: HarnessOptions['wrap'] = (send) => (request, signal) =>
    isBroken && request.url.includes('search')
      ? Promise.resolve({
          status: 200,
          headers: { 'content-type': 'text/html' },
          body: (async function* () {})(),
        })
      : send(request, signal)
  const harness = await openHarness({ wrap, source: { lookbackMs: DAY } })
  harness.add(50, START - SECOND)
  const late = harness.mock.add({ at: START - 30 * SECOND, visibleAt: START + 30 * MINUTE }).id
  await harness.live(START + 20 * MINUTE)
  harness.add(30)
  await harness.live(START + 25 * MINUTE)
  isBroken = true
  for (let hour = 1; hour <= 40; hour++) {
    harness.add(1)
    await harness.live(START + hour * HOUR)
  }
  isBroken = false
  await harness.live(START + 48 * HOUR)
  expect(await harness.ids()).toContain(late)
})

it('after a clock that was ahead is corrected, one lookback does not directly follow another', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  harness.add(20, START - SECOND)
  await harness.live(START + HOUR)
  const ahead = harness.state()
  ahead.lookback.fullDueAt = harness.clock.now() + 9 * HOUR
  ahead.lateUs = HOUR * 1000
  harness.cursor = JSON.stringify(ahead)
  for (let step = 0; step < 20 && harness.source.plan(harness.cursor).dueAt <= harness.clock.now(); step++)
    await harness.step()
  expect(harness.source.plan(harness.cursor).dueAt).toBeGreaterThan(harness.clock.now())
})

it('live reading comes before lookback: a due poll is read first, whatever lookback has left', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  harness.add(5_000, START - SECOND)
  await harness.drain()
  // Lookback starts: a search, then a page.
  await harness.step()
  await harness.step()
  expect(harness.state().lookback.walk).not.toBeNull()
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(2)
  expect(harness.source.plan(harness.cursor).priority).toBe('live')
  await harness.step()
  expect(await harness.ids()).toEqual(expect.arrayContaining(fresh))
  expect(harness.state().lookback.walk).not.toBeNull()
})

it('beyond its guaranteed requests lookback waits for its share of the limit, while live reading does not', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY }, limit: 20 })
  harness.add(15_000, START - SECOND)
  await harness.drain()
  const isDue = () => harness.source.plan(harness.cursor).dueAt <= harness.clock.now()
  for (let steps = 0; isDue() && steps < 20; steps++) await harness.step()
  const { priority, dueAt } = harness.source.plan(harness.cursor)
  expect(priority).toBe('lookback')
  expect(dueAt).toBeGreaterThan(harness.clock.now())
  expect(harness.rateLimiter.freeAt('live')).toBeLessThanOrEqual(harness.clock.now())
})

it('an error in lookback does not affect live reading', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  const known = harness.add(20, START - SECOND)
  await harness.drain()
  harness.mock.setFault('wrong_shape', 1)
  for (let i = 0; i < 6; i++) await harness.try()
  harness.mock.setFault('wrong_shape', undefined)
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(3)
  await harness.live(START + 30 * MINUTE)
  expect(await harness.ids()).toEqual([...known, ...fresh])
})

it('a lookback whose cursor is purged starts over at its next turn, without a gap', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  const known = harness.add(3_000, START - SECOND)
  await harness.drain()
  await harness.step()
  await harness.step()
  harness.mock.purge(known.slice(0, 2_000))
  await harness.live(START + 7 * HOUR)
  expect(harness.journal.stats().gaps).toBe(0)
  expect(await harness.ids()).toHaveLength(3_000)
})

it.each(['404', '410', 'empty', '204'] as const)(
  'a lookback whose cursor is purged does not count as complete, whatever the API answers (%s)',
  async (gone) => {
    const harness = await openHarness({ source: { lookbackMs: DAY }, switches: { gone } })
    const known = harness.add(3_000, START - SECOND)
    await harness.drain()
    for (let steps = 0; !harness.state().lookback.walk && steps < 10; steps++) await harness.step()
    const { fullBeganAt, fullDoneAt } = harness.state().lookback
    expect(fullBeganAt).toBeDefined()
    harness.mock.purge(known.slice(0, 2_000))
    for (let steps = 0; harness.state().lookback.fullBeganAt === fullBeganAt && steps < 10; steps++)
      await harness.step()
    expect(harness.state().lookback).toMatchObject({ fullDoneAt })
    expect(harness.state().lookback.walk).toBeNull()
  },
)

it('lookback skips an unreadable entry and finds late entries after it', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  harness.add(30, START - 10 * MINUTE)
  harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
  harness.add(30, START - SECOND)
  const late = harness.mock.add({ at: START - 20 * SECOND, visibleAt: START + 3 * HOUR }).id
  await harness.live(START + 14 * HOUR)
  expect(await harness.ids()).toContain(late)
  expect(await harness.ids()).toHaveLength(61)
})

it('a lookback of many pages continues after a restart', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY }, switches: { page_cap: 100 } })
  harness.add(1_000, START - SECOND)
  await harness.drain()
  for (let i = 0; i < 4; i++) await harness.step()
  const before = harness.state().lookback.walk?.from
  harness.cursor = await harness.journal.cursor(harness.source.stream)
  harness.asked()
  await harness.step()
  expect(endpoints(harness.asked())).toEqual(['page'])
  expect(harness.state().lookback.walk?.from.at).toBeGreaterThan(before?.at ?? Infinity)
})

it('an entry found by time after a purged cursor is shipped only at or after the start', async () => {
  const atUs = (START - 10 * MINUTE) * 1000 + 500_000
  const harness = await openHarness({ source: { start: { kind: 'time', atUs } } })
  const before = harness.mock.add({ atUs: atUs - 400_000, visibleAt: 0 }).id
  const head = harness.mock.add({ atUs, visibleAt: 0 }).id
  await harness.drain()
  harness.mock.purge([head])
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(2)
  await harness.drain()
  expect(await harness.ids()).toEqual([head, ...fresh])
  expect(await harness.ids()).not.toContain(before)
})

/** Answers requests to `endpoint` with `text` while it is set. */
function answering(endpoint: string) {
  const given: { text?: string } = {}
  const body = async function* (text: string) {
    yield Buffer.from(text)
  }
  const wrap: HarnessOptions['wrap'] = (send) => (request, signal) =>
    given.text === undefined || !request.url.includes(endpoint)
      ? send(request, signal)
      : Promise.resolve({
          status: 200,
          headers: { 'content-type': 'application/json' },
          body: body(given.text),
        })
  return { given, wrap }
}

it('a lookback whose pages do not advance ends, and does not count as complete', async () => {
  const { given, wrap } = answering('audit?from=')
  const harness = await openHarness({ wrap, source: { lookbackMs: DAY } })
  harness.add(20, START - MINUTE)
  harness.add(20, START - SECOND)
  await harness.drain()
  for (let steps = 0; !harness.state().lookback.walk && steps < 10; steps++) await harness.step()
  const { from } = harness.state().lookback.walk ?? { from: undefined }
  const stamp = new Date((from?.at ?? 0) / 1000).toISOString()
  given.text = JSON.stringify([
    { id: from?.id, timestamp: stamp, type: 'x' },
    { id: 'other', timestamp: stamp, type: 'x' },
  ])
  const { fullDoneAt } = harness.state().lookback
  await harness.step()
  for (let again = 0; again < 3; again++)
    expect(await harness.try()).toMatchObject({
      message: expect.stringContaining('does not advance') as string,
    })
  expect(harness.state().lookback).toMatchObject({ walk: null, fullDoneAt })
})

it('a lookback without an answer where entries exist does not count as complete', async () => {
  const { given, wrap } = answering('search')
  const harness = await openHarness({ wrap, source: { lookbackMs: DAY } })
  harness.add(20, START - SECOND)
  await harness.drain()
  given.text = 'null'
  await harness.step()
  const { walk, fullBeganAt, fullDoneAt, fullDueAt } = harness.state().lookback
  expect([walk, fullBeganAt]).toEqual([null, undefined])
  expect(fullDueAt).toBeGreaterThan(harness.clock.now())
  expect(fullDoneAt).toBeLessThan(harness.clock.now())
})

it('a lookback that can read nothing from some point on ends at its end time', async () => {
  const { given, wrap } = answering('search')
  const harness = await openHarness({ wrap, source: { lookbackMs: DAY } })
  harness.add(20, START - SECOND)
  await harness.drain()
  given.text = '{"log":{"x":1}}'
  await harness.step()
  expect(harness.state().lookback.walk?.probe).toBeDefined()
  for (let steps = 0; harness.state().lookback.walk && steps < 80; steps++) {
    await wait(harness, MINUTE)
    await harness.step()
  }
  expect(harness.state().lookback.walk).toBeNull()
  expect(harness.state().lookback.fullDueAt).toBeGreaterThan(harness.clock.now())
})

it('lookback of a quiet log reaches back no further than its span', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  harness.add(1)
  for (let hour = 1; hour <= 5 * 24; hour++) {
    await harness.live(START + hour * HOUR)
    const oldest = Math.min(...searchedAt(harness))
    expect(oldest).toBeGreaterThanOrEqual(harness.clock.now() - DAY - HOUR - SECOND)
  }
})

it('an entry a fifth later than any before is found before the whole span is read again', async () => {
  const harness = await openHarness({ source: { lookbackMs: 4 * DAY } })
  harness.add(30, START - SECOND)
  // Before everything that the overlap of a poll covers.
  harness.mock.add({ at: START - 10 * MINUTE, visibleAt: START + 40 * MINUTE })
  const hour = async () => {
    harness.add(1)
    await harness.live(harness.clock.now() + HOUR)
  }
  // The whole span is read every six hours.
  for (let i = 0; i < 7 && harness.reporter.sum('late') === 0; i++) await hour()
  const at = harness.clock.now()
  expect(at).toBe(START + 6 * HOUR)
  const late = harness.mock.add({ at: at + MINUTE, visibleAt: at + 7 * HOUR }).id
  for (let i = 0; i < 10; i++) await hour()
  expect(await harness.ids()).toContain(late)
})

it('a lookback that is skipping an unreadable entry ends at a login page', async () => {
  const { given, wrap } = answering('search')
  const type = { of: 'application/json' }
  const harness = await openHarness({
    source: { lookbackMs: DAY },
    wrap: (send) => async (request, signal) => {
      const reply = await wrap(send)(request, signal)
      return given.text === undefined ? reply : { ...reply, headers: { 'content-type': type.of } }
    },
  })
  harness.add(20, START - SECOND)
  await harness.drain()
  given.text = '{"log":{"x":1}}'
  for (let steps = 0; !harness.state().lookback.walk?.probe && steps < 10; steps++) await harness.step()
  Object.assign(given, { text: '<html>log in</html>' })
  type.of = 'text/html'
  harness.asked()
  await harness.live(START + 4 * MINUTE)
  expect(harness.state().lookback.walk).toBeNull()
})

it('a lookback that leads in circles is an error after three more requests, and live reading continues', async () => {
  const ring = { from: 'nobody', to: 'nobody' }
  const harness = await openHarness({
    source: { lookbackMs: DAY },
    switches: { page_cap: 10 },
    wrap: (send) => (request, signal) =>
      send({ ...request, url: request.url.replace(`from=${ring.from}&`, `from=${ring.to}&`) }, signal),
  })
  const known = harness.add(50, START - MINUTE)
  await harness.drain()
  Object.assign(ring, { from: known[20], to: known[0] })
  const alarms: (Error | undefined)[] = []
  for (let i = 0; i < 30 && (i === 0 || harness.state().lookback.walk); i++) alarms.push(await harness.try())
  const reported = alarms.filter(Boolean)
  expect(reported).toHaveLength(3)
  for (const alarm of reported) expect(alarm?.message).toContain('does not advance')
  const fresh = harness.add(1)
  await harness.live(harness.clock.now() + 10 * MINUTE)
  expect(await harness.ids()).toEqual([...known, ...fresh])
})
