// Starting at the newest entry, or without one: everything after the
// start is shipped, and a failing `latest` alone does not stop reading.
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { HOUR, MINUTE, SECOND, START, openHarness } from '../../app/audit-harness.ts'

const latest = { start: { kind: 'latest' } } as const

test('`start: latest` ships an entry half a second after the newest', async () => {
  const harness = await openHarness({ source: latest })
  harness.add(5, START - SECOND)
  await harness.drain()
  const soon = harness.mock.add({ at: START - SECOND / 2, visibleAt: 0 }).id
  await harness.live(START + 10 * MINUTE)
  expect(await harness.ids()).toEqual([soon])
})

test.each(['on', 'off'] as const)(
  '`start: latest` on an empty log ships an entry of the same second (Date: %s)',
  async (date_header) => {
    const harness = await openHarness({ source: latest, switches: { date_header } })
    harness.clock.advance(START + 300)
    await harness.step()
    const soon = harness.mock.add({ at: START + 100, visibleAt: 0 }).id
    await harness.live(START + 10 * MINUTE)
    expect(await harness.ids()).toEqual([soon])
  },
)

const answer = (status: number, text: string): HttpReply => ({
  ...{ status, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    yield Buffer.from(text)
  })(),
})

/** These endpoints answer this; all others are unchanged. */
const failing =
  (answers: Readonly<Record<string, () => HttpReply>>) =>
  (send: Transport): Transport =>
  (request, signal) => {
    const name = /audit\/(\w+)/.exec(request.url)?.[1] ?? ''
    return answers[name] ? Promise.resolve(answers[name]()) : send(request, signal)
  }
const refusing = (status: number) => failing({ latest: () => answer(status, '{"error":"no"}') })

test.each([500, 403])(
  'an empty log whose `latest` answers %d is caught up, this is logged once, and new entries are read',
  async (status) => {
    const harness = await openHarness({ wrap: refusing(status) })
    await harness.live(START + 30 * MINUTE)
    expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
    expect(harness.log.lines.filter((line) => line.includes('newest entry cannot'))).toHaveLength(1)
    const ids = harness.add(3)
    await harness.live(START + 40 * MINUTE)
    expect(await harness.ids()).toEqual(ids)
  },
)

test('`run --once` of an empty log with a failing `latest` ends', async () => {
  const harness = await openHarness({ source: { once: true }, wrap: refusing(500) })
  for (let step = 0; step < 5 && !harness.source.plan(harness.cursor).caughtUp; step++) await harness.step()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
})

test('an empty `earliest` does not make a log empty if `latest` fails and `search` shows an entry', async () => {
  const nothing = () => answer(200, '{}')
  const wrap = failing({ earliest: nothing, latest: () => answer(500, '{"error":"no"}') })
  const harness = await openHarness({ source: { once: true }, wrap })
  harness.add(3)
  expect(await harness.try()).toMatchObject({ code: 'bad_reply' })
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
})

test.each([
  [500, 'on'],
  [500, 'off'],
  [403, 'on'],
] as const)(
  '`start: latest` with a `latest` that answers %d ships new entries, and logs this at the first step (`Date` %s)',
  async (status, date_header) => {
    const harness = await openHarness({ source: latest, wrap: refusing(status), switches: { date_header } })
    harness.add(5, START - SECOND)
    await harness.step()
    expect(harness.log.lines).toHaveLength(1)
    await harness.live(START + 10 * MINUTE)
    expect(await harness.ids()).toEqual([])
    const fresh = harness.add(3)
    await harness.live(START + 20 * MINUTE)
    expect(await harness.ids()).toEqual(fresh)
    expect(harness.log.lines.filter((line) => line.includes('newest entry cannot'))).toHaveLength(1)
  },
)

test('with a fast clock and a failing `latest`, `start: latest` starts by the server’s clock and misses nothing', async () => {
  const harness = await openHarness({
    source: latest,
    wrap: refusing(500),
    switches: { clock_skew_ms: -20 * MINUTE },
  })
  harness.add(1, START - HOUR)
  await harness.live(START + MINUTE)
  const fresh = harness.add(3, START - 15 * MINUTE)
  await harness.live(START + 30 * MINUTE)
  expect(await harness.ids()).toEqual(fresh)
})

/** All answers are 500 until `end` is called. */
function outage() {
  let isOut = true
  const wrap =
    (send: Transport): Transport =>
    (request, signal) =>
      isOut ? Promise.resolve(answer(500, '{"error":"no"}')) : send(request, signal)
  return { wrap, end: () => void (isOut = false) }
}

test('an outage at the first start says nothing about `latest`, and `start: latest` then starts at the newest entry', async () => {
  const { wrap, end } = outage()
  const harness = await openHarness({ source: latest, wrap })
  harness.add(2, START - SECOND)
  expect(await harness.try()).toMatchObject({ code: 'server_error' })
  expect(harness.log.lines).toEqual([])
  end()
  await harness.live(START + 10 * MINUTE)
  const fresh = harness.add(1)
  await harness.live(START + 20 * MINUTE)
  expect((await harness.ids()).slice(-1)).toEqual(fresh)
})

test('`start: latest` ships what arrived during an outage since the first start, and nothing before', async () => {
  const { wrap, end } = outage()
  const harness = await openHarness({ source: latest, wrap })
  harness.add(5, START - MINUTE)
  await harness.try()
  const missed = harness.add(3, START + HOUR)
  harness.clock.advance(START + 2 * HOUR)
  await harness.try()
  end()
  await harness.live(START + 3 * HOUR)
  const fresh = harness.add(2)
  await harness.live(START + 4 * HOUR)
  expect(await harness.ids()).toEqual([...missed, ...fresh])
})

test.each(['dated ahead', 'missing', 'failing'] as const)(
  'after an outage `start: latest` counts from the first start, also if the newest entry is %s',
  async (kind) => {
    const { wrap, end } = outage()
    const withoutLatest = refusing(500)
    const harness = await openHarness({
      source: latest,
      wrap: (send) => wrap(kind === 'failing' ? withoutLatest(send) : send),
    })
    if (kind !== 'missing') harness.add(5, START - MINUTE)
    await harness.try()
    harness.clock.advance(START + 2 * HOUR)
    const hidden = kind === 'missing' ? START + 3 * HOUR : 0
    const missed = harness.mock.add({ at: START + HOUR, visibleAt: hidden }).id
    if (kind === 'dated ahead') harness.mock.add({ at: START + 1_000 * HOUR, visibleAt: 0 })
    end()
    await harness.live(START + 2 * HOUR + 10 * MINUTE)
    const fresh = harness.add(2, START + 4 * HOUR)
    await harness.live(START + 4 * HOUR + 10 * MINUTE)
    const ids = await harness.ids()
    expect(ids).toEqual(expect.arrayContaining([missed, ...fresh]))
    expect(ids).toHaveLength(kind === 'dated ahead' ? 4 : 3)
  },
)

test('after an outage with a fast clock `start: latest` misses nothing', async () => {
  const { wrap, end } = outage()
  const harness = await openHarness({ source: latest, wrap, switches: { clock_skew_ms: -20 * MINUTE } })
  harness.add(1, START - HOUR)
  await harness.try()
  end()
  await harness.live(START + MINUTE)
  const fresh = harness.add(3, START - 15 * MINUTE)
  await harness.live(START + 30 * MINUTE)
  expect(await harness.ids()).toEqual(fresh)
})

test.each([
  ...[20 * MINUTE, HOUR, 20 * HOUR, 365 * 24 * HOUR].map((behindMs) => ({ behindMs, date: 'on' as const })),
  // Without a Date, less than an hour cannot be distinguished from entries dated ahead.
  ...[2 * HOUR, 20 * HOUR, 365 * 24 * HOUR].map((behindMs) => ({ behindMs, date: 'off' as const })),
])(
  'with a clock $behindMs ms slow, `start: latest` after an outage ships nothing older and everything new (Date: $date)',
  async ({ behindMs, date }) => {
    const { wrap, end } = outage()
    const switches = { clock_skew_ms: behindMs, date_header: date }
    const harness = await openHarness({ source: latest, wrap, switches })
    harness.add(50, START + behindMs - 10 * MINUTE)
    await harness.try()
    end()
    await harness.live(START + 10 * MINUTE)
    const fresh = harness.add(2, START + behindMs + 9 * MINUTE)
    await harness.live(START + 30 * MINUTE)
    expect(await harness.ids()).toEqual(fresh)
  },
)

test('a first start noted by an unset clock is ignored: `start: latest` starts at the newest entry', async () => {
  const { wrap, end } = outage()
  const harness = await openHarness({ source: latest, wrap })
  harness.add(3, START - MINUTE)
  await harness.try()
  harness.cursor = JSON.stringify({ ...harness.state(), triedUs: 1 })
  end()
  await harness.live(START + 10 * MINUTE)
  const fresh = harness.add(1)
  await harness.live(START + 20 * MINUTE)
  expect(await harness.ids()).toEqual(fresh)
})

test('an entry from the instant of the first start, during an outage, is shipped, also as the newest of all', async () => {
  const { wrap, end } = outage()
  const harness = await openHarness({ source: latest, wrap })
  harness.add(3, START - MINUTE)
  await harness.try()
  const soon = harness.mock.add({ at: START, visibleAt: 0 }).id
  harness.clock.advance(START + HOUR)
  end()
  await harness.live(START + 2 * HOUR)
  expect(await harness.ids()).toEqual([soon])
})

test('an entry from the instant of the first start, during an outage, is shipped, also if `latest` is dated ahead', async () => {
  const { wrap, end } = outage()
  const harness = await openHarness({ source: latest, wrap })
  await harness.try()
  const soon = harness.mock.add({ at: START, visibleAt: 0 }).id
  const ahead = harness.mock.add({ at: START + 300 * 24 * HOUR, visibleAt: 0 }).id
  harness.clock.advance(START + HOUR)
  end()
  await harness.live(START + 12 * HOUR)
  expect(await harness.ids()).toEqual(expect.arrayContaining([soon, ahead]))
})
