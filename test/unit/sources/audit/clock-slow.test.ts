// A clock of ours that is slow where the server tells none: what is of now seems to lie in the future, and is read all the same (invariant 7).
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { HOUR, MINUTE, START, openDesk } from '../../app/desk.ts'

test.each([
  { slowMs: HOUR, name: 'an hour, as a summer time that was not taken' },
  { slowMs: 14 * HOUR, name: '14 hours, as a local time that was taken for UTC' },
])(
  'where the server does not tell its clock, one of ours that is slow by $name, leaves nothing unread',
  async ({ slowMs }) => {
    const desk = await openDesk({ switches: { date_header: 'off', clock_skew_ms: slowMs } })
    desk.add(5, START + slowMs - 2 * HOUR)
    await desk.live(START + MINUTE)
    const fresh: string[] = []
    for (let i = 0; i < 40; i++) {
      fresh.push(desk.mock.add({ at: desk.clock.now() + slowMs, visibleAt: 0 }).id)
      await desk.live(desk.clock.now() + 6 * MINUTE)
      expect(await desk.ids()).toContain(fresh.at(-1))
    }
    expect(desk.reporter.gaps).toBe(0)
  },
)

test('a clock of ours that is slow is no reason to wait behind a cursor whose entry is purged', async () => {
  const slowMs = 14 * HOUR
  const desk = await openDesk({ switches: { date_header: 'off', clock_skew_ms: slowMs } })
  const oldest = desk.add(5, START + slowMs - 2 * HOUR)
  await desk.live(START + MINUTE)
  // So many ahead of our clock prove it wrong.
  const known = desk.add(20, START + slowMs)
  await desk.live(START + 7 * MINUTE)
  desk.mock.purge([...oldest, ...known])
  const fresh = desk.add(5, START + slowMs + 10 * MINUTE)
  await desk.live(START + 20 * MINUTE)
  expect(await desk.ids()).toEqual(expect.arrayContaining(fresh))
  expect(desk.reporter.gaps).toBe(1)
})

test.each([2, 5])(
  'pages of no more than %d entries show as well that our clock is slow, before anything is begun',
  async (page_cap) => {
    const slowMs = 14 * HOUR
    const desk = await openDesk({ switches: { date_header: 'off', clock_skew_ms: slowMs, page_cap } })
    const known = desk.add(30, START + slowMs - HOUR)
    await desk.live(START + 10 * MINUTE)
    expect(desk.state().head).not.toBeNull()
    expect(await desk.ids()).toEqual(known)
  },
)

test('where the server does not tell its clock, `latest` ships nothing of a busy hour that a slow clock of ours takes for the future', async () => {
  const slowMs = 14 * HOUR
  const desk = await openDesk({
    source: { start: { kind: 'latest' } },
    switches: { date_header: 'off', clock_skew_ms: slowMs },
  })
  const before = desk.add(50, START + slowMs - HOUR)
  await desk.live(START + MINUTE)
  for (let i = 0; i < 12; i++) {
    const { id } = desk.mock.add({ at: desk.clock.now() + slowMs, visibleAt: 0 })
    await desk.live(desk.clock.now() + 6 * MINUTE)
    expect(await desk.ids()).toContain(id)
  }
  const ids = new Set(await desk.ids())
  expect(before.filter((id) => ids.has(id))).toEqual([])
})

/** Pages are answered by `page` in the place of the API. */
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

test('a page that fails tells nothing of the clocks: it is told, and `latest` is not begun', async () => {
  const desk = await openDesk({
    source: { start: { kind: 'latest' } },
    switches: { date_header: 'off' },
    wrap: paging(() => reply('[{"id":')),
  })
  desk.mock.add({ at: START + 5 * HOUR, visibleAt: 0 })
  // The first look settles the start.
  expect(await desk.try()).toMatchObject({ code: 'bad_reply' })
  expect(desk.state()).toMatchObject({ startUs: null, head: null })
})

test('in a feed that is in no order of time, what is of now behind a first entry dated in the future is gone on to', async () => {
  const ofNow = '{"id":"0b","timestamp":"2026-11-17T09:59:00.000000","type":"auth:login"}'
  const desk = await openDesk({ switches: { date_header: 'off' }, wrap: paging(() => reply(`[${ofNow}]`)) })
  const ahead = desk.mock.add({ at: START + 5 * HOUR, visibleAt: 0 }).id
  await desk.step()
  expect(desk.state().head?.id).toBe(ahead)
  await desk.live(START + MINUTE)
  expect(await desk.ids()).toContain('0b')
})

test.each((['earliest', 'latest'] as const).flatMap((kind) => [0, 3, 8].map((good) => ({ kind, good }))))(
  'an entry that stays unreadable behind $good others keeps no slow clock of ours from being found out, and is a gap (start: $kind)',
  async ({ kind, good }) => {
    const slowMs = 14 * HOUR
    const desk = await openDesk({
      source: { start: { kind } },
      switches: { date_header: 'off', clock_skew_ms: slowMs },
    })
    const at = START + slowMs - 2 * HOUR
    const begun = kind === 'earliest' ? desk.add(good + 1, at) : []
    if (kind === 'latest') desk.add(good + 1, at)
    desk.mock.add({ at: at + good * 1000 + 60_000, visibleAt: 0, defect: 'poison' })
    const behind = desk.add(30, at + good * 1000 + 120_000)
    await desk.live(START + 20 * MINUTE)
    expect(desk.state().head).not.toBeNull()
    const fresh = desk.mock.add({ at: desk.clock.now() + slowMs, visibleAt: 0 }).id
    await desk.live(desk.clock.now() + 6 * MINUTE)
    const wanted = kind === 'earliest' ? [...begun, ...behind, fresh] : [fresh]
    expect(await desk.ids()).toEqual(expect.arrayContaining(wanted))
    expect(desk.state().ahead).toBeUndefined()
  },
)

test('what is unreadable in the future is passed there, and what comes now is read before it', async () => {
  const desk = await openDesk({ switches: { date_header: 'off' } })
  const ahead = [desk.mock.add({ at: START + 5 * HOUR, visibleAt: 0 }).id]
  desk.mock.add({ at: START + 5 * HOUR + 60_000, visibleAt: 0, defect: 'poison' })
  ahead.push(desk.mock.add({ at: START + 5 * HOUR + 120_000, visibleAt: 0 }).id)
  await desk.live(START + 20 * MINUTE)
  expect(desk.state().head).toBeNull()
  for (let i = 0; i < 5; i++) {
    const { id } = desk.mock.add({ at: desk.clock.now(), visibleAt: 0 })
    await desk.live(desk.clock.now() + 6 * MINUTE)
    expect(await desk.ids()).toContain(id)
  }
  expect(await desk.ids()).toContain(ahead[0])
})
