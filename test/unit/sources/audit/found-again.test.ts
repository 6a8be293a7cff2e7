// A head that no page leads on from: it is found again by time,
// without a false gap, within the rate limit (invariant 6).
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { HOUR, MINUTE, SECOND, START, endpoints, openHarness } from '../../app/audit-harness.ts'

const UNKNOWN = '99999999-9999-4999-8999-999999999999'

/** The server does not know these ids as `from`, and otherwise shows everything. */
const forgetting =
  (ids: ReadonlySet<string>) =>
  (send: Transport): Transport =>
  (request, signal) => {
    const from = new URL(request.url).searchParams.get('from')
    const url = from !== null && ids.has(from) ? request.url.replace(from, UNKNOWN) : request.url
    return send({ ...request, url }, signal)
  }

test('a head unknown to the API with nothing after it is the end of the log: no error, no gap', async () => {
  const forgotten = new Set<string>()
  const harness = await openHarness({ wrap: forgetting(forgotten) })
  const ids = harness.add(5, START - MINUTE)
  await harness.drain()
  forgotten.add(ids.at(-1) ?? '')
  await harness.live(START + 6 * MINUTE)
  for (let poll = 2; poll < 5; poll++) {
    expect(await harness.try()).toBeUndefined()
    await harness.live(START + poll * 6 * MINUTE)
  }
  expect(harness.state().caughtUp).toBe(true)
  expect(harness.reporter.gaps).toBe(0)
})

test('a server that knows no entry as `from` does not use up the rate limit: one search by time per poll', async () => {
  const harness = await openHarness({
    wrap: (send) => (request, signal) =>
      send({ ...request, url: request.url.replace(/from=[^&]+/, `from=${UNKNOWN}`) }, signal),
  })
  harness.add(100, START - SECOND)
  await harness.live(START + MINUTE)
  expect(harness.asked().length).toBeLessThan(15)
  await harness.live(START + 61 * MINUTE)
  // Three tries per poll: the page, and the search by time.
  expect(harness.asked().length).toBeLessThanOrEqual(12 * 11)
  expect(harness.state().caughtUp).toBe(false)
})

test('a log of one entry dated hours ahead, without a server clock, is no gap, and later entries are read', async () => {
  const harness = await openHarness({ switches: { date_header: 'off' } })
  const ids = harness.add(1, START + 5 * HOUR)
  await harness.drain()
  await harness.live(START + 6 * HOUR)
  ids.push(...harness.add(3))
  await harness.live(START + 7 * HOUR)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.reporter.gaps).toBe(0)
  expect(harness.log.lines).toEqual([])
})

test('entries before the time of a purged first entry dated hours ahead are read', async () => {
  const harness = await openHarness({ switches: { date_header: 'off' } })
  const first = harness.add(1, START + 5 * HOUR)
  await harness.drain()
  harness.mock.purge(first)
  await harness.live(START + 2 * HOUR)
  const fresh = harness.add(3)
  await harness.live(START + 3 * HOUR)
  expect(await harness.ids()).toEqual([...first, ...fresh])
})

test('after a skipped entry pages have the usual size at once', async () => {
  const harness = await openHarness()
  harness.add(30, START - 10 * MINUTE)
  harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
  harness.add(30, START - SECOND)
  await harness.drain()
  const asked = endpoints(harness.asked())
  expect(asked.slice(asked.lastIndexOf('search') + 1).length).toBeLessThanOrEqual(4)
})

test('an earlier entry of the head’s second, found by time, does not move the reported progress back', async () => {
  const forgotten = new Set<string>()
  const harness = await openHarness({ wrap: forgetting(forgotten) })
  const second = (START - MINUTE) * 1000
  const known = [1_000, 2_000].map((us) => harness.mock.add({ atUs: second + us, visibleAt: 0 }).id)
  await harness.drain()
  for (const id of known) forgotten.add(id)
  while (harness.clock.advance(START + 5 * MINUTE));
  harness.add(1)
  for (let step = 0; step < 5 && harness.state().head?.id !== known[0]; step++) await harness.try()
  expect(harness.state().head?.id).toBe(known[0])
  expect(harness.state().headUs).toBe(second + 2_000)
})

test('a head unknown once, found again at an earlier entry of its second, does not count as a circle', async () => {
  const state = { nth: Infinity }
  const harness = await openHarness({
    wrap: (send) => (request, signal) => {
      const isStruck = request.url.includes('from=') && --state.nth === 0
      const url = isStruck ? request.url.replace(/from=[^&]+/, `from=${UNKNOWN}`) : request.url
      return send({ ...request, url }, signal)
    },
  })
  harness.add(1, START - HOUR)
  await harness.drain()
  while (harness.clock.advance(START + 5 * MINUTE));
  const at = harness.clock.now() - 10 * SECOND
  for (let i = 0; i < 3; i++) harness.mock.add({ at: at + i, visibleAt: 0 })
  // The page after the last of them.
  state.nth = 2
  expect(await harness.try()).toBeUndefined()
  for (let step = 0; step < 10 && harness.state().drain !== null; step++)
    expect(await harness.try()).toBeUndefined()
  expect(harness.state().caughtUp).toBe(true)
  expect(await harness.ids()).toHaveLength(4)
  expect(harness.reporter.gaps).toBe(0)
})

test('each purge that removes the head is a gap of its own', async () => {
  const harness = await openHarness()
  const known: string[] = []
  for (let purge = 1; purge <= 3; purge++) {
    known.push(...harness.add(5))
    await harness.live(harness.clock.now() + 6 * MINUTE)
    harness.mock.purge(known)
    known.push(...harness.add(2))
    await harness.live(harness.clock.now() + 6 * MINUTE)
    expect(harness.reporter.gaps).toBe(purge)
  }
})

/** Half an answer to every request. */
const broken = (): HttpReply => ({
  ...{ status: 200, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    yield Buffer.from('[{"id":"abc","timest')
  })(),
})

test('a server that answers nothing readable is an outage: nothing is skipped', async () => {
  const state = { isOut: false }
  const harness = await openHarness({
    wrap: (send) => (request, signal) => (state.isOut ? Promise.resolve(broken()) : send(request, signal)),
  })
  const ids = harness.add(5, START - MINUTE)
  await harness.drain()
  state.isOut = true
  await harness.live(START + 20 * MINUTE)
  // Later than the first new entries: skipping to them would miss those.
  ids.push(...harness.add(5, START + MINUTE), ...harness.add(5))
  state.isOut = false
  await harness.live(START + 3 * HOUR)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.reporter.gaps).toBe(0)
})

test('an old `latest` does not move the head back if the log ends with an unreadable entry', async () => {
  const state = { oldest: '' }
  const harness = await openHarness({
    wrap: (send) => async (request, signal) => {
      const answer = await send(request, signal)
      if (state.oldest === '' || !request.url.includes('/latest')) return answer
      return { ...broken(), body: Readable.from([Buffer.from(state.oldest)]) }
    },
  })
  const ids = harness.add(5, START - MINUTE)
  await harness.drain()
  const { head } = harness.state()
  state.oldest = `{"log":${Buffer.from(harness.mock.entries()[0]?.raw ?? '').toString()}}`
  harness.mock.add({ at: START, visibleAt: 0, defect: 'poison' })
  await harness.live(START + 30 * MINUTE)
  expect(harness.state()).toMatchObject({ head, caughtUp: true })
  ids.push(...harness.add(3))
  await harness.live(START + HOUR)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.reporter.gaps).toBe(0)
})

test('a purged head is skipped from older entries of the overlap: no search, no gap', async () => {
  const harness = await openHarness()
  const ids = harness.add(100, START - SECOND)
  await harness.drain()
  harness.mock.purge(ids.slice(-1))
  while (harness.clock.advance(START + 5 * MINUTE));
  ids.push(...harness.add(5))
  harness.asked()
  await harness.drain()
  expect(await harness.ids()).toEqual(ids)
  expect(endpoints(harness.asked())).not.toContain('search')
  expect(harness.reporter.gaps).toBe(0)
})
