// Where reading starts: every `start`, with every way a server may answer.
import { describe, expect, it } from 'vitest'
import { ingestOnce } from '../../../../src/ingest/loop.ts'
import { openReadTimes } from '../../../../src/ingest/read-times.ts'
import type { Switches } from '../../../../src/mock/switches.ts'
import { AuditSource } from '../../../../src/sources/audit/audit.ts'
import {
  DAY,
  HOUR,
  MINUTE,
  SECOND,
  START,
  driven,
  endpoints,
  openHarness,
  stream,
} from '../../app/audit-harness.ts'

type Manner = Pick<Switches, 'from' | 'search_body' | 'latest_body' | 'none'>
const manners: Manner[] = (['exclusive', 'inclusive'] as const).flatMap((from) =>
  (['wrapped', 'bare'] as const).flatMap((body) =>
    (['404', 'null', 'empty_object', 'empty_body', '204'] as const).map((none) => ({
      from,
      search_body: body,
      latest_body: body,
      none,
    })),
  ),
)

describe.each(manners)('from $from, bodies $search_body, none as $none', (switches) => {
  it('`earliest` ships everything, each entry once, including the first', async () => {
    const harness = await openHarness({ switches })
    const ids = harness.add(5)
    await harness.drain()
    expect(await harness.ids()).toEqual(ids)
    expect(harness.reporter.sum('late')).toBe(0)
  })

  it('`latest` ships newer entries, and no older one', async () => {
    const harness = await openHarness({ switches, source: { start: { kind: 'latest' } } })
    harness.add(5, START - SECOND)
    await harness.drain()
    expect(await harness.ids()).toEqual([])
    harness.clock.advance(START + MINUTE)
    const fresh = harness.add(3)
    await harness.live(START + 6 * MINUTE)
    expect(await harness.ids()).toEqual(fresh)
  })

  it('`latest` of an empty workspace ships every entry from then on', async () => {
    const harness = await openHarness({ switches, source: { start: { kind: 'latest' } } })
    await harness.step()
    expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
    harness.clock.advance(START + 2 * MINUTE)
    const fresh = harness.add(3)
    await harness.live(START + 11 * MINUTE)
    expect(await harness.ids()).toEqual(fresh)
  })

  it('an empty workspace is caught up, and its first entry is shipped when it comes', async () => {
    const harness = await openHarness({ switches })
    await harness.step()
    expect(harness.source.plan(harness.cursor)).toMatchObject({ caughtUp: true, dueAt: START + 5 * MINUTE })
    harness.clock.advance(START + MINUTE)
    const [first] = harness.add(1)
    await harness.live(START + 11 * MINUTE)
    expect(await harness.ids()).toEqual([first])
  })

  it('a span ships entries at or after its start', async () => {
    const harness = await openHarness({ switches, source: { start: { kind: 'span', ms: 10 * MINUTE } } })
    harness.add(5, START - 11 * MINUTE)
    const edge = harness.mock.add({ at: START - 10 * MINUTE, visibleAt: 0 }).id
    const later = harness.add(5)
    await harness.drain()
    expect(await harness.ids()).toEqual([edge, ...later])
  })

  it('an empty span is caught up and ships new entries', async () => {
    const harness = await openHarness({ switches, source: { start: { kind: 'span', ms: HOUR } } })
    harness.add(5, START - 2 * HOUR)
    await harness.step()
    expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
    harness.clock.advance(START + MINUTE)
    const fresh = harness.add(2)
    await harness.live(START + 11 * MINUTE)
    expect(await harness.ids()).toEqual(fresh)
  })

  it('a time between two seconds ships only entries at or after it', async () => {
    const atUs = (START - HOUR) * 1000 + 500_000
    const harness = await openHarness({ switches, source: { start: { kind: 'time', atUs } } })
    const add = (us: number) => harness.mock.add({ atUs: us, visibleAt: 0 }).id
    add(atUs - 400_000)
    add(atUs - 1)
    const kept = [add(atUs), add(atUs + 1), add(atUs + 10_000_000)]
    await harness.drain()
    expect(await harness.ids()).toEqual(kept)
  })

  it('a time more than a year ago pages from the earliest entry, and ships only entries at or after it', async () => {
    const atUs = (START - 500 * DAY) * 1000
    const harness = await openHarness({ switches, source: { start: { kind: 'time', atUs } } })
    harness.add(5, START - 600 * DAY)
    const edge = harness.mock.add({ atUs, visibleAt: 0 }).id
    const later = harness.add(5)
    await harness.drain()
    expect(await harness.ids()).toEqual([edge, ...later])
    expect(endpoints(harness.asked())).not.toContain('search')
  })
})

it('all entries that came to an empty workspace between two polls are read with the next one', async () => {
  const harness = await openHarness()
  await harness.step()
  harness.clock.advance(START + MINUTE)
  const ids = harness.add(3)
  await harness.live(START + 5 * MINUTE + SECOND)
  expect(await harness.ids()).toEqual(ids)
})

it('a time in the future ships nothing before it', async () => {
  const harness = await openHarness({ source: { start: { kind: 'time', atUs: (START + HOUR) * 1000 } } })
  harness.add(3)
  await harness.live(START + 30 * MINUTE)
  harness.add(3)
  await harness.live(START + 50 * MINUTE)
  expect(await harness.ids()).toEqual([])
  await harness.live(START + 65 * MINUTE)
  const fresh = harness.add(3)
  await harness.live(START + 80 * MINUTE)
  expect(await harness.ids()).toEqual(fresh)
})

it('the start is determined once: a span does not move with the clock while the server fails', async () => {
  const harness = await openHarness({
    source: { start: { kind: 'span', ms: HOUR } },
    switches: { none: '404' },
  })
  await harness.step()
  const drawn = harness.state().startUs
  harness.clock.advance(START + HOUR)
  await harness.step()
  expect(harness.state().startUs).toBe(drawn)
  expect(drawn).toBe((START - HOUR) * 1000)
})

it('an outage at the first request has no effect: the next try starts over', async () => {
  const harness = await openHarness({ faults: { error_500: { nth: [1, 2] } } })
  const ids = harness.add(3)
  expect(await harness.try()).toMatchObject({ code: 'server_error' })
  expect(harness.cursor).toBeUndefined()
  expect(await harness.try()).toMatchObject({ code: 'server_error' })
  await harness.drain()
  expect(await harness.ids()).toEqual(ids)
})

it('a start that was determined before an outage does not count as a read', async () => {
  const harness = await openHarness({ source: { start: { kind: 'latest' } }, faults: { error_500: 1 } })
  const kept = () =>
    openReadTimes(stream, harness.reporter, { state: harness.journal.state, clock: harness.clock })
  const reading = ingestOnce({ ...harness.collector, reads: kept() }, undefined, new AbortController().signal)
  await expect(driven(harness.clock, reading)).rejects.toThrow()
  await kept().recall()
  expect(harness.reporter.recalls).toMatchObject([{ readAt: 0 }])
})

it('if every path is a 404 the address is wrong: the source is blocked, and the log does not count as empty', async () => {
  const harness = await openHarness({
    wrap: (send) => (request, signal) =>
      send({ ...request, url: request.url.replace('/audit', '/elsewhere') }, signal),
  })
  expect(await harness.try()).toMatchObject({
    code: 'misconfigured',
    message: expect.stringContaining('check base_url') as string,
  })
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
})

it('`run --once` ends after one drain with everything, and not before', async () => {
  const harness = await openHarness({
    source: { once: true, activity: 'low', intervalMs: undefined, lookbackMs: DAY },
    switches: { self_audit: 'all' },
  })
  const ids = harness.add(2_500)
  let steps = 0
  while (!harness.source.plan(harness.cursor).caughtUp) {
    await harness.step()
    if (++steps > 20) throw new Error('it does not end')
  }
  const kept = await harness.ids()
  expect(kept.slice(0, ids.length)).toEqual(ids)
})

it('`run --once` reads the overlap like every poll, so a slightly late entry is found', async () => {
  const harness = await openHarness({ source: { once: true } })
  harness.add(50, START - SECOND)
  const late = harness.mock.add({ at: START - 2 * SECOND, visibleAt: START + 5 * SECOND }).id
  await harness.drain()
  expect(await harness.ids()).not.toContain(late)
  while (harness.clock.advance(START + HOUR));
  harness.add(3)
  const next = new AuditSource(harness.options)
  for (let i = 0; i < 20 && !next.plan(harness.cursor).caughtUp; i++) await harness.try(next)
  const ids = await harness.ids()
  expect(ids).toContain(late)
  expect(ids).toHaveLength(54)
})

it('`run --once` of an empty workspace ends too', async () => {
  const harness = await openHarness({ source: { once: true } })
  await harness.step()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
})

it('unwanted types are counted as filtered and not stored', async () => {
  const harness = await openHarness({ types: ['*', '!user:create_query'] })
  harness.add(3)
  const login = harness.mock.add({ type: 'auth:login' }).id
  await harness.drain()
  expect(await harness.ids()).toEqual([login])
  expect(harness.reporter.sum('filtered')).toBeGreaterThanOrEqual(3)
  expect(harness.reporter.sum('added')).toBe(1)
})

it('an entry reaches the journal as the bytes that the server sent', async () => {
  const harness = await openHarness()
  const raw = Buffer.from(
    '{ "id" : "11111111-2222-4333-8444-555555555555", "timestamp":"2026-11-17T09:59:00.000001","type":"auth:login","user":"z\\u00f6e@x","n":12345678901234567890.10, "data":{}}',
  )
  harness.mock.add({
    id: '11111111-2222-4333-8444-555555555555',
    atUs: (START - MINUTE) * 1000 + 1,
    visibleAt: 0,
    raw,
  })
  await harness.drain()
  expect(await harness.raws()).toEqual([raw.toString()])
})

it('a span is counted from the first try, however long tries fail', async () => {
  const harness = await openHarness({ source: { start: { kind: 'span', ms: 10 * MINUTE } } })
  const { id } = harness.mock.add({ at: START - 5 * MINUTE, visibleAt: 0 })
  harness.mock.setFault('error_500', 1)
  expect(await harness.try()).toBeInstanceOf(Error)
  harness.clock.advance(START + 3 * HOUR)
  harness.mock.setFault('error_500', undefined)
  await harness.drain()
  expect(await harness.ids()).toEqual([id])
})

it('after a restart the source reports its progress before any request', async () => {
  const before = await openHarness({})
  before.add(5)
  await before.drain()
  const after = await openHarness({})
  after.source.plan(before.cursor)
  expect(after.reporter.cursorUs).toBeGreaterThan(0)
  expect(after.reporter).toMatchObject({ cursorUs: before.reporter.cursorUs, headUs: before.reporter.headUs })
  expect(after.reporter.codes).toEqual([])
})

it.each([
  ['a span', { kind: 'span', ms: 30 * DAY }, 'on', 51],
  ['latest, without a `Date`', { kind: 'latest' }, 'off', 1],
] as const)(
  'a start (%s) that a fast clock put into the future is corrected once the clock is right, and logged',
  async (_, start, date, count) => {
    const harness = await openHarness({ source: { start }, switches: { date_header: date } })
    const now = harness.clock.now.bind(harness.clock)
    let aheadMs = 365 * DAY
    harness.clock.now = () => now() + aheadMs
    for (let i = 0; i < 3; i++) await harness.try()
    aheadMs = 0
    harness.mock.add({ at: START + MINUTE, visibleAt: 0 })
    if (count > 1) harness.add(count - 1, START - SECOND)
    await harness.live(START + 20 * MINUTE)
    expect(await harness.ids()).toHaveLength(count)
    expect(
      harness.log.lines.filter((line) => line.includes('The start of the audit log was in the future')),
    ).toHaveLength(1)
  },
)
