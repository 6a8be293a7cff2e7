// The head: what ends a drain, what finds an entry a little late, and what a cursor does that leads nowhere (invariants 6 and 7).
import { describe, expect, it } from 'vitest'
import { AuditSource } from '../../../../src/sources/audit/audit.ts'
import { DAY, HOUR, MINUTE, SECOND, START, endpoints, openDesk, takesOf } from '../../app/desk.ts'
import type { Desk, DeskOptions } from '../../app/desk.ts'

const UNKNOWN = '99999999-9999-4999-8999-999999999999'

/** Read once, at rest, and nothing asked for since. */
async function atRest(options: DeskOptions = {}, entries = 3): Promise<Desk & { known: string[] }> {
  const desk = await openDesk(options)
  const known = desk.add(entries, START - 10 * MINUTE)
  await desk.drain()
  desk.asked()
  return Object.assign(desk, { known })
}

/** Lets `ms` pass; the next poll is due then at the latest. */
async function wait(desk: Desk, ms: number): Promise<void> {
  while (desk.clock.advance(desk.clock.now() + ms));
}

describe.each(['exclusive', 'inclusive'] as const)('from %s', (from) => {
  it('a drain ends on an empty page, once `latest` agrees', async () => {
    const desk = await atRest({ switches: { from } })
    await wait(desk, 5 * MINUTE)
    await desk.drain()
    const asked = endpoints(desk.asked())
    expect(asked.slice(-2)).toEqual(['page', 'latest'])
    expect(asked.length).toBeLessThanOrEqual(3)
    expect(desk.state()).toMatchObject({ caughtUp: true, drain: null })
    expect(desk.source.plan(desk.cursor).dueAt).toBe(desk.clock.now() + 5 * MINUTE)
  })

  it('an empty page never resets a cursor', async () => {
    const desk = await atRest({ switches: { from } })
    const { head } = desk.state()
    for (let i = 0; i < 5; i++) {
      await wait(desk, 5 * MINUTE)
      await desk.drain()
    }
    expect(desk.state().head).toEqual(head)
    expect(desk.reporter.gaps).toBe(0)
  })

  it('a drain ends on a page of nothing but own fetches, so that reading cannot keep itself going', async () => {
    const desk = await openDesk({ switches: { from, self_audit: 'all' } })
    desk.add(10)
    await desk.drain(20)
    expect(desk.asked().length).toBeLessThan(8)
    for (let poll = 0; poll < 10; poll++) {
      await wait(desk, 5 * MINUTE)
      await desk.drain(10)
      expect(desk.asked().length).toBeLessThanOrEqual(2)
    }
  })

  it('own fetches that are read again before the head are no end, however short their page', async () => {
    const desk = await openDesk({
      switches: { from, self_audit: 'all' },
      source: { intervalMs: 20 * SECOND },
    })
    desk.add(100, START - 10 * MINUTE)
    await desk.live(START + 5 * MINUTE)
    // From now on a page holds no more than a few of the fetches that the overlap begins with.
    desk.mock.setSwitches({ page_cap: 5 })
    await wait(desk, 20 * SECOND)
    const news = desk.add(3)
    await desk.drain(20)
    expect(await desk.ids()).toEqual(expect.arrayContaining(news))
  })

  it('a drain ends at the first entry newer than its own start, by the server’s clock', async () => {
    const desk = await atRest({ switches: { from, clock_skew_ms: 3 * HOUR, page_cap: 5, latency: 1_000 } })
    await wait(desk, 5 * MINUTE)
    const before = desk.add(5, desk.clock.now() + 3 * HOUR - 10 * SECOND)
    // A workspace that writes faster than we read: without a stop line the drain would never end.
    for (let step = 0; step < 20; step++) {
      desk.add(5, desk.clock.now() + 3 * HOUR + 4 * SECOND)
      await desk.step()
      if (desk.state().caughtUp) break
    }
    expect(desk.state().caughtUp).toBe(true)
    expect(desk.asked().length).toBeLessThan(6)
    expect(await desk.ids()).toEqual(expect.arrayContaining(before))
  })

  it('without a `Date` the stop line is ours, and holds on short pages only', async () => {
    const desk = await atRest({ switches: { from, date_header: 'off' } })
    await wait(desk, 5 * MINUTE)
    // Our clock is behind: everything seems newer than the start.
    const late = desk.add(2_500, desk.clock.now() + 2 * HOUR)
    await desk.drain()
    const ids = await desk.ids()
    expect(ids).toEqual([...desk.known, ...late])
  })

  it('without a `Date` a page as large as the server’s others is none, however far our clock is behind', async () => {
    const desk = await atRest({ switches: { from, date_header: 'off', page_cap: 50 } }, 10)
    await wait(desk, 5 * MINUTE)
    const late = desk.add(1_500, desk.clock.now() + 28 * MINUTE)
    await desk.drain()
    expect(await desk.ids()).toEqual([...desk.known, ...late])
  })

  it('a server that caps its pages below take is read to its end', async () => {
    const desk = await openDesk({ switches: { from, page_cap: 7 } })
    const ids = desk.add(100, START - MINUTE)
    await desk.drain()
    expect(await desk.ids()).toEqual(ids)
  })

  it('an entry that became visible a minute late is found by the next poll, without a request more', async () => {
    const desk = await openDesk({ switches: { from } })
    desk.add(600, START - SECOND)
    const late = desk.mock.add({ at: START - 60 * SECOND, visibleAt: START + MINUTE }).id
    await desk.drain()
    expect(await desk.ids()).not.toContain(late)
    desk.asked()
    await wait(desk, 5 * MINUTE)
    const fresh = desk.add(1)
    await desk.drain()
    expect(await desk.ids()).toEqual(expect.arrayContaining([late, ...fresh]))
    expect(endpoints(desk.asked()).filter((name) => name === 'page').length).toBeLessThanOrEqual(2)
    expect(desk.reporter.sum('late')).toBe(1)
  })

  it('with polls seconds apart too an entry that became visible a minute late is found by the next one', async () => {
    const desk = await openDesk({ switches: { from }, source: { intervalMs: 5 * SECOND } })
    desk.add(100, START)
    await desk.drain()
    const late = desk.mock.add({ at: START - SECOND, visibleAt: START + MINUTE }).id
    for (let at = START + 5 * SECOND; at <= START + 65 * SECOND; at += 5 * SECOND) {
      desk.add(5, at)
      await desk.live(at)
    }
    expect(await desk.ids()).toContain(late)
    expect(desk.reporter.sum('late')).toBe(1)
  })

  it('polls that find nothing keep the overlap: what becomes visible behind them is found by the next one', async () => {
    const desk = await openDesk({ switches: { from } })
    desk.add(600, START - SECOND)
    const late = desk.mock.add({ at: START - 60 * SECOND, visibleAt: START + 12 * MINUTE }).id
    await desk.drain()
    for (let poll = 0; poll < 2; poll++) {
      await wait(desk, 5 * MINUTE)
      await desk.drain()
    }
    expect(await desk.ids()).not.toContain(late)
    await wait(desk, 5 * MINUTE)
    await desk.drain()
    expect(await desk.ids()).toContain(late)
  })

  it.each(['404', '400', '410', '422', 'empty', '204'] as const)(
    'a cursor whose entry was purged (%s) is found again by time, and all that is left is shipped',
    async (gone) => {
      const desk = await atRest({ switches: { from, gone } })
      desk.mock.purge(desk.known)
      await wait(desk, 5 * MINUTE)
      const fresh = desk.add(5)
      await desk.drain()
      expect((await desk.ids()).slice(3)).toEqual(fresh)
      expect(desk.reporter.gaps).toBe(1)
      expect(desk.journal.stats().gaps).toBe(1)
      await wait(desk, 5 * MINUTE)
      await desk.drain()
      expect(desk.reporter.gaps).toBe(1)
    },
  )

  it.each(['404', '400', '410', '422', 'empty', '204'] as const)(
    'a purged cursor (%s) with nothing newer leaves the source caught up, and what comes later is shipped',
    async (gone) => {
      const desk = await atRest({ switches: { from, gone } })
      desk.mock.purge(desk.known)
      await wait(desk, 5 * MINUTE)
      await desk.drain()
      await wait(desk, 5 * MINUTE)
      const fresh = desk.add(2)
      await desk.drain()
      expect((await desk.ids()).slice(3)).toEqual(fresh)
    },
  )
})

it('a cursor that is dead by silence is seen because `latest` moves on', async () => {
  const desk = await atRest({ switches: { gone: 'empty' } })
  desk.mock.purge([desk.known.at(-1) ?? ''])
  await wait(desk, 5 * MINUTE)
  const fresh = desk.add(2)
  await desk.drain()
  expect(endpoints(desk.asked())).toContain('latest')
  expect((await desk.ids()).slice(3)).toEqual(fresh)
})

it('an empty page in passing is no dead cursor: the second look finds the rest, no gap is counted', async () => {
  const desk = await atRest()
  await wait(desk, 5 * MINUTE)
  const fresh = desk.add(5)
  const next = desk.mock.requests.length + 1
  desk.mock.setFault('empty_page', { nth: [next] })
  await desk.drain()
  expect((await desk.ids()).slice(3)).toEqual(fresh)
  expect(desk.reporter.gaps).toBe(0)
})

it('a lost entry that is met again before anything newer is no gap', async () => {
  // The server does not know the head's id, but by time it finds an entry of the same second, and from there the head.
  let forgotten = 'nobody'
  let trail = 'nobody'
  const desk = await openDesk({
    wrap: (transport) => (request, signal) =>
      transport(
        {
          ...request,
          url: request.url
            .replace(`from=${forgotten}`, `from=${UNKNOWN}`)
            .replace(`from=${trail}`, `from=${UNKNOWN}`),
        },
        signal,
      ),
  })
  const second = (START - 10 * MINUTE) * 1000
  const known = [1_000, 2_000].map((us) => desk.mock.add({ atUs: second + us, visibleAt: 0 }).id)
  await desk.drain()
  forgotten = known[1] ?? ''
  trail = known[0] ?? ''
  await wait(desk, 5 * MINUTE)
  const fresh = desk.add(5)
  await desk.step()
  trail = 'nobody'
  await desk.drain()
  await wait(desk, 5 * MINUTE)
  await desk.drain()
  expect(endpoints(desk.asked())).toContain('search')
  expect(await desk.ids()).toEqual([...known, ...fresh])
  expect([desk.reporter.gaps, desk.journal.stats().gaps, desk.state().lost]).toEqual([0, 0, null])
})

/** Ten entries a page; from the 21st entry on the server leads back to the first page, for as long as `circling`. */
async function inCircles() {
  const ring = { circling: true, from: 'nobody', to: 'nobody' }
  const desk = await openDesk({
    switches: { page_cap: 10 },
    wrap: (transport) => (request, signal) => {
      const url = ring.circling ? request.url.replace(`from=${ring.from}`, `from=${ring.to}`) : request.url
      return transport({ ...request, url }, signal)
    },
  })
  const known = desk.add(50, START - MINUTE)
  ring.from = known[20] ?? ''
  ring.to = known[0] ?? ''
  const errors: (Error | undefined)[] = []
  for (let i = 0; i < 20 && (i < 2 || desk.state().drain !== null); i++) errors.push(await desk.try())
  return { desk, ring, known, errors }
}

it('a page that does not advance is an alarm, not a loop, and the feed goes on when the server has come to itself', async () => {
  const { desk, ring, known, errors } = await inCircles()
  expect(desk.state().drain).toBeNull()
  // Not all was read, and it does not say so.
  expect(desk.state().caughtUp).toBe(false)
  expect(errors.filter((error) => error?.message.includes('does not advance'))).not.toHaveLength(0)
  expect(errors.length).toBeLessThan(8)
  expect(desk.log.lines.join('\n')).toContain('does not advance')
  ring.circling = false
  await wait(desk, 5 * MINUTE)
  await desk.drain()
  expect(await desk.ids()).toEqual(known)
})

it('a drain that ends by the alarm does not tell that it is caught up', async () => {
  const { desk } = await inCircles()
  expect(desk.reporter.caughtUps).toBe(0)
})

it('a drain that finds no way on although there is more is not caught up', async () => {
  const stuck: { at?: string | undefined } = {}
  const desk = await openDesk({
    switches: { page_cap: 10 },
    wrap: (transport) => (request, signal) => {
      const url = stuck.at === undefined ? request.url : request.url.replace(/from=[^&]+/, `from=${stuck.at}`)
      return transport({ ...request, url }, signal)
    },
  })
  const known = desk.add(30, START - MINUTE)
  await desk.step()
  await desk.step()
  stuck.at = known[0]
  for (let i = 0; i < 20 && (i === 0 || desk.state().drain !== null); i++) await desk.try()
  expect(await desk.ids()).not.toHaveLength(30)
  expect(desk.state().caughtUp).toBe(false)
})

it('a backlog is read 1,000 a page whatever the tier says, and a quiet feed by its tier', async () => {
  for (const [activity, take] of [
    ['low', 100],
    ['medium', 500],
    ['high', 1000],
  ] as const) {
    const desk = await openDesk({ source: { activity, intervalMs: undefined } })
    desk.add(4_000, START - HOUR)
    await desk.drain()
    // The first drain of all is a backlog; a later one shows itself by a full page.
    expect(takesOf(desk.asked()).slice(0, 3)).toEqual([1000, 1000, 1000])
    await wait(desk, HOUR)
    await desk.drain()
    expect(takesOf(desk.asked())[0]).toBe(take)
    desk.add(3_000, desk.clock.now())
    await wait(desk, HOUR)
    await desk.drain()
    expect(takesOf(desk.asked()).slice(0, 3)).toEqual([take, 1000, 1000])
  }
})

it('each tier polls at its own interval, and an interval of the operator goes before it', async () => {
  const dueAfter = async (source: DeskOptions['source']) => {
    const desk = await openDesk({ source: { ...source, lookbackMs: 0 } })
    desk.add(3, START - HOUR)
    await desk.drain()
    return desk.source.plan(desk.cursor).dueAt - desk.clock.now()
  }
  expect(await dueAfter({ activity: 'high', intervalMs: undefined })).toBe(5 * MINUTE)
  expect(await dueAfter({ activity: 'medium', intervalMs: undefined })).toBe(15 * MINUTE)
  expect(await dueAfter({ activity: 'low', intervalMs: undefined })).toBe(HOUR)
  expect(await dueAfter({ activity: 'low', intervalMs: 30_000 })).toBe(30_000)
})

it('`auto` follows what it sees: slow on a quiet feed, fast on a busy one', async () => {
  const desk = await openDesk({ source: { activity: 'auto', intervalMs: undefined, lookbackMs: 0 } })
  desk.add(3, START - HOUR)
  await desk.drain()
  expect(desk.source.plan(desk.cursor).dueAt - desk.clock.now()).toBe(HOUR)
  for (let hour = 0; hour < 6; hour++) {
    await wait(desk, desk.source.plan(desk.cursor).dueAt - desk.clock.now())
    desk.add(900)
    await desk.drain()
  }
  expect(desk.source.plan(desk.cursor).dueAt - desk.clock.now()).toBeLessThanOrEqual(15 * MINUTE)
  for (let poll = 0; poll < 30; poll++) {
    await wait(desk, desk.source.plan(desk.cursor).dueAt - desk.clock.now())
    await desk.drain()
  }
  expect(desk.source.plan(desk.cursor).dueAt - desk.clock.now()).toBe(HOUR)
})

it('what the first backlog holds says nothing of the pace of a feed', async () => {
  const desk = await openDesk({
    source: { activity: 'auto', intervalMs: undefined, lookbackMs: 0 },
    traffic: { backlog: 20_000, since: START - 300 * DAY },
  })
  await desk.drain()
  // Behind the last page it gave way to deliveries, for some milliseconds.
  expect(desk.source.plan(desk.cursor).dueAt - desk.clock.now()).toBeGreaterThan(HOUR - SECOND)
})

it('a crash between two pages of a drain reads on where the last one landed', async () => {
  const desk = await openDesk({ switches: { page_cap: 10 } })
  const ids = desk.add(50, START - MINUTE)
  await desk.step()
  await desk.step()
  const again = await desk.journal.cursor(desk.source.stream)
  expect(again).toBe(desk.cursor)
  await desk.drain()
  expect(await desk.ids()).toEqual(ids)
})

/** Two pages of three are read, and then nothing for a while. */
async function leftInADrain(downMs: number) {
  const desk = await openDesk({ switches: { page_cap: 10 } })
  const ids = desk.add(25, START - SECOND)
  await desk.step()
  await desk.step()
  expect(desk.state().drain).not.toBeNull()
  await wait(desk, downMs)
  ids.push(...desk.add(50))
  return { desk, ids }
}

it('a drain that stood still is caught up only with all that came meanwhile', async () => {
  const { desk, ids } = await leftInADrain(3 * DAY)
  await desk.drain()
  expect(await desk.ids()).toEqual(ids)
})

it.each([MINUTE, 3 * DAY])(
  'a drain that a crash left over is caught up only with all that came before the next start, %i ms later',
  async (downMs) => {
    const { desk, ids } = await leftInADrain(downMs)
    const next = new AuditSource({ ...desk.options, once: true })
    for (let i = 0; i < 100 && !next.plan(desk.cursor).caughtUp; i++) await desk.try(next)
    expect(await desk.ids()).toEqual(ids)
  },
)

it('a read goes by the cursor that it is given, whatever was planned before', async () => {
  const desk = await openDesk({ switches: { page_cap: 10 } })
  desk.add(30, START - MINUTE)
  await desk.step()
  const early = desk.cursor
  await desk.step()
  desk.source.plan(early)
  desk.asked()
  await desk.step()
  expect(desk.asked()[0]?.target).toContain(desk.state().drain?.ends.at(-2) ?? 'nowhere')
})

it('a drain that lasts beyond its interval ends all the same, though others write all the time', async () => {
  const desk = await openDesk({ source: { intervalMs: SECOND }, switches: { page_cap: 50 }, limit: 60 })
  desk.add(2_000, START - SECOND)
  for (let i = 0; i < 200 && !desk.state().caughtUp; i++) {
    await desk.try()
    await wait(desk, 2 * SECOND)
    desk.add(4, desk.clock.now() - SECOND)
  }
  expect(desk.state().caughtUp).toBe(true)
})

it('an outage in a drain moves nothing, and costs the request', async () => {
  const desk = await atRest()
  await wait(desk, 5 * MINUTE)
  const fresh = desk.add(5)
  const before = desk.state()
  desk.mock.setFault('error_500', 1)
  expect(await desk.try()).toMatchObject({ code: 'server_error' })
  const { drain, ...rest } = desk.state()
  expect({ ...rest, caughtUp: true, drain: null }).toEqual(before)
  expect(drain).toMatchObject({ badTries: 1, narrowTake: null, probe: null })
  desk.mock.setFault('error_500', undefined)
  await desk.drain()
  expect((await desk.ids()).slice(3)).toEqual(fresh)
})

it('a page in no order and with repeats is shipped whole, each entry once', async () => {
  const desk = await openDesk({ faults: { shuffled_page: 1, duplicated: 1 }, source: { lookbackMs: DAY } })
  const ids = desk.add(50, START - MINUTE)
  await desk.drain().catch(() => undefined)
  desk.mock.setFault('shuffled_page', undefined)
  desk.mock.setFault('duplicated', undefined)
  await desk.live(START + 13 * HOUR)
  const kept = await desk.ids()
  expect(kept.toSorted()).toEqual(ids.toSorted())
})

it('a clock that was ahead and is set back delays no poll by more than its interval', async () => {
  const desk = await openDesk({ source: { intervalMs: 5 * MINUTE } })
  desk.add(3, START - HOUR)
  await desk.drain()
  const ahead = JSON.parse(desk.cursor ?? '') as { dueAt: number }
  ahead.dueAt += 365 * 24 * HOUR
  expect(desk.source.plan(JSON.stringify(ahead)).dueAt).toBeLessThanOrEqual(desk.clock.now() + 5 * MINUTE)
})

it('on a server that caps its pages, a page of an earlier drain’s fetches hides nothing behind it', async () => {
  const desk = await openDesk({ switches: { page_cap: 7, self_audit: 'all' } })
  const old = desk.add(100, START - HOUR)
  await desk.drain(100)
  await wait(desk, MINUTE)
  const fresh = desk.add(3)
  await wait(desk, 5 * MINUTE)
  await desk.drain(100)
  const ids = await desk.ids()
  expect(ids).toEqual(expect.arrayContaining([...old, ...fresh]))
})
