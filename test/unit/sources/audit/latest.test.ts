// Beginning at the newest entry, or without it: what comes after the instant at which reading began is shipped, however soon, and a `latest` that fails by itself keeps nothing from flowing.
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { HOUR, MINUTE, SECOND, START, openDesk } from '../../app/desk.ts'

const latest = { start: { kind: 'latest' } } as const

test('`latest`: an entry half a second after the newest of then is shipped', async () => {
  const desk = await openDesk({ source: latest })
  desk.add(5, START - SECOND)
  await desk.drain()
  const soon = desk.mock.add({ at: START - SECOND / 2, visibleAt: 0 }).id
  await desk.live(START + 10 * MINUTE)
  expect(await desk.ids()).toEqual([soon])
})

test.each(['on', 'off'] as const)(
  '`latest` on an empty log: an entry in the very second in which it was found empty is shipped (Date: %s)',
  async (date_header) => {
    const desk = await openDesk({ source: latest, switches: { date_header } })
    desk.clock.advance(START + 300)
    await desk.step()
    const soon = desk.mock.add({ at: START + 100, visibleAt: 0 }).id
    await desk.live(START + 10 * MINUTE)
    expect(await desk.ids()).toEqual([soon])
  },
)

const answer = (status: number, text: string): HttpReply => ({
  ...{ status, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    yield Buffer.from(text)
  })(),
})

/** These endpoints answer so; all others as they are. */
const failing =
  (answers: Readonly<Record<string, () => HttpReply>>) =>
  (send: Transport): Transport =>
  (request, signal) => {
    const name = /audit\/(\w+)/.exec(request.url)?.[1] ?? ''
    return answers[name] ? Promise.resolve(answers[name]()) : send(request, signal)
  }
const refusing = (status: number) => failing({ latest: () => answer(status, '{"error":"no"}') })

test.each([500, 403])(
  'an empty log whose `latest` answers %d is caught up, that is told once, and what comes is read',
  async (status) => {
    const desk = await openDesk({ wrap: refusing(status) })
    await desk.live(START + 30 * MINUTE)
    expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
    expect(desk.log.lines.filter((line) => line.includes('newest entry cannot'))).toHaveLength(1)
    const ids = desk.add(3)
    await desk.live(START + 40 * MINUTE)
    expect(await desk.ids()).toEqual(ids)
  },
)

test('`run --once` of an empty log whose `latest` fails ends', async () => {
  const desk = await openDesk({ source: { once: true }, wrap: refusing(500) })
  for (let step = 0; step < 5 && !desk.source.plan(desk.cursor).caughtUp; step++) await desk.step()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
})

test('an `earliest` that shows nothing does not make a log empty where `latest` fails and `search` shows one', async () => {
  const nothing = () => answer(200, '{}')
  const wrap = failing({ earliest: nothing, latest: () => answer(500, '{"error":"no"}') })
  const desk = await openDesk({ source: { once: true }, wrap })
  desk.add(3)
  expect(await desk.try()).toMatchObject({ code: 'bad_reply' })
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(false)
})

test.each([
  [500, 'on'],
  [500, 'off'],
  [403, 'on'],
] as const)(
  '`start: latest` of a log whose `latest` alone answers %d ships what comes from then on, and says so with the first step (`Date` %s)',
  async (status, date_header) => {
    const desk = await openDesk({ source: latest, wrap: refusing(status), switches: { date_header } })
    desk.add(5, START - SECOND)
    await desk.step()
    expect(desk.log.lines).toHaveLength(1)
    await desk.live(START + 10 * MINUTE)
    expect(await desk.ids()).toEqual([])
    const fresh = desk.add(3)
    await desk.live(START + 20 * MINUTE)
    expect(await desk.ids()).toEqual(fresh)
    expect(desk.log.lines.filter((line) => line.includes('newest entry cannot'))).toHaveLength(1)
  },
)

test('`start: latest` by a clock of ours that is ahead leaves nothing out where `latest` fails: the server’s clock says from when on', async () => {
  const desk = await openDesk({
    source: latest,
    wrap: refusing(500),
    switches: { clock_skew_ms: -20 * MINUTE },
  })
  desk.add(1, START - HOUR)
  await desk.live(START + MINUTE)
  const fresh = desk.add(3, START - 15 * MINUTE)
  await desk.live(START + 30 * MINUTE)
  expect(await desk.ids()).toEqual(fresh)
})

/** All answers are a 500 until `end` is called. */
function outage() {
  let isOut = true
  const wrap =
    (send: Transport): Transport =>
    (request, signal) =>
      isOut ? Promise.resolve(answer(500, '{"error":"no"}')) : send(request, signal)
  return { wrap, end: () => void (isOut = false) }
}

test('an outage at the first start tells nothing of `latest`, and `start: latest` then begins at the newest entry as ever', async () => {
  const { wrap, end } = outage()
  const desk = await openDesk({ source: latest, wrap })
  desk.add(2, START - SECOND)
  expect(await desk.try()).toMatchObject({ code: 'server_error' })
  expect(desk.log.lines).toEqual([])
  end()
  await desk.live(START + 10 * MINUTE)
  const fresh = desk.add(1)
  await desk.live(START + 20 * MINUTE)
  expect((await desk.ids()).slice(-1)).toEqual(fresh)
})

test('`start: latest` ships what came while the API could not be reached from the first start on, and nothing before', async () => {
  const { wrap, end } = outage()
  const desk = await openDesk({ source: latest, wrap })
  desk.add(5, START - MINUTE)
  await desk.try()
  const missed = desk.add(3, START + HOUR)
  desk.clock.advance(START + 2 * HOUR)
  await desk.try()
  end()
  await desk.live(START + 3 * HOUR)
  const fresh = desk.add(2)
  await desk.live(START + 4 * HOUR)
  expect(await desk.ids()).toEqual([...missed, ...fresh])
})

test.each(['dated ahead', 'not there', 'failing'] as const)(
  '`start: latest` behind an outage at the first start counts from that start on where the newest entry is %s too',
  async (kind) => {
    const { wrap, end } = outage()
    const withoutLatest = refusing(500)
    const desk = await openDesk({
      source: latest,
      wrap: (send) => wrap(kind === 'failing' ? withoutLatest(send) : send),
    })
    if (kind !== 'not there') desk.add(5, START - MINUTE)
    await desk.try()
    desk.clock.advance(START + 2 * HOUR)
    const hidden = kind === 'not there' ? START + 3 * HOUR : 0
    const missed = desk.mock.add({ at: START + HOUR, visibleAt: hidden }).id
    if (kind === 'dated ahead') desk.mock.add({ at: START + 1_000 * HOUR, visibleAt: 0 })
    end()
    await desk.live(START + 2 * HOUR + 10 * MINUTE)
    const fresh = desk.add(2, START + 4 * HOUR)
    await desk.live(START + 4 * HOUR + 10 * MINUTE)
    const ids = await desk.ids()
    expect(ids).toEqual(expect.arrayContaining([missed, ...fresh]))
    expect(ids).toHaveLength(kind === 'dated ahead' ? 4 : 3)
  },
)

test('of an outage at the first start under a clock of ours that is ahead `start: latest` leaves out nothing that comes behind it', async () => {
  const { wrap, end } = outage()
  const desk = await openDesk({ source: latest, wrap, switches: { clock_skew_ms: -20 * MINUTE } })
  desk.add(1, START - HOUR)
  await desk.try()
  end()
  await desk.live(START + MINUTE)
  const fresh = desk.add(3, START - 15 * MINUTE)
  await desk.live(START + 30 * MINUTE)
  expect(await desk.ids()).toEqual(fresh)
})

test.each([
  ...[20 * MINUTE, HOUR, 20 * HOUR, 365 * 24 * HOUR].map((behindMs) => ({ behindMs, date: 'on' as const })),
  // Less than an hour of a summer time cannot be told from what is dated ahead.
  ...[2 * HOUR, 20 * HOUR, 365 * 24 * HOUR].map((behindMs) => ({ behindMs, date: 'off' as const })),
])(
  'by a clock of ours that is $behindMs ms behind an outage at the first start ships nothing that came before it, and all that comes (Date: $date)',
  async ({ behindMs, date }) => {
    const { wrap, end } = outage()
    const switches = { clock_skew_ms: behindMs, date_header: date }
    const desk = await openDesk({ source: latest, wrap, switches })
    desk.add(50, START + behindMs - 10 * MINUTE)
    await desk.try()
    end()
    await desk.live(START + 10 * MINUTE)
    const fresh = desk.add(2, START + behindMs + 9 * MINUTE)
    await desk.live(START + 30 * MINUTE)
    expect(await desk.ids()).toEqual(fresh)
  },
)

test('what a clock that nobody had set noted at the first start is no start: `start: latest` begins at the newest entry then', async () => {
  const { wrap, end } = outage()
  const desk = await openDesk({ source: latest, wrap })
  desk.add(3, START - MINUTE)
  await desk.try()
  desk.cursor = JSON.stringify({ ...desk.state(), triedUs: 1 })
  end()
  await desk.live(START + 10 * MINUTE)
  const fresh = desk.add(1)
  await desk.live(START + 20 * MINUTE)
  expect(await desk.ids()).toEqual(fresh)
})

test('of an outage at the first start, what came in its very instant is shipped, also as the newest of all', async () => {
  const { wrap, end } = outage()
  const desk = await openDesk({ source: latest, wrap })
  desk.add(3, START - MINUTE)
  await desk.try()
  const soon = desk.mock.add({ at: START, visibleAt: 0 }).id
  desk.clock.advance(START + HOUR)
  end()
  await desk.live(START + 2 * HOUR)
  expect(await desk.ids()).toEqual([soon])
})

test('of an outage at the first start, what came in its very instant is shipped, and also where `latest` is dated ahead', async () => {
  const { wrap, end } = outage()
  const desk = await openDesk({ source: latest, wrap })
  await desk.try()
  const soon = desk.mock.add({ at: START, visibleAt: 0 }).id
  const ahead = desk.mock.add({ at: START + 300 * 24 * HOUR, visibleAt: 0 }).id
  desk.clock.advance(START + HOUR)
  end()
  await desk.live(START + 12 * HOUR)
  expect(await desk.ids()).toEqual(expect.arrayContaining([soon, ahead]))
})
