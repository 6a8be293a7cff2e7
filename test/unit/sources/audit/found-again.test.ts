// A head whose entry no page leads on from: found again by time, without a gap that is none, and without eating the budget (invariant 6).
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { HOUR, MINUTE, SECOND, START, endpoints, openDesk } from '../../app/desk.ts'

const UNKNOWN = '99999999-9999-4999-8999-999999999999'

/** The server knows none of these as `from`; all else of them it shows. */
const forgetting =
  (ids: ReadonlySet<string>) =>
  (send: Transport): Transport =>
  (request, signal) => {
    const from = new URL(request.url).searchParams.get('from')
    const url = from !== null && ids.has(from) ? request.url.replace(from, UNKNOWN) : request.url
    return send({ ...request, url }, signal)
  }

test('a head that is unknown to the API, with nothing behind it, is the end of the log: no error, no gap', async () => {
  const forgotten = new Set<string>()
  const desk = await openDesk({ wrap: forgetting(forgotten) })
  const ids = desk.add(5, START - MINUTE)
  await desk.drain()
  forgotten.add(ids.at(-1) ?? '')
  await desk.live(START + 6 * MINUTE)
  for (let poll = 2; poll < 5; poll++) {
    expect(await desk.try()).toBeUndefined()
    await desk.live(START + poll * 6 * MINUTE)
  }
  expect(desk.state().caughtUp).toBe(true)
  expect(desk.reporter.gaps).toBe(0)
})

test('a server that knows no entry as `from` does not eat the budget: its place is found by time once a poll', async () => {
  const desk = await openDesk({
    wrap: (send) => (request, signal) =>
      send({ ...request, url: request.url.replace(/from=[^&]+/, `from=${UNKNOWN}`) }, signal),
  })
  desk.add(100, START - SECOND)
  await desk.live(START + MINUTE)
  expect(desk.asked().length).toBeLessThan(15)
  await desk.live(START + 61 * MINUTE)
  // Three tries a poll: the page, and its place by time.
  expect(desk.asked().length).toBeLessThanOrEqual(12 * 11)
  expect(desk.state().caughtUp).toBe(false)
})

test('a log of one entry dated hours ahead, where no clock is told, is no gap, and what comes then is read', async () => {
  const desk = await openDesk({ switches: { date_header: 'off' } })
  const ids = desk.add(1, START + 5 * HOUR)
  await desk.drain()
  await desk.live(START + 6 * HOUR)
  ids.push(...desk.add(3))
  await desk.live(START + 7 * HOUR)
  expect(await desk.ids()).toEqual(ids)
  expect(desk.reporter.gaps).toBe(0)
  expect(desk.log.lines).toEqual([])
})

test('a first entry dated hours ahead that is gone is no place to look behind: what comes before its time is read', async () => {
  const desk = await openDesk({ switches: { date_header: 'off' } })
  const first = desk.add(1, START + 5 * HOUR)
  await desk.drain()
  desk.mock.purge(first)
  await desk.live(START + 2 * HOUR)
  const fresh = desk.add(3)
  await desk.live(START + 3 * HOUR)
  expect(await desk.ids()).toEqual([...first, ...fresh])
})

test('behind an entry that was passed the usual pages are asked for at once', async () => {
  const desk = await openDesk()
  desk.add(30, START - 10 * MINUTE)
  desk.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
  desk.add(30, START - SECOND)
  await desk.drain()
  const asked = endpoints(desk.asked())
  expect(asked.slice(asked.lastIndexOf('search') + 1).length).toBeLessThanOrEqual(4)
})

test('an earlier entry of the head’s second, found by time, takes nothing back of what is told to be read', async () => {
  const forgotten = new Set<string>()
  const desk = await openDesk({ wrap: forgetting(forgotten) })
  const second = (START - MINUTE) * 1000
  const known = [1_000, 2_000].map((us) => desk.mock.add({ atUs: second + us, visibleAt: 0 }).id)
  await desk.drain()
  for (const id of known) forgotten.add(id)
  while (desk.clock.advance(START + 5 * MINUTE));
  desk.add(1)
  for (let step = 0; step < 5 && desk.state().head?.id !== known[0]; step++) await desk.try()
  expect(desk.state().head?.id).toBe(known[0])
  expect(desk.state().headUs).toBe(second + 2_000)
})

test('a head that is unknown in passing, found again at an earlier entry of its second, is no feed in circles', async () => {
  const state = { nth: Infinity }
  const desk = await openDesk({
    wrap: (send) => (request, signal) => {
      const isStruck = request.url.includes('from=') && --state.nth === 0
      const url = isStruck ? request.url.replace(/from=[^&]+/, `from=${UNKNOWN}`) : request.url
      return send({ ...request, url }, signal)
    },
  })
  desk.add(1, START - HOUR)
  await desk.drain()
  while (desk.clock.advance(START + 5 * MINUTE));
  const at = desk.clock.now() - 10 * SECOND
  for (let i = 0; i < 3; i++) desk.mock.add({ at: at + i, visibleAt: 0 })
  // The page behind the last of them.
  state.nth = 2
  expect(await desk.try()).toBeUndefined()
  for (let step = 0; step < 10 && desk.state().drain !== null; step++)
    expect(await desk.try()).toBeUndefined()
  expect(desk.state().caughtUp).toBe(true)
  expect(await desk.ids()).toHaveLength(4)
  expect(desk.reporter.gaps).toBe(0)
})

test('each purge that takes the head is a gap of its own', async () => {
  const desk = await openDesk()
  const known: string[] = []
  for (let purge = 1; purge <= 3; purge++) {
    known.push(...desk.add(5))
    await desk.live(desk.clock.now() + 6 * MINUTE)
    desk.mock.purge(known)
    known.push(...desk.add(2))
    await desk.live(desk.clock.now() + 6 * MINUTE)
    expect(desk.reporter.gaps).toBe(purge)
  }
})

/** Half an answer, whatever is asked. */
const broken = (): HttpReply => ({
  ...{ status: 200, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    yield Buffer.from('[{"id":"abc","timest')
  })(),
})

test('a server that cannot tell any entry is out of order: nothing is passed on its word', async () => {
  const state = { isOut: false }
  const desk = await openDesk({
    wrap: (send) => (request, signal) => (state.isOut ? Promise.resolve(broken()) : send(request, signal)),
  })
  const ids = desk.add(5, START - MINUTE)
  await desk.drain()
  state.isOut = true
  await desk.live(START + 20 * MINUTE)
  // Later than what came at once: a step past it would leave that out.
  ids.push(...desk.add(5, START + MINUTE), ...desk.add(5))
  state.isOut = false
  await desk.live(START + 3 * HOUR)
  expect(await desk.ids()).toEqual(ids)
  expect(desk.reporter.gaps).toBe(0)
})

test('a `latest` that lags moves no head back where the log ends with what cannot be read', async () => {
  const state = { oldest: '' }
  const desk = await openDesk({
    wrap: (send) => async (request, signal) => {
      const answer = await send(request, signal)
      if (state.oldest === '' || !request.url.includes('/latest')) return answer
      return { ...broken(), body: Readable.from([Buffer.from(state.oldest)]) }
    },
  })
  const ids = desk.add(5, START - MINUTE)
  await desk.drain()
  const { head } = desk.state()
  state.oldest = `{"log":${Buffer.from(desk.mock.entries()[0]?.raw ?? '').toString()}}`
  desk.mock.add({ at: START, visibleAt: 0, defect: 'poison' })
  await desk.live(START + 30 * MINUTE)
  expect(desk.state()).toMatchObject({ head, caughtUp: true })
  ids.push(...desk.add(3))
  await desk.live(START + HOUR)
  expect(await desk.ids()).toEqual(ids)
  expect(desk.reporter.gaps).toBe(0)
})

test('a head that is gone while older places of the trail are still there is passed from them: no search, no gap', async () => {
  const desk = await openDesk()
  const ids = desk.add(100, START - SECOND)
  await desk.drain()
  desk.mock.purge(ids.slice(-1))
  while (desk.clock.advance(START + 5 * MINUTE));
  ids.push(...desk.add(5))
  desk.asked()
  await desk.drain()
  expect(await desk.ids()).toEqual(ids)
  expect(endpoints(desk.asked())).not.toContain('search')
  expect(desk.reporter.gaps).toBe(0)
})
