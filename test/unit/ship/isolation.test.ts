// Sinks beside each other, in their loops on a virtual clock: what one suffers the others do not notice (law 2).
import { expect, it } from 'vitest'
import { collect } from '../../../src/collect.ts'
import type { Collector } from '../../../src/collect.ts'
import type { Clock } from '../../../src/model/clock.ts'
import { openRooms, type Rooms } from '../../../src/model/room.ts'
import type { Part, Source } from '../../../src/model/source.ts'
import { ship } from '../../../src/ship/loop.ts'
import { entriesOf, spec } from '../../contract/journal-parts.ts'
import { failing, taken } from '../../fakes/sink.ts'
import { withMethods } from '../../fakes/with-methods.ts'
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

const MIB = 2 ** 20

/** Takes it and never answers, as far as anybody waits. */
const hanging = (quay: Quay) => async () => {
  await quay.clock.sleep(MINUTE)
  return failing('timeout')()
}

/** `count` sinks beside a living one, in one process, with batches of so many bytes at most. */
async function openPort(count: number, maxBytes: number) {
  const names = Array.from({ length: count }, (_, i) => `hung-${i}`)
  const quay = await openQuay([...names, 'archive'])
  const rooms = openRooms()
  const more = {
    ...{ room: rooms.all, unprovenRoom: rooms.unproven },
    batch: { maxEntries: 100_000, maxBytes },
  }
  const hung = names.map((name) => quay.berth(name, more))
  return { quay, rooms, hung, archive: quay.berth('archive', more) }
}

/** A reader comes once a second; how often there was no room for the whole of an answer. */
async function readFor(minutes: number, quay: Quay, { reading, all }: Rooms): Promise<number> {
  let kept = 0
  const from = quay.clock.now()
  for (let second = 1; second <= minutes * 60; second++) {
    await pass(quay, from + second * SECOND)
    const leave = reading.tryEnter(4 * MIB)
    if (leave) leave()
    else kept++
    expect(all.heldBytes).toBeLessThanOrEqual(32 * MIB)
  }
  return kept
}

/** No step of them comes to an end by itself. */
function castOff(berths: readonly Berth[]): () => void {
  const stopping = new AbortController()
  for (const { shipper, options } of berths) void ship(shipper, options, stopping.signal)
  return () => stopping.abort()
}

it.each([
  [40, MIB],
  [40, 16 * MIB],
  [2, 16 * MIB],
])(
  'hung receivers, however many (%i, batches of %i bytes), hold up neither a living sink nor reading',
  async (count, maxBytes) => {
    const { quay, rooms, hung, archive } = await openPort(count, maxBytes)
    for (const { sink } of hung) sink.answer = hanging(quay)
    for (let i = 0; i < 24; i++) await quay.append(100, { body: 'x'.repeat(10_000) })
    const stop = castOff([...hung, archive])
    expect(await readFor(1, quay, rooms)).toBe(0)
    expect(archive.sink.seqs.flat()).toEqual(range(1, 2_400))
    await quay.append(100, { body: 'x'.repeat(10_000) })
    expect(await readFor(3, quay, rooms)).toBe(0)
    expect(archive.sink.seqs.flat()).toEqual(range(1, 2_500))
    expect(archive.sink.deliveries.at(-1)?.at).toBeLessThan(START + MINUTE + SECOND)
    // They are asked for all that, each of them.
    for (const { sink } of hung) expect(sink.deliveries.length).toBeGreaterThan(1)
    stop()
  },
)

it('receivers that were well and hang with large batches hold up neither a living sink nor reading, and hold one batch each, not two', async () => {
  const { quay, rooms, hung, archive } = await openPort(2, 16 * MIB)
  const stop = castOff([...hung, archive])
  await quay.append(1)
  await pass(quay, START + SECOND)
  for (const { sink } of hung) sink.answer = hanging(quay)
  for (let i = 0; i < 24; i++) await quay.append(100, { body: 'x'.repeat(10_000) })
  await pass(quay, START + 10 * SECOND)
  const [batch] = hung.map(({ sink }) => sink.deliveries.at(-1)?.texts.join('').length ?? 0)
  expect(batch).toBeGreaterThan(3 * MIB)
  expect(rooms.all.heldBytes).toBeGreaterThan(12 * MIB)
  expect(rooms.all.heldBytes).toBeLessThanOrEqual(16 * MIB)
  expect(await readFor(5, quay, rooms)).toBe(0)
  expect(archive.sink.seqs.flat()).toEqual(range(1, 2_401))
  // From the first failure on they take their turns.
  expect(rooms.all.heldBytes).toBeLessThanOrEqual(8 * MIB)
  stop()
})

it('what is found to be next only when the answer is overdue is let go too', async () => {
  const quay = await openQuay()
  let takes = 0
  const journal = withMethods(quay.journal, {
    take: async (...wish) => {
      if (++takes === 2) await quay.clock.sleep(10 * SECOND)
      return quay.journal.take(...wish)
    },
  })
  const berth = quay.berth('archive', { journal, batch: { maxEntries: 1 } })
  await quay.append(2)
  berth.sink.answer = hanging(quay)
  const stop = castOff([berth])
  await pass(quay, START + 9 * SECOND)
  const held = berth.room.heldBytes
  await pass(quay, START + 11 * SECOND)
  expect([takes, berth.room.heldBytes, berth.sink.warmed]).toEqual([2, held, []])
  stop()
})

it('a sink that failed in time is held up by no hung one, and one that hung delivers all once its receiver answers', async () => {
  const { quay, rooms, hung, archive } = await openPort(8, MIB)
  const stop = castOff([...hung, archive])
  await quay.append(1)
  await pass(quay, START + SECOND)
  for (const { sink } of hung) sink.answer = hanging(quay)
  for (let i = 0; i < 8; i++) await quay.append(100, { body: 'x'.repeat(10_000) })
  await pass(quay, START + 5 * MINUTE)
  archive.sink.answer = failing('server_error')
  await quay.append(100)
  await pass(quay, START + 5 * MINUTE + SECOND)
  archive.sink.answer = taken
  await pass(quay, START + 5 * MINUTE + 4 * SECOND)
  expect(archive.sink.seqs.flat().at(-1)).toBe(901)
  for (const { sink } of hung) sink.answer = taken
  await pass(quay, START + 10 * MINUTE)
  expect(quay.journal.stats().entries).toBe(0)
  expect([rooms.all.heldBytes, rooms.unproven.heldBytes]).toEqual([0, 0])
  stop()
})

it('a sink that waits for room says that it is sending', async () => {
  const { quay, rooms, archive } = await openPort(0, MIB)
  const leave = await rooms.all.enter(32 * MIB, new AbortController().signal)
  const stop = castOff([archive])
  await pass(quay, START + SECOND)
  expect(archive.watch.states.at(-1)).toBe('idle')
  await quay.append(1)
  await pass(quay, START + 2 * SECOND)
  expect(archive.watch.states.at(-1)).toBe('sending')
  leave()
  await pass(quay, START + 3 * SECOND)
  expect([archive.watch.states.at(-1), archive.sink.seqs.flat()]).toEqual(['idle', [1]])
  stop()
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
