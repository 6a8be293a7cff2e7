// Details of a drain: its cost, its progress, and what one
// page must not change for the next (invariants 6 and 7).
import { expect, test } from 'vitest'
import type { HttpReply } from '../../../../src/contracts/platform.ts'
import {
  AGENT,
  HOUR,
  MINUTE,
  SECOND,
  START,
  endpoints,
  openHarness,
  takesOf,
} from '../../app/audit-harness.ts'
import type { Harness } from '../../app/audit-harness.ts'

const manners = ['exclusive', 'inclusive'] as const

async function wait(harness: Harness, ms: number): Promise<void> {
  while (harness.clock.advance(harness.clock.now() + ms));
}

const reply = (text: string): HttpReply => ({
  ...{ status: 200, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    if (text !== '') yield Buffer.from(text)
  })(),
})

test('a long drain reports its head while it runs', async () => {
  const harness = await openHarness({ switches: { page_cap: 100 } })
  harness.add(2_000)
  for (let step = 0; step < 6; step++) await harness.step()
  expect(harness.state().drain).not.toBeNull()
  expect(harness.reporter.headUs).toBe(START * 1000)
  expect(harness.reporter.cursorUs).toBeLessThan(START * 1000)
})

test.each(manners)(
  'an unreadable last entry costs later polls no tries and no errors (from %s)',
  async (from) => {
    const harness = await openHarness({ switches: { from } })
    harness.add(5, START - 10 * MINUTE)
    harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
    await harness.drain()
    for (let poll = 0; poll < 5; poll++) {
      await wait(harness, 5 * MINUTE)
      harness.asked()
      expect(await harness.try()).toBeUndefined()
      expect(harness.state().drain).toBeNull()
      expect(harness.asked().length).toBeLessThanOrEqual(2)
    }
  },
)

test.each(['404', 'empty'] as const)(
  'a purged entry of the overlap (%s) is requested once, not at every poll',
  async (gone) => {
    const harness = await openHarness({ switches: { gone } })
    const known = harness.add(100, START - MINUTE)
    await harness.drain()
    harness.mock.purge(known.slice(0, -1))
    await wait(harness, 5 * MINUTE)
    harness.asked()
    await harness.drain()
    const pagesOf = () => endpoints(harness.asked()).filter((name) => name === 'page').length
    expect(pagesOf()).toBe(2)
    await wait(harness, 5 * MINUTE)
    await harness.drain()
    expect(pagesOf()).toBe(1)
    expect(harness.reporter.gaps).toBe(0)
  },
)

test.each(manners)(
  'entries after a full page of malformed elements are read, also if the newest element is malformed (from %s)',
  async (from) => {
    const harness = await openHarness({ switches: { from } })
    const before = harness.add(5, START - HOUR)
    await harness.drain()
    await wait(harness, 5 * MINUTE)
    // A full page, with `from` itself or without it.
    const count = from === 'inclusive' ? 999 : 1_000
    for (let i = 0; i < count; i++)
      harness.mock.add({ at: START - 50 * MINUTE + i * SECOND, visibleAt: 0, defect: 'no_id', data: { i } })
    const after = harness.add(5, START - MINUTE)
    harness.mock.add({ at: START, visibleAt: 0, defect: 'no_id' })
    await harness.drain()
    expect(await harness.ids()).toEqual([...before, ...after])
  },
)

test('a page that was empty once does not make the true end look like a dead cursor or a gap', async () => {
  const harness = await openHarness()
  harness.add(5, START - 10 * MINUTE)
  await harness.drain()
  await wait(harness, 5 * MINUTE)
  // Older than the end time of the drain, so that the drain ends on an empty page.
  const ids = harness.add(5, harness.clock.now() - MINUTE)
  // The requests from the overlap and from the head.
  harness.mock.setFault('empty_page', { nth: [1, 2].map((n) => harness.mock.requests.length + n) })
  await harness.drain()
  await wait(harness, 5 * MINUTE)
  ids.push(...harness.add(5))
  await harness.drain()
  expect((await harness.ids()).slice(5)).toEqual(ids)
  expect(harness.log.lines.filter((line) => line.includes('stays empty'))).toEqual([])
  expect(harness.reporter.gaps).toBe(0)
})

test('own fetches, even thousands from a backfill, do not make `auto` poll faster', async () => {
  const harness = await openHarness({ source: { activity: 'auto', intervalMs: undefined, lookbackMs: 0 } })
  harness.add(3, START - HOUR)
  await harness.drain()
  await wait(harness, HOUR)
  for (let i = 0; i < 900; i++)
    harness.mock.add({
      ...{ type: 'api:audit_log_fetch', userAgent: AGENT, visibleAt: 0 },
      at: START + i * 4 * SECOND,
    })
  await harness.drain()
  expect(harness.source.plan(harness.cursor).dueAt - harness.clock.now()).toBe(HOUR)
})

test('`auto` needs only the first hour of a busy log to poll faster', async () => {
  const harness = await openHarness({ source: { activity: 'auto', intervalMs: undefined, lookbackMs: 0 } })
  harness.add(3, START - HOUR)
  await harness.drain()
  await wait(harness, HOUR)
  harness.add(2_000)
  await harness.drain()
  expect(harness.source.plan(harness.cursor).dueAt - harness.clock.now()).toBeLessThanOrEqual(5 * MINUTE)
})

test('a poll of a quiet log is one request, though its page has only the previous fetch', async () => {
  const harness = await openHarness({ switches: { self_audit: 'all' } })
  harness.add(10, START - HOUR)
  await harness.drain()
  await harness.live(START + 30 * MINUTE)
  harness.asked()
  await harness.live(START + 90 * MINUTE)
  expect(endpoints(harness.asked())).toEqual(Array<string>(12).fill('page'))
})

test.each(manners)(
  'with two entries per page reading does not keep itself going by its own fetches (from %s)',
  async (from) => {
    const harness = await openHarness({ switches: { from, self_audit: 'all', page_cap: 2 } })
    harness.add(3, START - MINUTE)
    await harness.drain(20)
    await wait(harness, 5 * MINUTE)
    harness.asked()
    await harness.drain(20)
    expect(harness.asked().length).toBeLessThan(12)
  },
)

test.each(['on', 'off'] as const)(
  'a drain of a log that never pauses ends at the first entry newer than its start (`Date` %s)',
  async (date_header) => {
    const harness = await openHarness({ switches: { date_header } })
    harness.add(50, START - MINUTE)
    await harness.drain()
    await wait(harness, 5 * MINUTE)
    let steps = 0
    for (; steps < 20 && !(steps > 0 && harness.state().caughtUp); steps++) {
      harness.add(3, harness.clock.now() + SECOND)
      await harness.step()
      await wait(harness, SECOND)
    }
    expect(steps).toBeLessThan(4)
  },
)

test('a server clock half an hour behind ours decides the end of a drain', async () => {
  const behind = 30 * MINUTE
  const harness = await openHarness({ switches: { clock_skew_ms: -behind, page_cap: 5 } })
  harness.add(5, START - behind - HOUR)
  await harness.drain()
  await wait(harness, 5 * MINUTE)
  let steps = 0
  for (; steps < 20 && !(steps > 0 && harness.state().caughtUp); steps++) {
    harness.add(5, harness.clock.now() - behind + SECOND)
    await harness.step()
    await wait(harness, SECOND)
  }
  expect(steps).toBeLessThan(5)
})

test.each(['exclusive', 'inclusive'] as const)(
  'a drain of own fetches ends at each poll, even if nothing distinguishes them from others (`from` %s)',
  async (from) => {
    const switches = {
      from,
      page_cap: 7,
      date_header: 'off',
      user_agent: 'generic',
      self_audit: 'pages',
    } as const
    const harness = await openHarness({ switches: { ...switches, clock_skew_ms: 45 * SECOND } })
    harness.add(50, START - MINUTE)
    await harness.drain()
    harness.asked()
    for (let poll = 1; poll <= 12; poll++) {
      await wait(harness, HOUR)
      await harness.drain(40)
      expect(harness.asked().length, `poll ${poll}`).toBeLessThan(16)
    }
  },
)

/** A server without a `Date`, and entries dated in the future: the size of a full page must be guessed. */
async function guessing(page_cap: number) {
  const harness = await openHarness({ switches: { date_header: 'off', page_cap } })
  harness.add(200, START - HOUR)
  await harness.drain()
  return harness
}

test('one small page does not define a full page: entries dated in the future that fill no page lead nowhere', async () => {
  const harness = await guessing(1_000)
  for (let poll = 0; poll < 6; poll++) {
    harness.add(1)
    await wait(harness, 5 * MINUTE)
    await harness.drain()
  }
  const { head } = harness.state()
  for (let i = 0; i < 40; i++) harness.mock.add({ at: harness.clock.now() + 9 * HOUR + i, visibleAt: 0 })
  await wait(harness, 5 * MINUTE)
  await harness.drain()
  expect(harness.state().head).toEqual(head)
})

test('a server that starts to send smaller pages is recognised after a while: one drain reads a burst', async () => {
  const harness = await guessing(100)
  harness.mock.setSwitches({ page_cap: 10 })
  for (let poll = 0; poll < 200; poll++) {
    harness.add(1)
    await wait(harness, 5 * MINUTE)
    await harness.drain()
  }
  await wait(harness, 5 * MINUTE)
  const burst = harness.add(60, harness.clock.now() + 20 * MINUTE)
  await harness.drain()
  expect(await harness.ids()).toEqual(expect.arrayContaining(burst))
})

test('a log that leads in circles is requested three more times, then not until the next poll', async () => {
  const ring = { from: 'nobody', to: 'nobody' }
  const harness = await openHarness({
    switches: { page_cap: 10 },
    wrap: (send) => (request, signal) =>
      send({ ...request, url: request.url.replace(`from=${ring.from}`, `from=${ring.to}`) }, signal),
  })
  const known = harness.add(50, START - MINUTE)
  Object.assign(ring, { from: known[20], to: known[0] })
  const alarms: unknown[] = []
  for (let i = 0; i < 20 && (i < 2 || harness.state().drain !== null); i++) alarms.push(await harness.try())
  expect(alarms.filter(Boolean)).toHaveLength(3)
})

test('an id with special characters is requested unchanged', async () => {
  const id = 'a&take=1#/b c%41é'
  const asked = new Set<string | null>()
  const harness = await openHarness({
    wrap: (send) => (request, signal) => {
      asked.add(new URL(request.url).searchParams.get('from'))
      return send(request, signal)
    },
  })
  harness.mock.add({ id, at: START - MINUTE, visibleAt: 0 })
  await harness.drain()
  expect(asked).toContain(id)
  expect(new Set(takesOf(harness.asked()))).toEqual(new Set([1_000]))
})

test('empty bodies are an outage at any page size: nothing is skipped', async () => {
  const state = { isOut: false }
  const harness = await openHarness({
    wrap: (send) => (request, signal) =>
      state.isOut && request.url.includes('from=') ? Promise.resolve(reply('')) : send(request, signal),
  })
  harness.add(5, START - MINUTE)
  await harness.drain()
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(5)
  state.isOut = true
  for (let i = 0; i < 40; i++) expect(await harness.try()).toMatchObject({ code: 'bad_reply' })
  state.isOut = false
  await harness.drain()
  expect((await harness.ids()).slice(5)).toEqual(fresh)
  expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
})

test('bad pages with good ones in between do not reduce the page size', async () => {
  const harness = await openHarness({ switches: { page_cap: 10 } })
  const ids = harness.add(100, START - MINUTE)
  harness.mock.setFault('truncated', { nth: [2, 3, 5, 6, 8, 9, 11, 12] })
  await harness.drain()
  expect(await harness.ids()).toEqual(ids)
  expect(new Set(takesOf(harness.asked()))).toEqual(new Set([1_000]))
})

test('a reduced page size stays for the usual number of good pages, and no larger page is tried in between', async () => {
  const harness = await openHarness({ switches: { page_cap: 10 } })
  const before = harness.add(195, START - 10 * MINUTE)
  harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
  const after = harness.add(5, START - MINUTE)
  // The first page is narrowed to 100, and so are the nineteen good ones before the bad entry.
  harness.mock.setFault('truncated', { nth: [2, 3, 4] })
  await harness.drain()
  expect(await harness.ids()).toEqual([...before, ...after])
  const takes = takesOf(harness.asked())
  expect(takes.slice(takes.indexOf(10), takes.lastIndexOf(1) + 1)).not.toContain(1_000)
})

test('a foreign fetch on a page that starts before the configured start is shipped, and is the only finding', async () => {
  const startAt = START + 5 * MINUTE + SECOND / 2
  const harness = await openHarness({
    switches: { from: 'inclusive' },
    source: { start: { kind: 'time', atUs: startAt * 1000 } },
  })
  await harness.drain()
  const fetch = { type: 'api:audit_log_fetch', user: 'siem@acme.example', visibleAt: 0 }
  harness.mock.add({ at: startAt - 200, visibleAt: 0 })
  const own = harness.mock.add({ ...fetch, at: startAt + 100, userAgent: AGENT }).id
  const foreign = harness.mock.add({ ...fetch, at: startAt + 200, userAgent: 'curl/8' }).id
  await harness.live(startAt + 20 * MINUTE)
  expect(await harness.ids()).toEqual([own, foreign])
  const found = harness.journal.stats().lastFindings
  expect(found.every(({ entryId }) => entryId === foreign)).toBe(true)
})

test('the overlap stays in the order of the log, however many known entries a page has', async () => {
  const harness = await openHarness({ source: { intervalMs: MINUTE } })
  for (let poll = 0; poll < 4; poll++) {
    const at = harness.clock.now()
    for (let i = 0; i < 900; i++) harness.mock.add({ at: at - 90 * SECOND + i * 100, visibleAt: 0 })
    await harness.drain()
    await wait(harness, 90 * SECOND)
  }
  const places = harness.state().overlap.map(({ at }) => at)
  expect(places.length).toBeGreaterThan(5)
  expect(places).toEqual(places.toSorted((a, b) => a - b))
})
