// The end of the log as the head takes it: what one answer says of it by mistake is held against others, and what stays unread is told.
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { DAY, MINUTE, SECOND, START, endpoints, openDesk } from '../../app/desk.ts'
import type { Desk } from '../../app/desk.ts'

const reply = (text: string, status = 200, type = 'application/json'): HttpReply => ({
  ...{ status, headers: { 'content-type': type } },
  body: (async function* () {
    yield Buffer.from(text)
  })(),
})

type Mistake = (url: string, nth: number) => HttpReply | undefined

/** `mistake` sees each request with how often its endpoint was asked before it. */
const mistaken =
  (mistake: Mistake) =>
  (send: Transport): Transport => {
    const asked = new Map<string, number>()
    return (request, signal) => {
      const kind = request.url.includes('from=') ? 'page' : (/audit\/(\w+)/.exec(request.url)?.[1] ?? '')
      const nth = (asked.get(kind) ?? 0) + 1
      asked.set(kind, nth)
      const wrong = mistake(kind, nth)
      return wrong ? Promise.resolve(wrong) : send(request, signal)
    }
  }

const openOnce = (mistake: Mistake) =>
  openDesk({ source: { once: true, start: { kind: 'earliest' } }, wrap: mistaken(mistake) })

/** As `run --once` does: until the source says that it has read all. */
async function readOnce(desk: Desk, most = 100) {
  let steps = 0
  for (; steps < most && !desk.source.plan(desk.cursor).caughtUp; steps++) await desk.try()
  return { caughtUp: desk.source.plan(desk.cursor).caughtUp, unread: unreadOf(desk, await desk.ids()) }
}

const unreadOf = (desk: Desk, ids: readonly string[]) => {
  const met = new Set(ids)
  return desk.mock.entries().filter(({ id }) => !met.has(id)).length
}

const whole = { caughtUp: true, unread: 0 }

const mistakes: [string, () => HttpReply][] = [
  ['breaks off', () => reply('{"log":{"id":"abc","timest')],
  ['shows an empty object', () => reply('{}')],
  ['shows null', () => reply('null')],
  ['is a 404', () => reply('{"error":"none"}', 404)],
  ['is a 403', () => reply('{"error":"no"}', 403)],
  ['is a 500', () => reply('{"error":"no"}', 500)],
  ['is a login page', () => reply('<html>', 200, 'text/html')],
]

test.each(
  mistakes.flatMap(([name, answer]) => [1, 2, Infinity].map((most) => [name, most, answer] as const)),
)('a page that is empty by mistake is no end where `latest` %s, %d times', async (_name, most, answer) => {
  const desk = await openOnce((kind, nth) => {
    if (kind === 'page' && nth === 2) return reply('[]')
    return kind === 'latest' && nth <= most ? answer() : undefined
  })
  desk.add(3_000)
  expect(await readOnce(desk)).toEqual(whole)
  expect(desk.reporter.gaps).toBe(0)
})

test.each(mistakes)(
  'pages that stay empty by mistake are no end where `latest` %s each time: `search` tells better',
  async (_name, answer) => {
    const desk = await openOnce((kind, nth) => {
      if (kind === 'page' && nth >= 2 && nth <= 4) return reply('[]')
      return kind === 'latest' ? answer() : undefined
    })
    desk.add(3_000)
    expect((await readOnce(desk)).unread === 0 || desk.reporter.gaps > 0).toBe(true)
  },
)

test.each(mistakes)(
  'pages that stay empty by mistake behind the reach of `search` are no end where `latest` %s each time',
  async (_name, answer) => {
    const desk = await openOnce((kind, nth) => {
      if (kind === 'page' && nth >= 2 && nth <= 4) return reply('[]')
      return kind === 'latest' ? answer() : undefined
    })
    for (let i = 0; i < 3_000; i++) desk.mock.add({ at: START - 400 * DAY + i * MINUTE, visibleAt: 0 })
    desk.add(10)
    expect(await readOnce(desk)).toEqual(whole)
    expect(desk.reporter.gaps).toBe(0)
  },
)

test.each(mistakes)(
  'nobody says that all is read of a log that ends behind the reach of `search` while `latest` %s, and all do once it tells',
  async (_name, answer) => {
    let isMute = true
    const desk = await openOnce((kind) => (kind === 'latest' && isMute ? answer() : undefined))
    for (let i = 0; i < 30; i++) desk.mock.add({ at: START - 400 * DAY + i * MINUTE, visibleAt: 0 })
    expect(await readOnce(desk)).toEqual({ caughtUp: false, unread: 0 })
    isMute = false
    expect(await readOnce(desk)).toEqual(whole)
    expect(desk.reporter.gaps).toBe(0)
  },
)

test('an end that nothing proves is looked at again at the next poll, and not in between', async () => {
  const desk = await openDesk({
    source: { start: { kind: 'earliest' } },
    wrap: mistaken((kind) => (kind === 'latest' ? reply('{}') : undefined)),
  })
  for (let i = 0; i < 30; i++) desk.mock.add({ at: START - 400 * DAY + i * MINUTE, visibleAt: 0 })
  await desk.live(START + 10 * MINUTE)
  desk.asked()
  await desk.live(START + 70 * MINUTE)
  expect(endpoints(desk.asked()).filter((name) => name === 'search')).toHaveLength(12)
})

test.each(mistakes)(
  'a log whose `latest` %s for ever has an end all the same, by `search`, and no gap',
  async (_name, answer) => {
    const desk = await openOnce((kind) => (kind === 'latest' ? answer() : undefined))
    desk.add(30)
    expect(await readOnce(desk)).toEqual(whole)
    expect(endpoints(desk.asked()).length).toBeLessThan(15)
    expect(desk.log.lines.filter((line) => line.includes('stays empty'))).toEqual([])
    expect(desk.reporter.gaps).toBe(0)
  },
)

test.each([500, 403])(
  'a `latest` that answers %d holds up no backlog and no poll, and is told',
  async (status) => {
    const wrap = mistaken((kind) => (kind === 'latest' ? reply('{"error":"no"}', status) : undefined))
    const desk = await openDesk({ wrap, source: { lookbackMs: DAY }, switches: { page_cap: 100 } })
    desk.add(1_000)
    for (let hour = 1; hour <= 3; hour++) {
      await desk.live(START + hour * 60 * MINUTE)
      expect(unreadOf(desk, await desk.ids())).toBe(0)
      desk.add(5)
    }
    expect(desk.log.lines.filter((line) => line.includes('newest entry'))).toHaveLength(1)
  },
)

test.each(['exclusive', 'inclusive'] as const)(
  'malformed elements behind a page that was empty by mistake have an end, though `latest` fails (from %s)',
  async (from) => {
    const wrap = mistaken((kind, nth) => {
      if (kind === 'page' && nth === 2) return reply('[]')
      return kind === 'latest' ? reply('{"error":"no"}', 500) : undefined
    })
    const desk = await openDesk({ switches: { from }, source: { once: true }, wrap })
    desk.add(30, START - 10 * MINUTE)
    desk.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'no_id' })
    expect(await readOnce(desk)).toMatchObject({ caughtUp: true })
    expect(endpoints(desk.asked()).length).toBeLessThan(25)
    expect(desk.journal.stats()).toMatchObject({ quarantined: 1, gaps: 0 })
  },
)

test('what says more than that `latest` fails is no answer of it: a refused key holds the drain where it is', async () => {
  const desk = await openOnce((kind) => (kind === 'latest' ? reply('{"error":"no"}', 401) : undefined))
  desk.add(30)
  expect((await readOnce(desk)).caughtUp).toBe(false)
  expect(await desk.try()).toMatchObject({ code: 'unauthorized' })
})

test('where neither `latest` nor `search` can be read, nobody says that all is read', async () => {
  const broken = () => reply('{"log":{"id":"abc","timest')
  const desk = await openOnce((kind, nth) => {
    if (kind === 'page' && nth >= 2) return reply('[]')
    return kind === 'latest' || kind === 'search' ? broken() : undefined
  })
  desk.add(3_000)
  expect((await readOnce(desk)).caughtUp).toBe(false)
  expect(desk.reporter.gaps).toBe(0)
})

test('a page that is empty by mistake is no end where `latest` lags behind what it told before', async () => {
  const desk = await openOnce((kind, nth) => {
    if (kind === 'page' && nth === 6) return reply('[]')
    return kind === 'latest' && nth === 2 ? reply(JSON.stringify({ log: oldest })) : undefined
  })
  desk.add(8_000)
  const oldest = JSON.parse(Buffer.from(desk.mock.entries()[0]?.raw ?? '{}').toString()) as unknown
  expect(await readOnce(desk)).toEqual(whole)
})

test.each([1, Infinity])(
  'a place that `search` does not find by mistake, %d times, is no end where `latest` told of more',
  async (most) => {
    const desk = await openOnce((kind, nth) => {
      if (kind === 'page' && nth >= 2) return reply('[]')
      return kind === 'search' && nth <= most ? reply('{}') : undefined
    })
    desk.add(3_000)
    const { caughtUp } = await readOnce(desk)
    // Pages never lead on: what there is behind them can only be told.
    expect(!caughtUp || desk.reporter.gaps > 0).toBe(true)
  },
)

test('behind an entry that stays unreadable `search` alone does not say that nothing follows', async () => {
  const desk = await openOnce((kind, nth) => (kind === 'search' && nth === 1 ? reply('{}') : undefined))
  desk.add(20, START - 20 * MINUTE)
  desk.mock.add({ at: START - 15 * MINUTE, visibleAt: 0, defect: 'poison' })
  desk.add(20, START - 5 * MINUTE + SECOND)
  const { unread } = await readOnce(desk)
  expect(unread).toBe(1)
})

test('an entry of the head’s own second that no page shows is told, a microsecond behind the head too', async () => {
  const desk = await openOnce((kind, nth) => (kind === 'page' && nth >= 2 ? reply('[]') : undefined))
  desk.mock.add({ at: START - MINUTE, visibleAt: 0 })
  desk.mock.add({ at: START - SECOND, visibleAt: 0 })
  await desk.step()
  await desk.step()
  desk.mock.add({ atUs: (START - SECOND) * 1000 + 1, visibleAt: 0 })
  const { caughtUp, unread } = await readOnce(desk)
  expect({ unread, told: !caughtUp || desk.reporter.gaps > 0 }).toEqual({ unread: 1, told: true })
})

test.each(mistakes)(
  'a log whose beginning %s once by mistake is not taken for empty',
  async (_name, answer) => {
    for (const start of [
      { kind: 'earliest' },
      { kind: 'time', atUs: (START - 60 * MINUTE) * 1000 },
    ] as const) {
      const wrap = mistaken((kind, nth) =>
        (kind === 'earliest' || kind === 'search') && nth === 1 ? answer() : undefined,
      )
      const desk = await openDesk({ source: { once: true, start }, wrap })
      desk.add(30)
      expect(await readOnce(desk)).toEqual(whole)
    }
  },
)

/** Pages, or what is looked for by time, are empty by mistake where that is switched on; `latest` tells the truth. */
function openBlind() {
  const blind = { pages: false, search: false }
  const wrap = mistaken((kind) => {
    if (kind === 'page' && blind.pages) return reply('[]')
    return kind === 'search' && blind.search ? reply('{}') : undefined
  })
  return { blind, desk: openDesk({ wrap }) }
}

test('newer entries that nothing leads to are told as one gap, not once a poll, and read once something does', async () => {
  const { blind, desk: opening } = openBlind()
  const desk = await opening
  const ids = desk.add(5)
  await desk.live(START + MINUTE)
  blind.pages = blind.search = true
  ids.push(...desk.add(5, START + 2 * MINUTE))
  await desk.live(START + 60 * MINUTE)
  expect(desk.reporter.gaps).toBe(1)
  expect(desk.log.lines.filter((line) => line.includes('Possible gap'))).toHaveLength(1)
  blind.pages = blind.search = false
  await desk.live(START + 70 * MINUTE)
  expect(await desk.ids()).toEqual(ids)
  expect(desk.journal.stats().gaps).toBe(1)
  // The next one is another place.
  blind.pages = blind.search = true
  desk.add(5)
  await desk.live(START + 130 * MINUTE)
  expect(desk.journal.stats().gaps).toBe(2)
})

test('a gap that was told is not told again where its place is found by time at last', async () => {
  const { blind, desk: opening } = openBlind()
  const desk = await opening
  desk.add(5)
  await desk.live(START + MINUTE)
  blind.pages = blind.search = true
  const next = desk.mock.add({ at: START + 2 * MINUTE, visibleAt: 0 }).id
  await desk.live(START + 30 * MINUTE)
  blind.search = false
  await desk.live(START + 60 * MINUTE)
  expect(await desk.ids()).toContain(next)
  expect(desk.reporter.gaps).toBe(1)
})

test.each(mistakes)(
  'a log whose beginning and `latest` %s once each, by mistake, is not taken for empty',
  async (_name, answer) => {
    for (const start of [
      { kind: 'earliest' },
      { kind: 'time', atUs: (START - 60 * MINUTE) * 1000 },
    ] as const) {
      const wrap = mistaken((kind, nth) => (kind !== 'page' && nth === 1 ? answer() : undefined))
      const desk = await openDesk({ source: { once: true, start }, wrap })
      desk.add(30)
      expect(await readOnce(desk)).toEqual(whole)
    }
  },
)

test('an empty log is looked at once more on the first poll only', async () => {
  const desk = await openDesk({ switches: { none: 'null' } })
  await desk.step()
  expect(endpoints(desk.asked())).toEqual(['earliest', 'latest', 'earliest'])
  await desk.live(START + 5 * MINUTE)
  expect(endpoints(desk.asked())).toEqual(['earliest', 'latest'])
  expect(desk.state().caughtUp).toBe(true)
})

test('a `latest` that lags behind the head is no sign of a dead cursor: no search, no gap, nothing told', async () => {
  const state = { lags: false, oldest: '' }
  const wrap = mistaken((kind) => (kind === 'latest' && state.lags ? reply(state.oldest) : undefined))
  const desk = await openDesk({ wrap })
  const ids = desk.add(5, START - MINUTE)
  state.oldest = `{"log":${Buffer.from(desk.mock.entries()[0]?.raw ?? '').toString()}}`
  await desk.drain()
  state.lags = true
  await desk.live(START + 30 * MINUTE)
  ids.push(...desk.add(3))
  desk.asked()
  await desk.live(START + 60 * MINUTE)
  expect(await desk.ids()).toEqual(ids)
  expect(endpoints(desk.asked())).not.toContain('search')
  expect(desk.log.lines).toEqual([])
  expect(desk.reporter.gaps).toBe(0)
})

test('a newest entry that is told of once and gone then costs later polls nothing, once `search` has shown the end', async () => {
  const state = { tells: false }
  const ghost = '{"log":{"id":"ghost","timestamp":"2026-11-17T10:01:00","type":"auth:login"}}'
  const wrap = mistaken((kind) => (kind === 'latest' && state.tells ? reply(ghost) : undefined))
  const desk = await openDesk({ wrap })
  desk.add(5, START - MINUTE)
  await desk.drain()
  state.tells = true
  await desk.live(START + 6 * MINUTE)
  state.tells = false
  await desk.live(START + 16 * MINUTE)
  desk.asked()
  await desk.live(START + 46 * MINUTE)
  expect(endpoints(desk.asked())).toEqual(Array.from({ length: 6 }, () => ['page', 'page', 'latest']).flat())
})
