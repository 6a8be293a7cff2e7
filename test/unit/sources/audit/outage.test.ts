// Error answers of any status: an outage skips nothing, and only a
// good page elsewhere proves that one page is bad (invariant 6).
import { describe, expect, it } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { DAY, HOUR, MINUTE, SECOND, START, driven, endpoints, openHarness } from '../../app/audit-harness.ts'
import type { Harness, HarnessOptions } from '../../app/audit-harness.ts'
import { compared, openRangeSetup, spread } from './range-setup.ts'

const reply = (text: string, status = 200): HttpReply => ({
  ...{ status, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    yield Buffer.from(text)
  })(),
})

type Kind = 'page' | 'search' | 'earliest' | 'latest'

const kindOf = (url: string): Kind => (/audit\/(\w+)/.exec(url)?.[1] ?? 'page') as Kind

/** While `is.out`, the requests selected by `strikes` get `answer`. */
function outage(strikes: (kind: Kind, url: string) => boolean, answer: () => HttpReply) {
  const is = { out: false }
  const wrap =
    (send: Transport): Transport =>
    (request, signal) =>
      is.out && strikes(kindOf(request.url), request.url) ? Promise.resolve(answer()) : send(request, signal)
  return { is, wrap }
}

const bodies = [
  '{"error":"Internal Server Error"}',
  '[{"error":"Internal Server Error"}]',
  '[null]',
  '{"timestamp":"2026-11-17T10:00:30.000+00:00","status":500,"error":"Internal Server Error"}',
  '<html>log in</html>',
  '',
]

/** Steps, with a wait of some seconds after each failed one, like the ingest loop. */
async function live(harness: Harness, until: number): Promise<(Error | undefined)[]> {
  const errors: (Error | undefined)[] = []
  while (harness.clock.now() < until) {
    const { dueAt } = harness.source.plan(harness.cursor)
    if (dueAt > harness.clock.now()) {
      await driven(harness.clock, harness.clock.sleep(Math.min(dueAt, until) - harness.clock.now()))
      continue
    }
    const error = await harness.try()
    errors.push(error)
    if (error) await driven(harness.clock, harness.clock.sleep(5 * SECOND))
  }
  return errors
}

const endpointSets: [string, (kind: Kind) => boolean][] = [
  ['pages', (kind) => kind === 'page'],
  ['`search` and `earliest`', (kind) => kind === 'search' || kind === 'earliest'],
  ['all but `latest`', (kind) => kind !== 'latest'],
  ['everything', () => true],
]

describe.each(['exclusive', 'inclusive'] as const)('from %s', (from) => {
  it.each(bodies.flatMap((body) => endpointSets.map(([name, strikes]) => [name, body, strikes] as const)))(
    'while %s answer 200 with %j nothing is skipped or quarantined, and everything is read afterwards',
    async (_name, body, strikes) => {
      const { is, wrap } = outage(strikes, () => reply(body))
      const harness = await openHarness({ switches: { from }, source: { lookbackMs: DAY }, wrap })
      const ids = harness.add(20, START - SECOND)
      await harness.live(START + MINUTE)
      is.out = true
      for (let at = 2; at < 60; at += 3) ids.push(...harness.add(2, START + at * MINUTE))
      await live(harness, START + HOUR)
      expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
      is.out = false
      await live(harness, START + HOUR + 10 * MINUTE)
      expect((await harness.ids()).toSorted()).toEqual(ids.toSorted())
      expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
    },
  )

  it.each(bodies)(
    'a first start while all but `latest` answer %j reads the log from its start afterwards',
    async (body) => {
      const { is, wrap } = outage(
        (kind) => kind !== 'latest',
        () => reply(body),
      )
      for (const start of [{ kind: 'earliest' }, { kind: 'span', ms: HOUR }] as const) {
        const harness = await openHarness({ switches: { from }, source: { start }, wrap })
        is.out = true
        const ids = harness.add(20, START - SECOND)
        await live(harness, START + 20 * MINUTE)
        is.out = false
        await live(harness, START + 40 * MINUTE)
        expect(await harness.ids()).toEqual(ids)
        expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
      }
    },
  )

  it.each(bodies)('`run --once` is not done while pages answer %j, and says why', async (body) => {
    const { is, wrap } = outage(
      (kind) => kind === 'page',
      () => reply(body),
    )
    const harness = await openHarness({ switches: { from }, source: { once: true }, wrap })
    const ids = harness.add(20, START - SECOND)
    is.out = true
    const errors: (Error | undefined)[] = []
    for (let i = 0; i < 40; i++) errors.push(await harness.try())
    expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
    expect(errors.at(-1)?.message).toContain('GET /api/v1/logs/audit')
    is.out = false
    for (let i = 0; i < 40 && !harness.source.plan(harness.cursor).caughtUp; i++) await harness.try()
    expect(await harness.ids()).toEqual(ids)
    expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
  })

  it('malformed elements that no page shows beside an entry are quarantined after other pages were good repeatedly', async () => {
    const harness = await openHarness({ switches: { from, page_cap: 2 } })
    const before = harness.add(6, START - 10 * MINUTE)
    for (let i = 0; i < 4; i++)
      harness.mock.add({ at: START - 9 * MINUTE + i, visibleAt: 0, defect: 'no_id', data: { i } })
    const after = harness.add(6, START - SECOND)
    await live(harness, START + 20 * MINUTE)
    expect((await harness.ids()).toSorted()).toEqual([...before, ...after].toSorted())
    expect(harness.journal.stats().quarantined).toBeGreaterThanOrEqual(1)
    // Others of the same second were never shown.
    expect(harness.reporter.gaps).toBe(1)
  })
})

const brokenCursor = async (options: HarnessOptions = {}) => {
  const broken = { id: 'nobody' }
  const { is, wrap } = outage(
    (kind, url) => kind === 'page' && url.includes(`from=${broken.id}&`),
    () => reply('{"error":"no"}', 500),
  )
  const harness = await openHarness({ wrap, ...options })
  const ids = harness.add(40, START - MINUTE + 500)
  // Where the first page ends.
  broken.id = ids[options.switches?.from === 'inclusive' ? 9 : 10] ?? ''
  is.out = true
  return { harness, ids }
}

describe.each(['exclusive', 'inclusive'] as const)('a cursor that alone answers 500, from %s', (from) => {
  it('is skipped after some ten minutes, not before: reading continues by time, and a possible gap is reported', async () => {
    const { harness, ids } = await brokenCursor({ switches: { from, page_cap: 10 } })
    await live(harness, START + 9 * MINUTE)
    expect((await harness.ids()).length).toBeLessThan(12)
    expect(harness.reporter.gaps).toBe(0)
    await live(harness, START + 12 * MINUTE)
    expect(await harness.ids()).toEqual(ids)
    expect(harness.reporter.gaps).toBe(1)
  })

  it('is no gap if an older entry of its second leads on', async () => {
    const { harness, ids } = await brokenCursor({ switches: { from, page_cap: 10 } })
    // Visible late, so that no page ended there.
    const at = harness.mock.entries().find(({ id }) => id === ids[from === 'inclusive' ? 9 : 10])?.atUs ?? 0
    const late = harness.mock.add({ atUs: at - 1, visibleAt: START + 5 * MINUTE }).id
    await live(harness, START + 12 * MINUTE)
    expect(new Set(await harness.ids())).toEqual(new Set([...ids, late]))
    expect(harness.reporter.gaps).toBe(0)
  })
})

it('an entry whose page alone answers 500 keeps lookback from no late entry, and is waited for only once', async () => {
  const broken = { id: '', asked: 0 }
  const { is, wrap } = outage(
    (kind, url) => kind === 'page' && url.includes(`from=${broken.id}&`),
    () => {
      broken.asked++
      return reply('{"error":"no"}', 500)
    },
  )
  const harness = await openHarness({ wrap, source: { lookbackMs: DAY } })
  const known = [...harness.add(20, START - 3 * HOUR), ...harness.add(20, START - MINUTE)]
  broken.id = known[0] ?? ''
  await harness.drain()
  is.out = true
  const late = harness.mock.add({ at: START - 2 * HOUR, visibleAt: START + HOUR }).id
  await live(harness, START + 7 * HOUR)
  expect(await harness.ids()).toEqual([...known, late])
  const before = broken.asked
  await live(harness, START + 13 * HOUR)
  expect(broken.asked).toBeGreaterThan(before)
  // Once in the full lookback, and once in each quick one between them.
  expect(broken.asked - before).toBeLessThan(10)
  expect(harness.reporter.gaps).toBe(0)
})

it('pages that all answer 500 while `search` and `latest` work are an outage: nothing is skipped, however long it lasts', async () => {
  const { is, wrap } = outage(
    (kind) => kind === 'page',
    () => reply('{"error":"no"}', 500),
  )
  const harness = await openHarness({ wrap })
  const ids = harness.add(20, START - SECOND)
  await harness.step()
  is.out = true
  await live(harness, START + HOUR)
  is.out = false
  ids.push(...harness.add(2))
  await live(harness, START + HOUR + 10 * MINUTE)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.reporter.gaps).toBe(0)
})

it('an entry that makes large pages too slow is read alone, once a page elsewhere is good', async () => {
  const slow = { id: 'nobody' }
  const harness = await openHarness({
    wrap: (send) => async (request, signal) => {
      const take = Number(new URL(request.url).searchParams.get('take'))
      return take > 5 && request.url.includes(`from=${slow.id}&`)
        ? reply('{"error":"timeout"}', 504)
        : send(request, signal)
    },
  })
  const ids = harness.add(40, START - SECOND)
  slow.id = ids[0] ?? ''
  await live(harness, START + 10 * MINUTE)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
})

it.each([1, 2])('a temporary 404 for the last entry, %d times, is no gap', async (times) => {
  const left = { times: 0 }
  const harness = await openHarness({
    wrap: (send) => (request, signal) =>
      kindOf(request.url) === 'page' && left.times-- > 0
        ? Promise.resolve(reply('{"error":"not found"}', 404))
        : send(request, signal),
  })
  const ids = harness.add(1, START - MINUTE)
  await harness.drain()
  ids.push(...harness.add(5, START + MINUTE))
  left.times = times
  await live(harness, START + 10 * MINUTE)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.reporter.gaps).toBe(0)
})

it.each(bodies.flatMap((body) => endpointSets.map(([name, strikes]) => [name, body, strikes] as const)))(
  'a backfill waits while %s answer 200 with %j, and misses nothing',
  async (_name, body, strikes) => {
    const { is, wrap } = outage(strikes, () => reply(body))
    const at = openRangeSetup({ wrap })
    spread(at, 2_500)
    await driven(at.clock, at.step())
    await driven(at.clock, at.step())
    is.out = true
    for (let i = 0; i < 60; i++)
      await driven(
        at.clock,
        at.step().catch(() => at.clock.sleep(SECOND)),
      )
    is.out = false
    const { ids, gaps, malformed } = await at.readAll()
    expect({ ...compared(ids, at.expected()), gaps, malformed }).toEqual({
      ...{ missing: 0, strange: 0, twice: 0, gaps: 0, malformed: 0 },
    })
  },
)

it.each(bodies)('a lookback that met pages which answer %j does not count as complete', async (body) => {
  const { is, wrap } = outage(
    (kind) => kind !== 'latest',
    () => reply(body),
  )
  const harness = await openHarness({ source: { lookbackMs: DAY }, wrap })
  harness.add(20, START - SECOND)
  await live(harness, START + 7 * HOUR)
  const late = harness.mock.add({ at: START - 5 * SECOND, visibleAt: START + 8 * HOUR }).id
  is.out = true
  await live(harness, START + 13 * HOUR)
  is.out = false
  await live(harness, START + 26 * HOUR)
  expect(await harness.ids()).toContain(late)
  expect(endpoints(harness.asked())).toContain('search')
  expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
})
