// Delivery in objects, step by step: what one contains, what a crash leaves, what must never happen twice (invariants 2, 3 and 4).
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { accountReport, type DayAccount } from '../../../src/contracts/accounts.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Journal, ChunkSlice, StateEntry } from '../../../src/contracts/journal.ts'
import type { Evidence, ObjectSink, StoredRange } from '../../../src/contracts/sink.ts'
import type { StepResult } from '../../../src/delivery/loop.ts'
import {
  Contents,
  Groups,
  ObjectDispatcher,
  type ObjectDispatcherOptions,
} from '../../../src/delivery/objects.ts'
import { redactBy } from '../../../src/delivery/redact.ts'
import { s3 } from '../../../src/sinks/s3/sink.ts'
import { part, START_US, spec, type EntrySpec } from '../../contract/journal-parts.ts'
import { FakeDisk } from '../../fakes/disk.ts'
import { rawFormat, runOf } from '../../fakes/lines.ts'
import {
  type FakeS3,
  FakeS3 as Server,
  manners as servers,
  type S3Switches,
  s3Transport,
} from '../../fakes/s3.ts'
import { Share } from '../../fakes/share.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'
import { SinkNotes } from '../../fakes/reporters.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { never, nextTurn, openRig, type Rig, range, START } from './rig.ts'
import { withMethods } from '../../fakes/with-methods.ts'

const DAY_US = 86_400_000_000
const HOUR_MS = 3_600_000

interface BucketRig {
  readonly fake: FakeS3
  readonly disk: FakeDisk
  readonly reporter: SinkNotes
  sink: ObjectSink
  memory: Share
  step(): Promise<StepResult>
  unfinished(): boolean
  collectsForMs(): number | undefined
  /** Steps until there is nothing to do right now; failures are retried. */
  ack(): Promise<number>
  /** The process dies and the next starts. */
  restart(changed?: Partial<ObjectDispatcherOptions>, options?: object, shareBytes?: number): void
}

interface Setting {
  readonly s3?: object
  readonly switches?: Partial<S3Switches>
  readonly options?: Partial<ObjectDispatcherOptions>
  readonly evidence?: Evidence
}

function openBucketRig(
  rig: Rig,
  { s3: given = {}, switches = {}, options = {}, evidence }: Setting = {},
): BucketRig {
  const fake = new Server(switches)
  const disk = new FakeDisk()
  const reporter = new SinkNotes()
  const keys = { access_key_id: 'AK', secret_access_key: 'planted-secret' }
  const base = { bucket: 'logs', endpoint: 'https://s3.test', force_path_style: true, ...keys }
  let dispatcher: ObjectDispatcher
  const bucketRig: BucketRig = {
    fake,
    disk,
    reporter,
    memory: new Share(),
    step: () => dispatcher.step(never),
    unfinished: () => dispatcher.unfinished,
    collectsForMs: () => dispatcher.collectsForMs,
    ack: async () => {
      for (let i = 0; i < 10_000; i++) {
        const result = await bucketRig.step().catch((error: unknown) => {
          if (error instanceof ConnectorError) return 'worked' as const
          throw error
        })
        if (typeof result === 'number') return result
      }
      throw new Error('this goes in circles')
    },
    restart: (changed = {}, more = {}, shareBytes) => {
      const deps = sinkDeps({ clock: rig.clock, disk, transport: () => s3Transport(fake, rig.clock) })
      const opened = s3.open('archive', s3.options.parse({ ...base, ...given, ...more }), deps)
      bucketRig.sink = evidence ? Object.assign(opened, { evidence: () => evidence }) : opened
      bucketRig.memory = new Share(shareBytes)
      dispatcher = new ObjectDispatcher({
        ...{ sink: bucketRig.sink, journal: rig.journal, reporter, log: rig.log, clock: rig.clock },
        ...{
          format: rawFormat,
          random: () => 0.5,
          memory: bucketRig.memory,
          nothingMoreComes: () => false,
          shape: 'one',
        },
        wanted: ({ onlySink }: ChunkSlice) => onlySink === undefined || onlySink === 'archive',
        lookAgainMs: Infinity,
        ...options,
        ...changed,
      })
    },
  } as BucketRig
  bucketRig.restart()
  return bucketRig
}

const idsOf = (lines: readonly string[]) => lines.map((line) => (JSON.parse(line) as { id: string }).id)
const someIds = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => spec(from + i).id)
const daysOf = (fake: FakeS3) => fake.entries.map(({ key }) => /dt=([^/]+)/.exec(key)?.[1] ?? '')
const pass = (rig: Rig, ms: number) => rig.clock.advance(rig.clock.now() + ms)

/** Each entry once over all objects, and no object put twice with success. */
function expectEachOnce(fake: FakeS3, ids: readonly string[]): void {
  expect(idsOf(fake.lines).toSorted()).toEqual(ids.toSorted())
  for (const { versions } of fake.objects.values()) expect(versions).toBe(1)
}

/** Entries of three workspaces, two sources and two days, in turns. */
async function appendMixed(rig: Rig, count: number, from = 1): Promise<void> {
  for (let n = from; n < from + count; n++) {
    const stream = {
      workspace: ['acme', 'beta', 'corp'][n % 3] ?? '',
      source: n % 2 ? 'audit' : 'history.usage',
    } as const
    await rig.journal.append(part([spec(n, { at: START_US + (n % 5 === 0 ? DAY_US : 0) + n })], { stream }))
  }
}

describe('the contents of an object', () => {
  it('no object has a field that its sink may not see, also after a crash; with the field it would be another object', async () => {
    const rig = await openRig()
    const redact = redactBy([{ fields: ['body'], change: { with: 'drop' } }])
    const bucketRig = openBucketRig(rig, { options: { redact } })
    await rig.append(3, { body: 'privileged' })
    pass(rig, HOUR_MS)
    while (bucketRig.fake.entries.length === 0) await bucketRig.step()
    bucketRig.restart()
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 3))
    expect(bucketRig.fake.lines.join()).not.toContain('body')
  })

  it('an object has the entries of one workspace, one source and one UTC day of their own times, in journal order', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig, { s3: { prefix: 'logs/x' } })
    await appendMixed(rig, 40)
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 40))
    expect(bucketRig.fake.entries).toHaveLength(12)
    for (const object of bucketRig.fake.entries) {
      const [, workspace, source, day, first, last] =
        /^logs\/x\/workspace=(\w+)\/source=([\w.]+)\/dt=([\d-]+)\/(\d{16})-(\d{16})-[0-9a-f]{16}\.ndjson\.gz$/.exec(
          object.key,
        ) ?? []
      expect(workspace).toBeDefined()
      const own = new FakeOf(object).lines
      const ns = idsOf(own).map((id) => parseInt(id.slice(-12), 16))
      expect(ns).toEqual(ns.toSorted((a, b) => a - b))
      expect([Number(first), Number(last)]).toEqual([ns[0], ns.at(-1)])
      for (const n of ns) {
        expect(['acme', 'beta', 'corp'][n % 3]).toBe(workspace)
        expect(n % 2 ? 'audit' : 'history.usage').toBe(source)
        expect(new Date(START + (n % 5 === 0 ? 1 : 0) * 86_400_000).toISOString().slice(0, 4)).toBe(
          day?.slice(0, 4),
        )
      }
    }
  })

  it('an entry just before midnight UTC and one just after it go into two objects', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await rig.journal.append(
      part([spec(1, { at: START_US + DAY_US - 1 }), spec(2, { at: START_US + DAY_US })]),
    )
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expect(daysOf(bucketRig.fake)).toEqual(['2026-01-31', '2026-02-01'])
  })

  it.each([NaN, -1e18, 9e17])('a time that is no day (%d) is reported as unknown, not guessed', (at) => {
    const run = runOf([{ id: 'a' }])
    run.entries.times[0] = at
    expect(new Groups().of(run, 0).day).toBe('unknown')
  })

  it('replayed entries go into objects of their own', () => {
    const groups = new Groups()
    const [first, again] = [runOf([{ id: 'a' }]), runOf([{ id: 'a' }], { replay: true })]
    expect(groups.of(again, 0).replay).toBe('20261121T100001Z')
    expect(groups.of(first, 0)).not.toBe(groups.of(again, 0))
  })

  it('filtered entries are in no object and are acknowledged with the rest', async () => {
    const rig = await openRig()
    const wanted = (run: ChunkSlice, index: number) => (run.firstSeq + index) % 3 === 0
    const bucketRig = openBucketRig(rig, { options: { wanted } })
    await rig.append(20)
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expect(idsOf(bucketRig.fake.lines)).toEqual([3, 6, 9, 12, 15, 18].map((n) => spec(n).id))
    expect(bucketRig.reporter).toMatchObject({ accepted: 6, filtered: 14, delays: 6 })
    expect(rig.journal.stats().entries).toBe(0)
  })

  it('if no entry is wanted, no object is written and nothing waits', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig, { options: { wanted: () => false } })
    await rig.append(5)
    expect(await bucketRig.ack()).toBe(Infinity)
    expect(bucketRig.fake.exchanges).toEqual([])
    expect(rig.journal.stats().entries).toBe(0)
    expect(bucketRig.reporter).toMatchObject({ accepted: 0, filtered: 5, successes: 0 })
  })

  it('if no entry of a closed range is wanted any more, it is acknowledged and counts as no success', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await rig.append(5)
    await rig.journal.recordInFlight('archive', { first: 1, last: 5, shape: 'one', detail: '' })
    bucketRig.restart({ wanted: () => false })
    await bucketRig.ack()
    expect(bucketRig.reporter).toMatchObject({ accepted: 0, filtered: 5, successes: 0 })
  })

  it.each([
    ['a wanted entry', {}, true, { accepted: 2, filtered: 0, replayed: 0 }],
    ['an unwanted entry', {}, false, { accepted: 0, filtered: 2, replayed: 0 }],
    ['a replayed entry', { replay: true }, true, { accepted: 0, filtered: 0, replayed: 2 }],
    ['an unwanted replayed entry', { replay: true }, false, undefined],
    ["another sink's entry", { onlySink: 'siem' }, false, undefined],
  ] as const)(
    'the delivery accounts count %s correctly, beside other entries and alone',
    async (_, more, wants, expected) => {
      for (const alone of [false, true]) {
        const rig = await openRig()
        const settled: DayAccount[] = []
        const journal = withMethods(rig.journal, {
          take: async (...asked) => {
            const batch = await rig.journal.take(...asked)
            const marked = (run: ChunkSlice) => (run.stream.source === 'audit' ? run : { ...run, ...more })
            return batch && { ...batch, slices: batch.slices.map(marked) }
          },
          ack: (sink, acknowledgement) => {
            settled.push(...(acknowledgement.accounts ?? []))
            return rig.journal.ack(sink, acknowledgement)
          },
        })
        const wanted = ({ stream }: ChunkSlice) => stream.source === 'audit' || wants
        const bucketRig = openBucketRig(rig, { options: { journal, wanted } })
        if (!alone) await rig.append(2)
        const stream = { workspace: 'acme', source: 'history.usage' } as const
        await rig.journal.append(part([spec(11), spec(12)], { stream }))
        pass(rig, HOUR_MS)
        await bucketRig.ack()
        expect(settled.find((each) => each.stream.source === 'history.usage')).toEqual(
          expected && expect.objectContaining(expected),
        )
      }
    },
  )

  it('an object names the times of its earliest and latest entry in any order, and none where no entry has a time', () => {
    const reported = (times: readonly number[]) => {
      const contents = new Contents({ stream: { workspace: 'acme', source: 'audit' }, day: 'x', replay: undefined }) // prettier-ignore
      times.forEach((time, i) => contents.add(i + 1, time, 0))
      const { firstAtUs, lastAtUs } = contents.whole
      return [firstAtUs, lastAtUs]
    }
    expect(reported([5])).toEqual([5, 5])
    expect(reported([5, 9, 2, 7])).toEqual([2, 9])
    expect(reported([NaN, 5, NaN, 3, NaN])).toEqual([3, 5])
    expect(reported([NaN, NaN])).toEqual([NaN, NaN])
  })

  it('the delay of an entry dated in the future is zero, not negative', () => {
    const contents = new Contents({ stream: { workspace: 'acme', source: 'audit' }, day: 'x', replay: undefined }) // prettier-ignore
    contents.add(1, START_US + 60_000_000, START_US / 1000)
    const delays: number[] = []
    const reporter = Object.assign(new SinkNotes(), { delivered: (ms: number) => delays.push(ms) })
    contents.delays.report(reporter, START_US / 1000)
    expect(delays).toEqual([0])
  })

  it('a retried dead letter gets an object of its own sequence number', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await rig.append(2)
    await rig.journal.ack('archive', { first: 1, through: 1, rejected: [{ seq: 1, code: 'refused', reason: 'no' }] }) // prettier-ignore
    await rig.journal.retryDeadLetters({ sink: 'archive' })
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, [spec(2).id, spec(1).id])
  })
})

describe('when a range is closed', () => {
  it('by size: the lines of all its objects together stay within the limit, and nothing waits for its age', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig, { s3: { rotate: { max_bytes: '2KiB' }, compression: 'none' } })
    await rig.append(50, { body: 'x'.repeat(100) })
    await bucketRig.ack()
    expect(bucketRig.fake.entries.length).toBeGreaterThan(4)
    for (const { body } of bucketRig.fake.entries) expect(body.length).toBeLessThanOrEqual(2048)
    const position = rig.journal.stats().sinks[0]?.position ?? 0
    expect(idsOf(bucketRig.fake.lines)).toEqual(someIds(1, position))
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 50))
  })

  it('a line larger than the limit is an object alone', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig, { s3: { rotate: { max_bytes: '1KiB' } } })
    await rig.append(1)
    await rig.append(1, { body: 'x'.repeat(5_000) })
    await rig.append(1)
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expect(bucketRig.fake.entries).toHaveLength(3)
    expectEachOnce(bucketRig.fake, someIds(1, 3))
  })

  it('by age: of its oldest entry, and entries that came meanwhile go with it', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig, { s3: { rotate: { max_age: '10s' } } })
    expect([await bucketRig.ack(), bucketRig.collectsForMs()]).toEqual([Infinity, undefined])
    await rig.append(2)
    expect([await bucketRig.ack(), bucketRig.collectsForMs()]).toEqual([10_000, 10_000])
    pass(rig, 4_000)
    await rig.append(3)
    expect([await bucketRig.ack(), bucketRig.collectsForMs()]).toEqual([6_000, 6_000])
    pass(rig, 6_000)
    expect([await bucketRig.ack(), bucketRig.collectsForMs()]).toEqual([Infinity, undefined])
    expect(bucketRig.fake.entries).toHaveLength(1)
    expectEachOnce(bucketRig.fake, someIds(1, 5))
  })

  it('a clock that was set back does not make a range wait', async () => {
    const rig = await openRig()
    let backMs = 0
    const clock = { now: () => rig.clock.now() - backMs, elapsed: () => rig.clock.elapsed(), sleep: rig.clock.sleep.bind(rig.clock) } // prettier-ignore
    const bucketRig = openBucketRig(rig, { options: { clock } })
    await rig.append(2)
    backMs = 2 * HOUR_MS
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 2))
  })

  it('by groups: a range has at most 64', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    for (let n = 1; n <= 130; n++) await rig.journal.append(part([spec(n, { at: START_US + n * DAY_US })]))
    await bucketRig.ack()
    expect(bucketRig.fake.entries).toHaveLength(128)
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expect(bucketRig.fake.entries).toHaveLength(130)
    expectEachOnce(bucketRig.fake, someIds(1, 130))
  })

  it('at once if nothing more will come, and then the loop may end', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig, { options: { nothingMoreComes: () => true } })
    await rig.append(5)
    expect(await bucketRig.ack()).toBe(Infinity)
    expectEachOnce(bucketRig.fake, someIds(1, 5))
  })

  it('a single run checks again soon whether more will come', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig, { options: { lookAgainMs: 1_000 } })
    await rig.append(5)
    expect(await bucketRig.ack()).toBe(1_000)
  })

  it('at once if the journal is full: nothing enters until something is acknowledged', async () => {
    const rig = await openRig(['archive'], 2_000)
    const bucketRig = openBucketRig(rig)
    await rig.append(30, { body: 'x'.repeat(100) })
    expect(rig.journal.stats().full).toBe(true)
    await bucketRig.ack()
    expect(rig.journal.stats()).toMatchObject({ full: false, entries: 0 })
  })

  it('a range that is open at a stop waits for the next start, with its age', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await rig.append(3)
    await bucketRig.ack()
    await bucketRig.sink.close()
    expect(bucketRig.fake.entries).toEqual([])
    pass(rig, 120_000)
    bucketRig.restart()
    expect(await bucketRig.ack()).toBe(180_000)
    pass(rig, 180_000)
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 3))
  })
})

describe('crashes', () => {
  it('a crash after any step loses nothing and stores no second object', async () => {
    let steps = Infinity
    let whole: readonly string[] = []
    for (let fatal = -1; fatal < steps; fatal++) {
      const rig = await openRig()
      const bucketRig = openBucketRig(rig, { s3: { rotate: { max_bytes: '4KiB' } } })
      await appendMixed(rig, 60)
      pass(rig, HOUR_MS)
      if (fatal < 0) {
        for (steps = 0; (await bucketRig.step()) === 'worked'; steps++);
        whole = bucketRig.fake.entries.map(({ key }) => key).toSorted()
        expect(steps).toBeGreaterThan(20)
        continue
      }
      for (let i = 0; i < fatal; i++) await bucketRig.step()
      // What came after the crash may not change the in-flight range.
      await appendMixed(rig, 3, 61)
      const [inFlight] = await rig.journal.inFlightBatches('archive')
      bucketRig.restart()
      await bucketRig.ack()
      pass(rig, HOUR_MS)
      await bucketRig.ack()
      expectEachOnce(bucketRig.fake, someIds(1, 63))
      const onTheirWay = whole.filter((key) => {
        const [, first = 0, last = 0] = /(\d{16})-(\d{16})-/.exec(key) ?? []
        return inFlight && Number(first) >= inFlight.first && Number(last) <= inFlight.last
      })
      expect(bucketRig.fake.entries.map(({ key }) => key)).toEqual(expect.arrayContaining(onTheirWay))
    }
  })

  it('a crash between any two calls of the disk or the network loses nothing', async () => {
    for (let fatal = 1; fatal < 60; fatal += 3) {
      const rig = await openRig()
      const bucketRig = openBucketRig(rig, { s3: { rotate: { max_bytes: '4KiB' } } })
      await appendMixed(rig, 30)
      pass(rig, HOUR_MS)
      bucketRig.disk.crashAfter(fatal, 'kill')
      for (let i = 0; i < 200 && !bucketRig.disk.isDown; i++)
        if ((await bucketRig.step().catch(() => 0)) === Infinity) break
      bucketRig.disk.restart()
      bucketRig.restart()
      await bucketRig.ack()
      expectEachOnce(bucketRig.fake, someIds(1, 30))
      expect(bucketRig.disk.paths()).toEqual([])
    }
  })

  it('an object that was stored without an answer is found again: 412 is success', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    bucketRig.fake.faults.push({ kind: 'reset', stores: true })
    await rig.append(5)
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 5))
    expect(bucketRig.fake.exchanges.map(({ status }) => status).slice(-2)).toEqual([0, 412])
  })

  it('nothing is acknowledged before all objects of the range are stored', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await appendMixed(rig, 30)
    pass(rig, HOUR_MS)
    for (;;) {
      const before = bucketRig.fake.entries.length
      const { position } = rig.journal.stats().sinks[0] ?? {}
      if (position === 30) break
      expect(position).toBe(0)
      await bucketRig.step()
      expect(bucketRig.fake.entries.length - before).toBeLessThanOrEqual(1)
    }
    expect(bucketRig.fake.entries).toHaveLength(12)
  })

  it('the in-flight record is in the journal before the first object is put', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await rig.append(5)
    pass(rig, HOUR_MS)
    while (bucketRig.fake.puts === 0) await bucketRig.step()
    expect(bucketRig.fake.entries).toHaveLength(1)
    expect(await rig.journal.inFlightBatches('archive')).toMatchObject([{ first: 1, last: 5 }])
  })

  it('the same range gets the same names whatever the limits are by then', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await appendMixed(rig, 30)
    pass(rig, HOUR_MS)
    while (bucketRig.fake.entries.length < 5) await bucketRig.step()
    const [before] = await rig.journal.inFlightBatches('archive')
    bucketRig.restart({}, { rotate: { max_bytes: '1KiB', max_age: '1s' } })
    await bucketRig.ack()
    expect(before).toMatchObject({ first: 1, last: 30 })
    expect(bucketRig.fake.entries).toHaveLength(12)
    expectEachOnce(bucketRig.fake, someIds(1, 30))
  })

  it('settings that shape the objects and changed while a range was in flight are reported once, with the affected entries', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await rig.append(2)
    await rig.journal.recordInFlight('archive', { first: 1, last: 2, shape: 'former', detail: '' })
    await bucketRig.ack()
    expect(rig.log.lines.filter((line) => line.includes('changed'))).toEqual([
      expect.stringContaining('{"first":1,"last":2}'),
    ])
    expectEachOnce(bucketRig.fake, someIds(1, 2))
  })

  it.each([
    ['before the first', [1]],
    ['in the middle', [7]],
    ['twice', [4, 10]],
    ['at the end', [13]],
  ] as const)(
    'what an earlier sink of the same name acknowledged out of order ends a range: %s',
    async (_, ahead) => {
      const rig = await openRig()
      const bucketRig = openBucketRig(rig)
      await rig.append(15)
      // Each a batch that was taken and not confirmed yet, some of them out of order.
      for (const first of range(0, 4).map((batch) => 3 * batch + 1))
        await rig.journal.recordInFlight('archive', {
          first,
          last: first + 2,
          shape: 'one',
          detail: 'a ticket',
        })
      for (const first of ahead) await rig.journal.ack('archive', { first, through: first + 2, rejected: [] })
      pass(rig, HOUR_MS)
      await bucketRig.ack()
      const settledBefore = ahead.flatMap((first) => range(first, first + 2))
      expectEachOnce(
        bucketRig.fake,
        range(1, 15)
          .filter((seq) => !settledBefore.includes(seq))
          .flatMap((seq) => someIds(seq, seq)),
      )
      expect(rig.journal.stats().entries).toBe(0)
      expect(await rig.journal.inFlightBatches('archive')).toEqual([])
    },
  )

  it('unwanted entries before an out-of-order acknowledgement are acknowledged alone, and the entries behind it are sent', async () => {
    const rig = await openRig()
    const wanted = ({ firstSeq }: ChunkSlice, index: number) => firstSeq + index > 3
    const bucketRig = openBucketRig(rig, { options: { wanted } })
    await rig.append(9)
    await rig.journal.ack('archive', { first: 4, through: 6, rejected: [] })
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(7, 9))
    expect(rig.journal.stats().entries).toBe(0)
  })

  it('a journal that lacks an entry of a closed range ends the delivery: no object is stored without it', async () => {
    const rig = await openRig()
    const take: Journal['take'] = (sink, limits, { after = 0 } = {}) =>
      rig.journal.take(sink, limits, { after: after + 1 })
    const bucketRig = openBucketRig(rig, { options: { journal: withMethods(rig.journal, { take }) } })
    await rig.append(5)
    await rig.journal.recordInFlight('archive', { first: 1, last: 5, shape: 'one', detail: '' })
    bucketRig.restart()
    await expect(bucketRig.ack()).rejects.toThrow('The journal lacks entry 1')
    expect(bucketRig.fake.entries).toEqual([])
    expect([bucketRig.disk.paths(), bucketRig.memory.usedBytes]).toEqual([[], 0])
  })

  it('a stored object is not put again when the journal write failed at first', async () => {
    const rig = await openRig()
    let full = true
    const journal = withMethods(rig.journal, {
      ack: (sink, acknowledgement) =>
        full
          ? Promise.reject(new ConnectorError('disk_full', 'no space'))
          : rig.journal.ack(sink, acknowledgement),
    })
    const bucketRig = openBucketRig(rig, { options: { journal } })
    await rig.append(5)
    pass(rig, HOUR_MS)
    for (let i = 0; i < 20; i++) await bucketRig.step().catch(() => undefined)
    const { length } = bucketRig.fake.exchanges
    full = false
    await bucketRig.ack()
    expect(bucketRig.fake.exchanges).toHaveLength(length)
    expectEachOnce(bucketRig.fake, someIds(1, 5))
    expect(bucketRig.reporter.accepted).toBe(5)
  })
})

describe('failures', () => {
  it('an in-flight range shows as sending from its first request on', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await rig.append(3)
    bucketRig.restart({ nothingMoreComes: () => true })
    expect(await bucketRig.step()).toBe('worked')
    expect(await bucketRig.step()).toBe('worked')
    expect(bucketRig.reporter.states).toEqual([])
    bucketRig.sink.open = () => new Promise(() => undefined)
    void bucketRig.step()
    await new Promise((resolve) => setImmediate(resolve))
    expect(bucketRig.reporter.states.at(-1)).toBe('sending')
  })

  it('a failed object stays on the disk and goes out again without being rewritten', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await rig.append(5)
    pass(rig, HOUR_MS)
    bucketRig.fake.faultOf = () => ({ kind: 'reset' })
    while (bucketRig.fake.puts < 3) await bucketRig.step().catch(() => undefined)
    const { calls } = bucketRig.disk
    await expect(bucketRig.step()).rejects.toMatchObject({ code: 'unreachable' })
    expect(bucketRig.disk.calls).toBe(calls)
    expect(bucketRig.memory.usedBytes).toBe(0)
    bucketRig.fake.faultOf = undefined
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 5))
    expect(bucketRig.disk.paths()).toEqual([])
    expect(bucketRig.disk.openFiles).toBe(0)
  })

  const spoils: [string, (body: Buffer) => Buffer][] = [
    ['was cut', (body) => body.subarray(0, body.length / 2)],
    ['was emptied', () => Buffer.alloc(0)],
    ['was changed', (body) => Buffer.from(body).fill('x', 10, 30)],
  ]

  it.each(
    spoils.flatMap(([what, spoil]) =>
      (['aws', 'moto'] as const).map((server) => [what, spoil, server] as const),
    ),
  )(
    'an object that %s on the disk between two tries is rewritten under the same name (%#)',
    async (_, spoil, server) => {
      const rig = await openRig()
      const bucketRig = openBucketRig(rig, { switches: servers[server], s3: { compression: 'none' } })
      await appendMixed(rig, 30)
      pass(rig, HOUR_MS)
      while (bucketRig.fake.puts < 3) await bucketRig.step()
      bucketRig.fake.faults.push({ kind: 'reset' })
      await expect(bucketRig.step()).rejects.toMatchObject({ code: 'unreachable' })
      // The next one, and a later one.
      for (const path of bucketRig.disk.paths().slice(0, 2)) {
        const file = await bucketRig.disk.open(path)
        const spoiled = spoil(bucketRig.disk.content(path) ?? expect.fail())
        await file.truncate(0)
        await file.write(spoiled, 0)
        await file.close()
      }
      await expect(bucketRig.step()).rejects.toMatchObject({
        code: 'misconfigured',
        message: expect.stringMatching(/object-\d\.part .* while it was waiting.*written again/) as string,
      })
      expect(bucketRig.disk.paths()).toEqual([])
      const { length } = bucketRig.fake.entries
      await bucketRig.ack()
      expect(length).toBe(3)
      expect(bucketRig.fake.entries).toHaveLength(12)
      expectEachOnce(bucketRig.fake, someIds(1, 30))
      expect(rig.journal.stats().entries).toBe(0)
      expect(bucketRig.disk.paths()).toEqual([])
      expect(bucketRig.disk.openFiles).toBe(0)
    },
  )

  it('an object that the server received damaged is sent again from the disk', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await rig.append(5)
    pass(rig, HOUR_MS)
    bucketRig.fake.faultOf = () => ({ kind: 'code', status: 400, code: 'BadDigest' })
    while (bucketRig.fake.puts < 2) await bucketRig.step().catch(() => undefined)
    const { calls } = bucketRig.disk
    await expect(bucketRig.step()).rejects.toMatchObject({ code: 'bad_reply' })
    expect(bucketRig.disk.calls).toBe(calls)
    bucketRig.fake.faultOf = undefined
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 5))
  })

  it('a full disk pauses delivery, loses nothing and leaves nothing behind', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig, { s3: { compression: 'none' } })
    await rig.append(50, { body: 'x'.repeat(1_000) })
    pass(rig, HOUR_MS)
    bucketRig.disk.capacityBytes = 20_000
    for (let i = 0; i < 10; i++)
      await bucketRig.step().catch((error: unknown) => expect(error).toMatchObject({ code: 'disk_full' }))
    expect(bucketRig.fake.entries).toEqual([])
    expect(bucketRig.disk.paths()).toEqual([])
    expect(bucketRig.memory.usedBytes).toBe(0)
    bucketRig.disk.capacityBytes = Infinity
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 50))
  })

  it('a huge entry is read only when there is memory for it; a journal that then fails leaves no memory held', async () => {
    const rig = await openRig()
    const read: (number | undefined)[] = []
    const take: Journal['take'] = async (...asked) => {
      const batch = await rig.journal.take(...asked)
      const slices = batch && ('slices' in batch ? batch.slices.length : 0)
      if (read.push(slices) === 2) throw new ConnectorError('disk_failed', 'as told')
      return batch
    }
    const bucketRig = openBucketRig(rig)
    bucketRig.restart({ journal: withMethods(rig.journal, { take }) })
    await rig.append(1, { body: 'x'.repeat(9 * 2 ** 20) })
    const leave = await bucketRig.memory.around.reserve(20 * 2 ** 20, never)
    const step = bucketRig.step()
    await settled()
    expect(read).toEqual([0])
    // A sink with something to send is never idle.
    expect(bucketRig.reporter.states.at(-1)).toBe('sending')
    leave()
    await nextTurn(rig)
    await expect(step).rejects.toMatchObject({ code: 'disk_failed' })
    expect(bucketRig.memory.usedBytes).toBe(0)
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 1))
    expect(bucketRig.memory.usedBytes).toBe(0)
  })

  it('no request goes to the bucket while memory is held: a hung bucket blocks no other sink', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    const usedBytes: number[] = []
    bucketRig.fake.faultOfAll = () => void usedBytes.push(bucketRig.memory.usedBytes)
    await rig.append(3)
    pass(rig, HOUR_MS)
    await bucketRig.ack()
    expectEachOnce(bucketRig.fake, someIds(1, 3))
    expect(usedBytes.length).toBeGreaterThan(0)
    expect(new Set(usedBytes)).toEqual(new Set([0]))
  })

  it('a stop in the middle leaves no memory held and nothing on the disk', async () => {
    const rig = await openRig()
    const bucketRig = openBucketRig(rig)
    await appendMixed(rig, 30)
    pass(rig, HOUR_MS)
    for (let i = 0; i < 6; i++) await bucketRig.step()
    await bucketRig.sink.close()
    await bucketRig.sink.close()
    expect(bucketRig.disk.paths()).toEqual([])
    expect(bucketRig.disk.openFiles).toBe(0)
    expect(bucketRig.memory.usedBytes).toBe(0)
  })
})

describe('evidence', () => {
  class Notary implements Evidence {
    readonly reported: StoredRange[] = []
    readonly asked: { idle: boolean; last: boolean }[] = []
    stored = (stretch: StoredRange): readonly StateEntry[] => {
      this.reported.push(stretch)
      return [{ name: `stretch:${stretch.first}`, value: String(stretch.objects.length) }]
    }
    step = async (state: { idle: boolean; last: boolean }) => {
      this.asked.push(state)
      return 7_000
    }
  }

  it('covers each range with all of its objects, and its state lands with the acknowledgement', async () => {
    const rig = await openRig()
    const notary = new Notary()
    const bucketRig = openBucketRig(rig, { evidence: notary })
    await appendMixed(rig, 30)
    pass(rig, HOUR_MS)
    expect(await bucketRig.ack()).toBe(7_000)
    expect(notary.reported).toMatchObject([{ first: 1, last: 30, parked: 0 }])
    const objects = notary.reported[0]?.objects ?? []
    expect(objects.map(({ key }) => key).toSorted()).toEqual(
      bucketRig.fake.entries.map(({ key }) => key).toSorted(),
    )
    expect(objects.reduce((sum, { count }) => sum + count, 0)).toBe(30)
    expect(await rig.journal.state.get('stretch:1')).toBe('12')
    expect(notary.asked.some(({ idle }) => !idle) && notary.asked.some(({ idle }) => idle)).toBe(true)
  })

  it('covers a range in which nothing was wanted', async () => {
    const rig = await openRig()
    const notary = new Notary()
    const bucketRig = openBucketRig(rig, { evidence: notary, options: { wanted: () => false } })
    await rig.append(3)
    await bucketRig.ack()
    expect(notary.reported).toEqual([{ first: 1, last: 3, parked: 0, objects: [] }])
  })

  it('while evidence cannot be written, collecting and storing do not count as recovery', async () => {
    const rig = await openRig()
    const notary = new Notary()
    let held = true
    const step = notary.step
    notary.step = async (state) => {
      if (held && state.idle) throw new ConnectorError('misconfigured', 'no key')
      return step(state)
    }
    const bucketRig = openBucketRig(rig, { evidence: notary })
    await rig.append(3)
    await bucketRig.step()
    await expect(bucketRig.step()).rejects.toThrow('no key')
    await rig.append(3)
    pass(rig, HOUR_MS)
    const results = []
    while (notary.reported.length < 1) results.push(await bucketRig.step())
    expect(results.length).toBeGreaterThan(2)
    expect(new Set(results)).toEqual(new Set(['unproven']))
    held = false
    expect(await bucketRig.ack()).toBe(7_000)
    await rig.append(3)
    expect(await bucketRig.step()).toBe('worked')
  })

  it('is written one last time when nothing more will come, and then the loop may end', async () => {
    const rig = await openRig()
    const notary = new Notary()
    const bucketRig = openBucketRig(rig, { evidence: notary, options: { nothingMoreComes: () => true } })
    await rig.append(3)
    expect(await bucketRig.ack()).toBe(Infinity)
    expect(notary.asked.at(-1)).toEqual({ idle: true, last: true })
  })

  it('is written one last time when only blocked sources are left, again after each later range, and the loop continues', async () => {
    const rig = await openRig()
    const notary = new Notary()
    let held = false
    const options = { nothingDue: () => held, lookAgainMs: 250 }
    const bucketRig = openBucketRig(rig, { evidence: notary, options })
    await rig.append(3)
    expect(await bucketRig.ack()).toBe(250)
    expect(bucketRig.unfinished()).toBe(true)
    held = true
    expect(await bucketRig.ack()).toBe(250)
    expect(notary.asked.at(-1)).toEqual({ idle: true, last: true })
    expect(bucketRig.unfinished()).toBe(false)
    await rig.append(3)
    while (notary.reported.length < 2) await bucketRig.step()
    expect(bucketRig.unfinished()).toBe(true)
    await bucketRig.ack()
    expect(bucketRig.unfinished()).toBe(false)
  })
})

type Moment =
  | { readonly kind: 'append'; readonly entries: readonly Partial<EntrySpec>[]; readonly workspace: string }
  | { readonly kind: 'fault'; readonly fault: FakeS3['faults'][number] }
  | { readonly kind: 'steps'; readonly count: number }
  | { readonly kind: 'crash' | 'pass' | 'full' }

const moment: fc.Arbitrary<Moment> = fc.oneof(
  fc.record({
    kind: fc.constant('append' as const),
    entries: fc.array(fc.record({ at: fc.integer({ min: 0, max: 4 }).map((d) => START_US + d * DAY_US), body: fc.string({ maxLength: 300 }) }), { minLength: 1, maxLength: 12 }), // prettier-ignore
    workspace: fc.constantFrom('acme', 'beta', 'corp'),
  }),
  fc.record({ kind: fc.constant('steps' as const), count: fc.integer({ min: 1, max: 12 }) }),
  fc.record({
    kind: fc.constant('fault' as const),
    fault: fc.constantFrom<FakeS3['faults'][number]>(
      { kind: 'reset' },
      { kind: 'reset', stores: true },
      { kind: 'code', status: 503, code: 'SlowDown' },
      { kind: 'code', status: 500, code: 'InternalError', stores: true },
      { kind: 'code', status: 409, code: 'ConditionalRequestConflict' },
      { kind: 'code', status: 403, code: 'AccessDenied' },
      { kind: 'html' },
      { kind: 'ok-without-etag' },
    ),
  }),
  fc.constantFrom<Moment>({ kind: 'crash' }, { kind: 'pass' }, { kind: 'full' }),
)

it('any mix of arrivals, crashes, failures, lost answers and full disks ends with each entry once over all objects', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(moment, { maxLength: 40 }),
      fc.constantFrom('1KiB', '4KiB', '1MiB'),
      fc.constantFrom('gzip', 'zstd', 'none'),
      fc.constantFrom(100, 2_000, 32 * 2 ** 20),
      async (moments, max_bytes, compression, bytes) => {
        const rig = await openRig()
        const bucketRig = openBucketRig(rig, { s3: { rotate: { max_bytes, max_age: '30s' }, compression } })
        bucketRig.restart({}, {}, bytes)
        let made = 0
        for (const each of moments) {
          if (each.kind === 'append') {
            const specs = each.entries.map((entry) =>
              spec(++made, { ...entry, body: entry.body?.replace(/[^ -~]/g, '?') ?? '' }),
            )
            await rig.journal.append(part(specs, { stream: { workspace: each.workspace, source: 'audit' } }))
          } else if (each.kind === 'fault') bucketRig.fake.faults.push(each.fault)
          else if (each.kind === 'crash') bucketRig.restart({}, {}, bytes)
          else if (each.kind === 'pass') pass(rig, 40_000)
          else if (each.kind === 'full') bucketRig.disk.fail('write', 'disk_full')
          for (let i = 0; i < (each.kind === 'steps' ? each.count : 1); i++)
            await bucketRig.step().catch((error: unknown) => {
              if (!(error instanceof ConnectorError)) throw error
            })
        }
        pass(rig, HOUR_MS)
        await bucketRig.ack()
        expectEachOnce(bucketRig.fake, someIds(1, made))
        expect(rig.journal.stats().entries).toBe(0)
        expect(bucketRig.memory.usedBytes).toBe(0)
        expect(bucketRig.reporter.accepted).toBe(made)
      },
    ),
    { numRuns: 60 },
  )
}, 60_000)

/** One object, unpacked. */
class FakeOf {
  readonly lines: string[]
  constructor(object: FakeS3['entries'][number]) {
    const alone = new Server()
    alone.objects.set(object.key, object)
    this.lines = alone.lines
  }
}

it('the delivery accounts add up even for a range with more objects than one pass writes', async () => {
  const rig = await openRig()
  const bucketRig = openBucketRig(rig)
  await appendMixed(rig, 40)
  pass(rig, HOUR_MS)
  await bucketRig.ack()
  expect(bucketRig.fake.entries.length).toBeGreaterThan(8)
  const { rows } = await accountReport(rig.journal, { fromDay: 0, toDay: 1e6 }, ['archive'])
  expect(rows.length).toBeGreaterThan(0)
  expect(rows.map(({ missing }) => missing)).toEqual(rows.map(() => 0))
})
