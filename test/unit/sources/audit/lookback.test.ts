// The sweep: what became visible behind the head is found, from spare budget, and not behind the start (invariant 6).
import { expect, it } from 'vitest'
import { DAY, HOUR, MINUTE, SECOND, START, endpoints, openHarness } from '../../app/audit-harness.ts'
import type { Harness, HarnessOptions } from '../../app/audit-harness.ts'

async function wait(harness: Harness, ms: number): Promise<void> {
  while (harness.clock.advance(harness.clock.now() + ms));
}

/** What `search` was asked for since the last look, epoch ms. */
const searchedAt = (harness: Harness): number[] =>
  harness
    .asked()
    .filter(({ endpoint }) => endpoint === 'search')
    .map(({ target }) => Number(new URL(target, 'http://x').searchParams.get('time')) * 1000)

it('an entry late by hours is found by the sweep, and told as late', async () => {
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

it('without a sweep an entry late by hours is not looked for', async () => {
  const harness = await openHarness({ source: { lookbackMs: 0 } })
  harness.add(50, START - SECOND)
  const late = harness.mock.add({ at: START - 30 * SECOND, visibleAt: START + 5 * HOUR }).id
  await harness.live(START + 4 * HOUR)
  harness.add(1)
  await harness.live(START + 12 * HOUR)
  expect(await harness.ids()).not.toContain(late)
})

it('the sweep ships nothing behind the start', async () => {
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

it('of `latest` the sweep ships nothing that is older than the beginning', async () => {
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

it('a sweep finds nothing twice: what is known stays known', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  const ids = harness.add(2_500, START - SECOND)
  await harness.live(START + 13 * HOUR)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.reporter.sum('known')).toBeGreaterThan(2_500)
})

it('the whole span is swept several times in its own length', async () => {
  const harness = await openHarness({ source: { lookbackMs: 8 * HOUR } })
  harness.add(10, START - SECOND)
  await harness.live(START + HOUR)
  harness.asked()
  await harness.live(START + 25 * HOUR)
  const sweeps = searchedAt(harness)
  expect(sweeps.length).toBeGreaterThanOrEqual(11)
  expect(sweeps.length).toBeLessThanOrEqual(13)
})

it('a span of no length to speak of is swept once a minute, and not as often as there is room', async () => {
  const harness = await openHarness({ source: { lookbackMs: 1 } })
  harness.add(10, START - SECOND)
  await harness.live(START + MINUTE)
  harness.asked()
  await harness.live(START + 31 * MINUTE)
  expect(searchedAt(harness).length).toBeLessThanOrEqual(31)
})

it('after lateness was seen the sweep comes more often, and slows down again while there is none', async () => {
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

/** Down for `downMs` at 25 minutes; what is late became visible a little after. Returns its id, and how far back was asked for then. */
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
  'what became visible while nobody ran is found, also after a downtime longer than the sweep (%i ms)',
  async (downMs) => {
    const { harness, late } = await afterDowntime(downMs)
    expect(await harness.ids()).toContain(late)
    expect(harness.reporter.sum('late')).toBe(1)
  },
)

it('after a downtime the sweep goes back no further than keys are kept, and the next one only its span', async () => {
  const { harness, oldest } = await afterDowntime(10 * DAY, { keepKeysMs: 5 * DAY })
  expect(oldest).toBeGreaterThan(START + 5 * DAY)
  expect(oldest).toBeLessThan(START + 6 * DAY)
  harness.asked()
  await harness.live(harness.clock.now() + 7 * HOUR)
  const [time] = searchedAt(harness)
  expect(time).toBeGreaterThan(harness.clock.now() - DAY - 7 * HOUR)
})

it.each([
  ['a sweep', false],
  ['the very first sweep', true],
])('%s that is given up is no sweep: the next one begins where it had to', async (_, fromTheStart) => {
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

it('a clock that was ahead and is set back has no sweep follow the other at once', async () => {
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

it('live reading comes before the sweep: a due poll is read first, whatever the sweep has left to do', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  harness.add(5_000, START - SECOND)
  await harness.drain()
  // The sweep begins: an anchor, then a page.
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

it('behind its guaranteed requests the sweep waits while its share of the limit is used, live reading does not', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY }, limit: 20 })
  harness.add(15_000, START - SECOND)
  await harness.drain()
  const sweeps = () => harness.source.plan(harness.cursor).dueAt <= harness.clock.now()
  for (let steps = 0; sweeps() && steps < 20; steps++) await harness.step()
  const { priority, dueAt } = harness.source.plan(harness.cursor)
  expect(priority).toBe('lookback')
  expect(dueAt).toBeGreaterThan(harness.clock.now())
  expect(harness.rateLimiter.freeAt('live')).toBeLessThanOrEqual(harness.clock.now())
})

it('an error in the sweep costs live reading nothing', async () => {
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

it('a sweep whose place is purged under it begins anew at the next, and nothing is a gap', async () => {
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
  'a sweep whose place is purged under it was no whole one, whatever the API answers then (%s)',
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

it('the sweep passes an entry that stays unreadable and finds what is late behind it', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  harness.add(30, START - 10 * MINUTE)
  harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
  harness.add(30, START - SECOND)
  const late = harness.mock.add({ at: START - 20 * SECOND, visibleAt: START + 3 * HOUR }).id
  await harness.live(START + 14 * HOUR)
  expect(await harness.ids()).toContain(late)
  expect(await harness.ids()).toHaveLength(61)
})

it('a sweep of many pages goes on where it was after a restart', async () => {
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

it('an entry found by time is shipped only at or after the start, where the cursor was purged too', async () => {
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

/** Answers what is asked of `endpoint` with `text`, while there is one. */
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

it('a sweep whose pages do not advance is over, and was no whole one', async () => {
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

it('a sweep that is shown nothing where there must be something was no whole one', async () => {
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

it('a sweep to which nothing can be read from some place on ends where it was to end', async () => {
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

it('a log in which nothing happens is swept whole all the same: no sweep goes back further than its span', async () => {
  const harness = await openHarness({ source: { lookbackMs: DAY } })
  harness.add(1)
  for (let hour = 1; hour <= 5 * 24; hour++) {
    await harness.live(START + hour * HOUR)
    const oldest = Math.min(...searchedAt(harness))
    expect(oldest).toBeGreaterThanOrEqual(harness.clock.now() - DAY - HOUR - SECOND)
  }
})

it('what is later than was ever seen, by a fifth, is found before the whole span is swept again', async () => {
  const harness = await openHarness({ source: { lookbackMs: 4 * DAY } })
  harness.add(30, START - SECOND)
  // Before all that a poll's overlap reaches.
  harness.mock.add({ at: START - 10 * MINUTE, visibleAt: START + 40 * MINUTE })
  const hour = async () => {
    harness.add(1)
    await harness.live(harness.clock.now() + HOUR)
  }
  // The whole span is swept every six hours.
  for (let i = 0; i < 7 && harness.reporter.sum('late') === 0; i++) await hour()
  const at = harness.clock.now()
  expect(at).toBe(START + 6 * HOUR)
  const late = harness.mock.add({ at: at + MINUTE, visibleAt: at + 7 * HOUR }).id
  for (let i = 0; i < 10; i++) await hour()
  expect(await harness.ids()).toContain(late)
})

it('a sweep on its way past what cannot be read is over where a login page answers, and asks no more', async () => {
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

it('a sweep that goes in circles is an alarm, asked three times more and no oftener, and live reading goes on', async () => {
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
