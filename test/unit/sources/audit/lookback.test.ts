// The sweep: what became visible behind the head is found, from spare budget, and not behind the start (invariant 6).
import { expect, it } from 'vitest'
import { DAY, HOUR, MINUTE, SECOND, START, endpoints, openDesk } from '../../app/desk.ts'
import type { Desk, DeskOptions } from '../../app/desk.ts'

async function wait(desk: Desk, ms: number): Promise<void> {
  while (desk.clock.advance(desk.clock.now() + ms));
}

/** What `search` was asked for since the last look, epoch ms. */
const searchedAt = (desk: Desk): number[] =>
  desk
    .asked()
    .filter(({ endpoint }) => endpoint === 'search')
    .map(({ target }) => Number(new URL(target, 'http://x').searchParams.get('time')) * 1000)

it('an entry late by hours is found by the sweep, and told as late', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY } })
  const known = desk.add(50, START - SECOND)
  const late = desk.mock.add({ at: START - 30 * SECOND, visibleAt: START + 5 * HOUR }).id
  await desk.live(START + 4 * HOUR)
  desk.add(1)
  await desk.live(START + 12 * HOUR)
  const ids = await desk.ids()
  expect(ids).toContain(late)
  expect(ids.filter((id) => id === late)).toHaveLength(1)
  expect(ids.slice(0, 50)).toEqual(known)
  expect(desk.reporter.sum('late')).toBe(1)
})

it('without a sweep an entry late by hours is not looked for', async () => {
  const desk = await openDesk({ source: { lookbackMs: 0 } })
  desk.add(50, START - SECOND)
  const late = desk.mock.add({ at: START - 30 * SECOND, visibleAt: START + 5 * HOUR }).id
  await desk.live(START + 4 * HOUR)
  desk.add(1)
  await desk.live(START + 12 * HOUR)
  expect(await desk.ids()).not.toContain(late)
})

it('the sweep ships nothing behind the start', async () => {
  const atUs = (START - MINUTE) * 1000
  const desk = await openDesk({ source: { lookbackMs: DAY, start: { kind: 'time', atUs } } })
  desk.add(600, START - SECOND)
  const before = desk.mock.add({ at: START - 61 * SECOND, visibleAt: START + HOUR }).id
  const after = desk.mock.add({ at: START - 59 * SECOND, visibleAt: START + HOUR }).id
  await desk.live(START + 13 * HOUR)
  const ids = await desk.ids()
  expect(ids).toContain(after)
  expect(ids).not.toContain(before)
  expect(desk.reporter.sum('late')).toBe(1)
  expect(Math.min(...searchedAt(desk))).toBeGreaterThanOrEqual(START - MINUTE)
})

it('of `latest` the sweep ships nothing that is older than the beginning', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY, start: { kind: 'latest' } } })
  desk.add(10, START - SECOND)
  const before = desk.mock.add({ at: START - 5 * SECOND, visibleAt: START + HOUR }).id
  await desk.step()
  await wait(desk, MINUTE)
  const fresh = desk.add(3)
  await desk.live(START + 13 * HOUR)
  expect(await desk.ids()).toEqual(fresh)
  expect(await desk.ids()).not.toContain(before)
})

it('a sweep finds nothing twice: what is known stays known', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY } })
  const ids = desk.add(2_500, START - SECOND)
  await desk.live(START + 13 * HOUR)
  expect(await desk.ids()).toEqual(ids)
  expect(desk.reporter.sum('known')).toBeGreaterThan(2_500)
})

it('the whole span is swept several times in its own length', async () => {
  const desk = await openDesk({ source: { lookbackMs: 8 * HOUR } })
  desk.add(10, START - SECOND)
  await desk.live(START + HOUR)
  desk.asked()
  await desk.live(START + 25 * HOUR)
  const sweeps = searchedAt(desk)
  expect(sweeps.length).toBeGreaterThanOrEqual(11)
  expect(sweeps.length).toBeLessThanOrEqual(13)
})

it('a span of no length to speak of is swept once a minute, and not as often as there is room', async () => {
  const desk = await openDesk({ source: { lookbackMs: 1 } })
  desk.add(10, START - SECOND)
  await desk.live(START + MINUTE)
  desk.asked()
  await desk.live(START + 31 * MINUTE)
  expect(searchedAt(desk).length).toBeLessThanOrEqual(31)
})

it('after lateness was seen the sweep comes more often, and slows down again while there is none', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY, intervalMs: 3 * HOUR } })
  desk.add(200, START - SECOND)
  desk.mock.add({ at: START - 30 * SECOND, visibleAt: START + 20 * MINUTE })
  await desk.live(START + 7 * HOUR)
  expect(desk.reporter.sum('late')).toBe(1)
  desk.asked()
  await desk.live(START + 13 * HOUR)
  const searches = () => searchedAt(desk).length
  expect(searches()).toBeGreaterThan(3)
  await desk.live(START + 20 * DAY)
  desk.asked()
  await desk.live(START + 21 * DAY)
  expect(searches()).toBeLessThanOrEqual(5)
})

/** Down for `downMs` at 25 minutes; what is late became visible a little after. Returns its id, and how far back was asked for then. */
async function afterDowntime(downMs: number, source: DeskOptions['source'] = {}) {
  const stop = START + 25 * MINUTE
  const desk = await openDesk({ source: { lookbackMs: DAY, ...source } })
  desk.add(50, START - SECOND)
  const late = desk.mock.add({ at: START - 30 * SECOND, visibleAt: START + 30 * MINUTE }).id
  await desk.live(stop - 5 * MINUTE)
  desk.add(30)
  await desk.live(stop)
  await wait(desk, downMs)
  desk.add(3)
  desk.asked()
  await desk.live(stop + downMs + 12 * HOUR)
  return { desk, late, oldest: Math.min(...searchedAt(desk)) }
}

it.each([10 * HOUR, 30 * HOUR, 10 * DAY])(
  'what became visible while nobody ran is found, also after a downtime longer than the sweep (%i ms)',
  async (downMs) => {
    const { desk, late } = await afterDowntime(downMs)
    expect(await desk.ids()).toContain(late)
    expect(desk.reporter.sum('late')).toBe(1)
  },
)

it('after a downtime the sweep goes back no further than keys are kept, and the next one only its span', async () => {
  const { desk, oldest } = await afterDowntime(10 * DAY, { keepKeysMs: 5 * DAY })
  expect(oldest).toBeGreaterThan(START + 5 * DAY)
  expect(oldest).toBeLessThan(START + 6 * DAY)
  desk.asked()
  await desk.live(desk.clock.now() + 7 * HOUR)
  const [time] = searchedAt(desk)
  expect(time).toBeGreaterThan(desk.clock.now() - DAY - 7 * HOUR)
})

it.each([
  ['a sweep', false],
  ['the very first sweep', true],
])('%s that is given up is no sweep: the next one begins where it had to', async (_, fromTheStart) => {
  let isBroken = fromTheStart
  const wrap: DeskOptions['wrap'] = (send) => (request, signal) =>
    isBroken && request.url.includes('search')
      ? Promise.resolve({
          status: 200,
          headers: { 'content-type': 'text/html' },
          body: (async function* () {})(),
        })
      : send(request, signal)
  const desk = await openDesk({ wrap, source: { lookbackMs: DAY } })
  desk.add(50, START - SECOND)
  const late = desk.mock.add({ at: START - 30 * SECOND, visibleAt: START + 30 * MINUTE }).id
  await desk.live(START + 20 * MINUTE)
  desk.add(30)
  await desk.live(START + 25 * MINUTE)
  isBroken = true
  for (let hour = 1; hour <= 40; hour++) {
    desk.add(1)
    await desk.live(START + hour * HOUR)
  }
  isBroken = false
  await desk.live(START + 48 * HOUR)
  expect(await desk.ids()).toContain(late)
})

it('a clock that was ahead and is set back has no sweep follow the other at once', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY } })
  desk.add(20, START - SECOND)
  await desk.live(START + HOUR)
  const ahead = desk.state()
  ahead.lookback.fullDueAt = desk.clock.now() + 9 * HOUR
  ahead.lateUs = HOUR * 1000
  desk.cursor = JSON.stringify(ahead)
  for (let step = 0; step < 20 && desk.source.plan(desk.cursor).dueAt <= desk.clock.now(); step++)
    await desk.step()
  expect(desk.source.plan(desk.cursor).dueAt).toBeGreaterThan(desk.clock.now())
})

it('live reading comes before the sweep: a due poll is read first, whatever the sweep has left to do', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY } })
  desk.add(5_000, START - SECOND)
  await desk.drain()
  // The sweep begins: an anchor, then a page.
  await desk.step()
  await desk.step()
  expect(desk.state().lookback.walk).not.toBeNull()
  await wait(desk, 5 * MINUTE)
  const fresh = desk.add(2)
  expect(desk.source.plan(desk.cursor).priority).toBe('live')
  await desk.step()
  expect(await desk.ids()).toEqual(expect.arrayContaining(fresh))
  expect(desk.state().lookback.walk).not.toBeNull()
})

it('behind its guaranteed requests the sweep waits while its share of the limit is used, live reading does not', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY }, limit: 20 })
  desk.add(15_000, START - SECOND)
  await desk.drain()
  const sweeps = () => desk.source.plan(desk.cursor).dueAt <= desk.clock.now()
  for (let steps = 0; sweeps() && steps < 20; steps++) await desk.step()
  const { priority, dueAt } = desk.source.plan(desk.cursor)
  expect(priority).toBe('lookback')
  expect(dueAt).toBeGreaterThan(desk.clock.now())
  expect(desk.rateLimiter.freeAt('live')).toBeLessThanOrEqual(desk.clock.now())
})

it('an error in the sweep costs live reading nothing', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY } })
  const known = desk.add(20, START - SECOND)
  await desk.drain()
  desk.mock.setFault('wrong_shape', 1)
  for (let i = 0; i < 6; i++) await desk.try()
  desk.mock.setFault('wrong_shape', undefined)
  await wait(desk, 5 * MINUTE)
  const fresh = desk.add(3)
  await desk.live(START + 30 * MINUTE)
  expect(await desk.ids()).toEqual([...known, ...fresh])
})

it('a sweep whose place is purged under it begins anew at the next, and nothing is a gap', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY } })
  const known = desk.add(3_000, START - SECOND)
  await desk.drain()
  await desk.step()
  await desk.step()
  desk.mock.purge(known.slice(0, 2_000))
  await desk.live(START + 7 * HOUR)
  expect(desk.journal.stats().gaps).toBe(0)
  expect(await desk.ids()).toHaveLength(3_000)
})

it.each(['404', '410', 'empty', '204'] as const)(
  'a sweep whose place is purged under it was no whole one, whatever the API answers then (%s)',
  async (gone) => {
    const desk = await openDesk({ source: { lookbackMs: DAY }, switches: { gone } })
    const known = desk.add(3_000, START - SECOND)
    await desk.drain()
    for (let steps = 0; !desk.state().lookback.walk && steps < 10; steps++) await desk.step()
    const { fullBeganAt, fullDoneAt } = desk.state().lookback
    expect(fullBeganAt).toBeDefined()
    desk.mock.purge(known.slice(0, 2_000))
    for (let steps = 0; desk.state().lookback.fullBeganAt === fullBeganAt && steps < 10; steps++)
      await desk.step()
    expect(desk.state().lookback).toMatchObject({ fullDoneAt })
    expect(desk.state().lookback.walk).toBeNull()
  },
)

it('the sweep passes an entry that stays unreadable and finds what is late behind it', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY } })
  desk.add(30, START - 10 * MINUTE)
  desk.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
  desk.add(30, START - SECOND)
  const late = desk.mock.add({ at: START - 20 * SECOND, visibleAt: START + 3 * HOUR }).id
  await desk.live(START + 14 * HOUR)
  expect(await desk.ids()).toContain(late)
  expect(await desk.ids()).toHaveLength(61)
})

it('a sweep of many pages goes on where it was after a restart', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY }, switches: { page_cap: 100 } })
  desk.add(1_000, START - SECOND)
  await desk.drain()
  for (let i = 0; i < 4; i++) await desk.step()
  const before = desk.state().lookback.walk?.from
  desk.cursor = await desk.journal.cursor(desk.source.stream)
  desk.asked()
  await desk.step()
  expect(endpoints(desk.asked())).toEqual(['page'])
  expect(desk.state().lookback.walk?.from.at).toBeGreaterThan(before?.at ?? Infinity)
})

it('an entry found by time is shipped only at or after the start, where the cursor was purged too', async () => {
  const atUs = (START - 10 * MINUTE) * 1000 + 500_000
  const desk = await openDesk({ source: { start: { kind: 'time', atUs } } })
  const before = desk.mock.add({ atUs: atUs - 400_000, visibleAt: 0 }).id
  const head = desk.mock.add({ atUs, visibleAt: 0 }).id
  await desk.drain()
  desk.mock.purge([head])
  await wait(desk, 5 * MINUTE)
  const fresh = desk.add(2)
  await desk.drain()
  expect(await desk.ids()).toEqual([head, ...fresh])
  expect(await desk.ids()).not.toContain(before)
})

/** Answers what is asked of `endpoint` with `text`, while there is one. */
function answering(endpoint: string) {
  const given: { text?: string } = {}
  const body = async function* (text: string) {
    yield Buffer.from(text)
  }
  const wrap: DeskOptions['wrap'] = (send) => (request, signal) =>
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
  const desk = await openDesk({ wrap, source: { lookbackMs: DAY } })
  desk.add(20, START - MINUTE)
  desk.add(20, START - SECOND)
  await desk.drain()
  for (let steps = 0; !desk.state().lookback.walk && steps < 10; steps++) await desk.step()
  const { from } = desk.state().lookback.walk ?? { from: undefined }
  const stamp = new Date((from?.at ?? 0) / 1000).toISOString()
  given.text = JSON.stringify([
    { id: from?.id, timestamp: stamp, type: 'x' },
    { id: 'other', timestamp: stamp, type: 'x' },
  ])
  const { fullDoneAt } = desk.state().lookback
  await desk.step()
  for (let again = 0; again < 3; again++)
    expect(await desk.try()).toMatchObject({ message: expect.stringContaining('does not advance') as string })
  expect(desk.state().lookback).toMatchObject({ walk: null, fullDoneAt })
})

it('a sweep that is shown nothing where there must be something was no whole one', async () => {
  const { given, wrap } = answering('search')
  const desk = await openDesk({ wrap, source: { lookbackMs: DAY } })
  desk.add(20, START - SECOND)
  await desk.drain()
  given.text = 'null'
  await desk.step()
  const { walk, fullBeganAt, fullDoneAt, fullDueAt } = desk.state().lookback
  expect([walk, fullBeganAt]).toEqual([null, undefined])
  expect(fullDueAt).toBeGreaterThan(desk.clock.now())
  expect(fullDoneAt).toBeLessThan(desk.clock.now())
})

it('a sweep to which nothing can be read from some place on ends where it was to end', async () => {
  const { given, wrap } = answering('search')
  const desk = await openDesk({ wrap, source: { lookbackMs: DAY } })
  desk.add(20, START - SECOND)
  await desk.drain()
  given.text = '{"log":{"x":1}}'
  await desk.step()
  expect(desk.state().lookback.walk?.probe).toBeDefined()
  for (let steps = 0; desk.state().lookback.walk && steps < 80; steps++) {
    await wait(desk, MINUTE)
    await desk.step()
  }
  expect(desk.state().lookback.walk).toBeNull()
  expect(desk.state().lookback.fullDueAt).toBeGreaterThan(desk.clock.now())
})

it('a log in which nothing happens is swept whole all the same: no sweep goes back further than its span', async () => {
  const desk = await openDesk({ source: { lookbackMs: DAY } })
  desk.add(1)
  for (let hour = 1; hour <= 5 * 24; hour++) {
    await desk.live(START + hour * HOUR)
    const oldest = Math.min(...searchedAt(desk))
    expect(oldest).toBeGreaterThanOrEqual(desk.clock.now() - DAY - HOUR - SECOND)
  }
})

it('what is later than was ever seen, by a fifth, is found before the whole span is swept again', async () => {
  const desk = await openDesk({ source: { lookbackMs: 4 * DAY } })
  desk.add(30, START - SECOND)
  // Before all that a poll's overlap reaches.
  desk.mock.add({ at: START - 10 * MINUTE, visibleAt: START + 40 * MINUTE })
  const hour = async () => {
    desk.add(1)
    await desk.live(desk.clock.now() + HOUR)
  }
  // The whole span is swept every six hours.
  for (let i = 0; i < 7 && desk.reporter.sum('late') === 0; i++) await hour()
  const at = desk.clock.now()
  expect(at).toBe(START + 6 * HOUR)
  const late = desk.mock.add({ at: at + MINUTE, visibleAt: at + 7 * HOUR }).id
  for (let i = 0; i < 10; i++) await hour()
  expect(await desk.ids()).toContain(late)
})

it('a sweep on its way past what cannot be read is over where a login page answers, and asks no more', async () => {
  const { given, wrap } = answering('search')
  const type = { of: 'application/json' }
  const desk = await openDesk({
    source: { lookbackMs: DAY },
    wrap: (send) => async (request, signal) => {
      const reply = await wrap(send)(request, signal)
      return given.text === undefined ? reply : { ...reply, headers: { 'content-type': type.of } }
    },
  })
  desk.add(20, START - SECOND)
  await desk.drain()
  given.text = '{"log":{"x":1}}'
  for (let steps = 0; !desk.state().lookback.walk?.probe && steps < 10; steps++) await desk.step()
  Object.assign(given, { text: '<html>log in</html>' })
  type.of = 'text/html'
  desk.asked()
  await desk.live(START + 4 * MINUTE)
  expect(desk.state().lookback.walk).toBeNull()
})

it('a sweep that goes in circles is an alarm, asked three times more and no oftener, and live reading goes on', async () => {
  const ring = { from: 'nobody', to: 'nobody' }
  const desk = await openDesk({
    source: { lookbackMs: DAY },
    switches: { page_cap: 10 },
    wrap: (send) => (request, signal) =>
      send({ ...request, url: request.url.replace(`from=${ring.from}&`, `from=${ring.to}&`) }, signal),
  })
  const known = desk.add(50, START - MINUTE)
  await desk.drain()
  Object.assign(ring, { from: known[20], to: known[0] })
  const alarms: (Error | undefined)[] = []
  for (let i = 0; i < 30 && (i === 0 || desk.state().lookback.walk); i++) alarms.push(await desk.try())
  const told = alarms.filter(Boolean)
  expect(told).toHaveLength(3)
  for (const alarm of told) expect(alarm?.message).toContain('does not advance')
  const fresh = desk.add(1)
  await desk.live(desk.clock.now() + 10 * MINUTE)
  expect(await desk.ids()).toEqual([...known, ...fresh])
})
