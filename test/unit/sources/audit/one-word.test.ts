// No single answer costs entries, a cursor or a false alarm:
// an old page, a wrong Date, a login page, a foreign fetch.
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { classify, freshFetches, recordSent } from '../../../../src/sources/audit/cursor.ts'
import { entriesOf } from '../../../fakes/lines.ts'
import { HOUR, INSTANCE, MINUTE, START, openHarness } from '../../app/audit-harness.ts'
import type { Harness } from '../../app/audit-harness.ts'
import { compared, openRangeSetup, spread } from './range-setup.ts'

const reply = (text: string, status = 200, type = 'application/json'): HttpReply => ({
  ...{ status, headers: { 'content-type': type } },
  body: (async function* () {
    yield Buffer.from(text)
  })(),
})

const isPage = (url: string) => url.includes('from=')

/** Sets every `Date` this much behind the server's entries. */
const dated =
  (behindMs: number) =>
  (send: Transport): Transport =>
  async (request, signal) => {
    const answer = await send(request, signal)
    const at = Date.parse(answer.headers['date'] ?? '') - behindMs
    return { ...answer, headers: { ...answer.headers, date: new Date(at).toUTCString() } }
  }

async function wait(harness: Harness, ms: number): Promise<void> {
  while (harness.clock.advance(harness.clock.now() + ms));
}

test('newer entries that no page leads to are requested three times, then reported as a gap, and reading rests', async () => {
  const state = { dead: false }
  const harness = await openHarness({
    wrap: (send) => async (request, signal) => {
      if (state.dead && isPage(request.url)) return reply('[]')
      if (state.dead && request.url.includes('/search')) return reply('{"error":"none"}', 404)
      return send(request, signal)
    },
  })
  harness.add(5, START - MINUTE)
  await harness.drain()
  state.dead = true
  await wait(harness, 5 * MINUTE)
  harness.add(1)
  await harness.drain(12)
  expect(harness.reporter.gaps).toBe(1)
  expect(harness.source.plan(harness.cursor).dueAt).toBe(harness.clock.now() + 5 * MINUTE)
})

test.each([1, 2, 3, 4, 5])(
  'an old page within a drain, its page %d, does not move the head back',
  async (nth) => {
    const state = { pages: -Infinity }
    const known: string[] = []
    const harness = await openHarness({
      switches: { page_cap: 7 },
      wrap: (send) => (request, signal) => {
        const isOld = isPage(request.url) && ++state.pages === nth
        const url = isOld ? request.url.replace(/from=[^&]*/, `from=${known[0] ?? ''}`) : request.url
        return send({ ...request, url }, signal)
      },
    })
    known.push(...harness.add(30, START - MINUTE))
    await harness.drain()
    await wait(harness, 5 * MINUTE)
    const fresh = harness.add(40)
    state.pages = 0
    let { headUs } = harness.state()
    for (let i = 0; i < 30 && !(harness.state().caughtUp && i > 0); i++) {
      await harness.try()
      expect(harness.state().headUs).toBeGreaterThanOrEqual(headUs)
      headUs = harness.state().headUs
    }
    await harness.drain()
    expect(await harness.ids()).toEqual([...known, ...fresh])
  },
)

test('a Date hours behind does not end a drain', async () => {
  const harness = await openHarness({ switches: { page_cap: 7 }, wrap: dated(3 * HOUR) })
  const ids = harness.add(100, START - MINUTE)
  await harness.drain()
  expect(await harness.ids()).toEqual(ids)
})

test('a Date two hours behind does not cut a backfill short', async () => {
  const at = openRangeSetup({ wrap: dated(2 * HOUR) })
  spread(at, 2_000)
  const { ids, gaps } = await at.readAll()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual({ missing: 0, strange: 0, twice: 0, gaps: 0 })
})

test.each(Array.from({ length: 14 }, (_, i) => i + 3))(
  'own fetches in the overlap do not end a drain before others’ newer entries (%d per page)',
  async (page_cap) => {
    const harness = await openHarness({ switches: { self_audit: 'all', page_cap } })
    harness.add(3, START - MINUTE)
    await harness.drain()
    await wait(harness, 5 * MINUTE)
    const others = Array.from(
      { length: 40 },
      (_, i) => harness.mock.add({ at: harness.clock.now() + i, visibleAt: 0 }).id,
    )
    await harness.drain()
    expect(await harness.ids()).toEqual(expect.arrayContaining(others))
  },
)

test('one fetch of another user in the second of our request does not count as ours', () => {
  const fetches = freshFetches(START)
  recordSent(fetches, START)
  const fetch = (id: string, at: number, user: string, agent: string) => {
    const time = new Date(at).toISOString().slice(0, -1)
    const type = 'api:audit_log_fetch'
    const raw = JSON.stringify({ id, timestamp: time, type, user, ip: '203.0.113.5', user_agent: agent })
    return classify(fetches, entriesOf([{ id, time, type, raw }]), 0, {
      instance: INSTANCE,
      expectedUserAgent: () => false,
      sentTimes: { sent: [] },
    })
  }
  fetch('a', START, 'stranger', 'curl/8')
  expect(fetches).toMatchObject({ user: null, byTimeIp: null })
  // That user stays unrelated to us, whatever it does from then on.
  expect(fetch('b', START + MINUTE, 'stranger', 'curl/8')).toBe('other')
})

test('a login page instead of a page does not reduce the page size', async () => {
  const state = { out: false, takes: [] as number[] }
  const harness = await openHarness({
    wrap: (send) => async (request, signal) => {
      if (!isPage(request.url)) return send(request, signal)
      state.takes.push(Number(new URL(request.url).searchParams.get('take')))
      return state.out ? reply('<html>log in</html>', 200, 'text/html') : send(request, signal)
    },
  })
  harness.add(5, START - MINUTE)
  await harness.drain()
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(5)
  state.out = true
  state.takes = []
  for (let i = 0; i < 8; i++) expect(await harness.try()).toMatchObject({ code: 'bad_reply' })
  state.out = false
  await harness.drain()
  expect(new Set(state.takes).size).toBe(1)
  expect(await harness.ids()).toEqual(expect.arrayContaining(fresh))
  expect(harness.reporter.gaps).toBe(0)
})

test('a lost entry is no gap once its instant, and then the entry itself, is found again', async () => {
  const state = { lost: '' }
  const harness = await openHarness({
    wrap: (send) => async (request, signal) =>
      state.lost !== '' && request.url.includes(`from=${state.lost}`)
        ? reply('{"error":"unknown"}', 404)
        : send(request, signal),
  })
  const twins = [1, 2].map(() => harness.mock.add({ at: START - MINUTE, visibleAt: 0 }).id)
  await harness.drain()
  state.lost = harness.state().head?.id ?? ''
  expect(twins).toContain(state.lost)
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(3)
  await harness.drain()
  expect(await harness.ids()).toEqual([...twins, ...fresh])
  expect(harness.reporter.gaps).toBe(0)
})
