// Sinks side by side, in their loops on a virtual clock: a fault of one does not affect the others (invariant 2).
import { expect, it } from 'vitest'
import { runIngest } from '../../../src/ingest/loop.ts'
import type { IngestOptions } from '../../../src/ingest/loop.ts'
import type { Clock } from '../../../src/core/clock.ts'
import { openMemoryBudgets, type MemoryBudgets } from '../../../src/core/memory-budget.ts'
import type { PageChunk, Source } from '../../../src/contracts/source.ts'
import { runDispatcher } from '../../../src/delivery/loop.ts'
import { entriesOf, spec } from '../../contract/journal-parts.ts'
import { failing, taken } from '../../fakes/sink.ts'
import { SourceNotes } from '../../fakes/reporters.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { openRig, range, START } from './rig.ts'
import type { SinkRig, Rig } from './rig.ts'

const SECOND = 1_000
const MINUTE = 60_000
const HOUR = 3_600_000
const WEEK = 7 * 24 * HOUR

async function pass(rig: Rig, until: number): Promise<void> {
  for (;;) {
    await settled()
    if (!rig.clock.advance(until)) return
  }
}

function sail(sinkRigs: readonly SinkRig[]) {
  const stopping = new AbortController()
  const loops = sinkRigs.map(({ dispatcher, options }) => runDispatcher(dispatcher, options, stopping.signal))
  return async () => {
    stopping.abort()
    await Promise.all(loops)
  }
}

/** Five entries an hour for a week to three sinks; when each was delivered. */
async function week(dead: boolean): Promise<{ times: number[][]; third: SinkRig }> {
  const rig = await openRig(['archive', 'splunk', 'console'])
  const sinkRigs = ['archive', 'splunk', 'console'].map((name) =>
    rig.sinkRig(name, { batch: { maxEntries: 50, lingerMs: SECOND } }),
  )
  const third = sinkRigs[2] as SinkRig
  if (dead) third.sink.answer = failing('unreachable')
  const stop = sail(sinkRigs)
  for (let hour = 0; hour < 168; hour++) {
    await rig.append(5)
    await pass(rig, START + (hour + 1) * HOUR)
  }
  const times = sinkRigs.slice(0, 2).map(({ sink }) => sink.deliveries.map(({ at }) => at))
  expect(rig.clock.now()).toBe(START + WEEK)
  third.sink.answer = taken
  third.sink.deliveries.length = 0
  await pass(rig, START + WEEK + MINUTE)
  expect(rig.journal.stats().entries).toBe(0)
  await stop()
  return { times, third }
}

// A week of work in three sinks, which took 20 s beside a load of 15.
it(
  'while one of three sinks is dead for a week, the others deliver at the very same moments; then it catches up in order',
  { timeout: 60_000 },
  async () => {
    const calm = await week(false)
    const { times, third } = await week(true)
    expect(times).toEqual(calm.times)
    expect(times[0]?.length).toBeGreaterThan(160)
    expect(third.sink.seqs.flat()).toEqual(range(1, 840))
    expect(third.memory.usedBytes).toBe(0)
  },
)

it('a hung sink blocks no other sink', async () => {
  const rig = await openRig(['archive', 'splunk'])
  const [archive, splunk] = [rig.sinkRig('archive'), rig.sinkRig('splunk')]
  splunk.sink.answer = () => new Promise(() => undefined)
  const stopping = new AbortController()
  void runDispatcher(splunk.dispatcher, splunk.options, stopping.signal)
  const living = runDispatcher(archive.dispatcher, archive.options, stopping.signal)
  for (let i = 0; i < 5; i++) {
    await rig.append(2)
    await pass(rig, START + (i + 1) * MINUTE)
  }
  expect(archive.sink.seqs.flat()).toEqual(range(1, 10))
  stopping.abort()
  await living
})

const MIB = 2 ** 20

/** Takes the batch and never answers. */
const hanging = (rig: Rig) => async () => {
  await rig.clock.sleep(MINUTE)
  return failing('timeout')()
}

/** `count` sinks beside a healthy one, in one process, with batches of so many bytes at most. */
async function openPort(count: number, maxBytes: number) {
  const names = Array.from({ length: count }, (_, i) => `hung-${i}`)
  const rig = await openRig([...names, 'archive'])
  const rooms = openMemoryBudgets(count + 1)
  const sinkRig = (name: string) =>
    rig.sinkRig(name, { memory: rooms.forSink(), batch: { maxEntries: 100_000, maxBytes } })
  return { rig, rooms, hung: names.map(sinkRig), archive: sinkRig('archive') }
}

/** A reader comes once a second; how often there was no memory for a whole answer. */
async function readFor(seconds: number, rig: Rig, { reading, all }: MemoryBudgets): Promise<number> {
  let kept = 0
  const from = rig.clock.now()
  for (let second = 1; second <= seconds; second++) {
    await pass(rig, from + second * SECOND)
    const leave = reading.tryReserve(4 * MIB)
    if (leave) leave()
    else kept++
    expect(all.usedBytes).toBeLessThanOrEqual(32 * MIB)
  }
  return kept
}

/** None of their steps ends on its own. */
function castOff(sinkRigs: readonly SinkRig[]): () => void {
  const stopping = new AbortController()
  for (const { dispatcher, options } of sinkRigs) void runDispatcher(dispatcher, options, stopping.signal)
  return () => stopping.abort()
}

/** So many default batches of entries of 10 KB. */
async function appendBatches(rig: Rig, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await rig.append(100, { body: 'x'.repeat(10_000) })
}

it.each([
  [12, MIB, 5],
  [40, MIB, 3],
  [12, 16 * MIB, 5],
  [2, 16 * MIB, 20],
])(
  'hung receivers (%i, batches of %i bytes) block neither a healthy sink nor reading, and get everything once they answer',
  async (count, maxBytes, batches) => {
    const { rig, rooms, hung, archive } = await openPort(count, maxBytes)
    for (const { sink } of hung) sink.answer = hanging(rig)
    await appendBatches(rig, batches)
    const stop = castOff([...hung, archive])
    expect(await readFor(3, rig, rooms)).toBe(0)
    expect(archive.sink.seqs.flat()).toEqual(range(1, batches * 100))
    expect(await readFor(180, rig, rooms)).toBe(0)
    const later = rig.clock.now()
    await appendBatches(rig, 2)
    expect(await readFor(3, rig, rooms)).toBe(0)
    expect(archive.sink.seqs.flat()).toEqual(range(1, batches * 100 + 200))
    expect(archive.sink.deliveries.at(-1)?.at).toBeLessThan(later + SECOND)
    // Each of them is asked for all that.
    for (const { sink } of hung) expect(sink.deliveries.length).toBeGreaterThan(1)
    for (const { sink } of hung) sink.answer = taken
    await pass(rig, later + 3 * MINUTE)
    expect(rig.journal.stats().entries).toBe(0)
    for (const { sink } of hung) expect(new Set(sink.seqs.flat()).size).toBe(batches * 100 + 200)
    expect(
      [rooms.all, ...[...hung, archive].map(({ memory }) => memory)].map((memory) => memory.usedBytes),
    ).toEqual(Array.from({ length: count + 2 }, () => 0))
    stop()
  },
)

it.each([1, 2, 3, 4])(
  'with %i sinks a default batch goes out whole, and the next is framed meanwhile',
  async (sinks) => {
    const { rig, hung, archive } = await openPort(sinks - 1, MIB)
    for (const { sink } of hung) sink.answer = hanging(rig)
    for (let i = 0; i < 24; i++) await rig.append(100, { body: 'x'.repeat(1_000) })
    archive.sink.answer = async (delivery) => {
      await rig.clock.sleep(SECOND)
      return taken(delivery)
    }
    const stop = castOff([...hung, archive])
    await pass(rig, START + MINUTE / 2)
    const batches = archive.sink.deliveries.map(({ texts }) => texts.join('').length)
    expect(batches).toHaveLength(3)
    expect(Math.min(...batches.slice(0, 2))).toBeGreaterThan(MIB - 2_000)
    expect(archive.sink.warmed).toEqual(archive.sink.seqs.slice(1))
    stop()
  },
)

it('a batch is no larger than its sink’s share, and a full one does not linger', async () => {
  const rig = await openRig()
  const batch = { maxEntries: 100_000, maxBytes: 16 * MIB, lingerMs: HOUR }
  const sinkRig = rig.sinkRig('archive', { memory: openMemoryBudgets(16).forSink(), batch })
  await appendBatches(rig, 2)
  const stop = sail([sinkRig])
  await pass(rig, START + MINUTE)
  const batches = sinkRig.sink.deliveries.map(({ texts }) => texts.join('').length)
  expect(Math.max(...batches)).toBeLessThanOrEqual(MIB / 2)
  expect(batches[0]).toBeGreaterThan(MIB / 2 - 11_000)
  expect(sinkRig.sink.seqs.flat()).toEqual(range(1, 200))
  await stop()
})

it('receivers that hang over an entry larger than their share block neither reading nor sinks that are past it', async () => {
  const { rig, rooms, hung, archive } = await openPort(12, MIB)
  for (const { sink } of hung) sink.answer = hanging(rig)
  // It takes 3 MiB of memory, and a share is 1.2.
  await rig.append(1, { body: 'x'.repeat(1.5 * MIB) })
  const stop = castOff([archive, ...hung])
  await pass(rig, START + SECOND)
  await appendBatches(rig, 4)
  expect(await readFor(3, rig, rooms)).toBe(0)
  expect(archive.sink.seqs.flat()).toEqual(range(1, 401))
  expect(await readFor(600, rig, rooms)).toBe(0)
  for (const { sink } of hung) {
    expect(sink.deliveries.length).toBeGreaterThan(1)
    sink.answer = taken
  }
  await pass(rig, rig.clock.now() + 3 * MINUTE)
  expect([rig.journal.stats().entries, rooms.all.usedBytes]).toEqual([0, 0])
  stop()
})

it('an entry of the largest size waits for no other sink’s receiver; where its own hangs, the others read and deliver on', async () => {
  const { rig, rooms, hung, archive } = await openPort(3, MIB)
  const [one, other, third] = hung as [SinkRig, SinkRig, SinkRig]
  for (const { sink } of hung) sink.answer = hanging(rig)
  await appendBatches(rig, 1)
  const stop = castOff([one, other])
  await pass(rig, START + SECOND)
  await rig.append(1, { body: 'x'.repeat(15.9 * MIB) })
  const stopArchive = castOff([archive])
  await pass(rig, START + 2 * SECOND)
  expect(archive.sink.seqs.flat()).toEqual(range(1, 101))
  const stopThird = castOff([third])
  expect(await readFor(600, rig, rooms)).toBe(0)
  await appendBatches(rig, 1)
  await pass(rig, rig.clock.now() + SECOND)
  expect(archive.sink.seqs.flat()).toEqual(range(1, 201))
  for (const { sink } of hung) sink.answer = taken
  await pass(rig, rig.clock.now() + 5 * MINUTE)
  expect([rig.journal.stats().entries, rooms.all.usedBytes]).toEqual([0, 0])
  for (const cast of [stop, stopArchive, stopThird]) cast()
})

it('after a reload with more sinks and one with fewer, in-flight batches go out unchanged within the total memory', async () => {
  const names = Array.from({ length: 10 }, (_, i) => `sink-${i}`)
  const rig = await openRig(names)
  const batch = { maxEntries: 100_000, maxBytes: 16 * MIB }
  const sinkRigs = names.map((name) => rig.sinkRig(name, { batch }))
  const [first, second] = sinkRigs as [SinkRig, SinkRig]
  for (const { sink } of [first, second]) sink.answer = hanging(rig)
  await appendBatches(rig, 10)
  let held = 0
  /** A process with the first `count` of them; it holds no more memory than the budget has. */
  const process = async (count: number, seconds: number) => {
    const rooms = openMemoryBudgets(count)
    const stopping = new AbortController()
    for (const sinkRig of sinkRigs.slice(0, count)) {
      sinkRig.restart({ memory: rooms.forSink() })
      void runDispatcher(sinkRig.dispatcher, sinkRig.options, stopping.signal)
    }
    const kept = await readFor(seconds, rig, rooms)
    held = rooms.all.usedBytes
    stopping.abort()
    return kept
  }
  expect(await process(2, 10)).toBe(0)
  const [big] = first.sink.seqs
  expect(big?.length).toBeGreaterThan(390)
  // Two batches in flight that are larger than a tenth: the other sinks still get their shares.
  expect(await process(10, 70)).toBe(0)
  expect([first, second].map(({ sink }) => sink.seqs[1])).toEqual([big, big])
  for (const { sink } of sinkRigs.slice(2)) expect(sink.seqs.flat()).toEqual(range(1, 1_000))
  for (const { sink } of [first, second]) sink.answer = taken
  expect(await process(2, 90)).toBe(0)
  expect(first.sink.seqs.at(-1)?.length).toBeGreaterThan(100)
  for (const { sink } of sinkRigs) expect(new Set(sink.seqs.flat()).size).toBe(1_000)
  expect(held).toBe(0)
})

it('a sink that waits for memory shows as sending', async () => {
  const { rig, rooms, archive } = await openPort(0, MIB)
  const leave = await rooms.all.reserve(32 * MIB, new AbortController().signal)
  const stop = castOff([archive])
  await pass(rig, START + SECOND)
  expect(archive.reporter.states.at(-1)).toBe('idle')
  await rig.append(1)
  await pass(rig, START + 2 * SECOND)
  expect(archive.reporter.states.at(-1)).toBe('sending')
  leave()
  await pass(rig, START + 3 * SECOND)
  expect([archive.reporter.states.at(-1), archive.sink.seqs.flat()]).toEqual(['idle', [1]])
  stop()
})

/** Ten entries at every read, due each second. */
function fountain(): Source {
  let made = 0
  return {
    stream: { workspace: 'acme', source: 'audit' },
    plan: (cursor) => ({ dueAt: START + Number(cursor ?? 0) * SECOND, priority: 'live', caughtUp: false }),
    async *read(cursor) {
      const specs = Array.from({ length: 10 }, (_, i) => spec(made + i))
      const page: PageChunk = {
        entries: entriesOf(specs),
        quarantined: [],
        findings: [],
        headUs: undefined,
        gaps: 0,
        fault: undefined,
        cursor: String(Number(cursor ?? 0) + 1),
      }
      yield page
      made += 10
    },
  }
}

it('at max_bytes reading pauses and names the sink that is behind, delivery continues; once there is room reading resumes with nothing missing', async () => {
  const rig = await openRig(['archive', 'splunk'], 10_000)
  const [archive, splunk] = [rig.sinkRig('archive'), rig.sinkRig('splunk')]
  const reporter = new SourceNotes()
  const collector: IngestOptions = {
    source: fountain(),
    journal: rig.journal,
    reporter,
    log: rig.log,
    clock: rig.clock,
    random: () => 0.5,
    wanted: () => true,
    once: false,
  }
  splunk.sink.answer = failing('unreachable')
  const stopping = new AbortController()
  const reading = runIngest(collector, stopping.signal)
  const stop = sail([archive, splunk])
  await pass(rig, START + HOUR)
  const stats = rig.journal.stats()
  expect(stats.full).toBe(true)
  expect(reporter.states.at(-1)).toBe('paused')
  const kept = archive.sink.seqs.flat().length
  expect(archive.sink.seqs.flat()).toEqual(range(1, kept))
  expect(stats.sinks.map(({ sink, pendingEntries }) => [sink, pendingEntries])).toEqual([
    ['archive', 0],
    ['splunk', kept],
  ])
  expect(splunk.reporter.states.at(-1)).toBe('failing')
  splunk.sink.answer = taken
  splunk.sink.deliveries.length = 0
  await pass(rig, START + 2 * HOUR)
  expect(reporter.states.at(-1)).not.toBe('paused')
  const after = archive.sink.seqs.flat().length
  expect(after).toBeGreaterThan(kept)
  expect(archive.sink.seqs.flat()).toEqual(range(1, after))
  expect(splunk.sink.seqs.flat()).toEqual(range(1, after))
  stopping.abort()
  await reading
  await stop()
})

it('a temporary failure is retried within seconds, a blocked sink within a minute', async () => {
  for (const [code, state, least, most] of [
    ['unreachable', 'failing', 500, 30_000],
    ['server_error', 'failing', 500, 30_000],
    ['unauthorized', 'blocked', 5_000, 60_000],
    ['misconfigured', 'blocked', 5_000, 60_000],
  ] as const) {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    sinkRig.sink.answer = failing(code)
    await rig.append(3)
    const stop = sail([sinkRig])
    await pass(rig, START + 20 * MINUTE)
    const at = sinkRig.sink.deliveries.map((delivery) => delivery.at)
    const waits = at.slice(1).map((time, i) => time - (at[i] ?? 0))
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(least)
    expect(Math.max(...waits)).toBeLessThanOrEqual(most)
    expect(waits.at(-1)).toBeGreaterThan(least)
    expect(sinkRig.reporter.triesInMs.slice(0, waits.length)).toEqual(waits)
    expect(sinkRig.reporter.states.at(-1)).toBe(state)
    expect(new Set(sinkRig.reporter.retries)).toEqual(new Set([code]))
    // Reported as the backoff grows, not at every try.
    expect(rig.log.lines.length).toBeLessThan(10)
    await stop()
  }
})

it('the receiver’s Retry-After is respected', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig()
  sinkRig.sink.answer = failing('rate_limited', 300_000)
  await rig.append(3)
  const stop = sail([sinkRig])
  await pass(rig, START + 299_000)
  expect(sinkRig.sink.deliveries).toHaveLength(1)
  await pass(rig, START + 301_000)
  expect(sinkRig.sink.deliveries).toHaveLength(2)
  await stop()
})

it('a blocked sink is retried within a minute, whatever Retry-After says', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig()
  sinkRig.sink.answer = failing('unauthorized', 3_600_000)
  await rig.append(3)
  const stop = sail([sinkRig])
  await pass(rig, START + 61_000)
  expect(sinkRig.sink.deliveries.length).toBeGreaterThanOrEqual(2)
  await stop()
})

it('a fatal error ends the loop with that error, and so do a lost lease and a bug', async () => {
  for (const thrown of [
    failing('disk_failed'),
    failing('lease_lost'),
    () => {
      throw new TypeError('a bug')
    },
  ]) {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    sinkRig.sink.answer = thrown
    await rig.append(1)
    await expect(
      runDispatcher(sinkRig.dispatcher, sinkRig.options, new AbortController().signal),
    ).rejects.toThrow()
  }
})

it('a long row of unwanted entries yields to other work in between', async () => {
  const rig = await openRig()
  const { clock } = rig
  let turnsOfOthers = 0
  const busy: Clock = {
    now: () => clock.now(),
    // Every look at the clock finds some work done.
    elapsed: () => (clock.advance(clock.now() + 100), clock.now()),
    sleep: async (ms) => void (turnsOfOthers += ms === 0 ? 1 : 0),
  }
  const sinkRig = rig.sinkRig('archive', {
    nothingMoreComes: () => true,
    wanted: () => false,
    batch: { maxEntries: 1 },
    clock: busy,
  })
  await rig.append(20)
  await runDispatcher(sinkRig.dispatcher, sinkRig.options, new AbortController().signal)
  expect(sinkRig.reporter.filtered).toBe(20)
  expect(turnsOfOthers).toBeGreaterThanOrEqual(5)
})

it('new entries wake a lingering loop, and a full batch does not wait for the linger', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 4, lingerMs: 10 * SECOND } })
  const stop = sail([sinkRig])
  await rig.append(2)
  await pass(rig, START + SECOND)
  await rig.append(2)
  await pass(rig, START + 2 * SECOND)
  expect(sinkRig.sink.deliveries).toMatchObject([{ at: START + SECOND, seqs: [1, 2, 3, 4] }])
  await stop()
})

it('the loop ends when nothing more will come and nothing is pending', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig('archive', {
    nothingMoreComes: () => true,
    batch: { maxEntries: 4, lingerMs: HOUR },
  })
  await rig.append(10)
  await runDispatcher(sinkRig.dispatcher, sinkRig.options, new AbortController().signal)
  expect(sinkRig.sink.seqs.flat()).toEqual(range(1, 10))
})
