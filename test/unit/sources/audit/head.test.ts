// The head: what ends a drain, what finds slightly late entries,
// and what happens to a dead cursor (invariants 6 and 7).
import { describe, expect, it } from 'vitest'
import { AuditSource } from '../../../../src/sources/audit/audit.ts'
import { DAY, HOUR, MINUTE, SECOND, START, endpoints, openHarness, takesOf } from '../../app/audit-harness.ts'
import type { Harness, HarnessOptions } from '../../app/audit-harness.ts'

const UNKNOWN = '99999999-9999-4999-8999-999999999999'

/** Read once to the end, with nothing requested since. */
async function atRest(options: HarnessOptions = {}, entries = 3): Promise<Harness & { known: string[] }> {
  const harness = await openHarness(options)
  const known = harness.add(entries, START - 10 * MINUTE)
  await harness.drain()
  harness.asked()
  return Object.assign(harness, { known })
}

/** Lets `ms` pass, so that the next poll is due at the latest. */
async function wait(harness: Harness, ms: number): Promise<void> {
  while (harness.clock.advance(harness.clock.now() + ms));
}

describe.each(['exclusive', 'inclusive'] as const)('from %s', (from) => {
  it('a drain ends on an empty page once `latest` agrees', async () => {
    const harness = await atRest({ switches: { from } })
    await wait(harness, 5 * MINUTE)
    await harness.drain()
    const asked = endpoints(harness.asked())
    expect(asked.slice(-2)).toEqual(['page', 'latest'])
    expect(asked.length).toBeLessThanOrEqual(3)
    expect(harness.state()).toMatchObject({ caughtUp: true, drain: null })
    expect(harness.source.plan(harness.cursor).dueAt).toBe(harness.clock.now() + 5 * MINUTE)
  })

  it('an empty page never resets a cursor', async () => {
    const harness = await atRest({ switches: { from } })
    const { head } = harness.state()
    for (let i = 0; i < 5; i++) {
      await wait(harness, 5 * MINUTE)
      await harness.drain()
    }
    expect(harness.state().head).toEqual(head)
    expect(harness.reporter.gaps).toBe(0)
  })

  it('a drain ends on a page of nothing but own fetches, so that reading does not keep itself going', async () => {
    const harness = await openHarness({ switches: { from, self_audit: 'all' } })
    harness.add(10)
    await harness.drain(20)
    expect(harness.asked().length).toBeLessThan(8)
    for (let poll = 0; poll < 10; poll++) {
      await wait(harness, 5 * MINUTE)
      await harness.drain(10)
      expect(harness.asked().length).toBeLessThanOrEqual(2)
    }
  })

  it('own fetches read again before the head are no end, however short their page', async () => {
    const harness = await openHarness({
      switches: { from, self_audit: 'all' },
      source: { intervalMs: 20 * SECOND },
    })
    harness.add(100, START - 10 * MINUTE)
    await harness.live(START + 5 * MINUTE)
    // From now on a page has only a few of the fetches at the start of the overlap.
    harness.mock.setSwitches({ page_cap: 5 })
    await wait(harness, 20 * SECOND)
    const news = harness.add(3)
    await harness.drain(20)
    expect(await harness.ids()).toEqual(expect.arrayContaining(news))
  })

  it('a drain ends at the first entry newer than its start, by the server’s clock', async () => {
    const harness = await atRest({ switches: { from, clock_skew_ms: 3 * HOUR, page_cap: 5, latency: 1_000 } })
    await wait(harness, 5 * MINUTE)
    const before = harness.add(5, harness.clock.now() + 3 * HOUR - 10 * SECOND)
    // A workspace that writes faster than we read: without an end time the drain would never end.
    for (let step = 0; step < 20; step++) {
      harness.add(5, harness.clock.now() + 3 * HOUR + 4 * SECOND)
      await harness.step()
      if (harness.state().caughtUp) break
    }
    expect(harness.state().caughtUp).toBe(true)
    expect(harness.asked().length).toBeLessThan(6)
    expect(await harness.ids()).toEqual(expect.arrayContaining(before))
  })

  it('without a `Date` our clock decides the end of a drain, and only on short pages', async () => {
    const harness = await atRest({ switches: { from, date_header: 'off' } })
    await wait(harness, 5 * MINUTE)
    // Our clock is behind: everything seems newer than the start.
    const late = harness.add(2_500, harness.clock.now() + 2 * HOUR)
    await harness.drain()
    const ids = await harness.ids()
    expect(ids).toEqual([...harness.known, ...late])
  })

  it('without a `Date` a page as large as the server’s others is no end, however slow our clock', async () => {
    const harness = await atRest({ switches: { from, date_header: 'off', page_cap: 50 } }, 10)
    await wait(harness, 5 * MINUTE)
    const late = harness.add(1_500, harness.clock.now() + 28 * MINUTE)
    await harness.drain()
    expect(await harness.ids()).toEqual([...harness.known, ...late])
  })

  it('a server with pages smaller than take is read to its end', async () => {
    const harness = await openHarness({ switches: { from, page_cap: 7 } })
    const ids = harness.add(100, START - MINUTE)
    await harness.drain()
    expect(await harness.ids()).toEqual(ids)
  })

  it('an entry that becomes visible a minute late is found by the next poll without an extra request', async () => {
    const harness = await openHarness({ switches: { from } })
    harness.add(600, START - SECOND)
    const late = harness.mock.add({ at: START - 60 * SECOND, visibleAt: START + MINUTE }).id
    await harness.drain()
    expect(await harness.ids()).not.toContain(late)
    harness.asked()
    await wait(harness, 5 * MINUTE)
    const fresh = harness.add(1)
    await harness.drain()
    expect(await harness.ids()).toEqual(expect.arrayContaining([late, ...fresh]))
    expect(endpoints(harness.asked()).filter((name) => name === 'page').length).toBeLessThanOrEqual(2)
    expect(harness.reporter.sum('late')).toBe(1)
  })

  it('with polls seconds apart an entry a minute late is found by the next poll too', async () => {
    const harness = await openHarness({ switches: { from }, source: { intervalMs: 5 * SECOND } })
    harness.add(100, START)
    await harness.drain()
    const late = harness.mock.add({ at: START - SECOND, visibleAt: START + MINUTE }).id
    for (let at = START + 5 * SECOND; at <= START + 65 * SECOND; at += 5 * SECOND) {
      harness.add(5, at)
      await harness.live(at)
    }
    expect(await harness.ids()).toContain(late)
    expect(harness.reporter.sum('late')).toBe(1)
  })

  it('polls that find nothing keep the overlap, so late entries in it are found by the next one', async () => {
    const harness = await openHarness({ switches: { from } })
    harness.add(600, START - SECOND)
    const late = harness.mock.add({ at: START - 60 * SECOND, visibleAt: START + 12 * MINUTE }).id
    await harness.drain()
    for (let poll = 0; poll < 2; poll++) {
      await wait(harness, 5 * MINUTE)
      await harness.drain()
    }
    expect(await harness.ids()).not.toContain(late)
    await wait(harness, 5 * MINUTE)
    await harness.drain()
    expect(await harness.ids()).toContain(late)
  })

  it.each(['404', '400', '410', '422', 'empty', '204'] as const)(
    'a purged cursor (%s) is found again by time, and all remaining entries are shipped',
    async (gone) => {
      const harness = await atRest({ switches: { from, gone } })
      harness.mock.purge(harness.known)
      await wait(harness, 5 * MINUTE)
      const fresh = harness.add(5)
      await harness.drain()
      expect((await harness.ids()).slice(3)).toEqual(fresh)
      expect(harness.reporter.gaps).toBe(1)
      expect(harness.journal.stats().gaps).toBe(1)
      expect(harness.log.lines.find((line) => line.includes('Possible gap'))).toMatch(
        /Run the command in "run" now, .*"run":"auditferry backfill --workspace acme --source audit --from \S+Z --to \S+Z"\}$/,
      )
      await wait(harness, 5 * MINUTE)
      await harness.drain()
      expect(harness.reporter.gaps).toBe(1)
    },
  )

  it.each(['404', '400', '410', '422', 'empty', '204'] as const)(
    'a purged cursor (%s) with nothing newer leaves the source caught up, and later entries are shipped',
    async (gone) => {
      const harness = await atRest({ switches: { from, gone } })
      harness.mock.purge(harness.known)
      await wait(harness, 5 * MINUTE)
      await harness.drain()
      await wait(harness, 5 * MINUTE)
      const fresh = harness.add(2)
      await harness.drain()
      expect((await harness.ids()).slice(3)).toEqual(fresh)
    },
  )
})

it('a dead cursor that answers empty pages is noticed because `latest` moves on', async () => {
  const harness = await atRest({ switches: { gone: 'empty' } })
  harness.mock.purge([harness.known.at(-1) ?? ''])
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(2)
  await harness.drain()
  expect(endpoints(harness.asked())).toContain('latest')
  expect((await harness.ids()).slice(3)).toEqual(fresh)
})

it('a page that is empty once is no dead cursor: the second request finds the rest, and no gap is counted', async () => {
  const harness = await atRest()
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(5)
  const next = harness.mock.requests.length + 1
  harness.mock.setFault('empty_page', { nth: [next] })
  await harness.drain()
  expect((await harness.ids()).slice(3)).toEqual(fresh)
  expect(harness.reporter.gaps).toBe(0)
})

it('a lost entry that is found again before anything newer is no gap', async () => {
  // The server does not know the head's id, but finds an entry
  // of the same second by time, and from there the head.
  let forgotten = 'nobody'
  let older = 'nobody'
  const harness = await openHarness({
    wrap: (transport) => (request, signal) =>
      transport(
        {
          ...request,
          url: request.url
            .replace(`from=${forgotten}`, `from=${UNKNOWN}`)
            .replace(`from=${older}`, `from=${UNKNOWN}`),
        },
        signal,
      ),
  })
  const second = (START - 10 * MINUTE) * 1000
  const known = [1_000, 2_000].map((us) => harness.mock.add({ atUs: second + us, visibleAt: 0 }).id)
  await harness.drain()
  forgotten = known[1] ?? ''
  older = known[0] ?? ''
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(5)
  await harness.step()
  older = 'nobody'
  await harness.drain()
  await wait(harness, 5 * MINUTE)
  await harness.drain()
  expect(endpoints(harness.asked())).toContain('search')
  expect(await harness.ids()).toEqual([...known, ...fresh])
  expect([harness.reporter.gaps, harness.journal.stats().gaps, harness.state().lost]).toEqual([0, 0, null])
})

/** Ten entries per page. From the 21st entry on the server leads back to the first page while `circling`. */
async function inCircles() {
  const ring = { circling: true, from: 'nobody', to: 'nobody' }
  const harness = await openHarness({
    switches: { page_cap: 10 },
    wrap: (transport) => (request, signal) => {
      const url = ring.circling ? request.url.replace(`from=${ring.from}`, `from=${ring.to}`) : request.url
      return transport({ ...request, url }, signal)
    },
  })
  const known = harness.add(50, START - MINUTE)
  ring.from = known[20] ?? ''
  ring.to = known[0] ?? ''
  const errors: (Error | undefined)[] = []
  for (let i = 0; i < 20 && (i < 2 || harness.state().drain !== null); i++) errors.push(await harness.try())
  return { harness, ring, known, errors }
}

it('a page that does not advance is an error, not a loop, and reading continues once the server recovers', async () => {
  const { harness, ring, known, errors } = await inCircles()
  expect(harness.state().drain).toBeNull()
  // Not everything was read, and caughtUp says so.
  expect(harness.state().caughtUp).toBe(false)
  expect(errors.filter((error) => error?.message.includes('does not advance'))).not.toHaveLength(0)
  expect(errors.length).toBeLessThan(8)
  expect(harness.log.lines.join('\n')).toContain('does not advance')
  ring.circling = false
  await wait(harness, 5 * MINUTE)
  await harness.drain()
  expect(await harness.ids()).toEqual(known)
})

it('a drain that ends with this error does not report that it is caught up', async () => {
  const { harness } = await inCircles()
  expect(harness.reporter.caughtUps).toBe(0)
})

it('a drain that cannot continue although there is more is not caught up', async () => {
  const stuck: { at?: string | undefined } = {}
  const harness = await openHarness({
    switches: { page_cap: 10 },
    wrap: (transport) => (request, signal) => {
      const url = stuck.at === undefined ? request.url : request.url.replace(/from=[^&]+/, `from=${stuck.at}`)
      return transport({ ...request, url }, signal)
    },
  })
  const known = harness.add(30, START - MINUTE)
  await harness.step()
  await harness.step()
  stuck.at = known[0]
  for (let i = 0; i < 20 && (i === 0 || harness.state().drain !== null); i++) await harness.try()
  expect(await harness.ids()).not.toHaveLength(30)
  expect(harness.state().caughtUp).toBe(false)
})

it('a backlog is read 1,000 entries per page at any tier, and a quiet log by its tier', async () => {
  for (const [activity, take] of [
    ['low', 100],
    ['medium', 500],
    ['high', 1000],
  ] as const) {
    const harness = await openHarness({ source: { activity, intervalMs: undefined } })
    harness.add(4_000, START - HOUR)
    await harness.drain()
    // The first drain is a backlog; a later one is recognised by a full page.
    expect(takesOf(harness.asked()).slice(0, 3)).toEqual([1000, 1000, 1000])
    await wait(harness, HOUR)
    await harness.drain()
    expect(takesOf(harness.asked())[0]).toBe(take)
    harness.add(3_000, harness.clock.now())
    await wait(harness, HOUR)
    await harness.drain()
    expect(takesOf(harness.asked()).slice(0, 3)).toEqual([take, 1000, 1000])
  }
})

it('each tier polls at its own interval, and a configured interval overrides it', async () => {
  const dueAfter = async (source: HarnessOptions['source']) => {
    const harness = await openHarness({ source: { ...source, lookbackMs: 0 } })
    harness.add(3, START - HOUR)
    await harness.drain()
    return harness.source.plan(harness.cursor).dueAt - harness.clock.now()
  }
  expect(await dueAfter({ activity: 'high', intervalMs: undefined })).toBe(5 * MINUTE)
  expect(await dueAfter({ activity: 'medium', intervalMs: undefined })).toBe(15 * MINUTE)
  expect(await dueAfter({ activity: 'low', intervalMs: undefined })).toBe(HOUR)
  expect(await dueAfter({ activity: 'low', intervalMs: 30_000 })).toBe(30_000)
})

it('`auto` polls a quiet log slowly and a busy one fast', async () => {
  const harness = await openHarness({ source: { activity: 'auto', intervalMs: undefined, lookbackMs: 0 } })
  harness.add(3, START - HOUR)
  await harness.drain()
  expect(harness.source.plan(harness.cursor).dueAt - harness.clock.now()).toBe(HOUR)
  for (let hour = 0; hour < 6; hour++) {
    await wait(harness, harness.source.plan(harness.cursor).dueAt - harness.clock.now())
    harness.add(900)
    await harness.drain()
  }
  expect(harness.source.plan(harness.cursor).dueAt - harness.clock.now()).toBeLessThanOrEqual(15 * MINUTE)
  for (let poll = 0; poll < 30; poll++) {
    await wait(harness, harness.source.plan(harness.cursor).dueAt - harness.clock.now())
    await harness.drain()
  }
  expect(harness.source.plan(harness.cursor).dueAt - harness.clock.now()).toBe(HOUR)
})

it('the first backlog does not affect the pace of `auto`', async () => {
  const harness = await openHarness({
    source: { activity: 'auto', intervalMs: undefined, lookbackMs: 0 },
    traffic: { backlog: 20_000, since: START - 300 * DAY },
  })
  await harness.drain()
  // After the last page it yielded to deliveries for some milliseconds.
  expect(harness.source.plan(harness.cursor).dueAt - harness.clock.now()).toBeGreaterThan(HOUR - SECOND)
})

it('after a crash between two pages a drain continues after the last stored page', async () => {
  const harness = await openHarness({ switches: { page_cap: 10 } })
  const ids = harness.add(50, START - MINUTE)
  await harness.step()
  await harness.step()
  const again = await harness.journal.cursor(harness.source.stream)
  expect(again).toBe(harness.cursor)
  await harness.drain()
  expect(await harness.ids()).toEqual(ids)
})

/** Two of three pages are read, then nothing for a while. */
async function leftInADrain(downMs: number) {
  const harness = await openHarness({ switches: { page_cap: 10 } })
  const ids = harness.add(25, START - SECOND)
  await harness.step()
  await harness.step()
  expect(harness.state().drain).not.toBeNull()
  await wait(harness, downMs)
  ids.push(...harness.add(50))
  return { harness, ids }
}

it('an interrupted drain is caught up only with everything that arrived meanwhile', async () => {
  const { harness, ids } = await leftInADrain(3 * DAY)
  await harness.drain()
  expect(await harness.ids()).toEqual(ids)
})

it.each([MINUTE, 3 * DAY])(
  'a drain interrupted by a crash is caught up only with everything before the next start, %i ms later',
  async (downMs) => {
    const { harness, ids } = await leftInADrain(downMs)
    const next = new AuditSource({ ...harness.options, once: true })
    for (let i = 0; i < 100 && !next.plan(harness.cursor).caughtUp; i++) await harness.try(next)
    expect(await harness.ids()).toEqual(ids)
  },
)

it('a read uses the cursor it is given, whatever was planned before', async () => {
  const harness = await openHarness({ switches: { page_cap: 10 } })
  harness.add(30, START - MINUTE)
  await harness.step()
  const early = harness.cursor
  await harness.step()
  harness.source.plan(early)
  harness.asked()
  await harness.step()
  expect(harness.asked()[0]?.target).toContain(harness.state().drain?.ends.at(-2) ?? 'nowhere')
})

it('a drain longer than its interval ends although others write all the time', async () => {
  const harness = await openHarness({ source: { intervalMs: SECOND }, switches: { page_cap: 50 }, limit: 60 })
  harness.add(2_000, START - SECOND)
  for (let i = 0; i < 200 && !harness.state().caughtUp; i++) {
    await harness.try()
    await wait(harness, 2 * SECOND)
    harness.add(4, harness.clock.now() - SECOND)
  }
  expect(harness.state().caughtUp).toBe(true)
})

it('an outage during a drain changes nothing and costs one request', async () => {
  const harness = await atRest()
  await wait(harness, 5 * MINUTE)
  const fresh = harness.add(5)
  const before = harness.state()
  harness.mock.setFault('error_500', 1)
  expect(await harness.try()).toMatchObject({ code: 'server_error' })
  const { drain, ...rest } = harness.state()
  expect({ ...rest, caughtUp: true, drain: null }).toEqual(before)
  expect(drain).toMatchObject({ badTries: 1, narrowTake: null, probe: null })
  harness.mock.setFault('error_500', undefined)
  await harness.drain()
  expect((await harness.ids()).slice(3)).toEqual(fresh)
})

it('an unordered page with repeats is shipped whole, each entry once', async () => {
  const harness = await openHarness({
    faults: { shuffled_page: 1, duplicated: 1 },
    source: { lookbackMs: DAY },
  })
  const ids = harness.add(50, START - MINUTE)
  await harness.drain().catch(() => undefined)
  harness.mock.setFault('shuffled_page', undefined)
  harness.mock.setFault('duplicated', undefined)
  await harness.live(START + 13 * HOUR)
  const kept = await harness.ids()
  expect(kept.toSorted()).toEqual(ids.toSorted())
})

it('a clock that was ahead delays no poll by more than its interval', async () => {
  const harness = await openHarness({ source: { intervalMs: 5 * MINUTE } })
  harness.add(3, START - HOUR)
  await harness.drain()
  const ahead = JSON.parse(harness.cursor ?? '') as { dueAt: number }
  ahead.dueAt += 365 * 24 * HOUR
  expect(harness.source.plan(JSON.stringify(ahead)).dueAt).toBeLessThanOrEqual(
    harness.clock.now() + 5 * MINUTE,
  )
})

it('with small pages a page of an earlier drain’s fetches hides no entry after it', async () => {
  const harness = await openHarness({ switches: { page_cap: 7, self_audit: 'all' } })
  const old = harness.add(100, START - HOUR)
  await harness.drain(100)
  await wait(harness, MINUTE)
  const fresh = harness.add(3)
  await wait(harness, 5 * MINUTE)
  await harness.drain(100)
  const ids = await harness.ids()
  expect(ids).toEqual(expect.arrayContaining([...old, ...fresh]))
})
