// Malformed data from the server: stored as bytes, counted,
// and never in the way of other entries (invariants 3 and 4).
import { describe, expect, it } from 'vitest'
import type { Defect } from '../../../../src/mock/switches.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import {
  AGENT,
  HOUR,
  MINUTE,
  SECOND,
  START,
  driven,
  endpoints,
  openHarness,
  takesOf,
} from '../../app/audit-harness.ts'
import type { Harness } from '../../app/audit-harness.ts'
import { compared, openRangeSetup, spread } from './range-setup.ts'

/** Steps until nothing is under way, however many steps fail. */
async function untilRest(harness: Harness, steps = 60): Promise<(Error | undefined)[]> {
  const errors: (Error | undefined)[] = []
  for (let i = 0; i < steps; i++) {
    errors.push(await harness.try())
    if (harness.cursor !== undefined && harness.state().drain === null && harness.state().caughtUp)
      return errors
  }
  throw new Error(`not at rest after ${steps} steps`)
}

async function quarantinedOf(harness: Harness): Promise<number> {
  return harness.journal.stats().quarantined
}

describe.each(['exclusive', 'inclusive'] as const)('from %s', (from) => {
  it('a bad page is requested three times, then in smaller pages down to the one entry, which is quarantined and skipped without a gap', async () => {
    const harness = await openHarness({ switches: { from } })
    const before = harness.add(30, START - 10 * MINUTE)
    harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
    const after = harness.add(30, START - SECOND)
    const errors = await untilRest(harness, 100)
    expect(await harness.ids()).toEqual([...before, ...after])
    const asked = harness.asked()
    const takes = takesOf(asked)
    expect(takes.slice(0, 6)).toEqual([1000, 1000, 1000, 100, 100, 100])
    expect(takes).toContain(10)
    expect(Math.min(...takes)).toBe(1)
    expect(endpoints(asked)).toContain('search')
    expect(harness.journal.stats().gaps).toBe(0)
    // Its bytes as a page, and maybe again as one entry from `search`.
    expect([1, 2]).toContain(harness.journal.stats().quarantined)
    expect(errors.filter(Boolean).every((error) => error?.name !== 'TypeError')).toBe(true)
  })

  it('the error of a bad page names the request and what comes next, in the same words at each try', async () => {
    const harness = await openHarness({ switches: { from } })
    harness.add(30, START - 10 * MINUTE)
    harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
    harness.add(30, START - SECOND)
    const reported = (await untilRest(harness, 100)).flatMap((error) => error?.message ?? [])
    const page =
      /^GET \/api\/v1\/logs\/audit: the reply is not valid JSON: at byte \d+ .*; the page after entry [-0-9a-f]{36} \(take=(\d+)\) (.*)$/
    const pages = reported.flatMap((text) => {
      const [, take, next] = page.exec(text) ?? []
      return take === undefined ? [] : [`${take}: ${next}`]
    })
    const again =
      'is not read yet. Nothing is skipped: it is requested again, then in smaller pages, until the one entry is found that is at fault'
    expect(pages.slice(0, 4)).toEqual([...Array<string>(3).fill(`1000: ${again}`), `100: ${again}`])
    expect(pages.at(-1)).toMatch(
      /^[12]: stays unreadable while other pages are good: its bytes are quarantined, and what follows is looked for by time$/,
    )
    for (const text of reported) expect(text).toContain('GET /api/v1/logs/audit')
  })

  it('a page that is bad twice and then good has no effect', async () => {
    const harness = await openHarness({ switches: { from } })
    const ids = harness.add(30, START - SECOND)
    await harness.step()
    harness.mock.setFault('truncated', { nth: [2, 3] })
    await untilRest(harness)
    expect(await harness.ids()).toEqual(ids)
    expect(Math.min(...takesOf(harness.asked()))).toBe(1000)
    expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
  })

  it('after bad pages the usual page size comes back', async () => {
    const harness = await openHarness({ switches: { from } })
    harness.add(5, START - 2 * 3_600_000)
    harness.mock.add({ at: START - 3_600_000 - 50 * MINUTE, visibleAt: 0, defect: 'poison' })
    harness.add(4_000, START - SECOND)
    await untilRest(harness, 200)
    expect(takesOf(harness.asked()).at(-1)).toBe(1000)
    expect(await harness.ids()).toHaveLength(4_005)
  })

  it('two bad entries in one second cost at most one gap each, and no other entry', async () => {
    const harness = await openHarness({ switches: { from } })
    const before = harness.add(5, START - 10 * MINUTE)
    for (const us of [1_000, 2_000])
      harness.mock.add({ atUs: (START - 9 * MINUTE) * 1000 + us, visibleAt: 0, defect: 'poison' })
    const after = harness.add(5, START - SECOND)
    await untilRest(harness, 200)
    expect(await harness.ids()).toEqual([...before, ...after])
    expect(harness.journal.stats().gaps).toBeGreaterThanOrEqual(1)
  })

  it('a bad last entry is skipped once, and later entries are shipped', async () => {
    const harness = await openHarness({ switches: { from } })
    const before = harness.add(5, START - 10 * MINUTE)
    harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
    await untilRest(harness, 100)
    while (harness.clock.advance(START + 5 * MINUTE));
    const after = harness.add(5)
    await untilRest(harness, 100)
    expect(await harness.ids()).toEqual([...before, ...after])
    expect(harness.journal.stats().gaps).toBe(0)
    // Its bytes as a page, and maybe again as one entry from `search`.
    expect([1, 2]).toContain(harness.journal.stats().quarantined)
  })

  it.each<Defect>(['no_id', 'bad_time', 'invalid_utf8', 'too_deep', 'not_an_object'])(
    'an element with %s is quarantined, and the rest of its page is read',
    async (defect) => {
      const harness = await openHarness({ switches: { from } })
      const before = harness.add(5, START - 10 * MINUTE)
      harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect })
      const after = harness.add(5, START - SECOND)
      await untilRest(harness)
      expect(await harness.ids()).toEqual([...before, ...after])
      expect(harness.journal.stats()).toMatchObject({ quarantined: 1, gaps: 0 })
    },
  )

  it('a full page of malformed elements is quarantined, and reading continues after it', async () => {
    const harness = await openHarness({
      switches: { from },
      source: { activity: 'low', intervalMs: 5 * MINUTE },
    })
    const before = harness.add(5, START - 60 * MINUTE)
    await untilRest(harness)
    while (harness.clock.advance(START + 5 * MINUTE));
    for (let i = 0; i < 1_250; i++)
      harness.mock.add({ at: START - 50 * MINUTE + i * SECOND, visibleAt: 0, defect: 'no_id', data: { i } })
    const after = harness.add(5)
    await untilRest(harness, 200)
    expect(await harness.ids()).toEqual([...before, ...after])
    expect(harness.journal.stats().quarantined).toBeGreaterThan(90)
  })

  it('a page of only malformed elements does not stall reading from a server with small pages', async () => {
    const harness = await openHarness({ switches: { from: 'exclusive', page_cap: 10 } })
    const before = harness.add(5, START - 10 * MINUTE)
    for (let i = 0; i < 25; i++)
      harness.mock.add({ at: START - 9 * MINUTE + i * SECOND, visibleAt: 0, defect: 'no_id', data: { i } })
    const after = harness.add(5, START - SECOND)
    await untilRest(harness, 200)
    while (harness.clock.advance(harness.clock.now() + 5 * MINUTE));
    await untilRest(harness, 200)
    expect(await harness.ids()).toEqual([...before, ...after])
  })

  it('an entry in the second of a malformed element is read by a larger page if small ones show only the malformed one', async () => {
    const harness = await openHarness({ switches: { from } })
    const before = harness.add(30, START - 10 * MINUTE)
    harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'not_an_object' })
    const beside = harness.mock.add({ at: START - 9 * MINUTE + 40, visibleAt: 0 })
    // Makes pages small until it is skipped.
    harness.mock.add({ at: START - 8 * MINUTE, visibleAt: 0, defect: 'poison' })
    const after = harness.add(30, START - SECOND)
    await untilRest(harness, 200)
    expect(await harness.ids()).toEqual([...before, beside.id, ...after])
    expect(harness.journal.stats().gaps).toBe(0)
  })

  it('a malformed newest element ends a drain without a search by time', async () => {
    const harness = await openHarness({ switches: { from } })
    const before = harness.add(5, START - 10 * MINUTE)
    harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'invalid_utf8' })
    await untilRest(harness)
    expect(endpoints(harness.asked())).not.toContain('search')
    expect(await harness.ids()).toEqual(before)
    expect(harness.journal.stats()).toMatchObject({ quarantined: 1, gaps: 0 })
  })

  it.each(['page', 'search'] as const)(
    'an interrupted answer is not quarantined if an earlier one had more of the entry: a %s',
    async (which) => {
      const open = async (cut: number[]) => {
        const harness = await openHarness({ switches: { from } })
        harness.add(1, START - 10 * MINUTE)
        const bad = harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
        harness.add(1, START - SECOND)
        harness.mock.setFault('truncated', { nth: cut })
        await untilRest(harness, 400)
        return { harness, bad }
      }
      // Three searches in a row look for what follows. Before them a
      // page elsewhere was good, and before that the bad one failed.
      const plain = endpoints((await open([])).harness.asked())
      const byTime = plain.findIndex((_, i) => plain.slice(i, i + 3).every((kind) => kind === 'search'))
      const { harness, bad } = await open([which === 'page' ? byTime - 3 : byTime + 3])
      expect(harness.asked().some(({ endpoint, faults }) => endpoint === which && faults.length > 0)).toBe(
        true,
      )
      const records = await harness.journal.quarantined({ limit: 10, after: 0 })
      expect(records.length).toBeGreaterThan(0)
      for (const { id } of records)
        expect(Buffer.from((await harness.journal.quarantinedRaw(id)) ?? []).includes(bad.raw)).toBe(true)
    },
  )

  it('malformed elements at the head block nothing, and are quarantined once', async () => {
    const harness = await openHarness({ switches: { from } })
    const before = harness.add(5, START - 10 * MINUTE)
    harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'no_id' })
    await untilRest(harness)
    for (let poll = 0; poll < 3; poll++) {
      while (harness.clock.advance(harness.clock.now() + 5 * MINUTE));
      await untilRest(harness)
    }
    const after = harness.add(2)
    while (harness.clock.advance(harness.clock.now() + 5 * MINUTE));
    await untilRest(harness)
    expect(await harness.ids()).toEqual([...before, ...after])
    expect(await quarantinedOf(harness)).toBe(1)
    expect(harness.reporter.gaps).toBe(0)
  })
})

it('an entry over max_entry_bytes is quarantined with its first MiB, and the rest is read', async () => {
  const harness = await openHarness({ source: { maxEntryBytes: 1_000 } })
  const before = harness.add(2, START - 10 * MINUTE)
  harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, data: { text: 'x'.repeat(5_000) } })
  const after = harness.add(2, START - SECOND)
  await untilRest(harness)
  expect(await harness.ids()).toEqual([...before, ...after])
  expect(await quarantinedOf(harness)).toBe(1)
})

it('a page with invalid JSON is not stored at all', async () => {
  const harness = await openHarness()
  const [first] = harness.add(30, START - SECOND)
  await harness.step()
  harness.mock.setFault('truncated', 1)
  expect(await harness.try()).toMatchObject({ message: expect.any(String) as string })
  expect(await harness.ids()).toEqual([first])
})

it('an answer of another shape is a bad reply, reported and tried again', async () => {
  const harness = await openHarness()
  const ids = harness.add(30, START - SECOND)
  await harness.step()
  harness.mock.setFault('wrong_shape', { nth: [2] })
  expect(await harness.try()).toBeInstanceOf(Error)
  await untilRest(harness)
  expect(await harness.ids()).toEqual(ids)
})

it('the count of tries survives a restart', async () => {
  const harness = await openHarness()
  harness.add(5, START - 10 * MINUTE)
  harness.mock.add({ at: START - 9 * MINUTE, visibleAt: 0, defect: 'poison' })
  await harness.step()
  await harness.try()
  await harness.try()
  expect(harness.state().drain?.badTries).toBe(2)
})

it('no error and no log line has a byte of a bad page', async () => {
  const harness = await openHarness()
  harness.add(3, START - 10 * MINUTE)
  harness.mock.add({
    at: START - 9 * MINUTE,
    visibleAt: 0,
    defect: 'poison',
    data: { secret: 'content-to-hide' },
  })
  harness.add(3, START - SECOND)
  const errors = await untilRest(harness, 100)
  const reported = [...errors.map((error) => error?.stack ?? ''), ...harness.log.lines].join('\n')
  expect(reported).not.toContain('content-to-hide')
})

it('pages with only `from` itself and a malformed element do not count as empty, however often', async () => {
  const harness = await openHarness({ switches: { from: 'inclusive', page_cap: 2 } })
  const ids: string[] = []
  for (let i = 9; i > 5; i--) {
    ids.push(...harness.add(2, START - i * MINUTE))
    harness.mock.add({ at: START - i * MINUTE + 30 * SECOND, visibleAt: 0, defect: 'not_an_object' })
  }
  ids.push(...harness.add(2, START - SECOND))
  await untilRest(harness, 200)
  expect(await harness.ids()).toEqual(ids)
})

it('a page abandoned midway ends its request and returns its permit and memory', async () => {
  const harness = await openHarness()
  const filler = 'x'.repeat(12_000)
  for (let i = 0; i < 1_100; i++) harness.mock.add({ at: START - 2_000_000 + i * 1_000, data: { filler } })
  await harness.step()
  const reported = harness.reporter.codes.length
  const parts = harness.source.read(harness.cursor, new AbortController().signal)
  const first = await driven(harness.clock, parts.next())
  expect(first.done).toBe(false)
  expect(first.value?.cursor).toBeUndefined()
  expect(harness.reporter.codes).toHaveLength(reported)
  await driven(harness.clock, parts.return(undefined))
  expect(harness.reporter.codes).toHaveLength(reported + 1)
})

it('own earlier fetches that fill a small page are no end: entries after the bad one are read', async () => {
  const harness = await openHarness({ source: { once: true } })
  const before = harness.add(10, START - 40 * HOUR)
  const own = { type: 'api:audit_log_fetch', userAgent: AGENT, visibleAt: 0 }
  const fetches = Array.from(
    { length: 300 },
    (_, i) => harness.mock.add({ ...own, at: START - 30 * HOUR + i * 5 * MINUTE }).id,
  )
  harness.mock.add({ at: START - 4 * HOUR, visibleAt: 0, defect: 'poison' })
  const after = harness.add(100, START - MINUTE)
  await untilRest(harness, 200)
  expect(await harness.ids()).toEqual([...before, ...fetches, ...after])
  expect(harness.reporter.gaps).toBe(0)
})

const failing = (status: number): HttpReply => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: (async function* () {
    yield Buffer.from('{"error":"no"}')
  })(),
})

/** The answer starts and is reset within its first thousand bytes. */
const reset = (good: HttpReply): HttpReply => ({
  ...good,
  body: (async function* () {
    for await (const chunk of good.body) {
      yield chunk.subarray(0, 900)
      break
    }
    throw new ConnectorError('unreachable', 'reset')
  })(),
})

type Trouble = '504' | '413' | 'silence' | 'reset'
const troubles: readonly Trouble[] = ['504', '413', 'silence', 'reset']

/** Pages of more than `most` entries are too large for a proxy in between. */
function tooMuch(how: Trouble, most: number, isOn = () => true) {
  return (send: Transport): Transport =>
    async (request, signal) => {
      const take = Number(new URL(request.url).searchParams.get('take'))
      if (take <= most || !isOn()) return send(request, signal)
      if (how === 'silence') throw new ConnectorError('timeout', 'too long')
      return how === 'reset' ? reset(await send(request, signal)) : failing(Number(how))
    }
}

describe.each(troubles)('pages that fail with %s', (how) => {
  it('are requested in smaller pieces if large ones fail, and nothing is skipped', async () => {
    const harness = await openHarness({ wrap: tooMuch(how, 200) })
    const ids = harness.add(2_500, START - SECOND)
    await untilRest(harness, 100)
    expect(await harness.ids()).toEqual(ids)
    expect(new Set(takesOf(harness.asked()))).toEqual(how === 'reset' ? new Set([1000, 100]) : new Set([100]))
    expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
  })

  it('at any size are an outage: nothing is skipped, and reading continues as before afterwards', async () => {
    const outage = { on: false }
    const harness = await openHarness({ wrap: tooMuch(how, 0, () => outage.on) })
    const ids = harness.add(50, START - SECOND)
    await harness.step()
    outage.on = true
    for (let i = 0; i < 60; i++) expect(await harness.try()).toBeInstanceOf(Error)
    expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
    expect(harness.state().drain?.probe).toBe(null)
    // Smaller ones might hold nothing but the entry at which they start.
    expect(harness.state().drain?.narrowTake).toBe(100)
    outage.on = false
    while (harness.clock.advance(harness.clock.now() + 2 * HOUR));
    ids.push(...harness.add(3_000))
    await harness.live(harness.clock.now() + 20 * MINUTE)
    expect(await harness.ids()).toEqual(ids)
    expect(takesOf(harness.asked()).at(-1)).toBe(1000)
    expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
  })

  it('are requested in smaller pieces by a backfill too', async () => {
    const at = openRangeSetup({ wrap: tooMuch(how, 200) })
    spread(at, 2_500)
    const read = await at.readAll(100)
    expect(compared(read.ids, at.expected())).toEqual({ missing: 0, strange: 0, twice: 0 })
    expect(read).toMatchObject({ gaps: 0, malformed: 0 })
  })
})

it('failures of an outage do not count as tries of a bad page: one bad answer among them skips nothing', async () => {
  const outage = { on: false }
  const harness = await openHarness({ wrap: tooMuch('504', 0, () => outage.on) })
  const ids = harness.add(20, START - SECOND)
  await harness.step()
  outage.on = true
  for (let i = 0; i < 20; i++) await harness.try()
  outage.on = false
  harness.mock.setFault('truncated', {
    nth: [harness.mock.requests.length + 1, harness.mock.requests.length + 2],
  })
  await harness.try()
  await harness.try()
  outage.on = true
  for (let i = 0; i < 5; i++) await harness.try()
  outage.on = false
  await untilRest(harness, 100)
  expect(await harness.ids()).toEqual(ids)
  expect(harness.journal.stats()).toMatchObject({ quarantined: 0, gaps: 0 })
})

it('an unreachable host does not make pages smaller', async () => {
  const outage = { on: false }
  const wrap =
    (send: Transport): Transport =>
    (request, signal) =>
      outage.on ? Promise.reject(new ConnectorError('unreachable', 'refused')) : send(request, signal)
  const harness = await openHarness({ wrap })
  harness.add(20, START - SECOND)
  await harness.step()
  outage.on = true
  for (let i = 0; i < 10; i++) expect(await harness.try()).toBeInstanceOf(Error)
  outage.on = false
  await untilRest(harness)
  expect(new Set(takesOf(harness.asked()))).toEqual(new Set([1000]))
})

it.each([
  ['first, without a readable time', 0, 'never'],
  ['last, as a good entry', 5, '2026-11-17T09:55:00'],
  ['last, without a readable time', 5, 'never'],
])('reading does not continue at an id that is no valid text: %s', async (_name, before, timestamp) => {
  const harness = await openHarness()
  const ids = harness.add(before, START - 10 * MINUTE)
  const raw = Buffer.from(`{"id":"\\ud800","timestamp":"${timestamp}","type":"auth:login"}`)
  harness.mock.add({ at: START - 5 * MINUTE, visibleAt: 0, raw })
  await untilRest(harness, 100).catch(() => undefined)
  await driven(harness.clock, harness.clock.sleep(5 * MINUTE))
  ids.push(...harness.add(5, START))
  await untilRest(harness, 300)
  expect(await harness.ids()).toEqual(expect.arrayContaining(ids))
})

it('a repeated page with malformed elements does not count as a page of only malformed elements', async () => {
  const harness = await openHarness({ switches: { from: 'inclusive' } })
  const first = harness.add(1_200, START - 20 * MINUTE)
  const malformed = harness.mock.add({ at: START - 15 * MINUTE, visibleAt: 0, defect: 'no_id' })
  expect(malformed.defect).toBe('no_id')
  const second = harness.add(1_200, START - SECOND)
  // The second page, with the malformed element, is sent again instead of the third.
  harness.mock.setFault('repeated_page', { nth: [4] })
  await untilRest(harness)
  const asked = harness.asked()
  expect(asked.flatMap(({ faults }) => faults)).toEqual(['repeated_page'])
  expect(await harness.ids()).toEqual([...first, ...second])
  expect(endpoints(asked)).not.toContain('search')
})
