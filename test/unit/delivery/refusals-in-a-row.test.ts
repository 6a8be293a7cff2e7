// A receiver that refuses whatever it gets: one refused entry may be at fault itself, ten in a row are not (invariant 3).
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Transport } from '../../../src/contracts/platform.ts'
import type { ChunkSlice } from '../../../src/contracts/journal.ts'
import type { Delivery, Outcome } from '../../../src/contracts/sink.ts'
import { runDispatcher } from '../../../src/delivery/loop.ts'
import { RejectionRun, BatchDispatcher, type DispatcherOptions } from '../../../src/delivery/dispatcher.ts'
import { sinkKinds } from '../../../src/sinks/index.ts'
import { FakeHec, hecTransport } from '../../fakes/hec.ts'
import { failing, taken } from '../../fakes/sink.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { openRig, range } from './rig.ts'
import type { SinkRig, Rig } from './rig.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** Like Splunk: takes all before the first bad line, names that one, ignores the rest. */
const naming =
  (bad: (seq: number) => boolean) =>
  ({ lines: { seqs, count } }: Delivery): Outcome => {
    const index = seqs.findIndex((seq) => bad(seq))
    if (index === -1) return { acknowledged: count, rejected: [] }
    return { acknowledged: index + 1, rejected: [{ index, code: 'refused', reason: 'no' }] }
  }

/** Like a receiver that names none. */
const asAWhole =
  (bad: (seq: number) => boolean) =>
  (delivery: Delivery): Outcome =>
    delivery.lines.seqs.some((seq) => bad(seq)) ? failing('refused')() : taken(delivery)

function sail({ dispatcher, options }: Pick<SinkRig, 'dispatcher' | 'options'>, { clock }: Rig) {
  const stopping = new AbortController()
  const loop = runDispatcher(dispatcher, options, stopping.signal)
  return {
    async pass(ms: number): Promise<void> {
      const until = clock.now() + ms
      await settled()
      while (clock.advance(until)) await settled()
    },
    async stop(): Promise<void> {
      stopping.abort()
      await loop
    },
  }
}

const parked = async ({ journal }: Rig) =>
  (await journal.deadLetters({})).map(({ seq }) => seq).toSorted((a, b) => a - b)

const reported = ({ log }: Rig, what: string) => log.lines.filter((line) => line.includes(what)).length

it.each([
  ['by name', naming],
  ['as a whole', asAWhole],
] as const)(
  'ten entries refused in a row block the sink, %s; from then on it tries one at a time, slowly',
  async (_, refusing) => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    sinkRig.sink.answer = refusing(() => true)
    await rig.append(500)
    const voyage = sail(sinkRig, rig)
    await settled()
    expect(await parked(rig)).toEqual(range(1, 10))
    expect(sinkRig.reporter.states.at(-1)).toBe('blocked')
    expect(sinkRig.reporter.errors.at(-1)).toMatchObject({ code: 'misconfigured' })
    expect(sinkRig.reporter.errors.at(-1)?.message).toMatch(
      /archive.*refused 10 or more entries in a row.*proxy.*retry/,
    )
    const before = sinkRig.sink.deliveries.length
    await voyage.pass(10 * MINUTE)
    const tries = sinkRig.sink.seqs.slice(before)
    expect(tries.length).toBeGreaterThan(5)
    expect(tries.length).toBeLessThan(30)
    expect(tries).toEqual(range(11, 10 + tries.length).map((seq) => [seq]))
    expect(await parked(rig)).toEqual(range(1, 10 + tries.length))
    const blocked = reported(
      rig,
      'Delivery is blocked until this is fixed: entries stay in the journal, and it is retried automatically',
    )
    expect(blocked).toBeGreaterThan(0)
    expect(blocked).toBeLessThan(6)
    await voyage.stop()
  },
)

it.each([
  ['by name', naming],
  ['as a whole', asAWhole],
] as const)('a long row of bad entries ends and nothing is lost, %s', async (_, refusing) => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig()
  sinkRig.sink.answer = refusing((seq) => seq > 20 && seq <= 45)
  await rig.append(200)
  const voyage = sail(sinkRig, rig)
  await voyage.pass(HOUR)
  expect(await parked(rig)).toEqual(range(21, 45))
  expect(rig.journal.stats().entries).toBe(0)
  expect(reported(rig, 'Delivery continues')).toBe(1)
  expect(sinkRig.reporter.states.at(-1)).toBe('idle')
  expect(sinkRig.memory.usedBytes).toBe(0)
  // Later entries go out as usual.
  await rig.append(100)
  await voyage.pass(MINUTE)
  expect(sinkRig.sink.seqs.at(-1)).toEqual(range(201, 300))
  await voyage.stop()
})

it('one accepted entry in between resets the row of refusals', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig()
  sinkRig.sink.answer = naming((seq) => seq % 10 !== 0)
  await rig.append(100)
  const voyage = sail(sinkRig, rig)
  await settled()
  expect(await parked(rig)).toHaveLength(90)
  expect(sinkRig.reporter.states).not.toContain('blocked')
  await voyage.stop()
})

it('of a batch with a verdict on each line, only the refusals behind the last accepted line count', () => {
  const refused = (...indexes: number[]) => indexes.map((index) => ({ index, code: 'refused', reason: 'no' }))
  const refusals = new RejectionRun('archive')
  refusals.count({ acknowledged: 20, rejected: refused(...range(0, 9), ...range(11, 19)) })
  expect(refusals.isTooLong).toBe(false)
  refusals.count({ acknowledged: 0, rejected: [] })
  refusals.count({ acknowledged: 1, rejected: refused(0) })
  expect(refusals.isTooLong).toBe(true)
  refusals.count({ acknowledged: 2, rejected: refused(1) })
  expect(refusals.isTooLong).toBe(false)
})

it('a refusal that is proven to be the entry’s own fault neither counts nor ends a row', () => {
  const refusals = new RejectionRun('siem')
  const one = (own: boolean) => ({ index: 0, code: 'too_large', reason: 'no', own })
  for (let i = 0; i < 100; i++) refusals.count({ acknowledged: 1, rejected: [one(true)] })
  expect(refusals.isTooLong).toBe(false)
  for (let i = 0; i < 9; i++) refusals.count({ acknowledged: 1, rejected: [one(false)] })
  refusals.count({ acknowledged: 1, rejected: [one(true)] })
  expect(refusals.isTooLong).toBe(false)
  refusals.count({ acknowledged: 1, rejected: [one(false)] })
  expect(refusals.isTooLong).toBe(true)
})

it('a batch refused in all its lines is the last large one: none was prepared behind it', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 20 } })
  sinkRig.sink.answer = ({ lines: { count } }) => ({
    acknowledged: count,
    rejected: range(0, count - 1).map((index) => ({ index, code: 'refused', reason: 'no' })),
  })
  await rig.append(100)
  const voyage = sail(sinkRig, rig)
  await voyage.pass(MINUTE)
  expect(sinkRig.sink.seqs[0]).toEqual(range(1, 20))
  expect(sinkRig.sink.seqs.slice(1).every(({ length }) => length === 1)).toBe(true)
  await voyage.stop()
})

it('skipping unwanted entries, or having nothing left, is no recovery', async () => {
  const rig = await openRig()
  const wanted = ({ firstSeq }: ChunkSlice, index: number) =>
    firstSeq + index <= 12 || (firstSeq + index) % 40 === 0
  const sinkRig = rig.sinkRig('archive', { wanted, batch: { maxEntries: 15 } })
  sinkRig.sink.answer = naming(() => true)
  await rig.append(200)
  const voyage = sail(sinkRig, rig)
  await voyage.pass(HOUR)
  expect(await parked(rig)).toEqual([...range(1, 12), 40, 80, 120, 160, 200])
  expect(rig.journal.stats().entries).toBe(0)
  expect(sinkRig.reporter.states.at(-1)).toBe('blocked')
  expect(reported(rig, 'goes on again')).toBe(0)
  sinkRig.sink.answer = taken
  await rig.append(40)
  await voyage.pass(2 * MINUTE)
  expect(sinkRig.reporter.states.at(-1)).toBe('idle')
  await voyage.stop()
})

it('while one line is tried at a time, unwanted entries are skipped one step at a time', async () => {
  const rig = await openRig()
  const wanted = ({ firstSeq }: ChunkSlice, index: number) => firstSeq + index <= 10
  const sinkRig = rig.sinkRig('archive', { wanted, batch: { maxEntries: 10 } })
  sinkRig.sink.answer = ({ lines: { count } }) => ({
    acknowledged: count,
    rejected: range(0, count - 1).map((index) => ({ index, code: 'refused', reason: 'no' })),
  })
  await rig.append(30)
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'misconfigured' })
  const position = () => rig.journal.stats().sinks[0]?.position
  expect([await sinkRig.step(), position(), await sinkRig.step(), position()]).toEqual([
    'unproven',
    20,
    'unproven',
    30,
  ])
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'misconfigured' })
})

it('a single run in which everything was refused ends', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig('archive', { nothingMoreComes: () => true })
  sinkRig.sink.answer = naming(() => true)
  await rig.append(12)
  const voyage = sail(sinkRig, rig)
  await voyage.pass(HOUR)
  await voyage.stop()
  expect(await parked(rig)).toHaveLength(12)
  expect(sinkRig.reporter.states.at(-1)).toBe('idle')
})

it('a refusal that the journal could not record at once counts once', async () => {
  const rig = await openRig()
  let failures = 0
  const journal = withMethods(rig.journal, {
    ack: (...settling) =>
      failures++ < 20
        ? Promise.reject(new ConnectorError('disk_full', 'no room'))
        : rig.journal.ack(...settling),
  })
  const sinkRig = rig.sinkRig('archive', { journal })
  sinkRig.sink.answer = naming((seq) => seq < 5)
  await rig.append(8)
  const voyage = sail(sinkRig, rig)
  await voyage.pass(HOUR)
  expect(await parked(rig)).toEqual(range(1, 4))
  expect(sinkRig.reporter.states).not.toContain('blocked')
  await voyage.stop()
})

it('a proxy that corrupts every body condemns no entry: few dead letters, and the sink is blocked', async () => {
  const rig = await openRig(['splunk'])
  const { clock, log } = rig
  const fake = new FakeHec({ tokens: { t: {} } })
  const sinkRig = rig.sinkRig('splunk')
  const receiver = hecTransport(fake, clock)
  let spoiling = true
  const proxy: Transport = (request, signal) => {
    const headers = { ...request.headers }
    if (spoiling) delete headers['content-encoding']
    return receiver({ ...request, headers }, signal)
  }
  const settings = sinkKinds.splunk_hec.options.parse({ url: 'https://splunk:8088', token: 't' })
  const deps = sinkDeps({ clock, random: () => 0.3, log, transport: () => proxy })
  const options: DispatcherOptions = {
    ...sinkRig.options,
    sink: sinkKinds.splunk_hec.open('splunk', settings, deps),
  }
  await rig.append(500)
  const voyage = sail({ options, dispatcher: new BatchDispatcher(options) }, rig)
  await voyage.pass(MINUTE)
  const letters = (await parked(rig)).length
  expect(letters).toBeGreaterThanOrEqual(10)
  expect(letters).toBeLessThan(20)
  expect(sinkRig.reporter.errors.at(-1)).toMatchObject({ code: 'misconfigured' })
  spoiling = false
  await voyage.pass(2 * MINUTE)
  expect(fake.indexed).toHaveLength(500 - letters)
  await rig.journal.retryDeadLetters({})
  await voyage.pass(MINUTE)
  expect(fake.indexed).toHaveLength(500)
  expect(await parked(rig)).toEqual([])
  await voyage.stop()
})
