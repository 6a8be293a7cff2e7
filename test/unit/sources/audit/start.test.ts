// Where reading begins: every `start`, in every manner in which a server may answer.
import { describe, expect, it } from 'vitest'
import { ingestOnce } from '../../../../src/ingest/loop.ts'
import { openReadTimes } from '../../../../src/ingest/read-times.ts'
import type { Switches } from '../../../../src/mock/switches.ts'
import { AuditSource } from '../../../../src/sources/audit/audit.ts'
import { DAY, HOUR, MINUTE, SECOND, START, driven, endpoints, openDesk, stream } from '../../app/desk.ts'

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
  it('`earliest` ships everything, each entry once, the first one too', async () => {
    const desk = await openDesk({ switches })
    const ids = desk.add(5)
    await desk.drain()
    expect(await desk.ids()).toEqual(ids)
    expect(desk.reporter.sum('late')).toBe(0)
  })

  it('`latest` ships what comes after it, and nothing before', async () => {
    const desk = await openDesk({ switches, source: { start: { kind: 'latest' } } })
    desk.add(5, START - SECOND)
    await desk.drain()
    expect(await desk.ids()).toEqual([])
    desk.clock.advance(START + MINUTE)
    const fresh = desk.add(3)
    await desk.live(START + 6 * MINUTE)
    expect(await desk.ids()).toEqual(fresh)
  })

  it('`latest` of an empty workspace ships all that comes from then on', async () => {
    const desk = await openDesk({ switches, source: { start: { kind: 'latest' } } })
    await desk.step()
    expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
    desk.clock.advance(START + 2 * MINUTE)
    const fresh = desk.add(3)
    await desk.live(START + 11 * MINUTE)
    expect(await desk.ids()).toEqual(fresh)
  })

  it('an empty workspace is caught up, and its first entry is shipped when it comes', async () => {
    const desk = await openDesk({ switches })
    await desk.step()
    expect(desk.source.plan(desk.cursor)).toMatchObject({ caughtUp: true, dueAt: START + 5 * MINUTE })
    desk.clock.advance(START + MINUTE)
    const [first] = desk.add(1)
    await desk.live(START + 11 * MINUTE)
    expect(await desk.ids()).toEqual([first])
  })

  it('a span ships what is at or after its beginning', async () => {
    const desk = await openDesk({ switches, source: { start: { kind: 'span', ms: 10 * MINUTE } } })
    desk.add(5, START - 11 * MINUTE)
    const edge = desk.mock.add({ at: START - 10 * MINUTE, visibleAt: 0 }).id
    const later = desk.add(5)
    await desk.drain()
    expect(await desk.ids()).toEqual([edge, ...later])
  })

  it('a span with nothing in it is caught up and ships what comes', async () => {
    const desk = await openDesk({ switches, source: { start: { kind: 'span', ms: HOUR } } })
    desk.add(5, START - 2 * HOUR)
    await desk.step()
    expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
    desk.clock.advance(START + MINUTE)
    const fresh = desk.add(2)
    await desk.live(START + 11 * MINUTE)
    expect(await desk.ids()).toEqual(fresh)
  })

  it('a time between two seconds ships only at or after it', async () => {
    const atUs = (START - HOUR) * 1000 + 500_000
    const desk = await openDesk({ switches, source: { start: { kind: 'time', atUs } } })
    const add = (us: number) => desk.mock.add({ atUs: us, visibleAt: 0 }).id
    add(atUs - 400_000)
    add(atUs - 1)
    const kept = [add(atUs), add(atUs + 1), add(atUs + 10_000_000)]
    await desk.drain()
    expect(await desk.ids()).toEqual(kept)
  })

  it('a time more than a year ago pages from the earliest entry, and ships only at or after it', async () => {
    const atUs = (START - 500 * DAY) * 1000
    const desk = await openDesk({ switches, source: { start: { kind: 'time', atUs } } })
    desk.add(5, START - 600 * DAY)
    const edge = desk.mock.add({ atUs, visibleAt: 0 }).id
    const later = desk.add(5)
    await desk.drain()
    expect(await desk.ids()).toEqual([edge, ...later])
    expect(endpoints(desk.asked())).not.toContain('search')
  })
})

it('what came to an empty workspace between two polls is read with the next one, all of it', async () => {
  const desk = await openDesk()
  await desk.step()
  desk.clock.advance(START + MINUTE)
  const ids = desk.add(3)
  await desk.live(START + 5 * MINUTE + SECOND)
  expect(await desk.ids()).toEqual(ids)
})

it('a time in the future ships nothing before it', async () => {
  const desk = await openDesk({ source: { start: { kind: 'time', atUs: (START + HOUR) * 1000 } } })
  desk.add(3)
  await desk.live(START + 30 * MINUTE)
  desk.add(3)
  await desk.live(START + 50 * MINUTE)
  expect(await desk.ids()).toEqual([])
  await desk.live(START + 65 * MINUTE)
  const fresh = desk.add(3)
  await desk.live(START + 80 * MINUTE)
  expect(await desk.ids()).toEqual(fresh)
})

it('the start is drawn once: a span does not move with the clock while the server fails', async () => {
  const desk = await openDesk({ source: { start: { kind: 'span', ms: HOUR } }, switches: { none: '404' } })
  await desk.step()
  const drawn = desk.state().startUs
  desk.clock.advance(START + HOUR)
  await desk.step()
  expect(desk.state().startUs).toBe(drawn)
  expect(drawn).toBe((START - HOUR) * 1000)
})

it('an outage at the first request leaves no trace: the next try begins anew', async () => {
  const desk = await openDesk({ faults: { error_500: { nth: [1, 2] } } })
  const ids = desk.add(3)
  expect(await desk.try()).toMatchObject({ code: 'server_error' })
  expect(desk.cursor).toBeUndefined()
  expect(await desk.try()).toMatchObject({ code: 'server_error' })
  await desk.drain()
  expect(await desk.ids()).toEqual(ids)
})

it('a start that is settled and then meets an outage is told as no read', async () => {
  const desk = await openDesk({ source: { start: { kind: 'latest' } }, faults: { error_500: 1 } })
  const kept = () => openReadTimes(stream, desk.reporter, { state: desk.journal.state, clock: desk.clock })
  const reading = ingestOnce({ ...desk.collector, reads: kept() }, undefined, new AbortController().signal)
  await expect(driven(desk.clock, reading)).rejects.toThrow()
  await kept().recall()
  expect(desk.reporter.recalls).toMatchObject([{ readAt: 0 }])
})

it('where everything is a 404 the address is wrong and the log not empty: reading is held', async () => {
  const desk = await openDesk({
    wrap: (send) => (request, signal) =>
      send({ ...request, url: request.url.replace('/audit', '/elsewhere') }, signal),
  })
  expect(await desk.try()).toMatchObject({
    code: 'misconfigured',
    message: expect.stringContaining('check base_url') as string,
  })
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(false)
})

it('`run --once` ends after one drain with all that was there, and says so only then', async () => {
  const desk = await openDesk({
    source: { once: true, activity: 'low', intervalMs: undefined, lookbackMs: DAY },
    switches: { self_audit: 'all' },
  })
  const ids = desk.add(2_500)
  let steps = 0
  while (!desk.source.plan(desk.cursor).caughtUp) {
    await desk.step()
    if (++steps > 20) throw new Error('it does not end')
  }
  const kept = await desk.ids()
  expect(kept.slice(0, ids.length)).toEqual(ids)
})

it('`run --once` reads a short overlap as every poll does: an entry that became visible a little late is found', async () => {
  const desk = await openDesk({ source: { once: true } })
  desk.add(50, START - SECOND)
  const late = desk.mock.add({ at: START - 2 * SECOND, visibleAt: START + 5 * SECOND }).id
  await desk.drain()
  expect(await desk.ids()).not.toContain(late)
  while (desk.clock.advance(START + HOUR));
  desk.add(3)
  const next = new AuditSource(desk.options)
  for (let i = 0; i < 20 && !next.plan(desk.cursor).caughtUp; i++) await desk.try(next)
  const ids = await desk.ids()
  expect(ids).toContain(late)
  expect(ids).toHaveLength(54)
})

it('`run --once` of an empty workspace ends too', async () => {
  const desk = await openDesk({ source: { once: true } })
  await desk.step()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
})

it('types that are not wanted are counted as filtered and not kept', async () => {
  const desk = await openDesk({ types: ['*', '!user:create_query'] })
  desk.add(3)
  const login = desk.mock.add({ type: 'auth:login' }).id
  await desk.drain()
  expect(await desk.ids()).toEqual([login])
  expect(desk.reporter.sum('filtered')).toBeGreaterThanOrEqual(3)
  expect(desk.reporter.sum('added')).toBe(1)
})

it('an entry reaches the journal as the bytes that the server sent', async () => {
  const desk = await openDesk()
  const raw = Buffer.from(
    '{ "id" : "11111111-2222-4333-8444-555555555555", "timestamp":"2026-11-17T09:59:00.000001","type":"auth:login","user":"z\\u00f6e@x","n":12345678901234567890.10, "data":{}}',
  )
  desk.mock.add({
    id: '11111111-2222-4333-8444-555555555555',
    atUs: (START - MINUTE) * 1000 + 1,
    visibleAt: 0,
    raw,
  })
  await desk.drain()
  expect(await desk.raws()).toEqual([raw.toString()])
})

it('a span is counted from the first try on, however long that stays in vain', async () => {
  const desk = await openDesk({ source: { start: { kind: 'span', ms: 10 * MINUTE } } })
  const { id } = desk.mock.add({ at: START - 5 * MINUTE, visibleAt: 0 })
  desk.mock.setFault('error_500', 1)
  expect(await desk.try()).toBeInstanceOf(Error)
  desk.clock.advance(START + 3 * HOUR)
  desk.mock.setFault('error_500', undefined)
  await desk.drain()
  expect(await desk.ids()).toEqual([id])
})

it('after a restart it tells how far it was read before it asks anything', async () => {
  const before = await openDesk({})
  before.add(5)
  await before.drain()
  const after = await openDesk({})
  after.source.plan(before.cursor)
  expect(after.reporter.cursorUs).toBeGreaterThan(0)
  expect(after.reporter).toMatchObject({ cursorUs: before.reporter.cursorUs, headUs: before.reporter.headUs })
  expect(after.reporter.codes).toEqual([])
})

it.each([
  ['a span', { kind: 'span', ms: 30 * DAY }, 'on', 51],
  ['latest, without a `Date`', { kind: 'latest' }, 'off', 1],
] as const)(
  'a start (%s) that a clock far ahead has put into the future is set again once that is right, and logged',
  async (_, start, date, count) => {
    const desk = await openDesk({ source: { start }, switches: { date_header: date } })
    const now = desk.clock.now.bind(desk.clock)
    let aheadMs = 365 * DAY
    desk.clock.now = () => now() + aheadMs
    for (let i = 0; i < 3; i++) await desk.try()
    aheadMs = 0
    desk.mock.add({ at: START + MINUTE, visibleAt: 0 })
    if (count > 1) desk.add(count - 1, START - SECOND)
    await desk.live(START + 20 * MINUTE)
    expect(await desk.ids()).toHaveLength(count)
    expect(
      desk.log.lines.filter((line) => line.includes('The start of the audit log was in the future')),
    ).toHaveLength(1)
  },
)
