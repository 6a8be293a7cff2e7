// The end of the log: one wrong answer is checked against
// others, and entries that stay unread are reported.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { DAY, MINUTE, SECOND, START, endpoints, openHarness } from '../../app/audit-harness.ts'
import type { Harness } from '../../app/audit-harness.ts'

const reply = (text: string, status = 200, type = 'application/json'): HttpReply => ({
  ...{ status, headers: { 'content-type': type } },
  body: (async function* () {
    yield Buffer.from(text)
  })(),
})

type Mistake = (url: string, nth: number) => HttpReply | undefined

/** `mistake` sees each request and how often its endpoint was requested before. */
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
  openHarness({ source: { once: true, start: { kind: 'earliest' } }, wrap: mistaken(mistake) })

/** Steps like `run --once` until the source says that everything is read. */
async function readOnce(harness: Harness, most = 100) {
  let steps = 0
  for (; steps < most && !harness.source.plan(harness.cursor).caughtUp; steps++) await harness.try()
  return {
    caughtUp: harness.source.plan(harness.cursor).caughtUp,
    unread: unreadOf(harness, await harness.ids()),
  }
}

const unreadOf = (harness: Harness, ids: readonly string[]) => {
  const met = new Set(ids)
  return harness.mock.entries().filter(({ id }) => !met.has(id)).length
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
)('a wrongly empty page is no end if `latest` %s, %d times', async (_name, most, answer) => {
  const harness = await openOnce((kind, nth) => {
    if (kind === 'page' && nth === 2) return reply('[]')
    return kind === 'latest' && nth <= most ? answer() : undefined
  })
  harness.add(3_000)
  expect(await readOnce(harness)).toEqual(whole)
  expect(harness.reporter.gaps).toBe(0)
})

test.each(mistakes)(
  'pages that stay wrongly empty are no end if `latest` %s each time, since `search` shows more',
  async (_name, answer) => {
    const harness = await openOnce((kind, nth) => {
      if (kind === 'page' && nth >= 2 && nth <= 4) return reply('[]')
      return kind === 'latest' ? answer() : undefined
    })
    harness.add(3_000)
    expect((await readOnce(harness)).unread === 0 || harness.reporter.gaps > 0).toBe(true)
  },
)

test.each(mistakes)(
  'pages that stay wrongly empty before the reach of `search` are no end if `latest` %s each time',
  async (_name, answer) => {
    const harness = await openOnce((kind, nth) => {
      if (kind === 'page' && nth >= 2 && nth <= 4) return reply('[]')
      return kind === 'latest' ? answer() : undefined
    })
    for (let i = 0; i < 3_000; i++) harness.mock.add({ at: START - 400 * DAY + i * MINUTE, visibleAt: 0 })
    harness.add(10)
    expect(await readOnce(harness)).toEqual(whole)
    expect(harness.reporter.gaps).toBe(0)
  },
)

test.each(mistakes)(
  'a log that ends before the reach of `search` is not done while `latest` %s, and is done afterwards',
  async (_name, answer) => {
    let isMute = true
    const harness = await openOnce((kind) => (kind === 'latest' && isMute ? answer() : undefined))
    for (let i = 0; i < 30; i++) harness.mock.add({ at: START - 400 * DAY + i * MINUTE, visibleAt: 0 })
    expect(await readOnce(harness)).toEqual({ caughtUp: false, unread: 0 })
    isMute = false
    expect(await readOnce(harness)).toEqual(whole)
    expect(harness.reporter.gaps).toBe(0)
  },
)

test('an end that nothing proves is checked at the next poll, and not in between', async () => {
  const harness = await openHarness({
    source: { start: { kind: 'earliest' } },
    wrap: mistaken((kind) => (kind === 'latest' ? reply('{}') : undefined)),
  })
  for (let i = 0; i < 30; i++) harness.mock.add({ at: START - 400 * DAY + i * MINUTE, visibleAt: 0 })
  await harness.live(START + 10 * MINUTE)
  harness.asked()
  await harness.live(START + 70 * MINUTE)
  expect(endpoints(harness.asked()).filter((name) => name === 'search')).toHaveLength(12)
})

test.each(mistakes)(
  'a log whose `latest` always %s ends by `search`, without a gap',
  async (_name, answer) => {
    const harness = await openOnce((kind) => (kind === 'latest' ? answer() : undefined))
    harness.add(30)
    expect(await readOnce(harness)).toEqual(whole)
    expect(endpoints(harness.asked()).length).toBeLessThan(15)
    expect(harness.log.lines.filter((line) => line.includes('stays empty'))).toEqual([])
    expect(harness.reporter.gaps).toBe(0)
  },
)

test.each([500, 403])(
  'a `latest` that answers %d blocks neither backlog nor polls, and is logged',
  async (status) => {
    const wrap = mistaken((kind) => (kind === 'latest' ? reply('{"error":"no"}', status) : undefined))
    const harness = await openHarness({ wrap, source: { lookbackMs: DAY }, switches: { page_cap: 100 } })
    harness.add(1_000)
    for (let hour = 1; hour <= 3; hour++) {
      await harness.live(START + hour * 60 * MINUTE)
      expect(unreadOf(harness, await harness.ids())).toBe(0)
      harness.add(5)
    }
    expect(harness.log.lines.filter((line) => line.includes('newest entry'))).toHaveLength(1)
  },
)

test.each(['exclusive', 'inclusive'] as const)(
  'malformed elements after a wrongly empty page have an end although `latest` fails (from %s)',
  async (from) => {
    const wrap = mistaken((kind, nth) => {
      if (kind === 'page' && nth === 2) return reply('[]')
      return kind === 'latest' ? reply('{"error":"no"}', 500) : undefined
    })
    const harness = await openHarness({ switches: { from }, source: { once: true }, wrap })
    harness.add(30, START - 10 * MINUTE)
    harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'no_id' })
    expect(await readOnce(harness)).toMatchObject({ caughtUp: true })
    expect(endpoints(harness.asked()).length).toBeLessThan(25)
    expect(harness.journal.stats()).toMatchObject({ quarantined: 1, gaps: 0 })
  },
)

test('a refused key at `latest` is not treated as a failing `latest`: the drain stops there', async () => {
  const harness = await openOnce((kind) => (kind === 'latest' ? reply('{"error":"no"}', 401) : undefined))
  harness.add(30)
  expect((await readOnce(harness)).caughtUp).toBe(false)
  expect(await harness.try()).toMatchObject({ code: 'unauthorized' })
})

test.each(['store_unavailable', 'lease_lost'] as const)(
  'a request that the journal cannot record is not treated as a failing `latest`: %s',
  async (code) => {
    const harness = await openOnce((kind) => {
      if (kind === 'latest') throw new ConnectorError(code, 'as told')
      return undefined
    })
    harness.add(30)
    expect((await readOnce(harness)).caughtUp).toBe(false)
    expect(await harness.try()).toMatchObject({ code })
  },
)

test('if neither `latest` nor `search` can be read, reading is not done', async () => {
  const broken = () => reply('{"log":{"id":"abc","timest')
  const harness = await openOnce((kind, nth) => {
    if (kind === 'page' && nth >= 2) return reply('[]')
    return kind === 'latest' || kind === 'search' ? broken() : undefined
  })
  harness.add(3_000)
  expect((await readOnce(harness)).caughtUp).toBe(false)
  expect(harness.reporter.gaps).toBe(0)
})

test('a wrongly empty page is no end if `latest` falls back behind its earlier answer', async () => {
  const harness = await openOnce((kind, nth) => {
    if (kind === 'page' && nth === 6) return reply('[]')
    return kind === 'latest' && nth === 2 ? reply(JSON.stringify({ log: oldest })) : undefined
  })
  harness.add(8_000)
  const oldest = JSON.parse(Buffer.from(harness.mock.entries()[0]?.raw ?? '{}').toString()) as unknown
  expect(await readOnce(harness)).toEqual(whole)
})

test.each([1, Infinity])(
  'a `search` that wrongly finds nothing, %d times, is no end if `latest` shows more',
  async (most) => {
    const harness = await openOnce((kind, nth) => {
      if (kind === 'page' && nth >= 2) return reply('[]')
      return kind === 'search' && nth <= most ? reply('{}') : undefined
    })
    harness.add(3_000)
    const { caughtUp } = await readOnce(harness)
    // No page leads on, so entries after it can only be reported.
    expect(!caughtUp || harness.reporter.gaps > 0).toBe(true)
  },
)

test('after an unreadable entry `search` alone does not prove the end', async () => {
  const harness = await openOnce((kind, nth) => (kind === 'search' && nth === 1 ? reply('{}') : undefined))
  harness.add(20, START - 20 * MINUTE)
  harness.mock.add({ at: START - 15 * MINUTE, visibleAt: 0, defect: 'poison' })
  harness.add(20, START - 5 * MINUTE + SECOND)
  const { unread } = await readOnce(harness)
  expect(unread).toBe(1)
})

test('an entry in the head’s second that no page shows is reported, even one microsecond after the head', async () => {
  const harness = await openOnce((kind, nth) => (kind === 'page' && nth >= 2 ? reply('[]') : undefined))
  harness.mock.add({ at: START - MINUTE, visibleAt: 0 })
  harness.mock.add({ at: START - SECOND, visibleAt: 0 })
  await harness.step()
  await harness.step()
  harness.mock.add({ atUs: (START - SECOND) * 1000 + 1, visibleAt: 0 })
  const { caughtUp, unread } = await readOnce(harness)
  expect({ unread, reported: !caughtUp || harness.reporter.gaps > 0 }).toEqual({ unread: 1, reported: true })
})

test.each(mistakes)('a log whose first answer %s once is not taken for empty', async (_name, answer) => {
  for (const start of [{ kind: 'earliest' }, { kind: 'time', atUs: (START - 60 * MINUTE) * 1000 }] as const) {
    const wrap = mistaken((kind, nth) =>
      (kind === 'earliest' || kind === 'search') && nth === 1 ? answer() : undefined,
    )
    const harness = await openHarness({ source: { once: true, start }, wrap })
    harness.add(30)
    expect(await readOnce(harness)).toEqual(whole)
  }
})

/** While switched on, pages or searches are wrongly empty. `latest` is always right. */
function openBlind() {
  const blind = { pages: false, search: false }
  const wrap = mistaken((kind) => {
    if (kind === 'page' && blind.pages) return reply('[]')
    return kind === 'search' && blind.search ? reply('{}') : undefined
  })
  return { blind, harness: openHarness({ wrap }) }
}

test('newer entries that no page leads to are one gap, not one per poll, and are read once a page does', async () => {
  const { blind, harness: opening } = openBlind()
  const harness = await opening
  const ids = harness.add(5)
  await harness.live(START + MINUTE)
  blind.pages = blind.search = true
  ids.push(...harness.add(5, START + 2 * MINUTE))
  await harness.live(START + 60 * MINUTE)
  expect(harness.reporter.gaps).toBe(1)
  expect(harness.log.lines.filter((line) => line.includes('Possible gap'))).toHaveLength(1)
  blind.pages = blind.search = false
  await harness.live(START + 70 * MINUTE)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.journal.stats().gaps).toBe(1)
  // The next gap is another one.
  blind.pages = blind.search = true
  harness.add(5)
  await harness.live(START + 130 * MINUTE)
  expect(harness.journal.stats().gaps).toBe(2)
})

test('a reported gap is not reported again once the search by time succeeds', async () => {
  const { blind, harness: opening } = openBlind()
  const harness = await opening
  harness.add(5)
  await harness.live(START + MINUTE)
  blind.pages = blind.search = true
  const next = harness.mock.add({ at: START + 2 * MINUTE, visibleAt: 0 }).id
  await harness.live(START + 30 * MINUTE)
  blind.search = false
  await harness.live(START + 60 * MINUTE)
  expect(await harness.ids()).toContain(next)
  expect(harness.reporter.gaps).toBe(1)
})

test.each(mistakes)(
  'a log whose first answer and `latest` %s once each is not taken for empty',
  async (_name, answer) => {
    for (const start of [
      { kind: 'earliest' },
      { kind: 'time', atUs: (START - 60 * MINUTE) * 1000 },
    ] as const) {
      const wrap = mistaken((kind, nth) => (kind !== 'page' && nth === 1 ? answer() : undefined))
      const harness = await openHarness({ source: { once: true, start }, wrap })
      harness.add(30)
      expect(await readOnce(harness)).toEqual(whole)
    }
  },
)

test('an empty log is checked twice on the first poll only', async () => {
  const harness = await openHarness({ switches: { none: 'null' } })
  await harness.step()
  expect(endpoints(harness.asked())).toEqual(['earliest', 'latest', 'earliest'])
  await harness.live(START + 5 * MINUTE)
  expect(endpoints(harness.asked())).toEqual(['earliest', 'latest'])
  expect(harness.state().caughtUp).toBe(true)
})

test('a `latest` older than the head is no sign of a dead cursor: no search, no gap, no log line', async () => {
  const state = { lags: false, oldest: '' }
  const wrap = mistaken((kind) => (kind === 'latest' && state.lags ? reply(state.oldest) : undefined))
  const harness = await openHarness({ wrap })
  const ids = harness.add(5, START - MINUTE)
  state.oldest = `{"log":${Buffer.from(harness.mock.entries()[0]?.raw ?? '').toString()}}`
  await harness.drain()
  state.lags = true
  await harness.live(START + 30 * MINUTE)
  ids.push(...harness.add(3))
  harness.asked()
  await harness.live(START + 60 * MINUTE)
  expect(await harness.ids()).toEqual(ids)
  expect(endpoints(harness.asked())).not.toContain('search')
  expect(harness.log.lines).toEqual([])
  expect(harness.reporter.gaps).toBe(0)
})

test('a newest entry shown once and then gone costs later polls nothing, once `search` proved the end', async () => {
  const state = { tells: false }
  const ghost = '{"log":{"id":"ghost","timestamp":"2026-11-17T10:01:00","type":"auth:login"}}'
  const wrap = mistaken((kind) => (kind === 'latest' && state.tells ? reply(ghost) : undefined))
  const harness = await openHarness({ wrap })
  harness.add(5, START - MINUTE)
  await harness.drain()
  state.tells = true
  await harness.live(START + 6 * MINUTE)
  state.tells = false
  await harness.live(START + 16 * MINUTE)
  harness.asked()
  await harness.live(START + 46 * MINUTE)
  expect(endpoints(harness.asked())).toEqual(
    Array.from({ length: 6 }, () => ['page', 'page', 'latest']).flat(),
  )
})
