// Sinks beside each other, in their loops on a virtual clock: what one suffers the others do not notice (law 2).
import { expect, it } from 'vitest'
import { collect } from '../../../src/collect.ts'
import type { Collector } from '../../../src/collect.ts'
import type { Clock } from '../../../src/model/clock.ts'
import type { Part, Source } from '../../../src/model/source.ts'
import { ship } from '../../../src/ship/loop.ts'
import { entriesOf, spec } from '../../contract/journal-parts.ts'
import { failing, taken } from '../../fakes/sink.ts'
import { SourceNotes } from '../../fakes/watches.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { openQuay, range, START } from './quay.ts'
import type { Berth, Quay } from './quay.ts'

const SECOND = 1_000
const MINUTE = 60_000
const HOUR = 3_600_000
const WEEK = 7 * 24 * HOUR

async function pass(quay: Quay, until: number): Promise<void> {
  for (;;) {
    await settled()
    if (!quay.clock.advance(until)) return
  }
}

function sail(berths: readonly Berth[]) {
  const stopping = new AbortController()
  const loops = berths.map(({ shipper, options }) => ship(shipper, options, stopping.signal))
  return async () => {
    stopping.abort()
    await Promise.all(loops)
  }
}

/** Five entries an hour for a week to three sinks; when each was delivered. */
async function week(dead: boolean): Promise<{ times: number[][]; third: Berth }> {
  const quay = await openQuay(['archive', 'splunk', 'console'])
  const berths = ['archive', 'splunk', 'console'].map((name) =>
    quay.berth(name, { batch: { maxEntries: 50, lingerMs: SECOND } }),
  )
  const third = berths[2] as Berth
  if (dead) third.sink.answer = failing('unreachable')
  const stop = sail(berths)
  for (let hour = 0; hour < 168; hour++) {
    await quay.append(5)
    await pass(quay, START + (hour + 1) * HOUR)
  }
  const times = berths.slice(0, 2).map(({ sink }) => sink.deliveries.map(({ at }) => at))
  expect(quay.clock.now()).toBe(START + WEEK)
  third.sink.answer = taken
  third.sink.deliveries.length = 0
  await pass(quay, START + WEEK + MINUTE)
  expect(quay.journal.stats().entries).toBe(0)
  await stop()
  return { times, third }
}

it('with one of three sinks dead for a week the others deliver at the very same moments, and it catches up in order when it is back', async () => {
  const calm = await week(false)
  const { times, third } = await week(true)
  expect(times).toEqual(calm.times)
  expect(times[0]?.length).toBeGreaterThan(160)
  expect(third.sink.seqs.flat()).toEqual(range(1, 840))
  expect(third.room.heldBytes).toBe(0)
})

it('a sink that hangs holds up nobody else', async () => {
  const quay = await openQuay(['archive', 'splunk'])
  const [archive, splunk] = [quay.berth('archive'), quay.berth('splunk')]
  splunk.sink.answer = () => new Promise(() => undefined)
  const stopping = new AbortController()
  void ship(splunk.shipper, splunk.options, stopping.signal)
  const living = ship(archive.shipper, archive.options, stopping.signal)
  for (let i = 0; i < 5; i++) {
    await quay.append(2)
    await pass(quay, START + (i + 1) * MINUTE)
  }
  expect(archive.sink.seqs.flat()).toEqual(range(1, 10))
  stopping.abort()
  await living
})

/** Ten entries at every read, due each second. */
function fountain(): Source {
  let made = 0
  return {
    origin: { workspace: 'acme', source: 'audit' },
    plan: (cursor) => ({ dueAt: START + Number(cursor ?? 0) * SECOND, lane: 'live', caughtUp: false }),
    async *read(cursor) {
      const specs = Array.from({ length: 10 }, (_, i) => spec(made + i))
      const page: Part = {
        entries: entriesOf(specs),
        quarantined: [],
        findings: [],
        headAt: undefined,
        gaps: 0,
        fault: undefined,
        cursor: String(Number(cursor ?? 0) + 1),
      }
      yield page
      made += 10
    },
  }
}

it('at max_bytes reading pauses and says so, delivery goes on and says who owes; with room again reading goes on, nothing missing', async () => {
  const quay = await openQuay(['archive', 'splunk'], 10_000)
  const [archive, splunk] = [quay.berth('archive'), quay.berth('splunk')]
  const watch = new SourceNotes()
  const collector: Collector = {
    source: fountain(),
    journal: quay.journal,
    watch,
    log: quay.log,
    clock: quay.clock,
    random: () => 0.5,
    wanted: () => true,
    once: false,
  }
  splunk.sink.answer = failing('unreachable')
  const stopping = new AbortController()
  const reading = collect(collector, stopping.signal)
  const stop = sail([archive, splunk])
  await pass(quay, START + HOUR)
  const stats = quay.journal.stats()
  expect(stats.full).toBe(true)
  expect(watch.states.at(-1)).toBe('paused')
  const kept = archive.sink.seqs.flat().length
  expect(archive.sink.seqs.flat()).toEqual(range(1, kept))
  expect(stats.sinks.map(({ sink, owedEntries }) => [sink, owedEntries])).toEqual([
    ['archive', 0],
    ['splunk', kept],
  ])
  expect(splunk.watch.states.at(-1)).toBe('failing')
  splunk.sink.answer = taken
  splunk.sink.deliveries.length = 0
  await pass(quay, START + 2 * HOUR)
  expect(watch.states.at(-1)).not.toBe('paused')
  const after = archive.sink.seqs.flat().length
  expect(after).toBeGreaterThan(kept)
  expect(archive.sink.seqs.flat()).toEqual(range(1, after))
  expect(splunk.sink.seqs.flat()).toEqual(range(1, after))
  stopping.abort()
  await reading
  await stop()
})

it('what can be mended by waiting is tried again after seconds, what only a person can mend after a minute at most', async () => {
  for (const [code, state, least, most] of [
    ['unreachable', 'failing', 500, 30_000],
    ['server_error', 'failing', 500, 30_000],
    ['unauthorized', 'held', 5_000, 60_000],
    ['misconfigured', 'held', 5_000, 60_000],
  ] as const) {
    const quay = await openQuay()
    const berth = quay.berth()
    berth.sink.answer = failing(code)
    await quay.append(3)
    const stop = sail([berth])
    await pass(quay, START + 20 * MINUTE)
    const at = berth.sink.deliveries.map((delivery) => delivery.at)
    const waits = at.slice(1).map((time, i) => time - (at[i] ?? 0))
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(least)
    expect(Math.max(...waits)).toBeLessThanOrEqual(most)
    expect(waits.at(-1)).toBeGreaterThan(least)
    expect(berth.watch.states.at(-1)).toBe(state)
    expect(new Set(berth.watch.retries)).toEqual(new Set([code]))
    // Said as the backoff grows, not at every try.
    expect(quay.log.lines.length).toBeLessThan(10)
    await stop()
  }
})

it('a receiver’s own hint is obeyed', async () => {
  const quay = await openQuay()
  const berth = quay.berth()
  berth.sink.answer = failing('rate_limited', 300_000)
  await quay.append(3)
  const stop = sail([berth])
  await pass(quay, START + 299_000)
  expect(berth.sink.deliveries).toHaveLength(1)
  await pass(quay, START + 301_000)
  expect(berth.sink.deliveries).toHaveLength(2)
  await stop()
})

it('what only a person can mend is tried again within a minute, whatever the receiver hints', async () => {
  const quay = await openQuay()
  const berth = quay.berth()
  berth.sink.answer = failing('unauthorized', 3_600_000)
  await quay.append(3)
  const stop = sail([berth])
  await pass(quay, START + 61_000)
  expect(berth.sink.deliveries.length).toBeGreaterThanOrEqual(2)
  await stop()
})

it('a fault that nothing cures ends the loop with it, and so does a bug', async () => {
  for (const thrown of [
    failing('disk_failed'),
    () => {
      throw new TypeError('a bug')
    },
  ]) {
    const quay = await openQuay()
    const berth = quay.berth()
    berth.sink.answer = thrown
    await quay.append(1)
    await expect(ship(berth.shipper, berth.options, new AbortController().signal)).rejects.toThrow()
  }
})

it('a run of entries that nobody wants lets all else have a turn in between', async () => {
  const quay = await openQuay()
  const { clock } = quay
  let turnsOfOthers = 0
  const busy: Clock = {
    now: () => clock.now(),
    // Each look at it is some work later.
    elapsed: () => (clock.advance(clock.now() + 100), clock.now()),
    sleep: async (ms) => void (turnsOfOthers += ms === 0 ? 1 : 0),
  }
  const berth = quay.berth('archive', {
    over: () => true,
    wanted: () => false,
    batch: { maxEntries: 1 },
    clock: busy,
  })
  await quay.append(20)
  await ship(berth.shipper, berth.options, new AbortController().signal)
  expect(berth.watch.filtered).toBe(20)
  expect(turnsOfOthers).toBeGreaterThanOrEqual(5)
})

it('new entries wake a loop that lingers, and a full batch does not wait for the linger', async () => {
  const quay = await openQuay()
  const berth = quay.berth('archive', { batch: { maxEntries: 4, lingerMs: 10 * SECOND } })
  const stop = sail([berth])
  await quay.append(2)
  await pass(quay, START + SECOND)
  await quay.append(2)
  await pass(quay, START + 2 * SECOND)
  expect(berth.sink.deliveries).toMatchObject([{ at: START + SECOND, seqs: [1, 2, 3, 4] }])
  await stop()
})

it('when nothing more will come and nothing is owed the loop ends', async () => {
  const quay = await openQuay()
  const berth = quay.berth('archive', { over: () => true, batch: { maxEntries: 4, lingerMs: HOUR } })
  await quay.append(10)
  await ship(berth.shipper, berth.options, new AbortController().signal)
  expect(berth.sink.seqs.flat()).toEqual(range(1, 10))
})
