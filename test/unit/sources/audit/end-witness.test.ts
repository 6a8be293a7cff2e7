// What proves the end of the log: a failed check proves nothing,
// and an answer with less than known disproves nothing.
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { MINUTE, SECOND, START, endpoints, openHarness } from '../../app/audit-harness.ts'
import type { Harness } from '../../app/audit-harness.ts'

type Kind = 'page' | 'latest' | 'search' | 'earliest'
type Mistake = (kind: Kind, nth: number) => [status: number, body: string] | undefined

const reply = ([status, text]: [number, string]): HttpReply => ({
  ...{ status, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    yield Buffer.from(text)
  })(),
})

/** `mistake` sees each request and its number among those of its kind, from 1. */
const mistaken =
  (mistake: Mistake) =>
  (send: Transport): Transport => {
    const asked = new Map<Kind, number>()
    return (request, signal) => {
      const [, name] = /audit\/(\w+)/.exec(request.url) ?? []
      const kind = (name ?? 'page') as Kind
      const nth = (asked.get(kind) ?? 0) + 1
      asked.set(kind, nth)
      const wrong = mistake(kind, nth)
      return wrong ? Promise.resolve(reply(wrong)) : send(request, signal)
    }
  }

const unreadOf = async (harness: Harness) => {
  const met = new Set(await harness.ids())
  return harness.mock.entries().filter(({ id }) => !met.has(id)).length
}

const failing: [number, string] = [500, '{"error":"no"}']
const broken: [number, string] = [200, '{"log":{"id":"abc","timest']

test('malformed elements alone are no end while `latest` fails: entries after them are read', async () => {
  const harness = await openHarness({
    switches: { page_cap: 3 },
    wrap: mistaken((kind) => (kind === 'latest' ? failing : undefined)),
  })
  harness.add(6, START - 20 * MINUTE)
  for (let i = 0; i < 3; i++)
    harness.mock.add({ at: START - 15 * MINUTE + i * SECOND, visibleAt: 0, defect: 'no_id' })
  harness.add(4, START - 5 * MINUTE)
  await harness.live(START + 30 * MINUTE)
  expect(await unreadOf(harness)).toBe(3)
  expect(harness.journal.stats().quarantined).toBe(3)
})

test('an unreadable `latest` is reported, an empty one is not', async () => {
  for (const [answer, reported] of [
    [broken, 1],
    [[200, 'null'] as [number, string], 0],
  ] as const) {
    const harness = await openHarness({
      wrap: mistaken((kind, nth) => {
        if (kind === 'page' && nth >= 2) return [200, '[]']
        return kind === 'latest' ? answer : undefined
      }),
    })
    harness.add(5, START - MINUTE)
    const faults: string[] = []
    for (let i = 0; i < 4; i++) faults.push((await harness.try())?.message ?? '')
    expect(
      faults.filter((text) => text.includes('The end of the audit log could not be checked')),
    ).toHaveLength(reported)
  }
})

test('an end that nothing can prove is checked again at the next poll, not at once', async () => {
  const harness = await openHarness({
    wrap: mistaken((kind, nth) => {
      if (kind === 'page' && nth >= 2) return [200, '[]']
      return kind === 'latest' || kind === 'search' ? broken : undefined
    }),
  })
  harness.add(5, START - MINUTE)
  await harness.live(START + 30 * MINUTE)
  // Seven polls: three empty pages each, each with its `latest`, and one `search`.
  expect(endpoints(harness.asked()).length).toBeLessThanOrEqual(7 * 8 + 1)
  expect(harness.state().caughtUp).toBe(false)
  expect(harness.reporter.gaps).toBe(0)
})

test('a purged head is no gap if `latest` shows nothing newer, and is searched once', async () => {
  const harness = await openHarness({ source: { lookbackMs: 0 } })
  const ids = harness.add(5, START - MINUTE)
  await harness.live(START + MINUTE)
  harness.mock.purge([ids.at(-1) ?? ''])
  harness.asked()
  await harness.live(START + 6 * MINUTE)
  expect(harness.state().caughtUp).toBe(true)
  expect(harness.reporter.gaps).toBe(0)
  expect(harness.log.lines.filter((line) => line.includes('Possible gap'))).toEqual([])
  expect(endpoints(harness.asked()).filter((name) => name === 'search').length).toBeLessThanOrEqual(2)
})

test('a `search` that wrongly finds nothing is no end while `latest` fails: it is repeated', async () => {
  const harness = await openHarness({
    source: { once: true },
    wrap: mistaken((kind, nth) => {
      if (kind === 'page' && nth === 2) return [404, '{"error":"no such entry"}']
      if (kind === 'search' && nth === 1) return [200, '{}']
      return kind === 'latest' ? failing : undefined
    }),
  })
  harness.add(3_000, START - MINUTE)
  for (let i = 0; i < 40 && !harness.source.plan(harness.cursor).caughtUp; i++) await harness.try()
  expect(await unreadOf(harness)).toBe(0)
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
})

test('the same holds if it is the first request of a poll', async () => {
  const state = { pages: 0, searches: 0 }
  const wrap = mistaken((kind) => {
    if (kind === 'page' && state.pages-- > 0) return [404, '{"error":"no such entry"}']
    if (kind === 'search' && state.searches-- > 0) return [200, '{}']
    return kind === 'latest' ? failing : undefined
  })
  const harness = await openHarness({ wrap })
  harness.add(5, START - MINUTE)
  await harness.live(START + MINUTE)
  // The request from the overlap, and the one from the head.
  Object.assign(state, { pages: 2, searches: 1 })
  harness.add(3, START + 2 * MINUTE)
  await harness.live(START + 7 * MINUTE)
  expect(await unreadOf(harness)).toBe(0)
})
