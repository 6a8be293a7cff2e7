// A drain to the letter: what it costs, what it tells while it lasts, and what one of its pages may not leave behind for the next (invariants 6 and 7).
import { expect, test } from 'vitest'
import type { HttpReply } from '../../../../src/contracts/platform.ts'
import { AGENT, HOUR, MINUTE, SECOND, START, endpoints, openDesk, takesOf } from '../../app/desk.ts'
import type { Desk } from '../../app/desk.ts'

const manners = ['exclusive', 'inclusive'] as const

async function wait(desk: Desk, ms: number): Promise<void> {
  while (desk.clock.advance(desk.clock.now() + ms));
}

const reply = (text: string): HttpReply => ({
  ...{ status: 200, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    if (text !== '') yield Buffer.from(text)
  })(),
})

test('a long drain tells how far the head is while it lasts', async () => {
  const desk = await openDesk({ switches: { page_cap: 100 } })
  desk.add(2_000)
  for (let step = 0; step < 6; step++) await desk.step()
  expect(desk.state().drain).not.toBeNull()
  expect(desk.reporter.headUs).toBe(START * 1000)
  expect(desk.reporter.cursorUs).toBeLessThan(START * 1000)
})

test.each(manners)(
  'an entry that stays unreadable at the end of the log costs later polls no tries, and is no error to them (from %s)',
  async (from) => {
    const desk = await openDesk({ switches: { from } })
    desk.add(5, START - 10 * MINUTE)
    desk.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
    await desk.drain()
    for (let poll = 0; poll < 5; poll++) {
      await wait(desk, 5 * MINUTE)
      desk.asked()
      expect(await desk.try()).toBeUndefined()
      expect(desk.state().drain).toBeNull()
      expect(desk.asked().length).toBeLessThanOrEqual(2)
    }
  },
)

test.each(['404', 'empty'] as const)(
  'an older place of the trail that is gone (%s) is asked for once, and not at every poll',
  async (gone) => {
    const desk = await openDesk({ switches: { gone } })
    const known = desk.add(100, START - MINUTE)
    await desk.drain()
    desk.mock.purge(known.slice(0, -1))
    await wait(desk, 5 * MINUTE)
    desk.asked()
    await desk.drain()
    const pagesOf = () => endpoints(desk.asked()).filter((name) => name === 'page').length
    expect(pagesOf()).toBe(2)
    await wait(desk, 5 * MINUTE)
    await desk.drain()
    expect(pagesOf()).toBe(1)
    expect(desk.reporter.gaps).toBe(0)
  },
)

test.each(manners)(
  'what follows a full page of malformed elements is read, though the newest entry of all is malformed too (from %s)',
  async (from) => {
    const desk = await openDesk({ switches: { from } })
    const before = desk.add(5, START - HOUR)
    await desk.drain()
    await wait(desk, 5 * MINUTE)
    // With `from` itself, or without it, exactly what a page takes.
    const count = from === 'inclusive' ? 999 : 1_000
    for (let i = 0; i < count; i++)
      desk.mock.add({ at: START - 50 * MINUTE + i * SECOND, visibleAt: 0, defect: 'no_id', data: { i } })
    const after = desk.add(5, START - MINUTE)
    desk.mock.add({ at: START, visibleAt: 0, defect: 'no_id' })
    await desk.drain()
    expect(await desk.ids()).toEqual([...before, ...after])
  },
)

test('a page that was empty in passing leaves no doubt behind: the true end is no dead cursor, and no gap', async () => {
  const desk = await openDesk()
  desk.add(5, START - 10 * MINUTE)
  await desk.drain()
  await wait(desk, 5 * MINUTE)
  // Older than the drain's stop line, so that it ends on an empty page.
  const ids = desk.add(5, desk.clock.now() - MINUTE)
  // From the trail, and from the head.
  desk.mock.setFault('empty_page', { nth: [1, 2].map((n) => desk.mock.requests.length + n) })
  await desk.drain()
  await wait(desk, 5 * MINUTE)
  ids.push(...desk.add(5))
  await desk.drain()
  expect((await desk.ids()).slice(5)).toEqual(ids)
  expect(desk.log.lines.filter((line) => line.includes('stays empty'))).toEqual([])
  expect(desk.reporter.gaps).toBe(0)
})

test('own fetches, a backfill’s by the thousand, are no sign of a busy feed to `auto`', async () => {
  const desk = await openDesk({ source: { activity: 'auto', intervalMs: undefined, lookbackMs: 0 } })
  desk.add(3, START - HOUR)
  await desk.drain()
  await wait(desk, HOUR)
  for (let i = 0; i < 900; i++)
    desk.mock.add({
      ...{ type: 'api:audit_log_fetch', userAgent: AGENT, visibleAt: 0 },
      at: START + i * 4 * SECOND,
    })
  await desk.drain()
  expect(desk.source.plan(desk.cursor).dueAt - desk.clock.now()).toBe(HOUR)
})

test('to `auto` the first hour of a busy feed is enough', async () => {
  const desk = await openDesk({ source: { activity: 'auto', intervalMs: undefined, lookbackMs: 0 } })
  desk.add(3, START - HOUR)
  await desk.drain()
  await wait(desk, HOUR)
  desk.add(2_000)
  await desk.drain()
  expect(desk.source.plan(desk.cursor).dueAt - desk.clock.now()).toBeLessThanOrEqual(5 * MINUTE)
})

test('on a quiet feed a poll is one request, though its page holds nothing but the fetch of the one before', async () => {
  const desk = await openDesk({ switches: { self_audit: 'all' } })
  desk.add(10, START - HOUR)
  await desk.drain()
  await desk.live(START + 30 * MINUTE)
  desk.asked()
  await desk.live(START + 90 * MINUTE)
  expect(endpoints(desk.asked())).toEqual(Array<string>(12).fill('page'))
})

test.each(manners)(
  'on a server that shows two entries a page, reading does not keep itself going by its own fetches (from %s)',
  async (from) => {
    const desk = await openDesk({ switches: { from, self_audit: 'all', page_cap: 2 } })
    desk.add(3, START - MINUTE)
    await desk.drain(20)
    await wait(desk, 5 * MINUTE)
    desk.asked()
    await desk.drain(20)
    expect(desk.asked().length).toBeLessThan(12)
  },
)

test.each(['on', 'off'] as const)(
  'a drain of a feed that never rests ends at what is newer than its start (`Date` %s)',
  async (date_header) => {
    const desk = await openDesk({ switches: { date_header } })
    desk.add(50, START - MINUTE)
    await desk.drain()
    await wait(desk, 5 * MINUTE)
    let steps = 0
    for (; steps < 20 && !(steps > 0 && desk.state().caughtUp); steps++) {
      desk.add(3, desk.clock.now() + SECOND)
      await desk.step()
      await wait(desk, SECOND)
    }
    expect(steps).toBeLessThan(4)
  },
)

test('a server’s clock half an hour behind ours is believed: by ours a feed that never rests would have no end', async () => {
  const behind = 30 * MINUTE
  const desk = await openDesk({ switches: { clock_skew_ms: -behind, page_cap: 5 } })
  desk.add(5, START - behind - HOUR)
  await desk.drain()
  await wait(desk, 5 * MINUTE)
  let steps = 0
  for (; steps < 20 && !(steps > 0 && desk.state().caughtUp); steps++) {
    desk.add(5, desk.clock.now() - behind + SECOND)
    await desk.step()
    await wait(desk, SECOND)
  }
  expect(steps).toBeLessThan(5)
})

test.each(['exclusive', 'inclusive'] as const)(
  'a drain of what reading itself writes ends, poll after poll, where nothing tells it from others’ (`from` %s)',
  async (from) => {
    const switches = {
      from,
      page_cap: 7,
      date_header: 'off',
      user_agent: 'generic',
      self_audit: 'pages',
    } as const
    const desk = await openDesk({ switches: { ...switches, clock_skew_ms: 45 * SECOND } })
    desk.add(50, START - MINUTE)
    await desk.drain()
    desk.asked()
    for (let poll = 1; poll <= 12; poll++) {
      await wait(desk, HOUR)
      await desk.drain(40)
      expect(desk.asked().length, `poll ${poll}`).toBeLessThan(16)
    }
  },
)

/** A server without a `Date`, with entries dated ahead of our clock: what a full page is must be guessed. */
async function guessing(page_cap: number) {
  const desk = await openDesk({ switches: { date_header: 'off', page_cap } })
  desk.add(200, START - HOUR)
  await desk.drain()
  return desk
}

test('one small page is not taken for the measure of a full one: entries dated in the future that fill no page lead nowhere', async () => {
  const desk = await guessing(1_000)
  for (let poll = 0; poll < 6; poll++) {
    desk.add(1)
    await wait(desk, 5 * MINUTE)
    await desk.drain()
  }
  const { head } = desk.state()
  for (let i = 0; i < 40; i++) desk.mock.add({ at: desk.clock.now() + 9 * HOUR + i, visibleAt: 0 })
  await wait(desk, 5 * MINUTE)
  await desk.drain()
  expect(desk.state().head).toEqual(head)
})

test('a server that caps its pages smaller than before is believed after a while: one drain reads a burst', async () => {
  const desk = await guessing(100)
  desk.mock.setSwitches({ page_cap: 10 })
  for (let poll = 0; poll < 200; poll++) {
    desk.add(1)
    await wait(desk, 5 * MINUTE)
    await desk.drain()
  }
  await wait(desk, 5 * MINUTE)
  const burst = desk.add(60, desk.clock.now() + 20 * MINUTE)
  await desk.drain()
  expect(await desk.ids()).toEqual(expect.arrayContaining(burst))
})

test('a feed that goes in circles is asked three times more, and then rests until the next poll', async () => {
  const ring = { from: 'nobody', to: 'nobody' }
  const desk = await openDesk({
    switches: { page_cap: 10 },
    wrap: (send) => (request, signal) =>
      send({ ...request, url: request.url.replace(`from=${ring.from}`, `from=${ring.to}`) }, signal),
  })
  const known = desk.add(50, START - MINUTE)
  Object.assign(ring, { from: known[20], to: known[0] })
  const alarms: unknown[] = []
  for (let i = 0; i < 20 && (i < 2 || desk.state().drain !== null); i++) alarms.push(await desk.try())
  expect(alarms.filter(Boolean)).toHaveLength(3)
})

test('an id with letters that mean something in an address is asked for as it is', async () => {
  const id = 'a&take=1#/b c%41é'
  const asked = new Set<string | null>()
  const desk = await openDesk({
    wrap: (send) => (request, signal) => {
      asked.add(new URL(request.url).searchParams.get('from'))
      return send(request, signal)
    },
  })
  desk.mock.add({ id, at: START - MINUTE, visibleAt: 0 })
  await desk.drain()
  expect(asked).toContain(id)
  expect(new Set(takesOf(desk.asked()))).toEqual(new Set([1_000]))
})

test('answers without a byte are an outage, however small the page that is asked for: nothing is passed', async () => {
  const state = { isOut: false }
  const desk = await openDesk({
    wrap: (send) => (request, signal) =>
      state.isOut && request.url.includes('from=') ? Promise.resolve(reply('')) : send(request, signal),
  })
  desk.add(5, START - MINUTE)
  await desk.drain()
  await wait(desk, 5 * MINUTE)
  const fresh = desk.add(5)
  state.isOut = true
  for (let i = 0; i < 40; i++) expect(await desk.try()).toMatchObject({ code: 'bad_reply' })
  state.isOut = false
  await desk.drain()
  expect((await desk.ids()).slice(5)).toEqual(fresh)
  expect(desk.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
})

test('bad pages with good ones between them are asked for as large as ever', async () => {
  const desk = await openDesk({ switches: { page_cap: 10 } })
  const ids = desk.add(100, START - MINUTE)
  desk.mock.setFault('truncated', { nth: [2, 3, 5, 6, 8, 9, 11, 12] })
  await desk.drain()
  expect(await desk.ids()).toEqual(ids)
  expect(new Set(takesOf(desk.asked()))).toEqual(new Set([1_000]))
})

test('a size that was narrowed once more holds for as many good pages as any: no larger one is tried in between', async () => {
  const desk = await openDesk({ switches: { page_cap: 10 } })
  const before = desk.add(195, START - 10 * MINUTE)
  desk.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
  const after = desk.add(5, START - MINUTE)
  // The first page is narrowed to 100, and so are the nineteen good ones before the bad entry.
  desk.mock.setFault('truncated', { nth: [2, 3, 4] })
  await desk.drain()
  expect(await desk.ids()).toEqual([...before, ...after])
  const takes = takesOf(desk.asked())
  expect(takes.slice(takes.indexOf(10), takes.lastIndexOf(1) + 1)).not.toContain(1_000)
})

test('a foreign fetch on a page whose beginning lies before the start is shipped, and names no other entry', async () => {
  const startAt = START + 5 * MINUTE + SECOND / 2
  const desk = await openDesk({
    switches: { from: 'inclusive' },
    source: { start: { kind: 'time', atUs: startAt * 1000 } },
  })
  await desk.drain()
  const fetch = { type: 'api:audit_log_fetch', user: 'siem@acme.example', visibleAt: 0 }
  desk.mock.add({ at: startAt - 200, visibleAt: 0 })
  const own = desk.mock.add({ ...fetch, at: startAt + 100, userAgent: AGENT }).id
  const foreign = desk.mock.add({ ...fetch, at: startAt + 200, userAgent: 'curl/8' }).id
  await desk.live(startAt + 20 * MINUTE)
  expect(await desk.ids()).toEqual([own, foreign])
  const found = desk.journal.stats().lastFindings
  expect(found.every(({ entryId }) => entryId === foreign)).toBe(true)
})

test('however much of what is known a page holds before the head, places of the trail stand in the feed’s order', async () => {
  const desk = await openDesk({ source: { intervalMs: MINUTE } })
  for (let poll = 0; poll < 4; poll++) {
    const at = desk.clock.now()
    for (let i = 0; i < 900; i++) desk.mock.add({ at: at - 90 * SECOND + i * 100, visibleAt: 0 })
    await desk.drain()
    await wait(desk, 90 * SECOND)
  }
  const places = desk.state().overlap.map(({ at }) => at)
  expect(places.length).toBeGreaterThan(5)
  expect(places).toEqual(places.toSorted((a, b) => a - b))
})
