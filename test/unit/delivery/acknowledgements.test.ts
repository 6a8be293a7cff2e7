// Batches that the receiver took and confirms later: pending until then, asked for after a crash, sent again if never confirmed.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Delivery, Confirmation, Outcome } from '../../../src/contracts/sink.ts'
import { MemoryBudget } from '../../../src/core/memory-budget.ts'
import { runDispatcher } from '../../../src/delivery/loop.ts'
import type { DispatcherOptions } from '../../../src/delivery/dispatcher.ts'
import { Share } from '../../fakes/share.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { openRig, range } from './rig.ts'
import type { SinkRig, Rig } from './rig.ts'
import { withMethods } from '../../fakes/with-methods.ts'

/** A receiver that takes everything and confirms on demand; it outlives the daemon. */
class SlowReceiver {
  /** the batches that it took, first and last sequence number */
  readonly took: [number, number][] = []
  readonly #answers = new Map<string, { resolve(): void; reject(error: Error): void }>()
  readonly safe = new Set<string>()
  readonly asked: string[] = []

  take = ({ lines: { seqs, count } }: Delivery): Outcome => {
    const detail = `${seqs[0]}-${seqs[count - 1]}#${this.took.push([seqs[0] ?? 0, seqs[count - 1] ?? 0])}`
    return { acknowledged: count, rejected: [], confirmation: this.later(detail) }
  }

  later = (detail: string): Confirmation => ({
    detail,
    confirmed: (signal) =>
      new Promise((resolve, reject) => {
        this.asked.push(detail)
        if (this.safe.has(detail)) resolve()
        this.#answers.set(detail, { resolve, reject })
        signal.addEventListener('abort', () => reject(new ConnectorError('aborted', 'stopped')), {
          once: true,
        })
      }),
  })

  get open(): string[] {
    return [...this.#answers.keys()].filter((detail) => !this.safe.has(detail))
  }

  confirm(detail: string): void {
    this.safe.add(detail)
    this.#answers.get(detail)?.resolve()
  }

  deny(detail: string): void {
    this.#answers.get(detail)?.reject(new ConnectorError('timeout', 'never confirmed'))
    this.#answers.delete(detail)
  }
}

function slow(
  rig: Rig,
  receiver: SlowReceiver,
  maxUnconfirmed: number,
  maxEntries = 2,
  memory = new Share(),
  wanted: DispatcherOptions['wanted'] = () => true,
): SinkRig {
  const sinkRig = rig.sinkRig('archive', { batch: { maxEntries }, memory, wanted })
  sinkRig.sink.answer = receiver.take
  sinkRig.sink.maxUnconfirmed = maxUnconfirmed
  sinkRig.sink.resume = receiver.later
  return sinkRig
}

/** Runs the loop until nothing changes any more. */
function sail(sinkRig: SinkRig) {
  const stopping = new AbortController()
  const loop = runDispatcher(sinkRig.dispatcher, sinkRig.options, stopping.signal)
  return async () => {
    stopping.abort()
    await loop
  }
}

const position = (rig: Rig) => rig.journal.stats().sinks[0]?.position

it('a batch that was taken stays pending until it is confirmed, and the limit of unconfirmed batches holds', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(10)
  const stop = sail(slow(rig, receiver, 2))
  await settled()
  expect(receiver.took).toEqual([
    [1, 2],
    [3, 4],
  ])
  expect(position(rig)).toBe(0)
  receiver.confirm('1-2#1')
  await settled()
  expect(position(rig)).toBe(2)
  expect(receiver.took.at(-1)).toEqual([5, 6])
  await stop()
})

it('batches confirmed out of order are acknowledged as they come; the position waits for the first', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(6)
  const stop = sail(slow(rig, receiver, 3))
  await settled()
  receiver.confirm('3-4#2')
  await settled()
  expect(position(rig)).toBe(0)
  expect(rig.journal.stats().sinks[0]?.pendingEntries).toBe(4)
  receiver.confirm('1-2#1')
  await settled()
  expect(position(rig)).toBe(4)
  await stop()
})

it('after a crash the sink asks about what the receiver took and sends nothing again', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(8)
  const sinkRig = slow(rig, receiver, 3)
  const stop = sail(sinkRig)
  await settled()
  receiver.confirm('3-4#2')
  await settled()
  await stop()
  sinkRig.restart()
  receiver.asked.length = 0
  const halt = sail(sinkRig)
  await settled()
  expect(receiver.asked).toEqual(['1-2#1', '5-6#3', '7-8#4'])
  expect(receiver.took).toHaveLength(4)
  for (const detail of receiver.asked) receiver.confirm(detail)
  await settled()
  expect(rig.journal.stats().entries).toBe(0)
  expect(await rig.journal.inFlightBatches('archive')).toEqual([])
  await halt()
})

it('an unconfirmed batch goes out again as a possible duplicate, before anything new', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(6)
  const sinkRig = slow(rig, receiver, 2)
  const stop = sail(sinkRig)
  await settled()
  receiver.deny('1-2#1')
  await settled()
  expect(receiver.took).toHaveLength(2)
  expect(sinkRig.reporter.retries).toEqual(['timeout'])
  while (rig.clock.advance(rig.clock.now() + 60_000)) await settled()
  expect(receiver.took[2]).toEqual([1, 2])
  expect(sinkRig.sink.deliveries[2]?.possibleDuplicate).toBe(true)
  await stop()
})

it('an unconfirmed batch that waits to go out again is not taken as new', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(4)
  const sinkRig = slow(rig, receiver, 4)
  const stop = sail(sinkRig)
  await settled()
  receiver.deny('1-2#1')
  receiver.deny('3-4#2')
  await settled()
  while (rig.clock.advance(rig.clock.now() + 60_000)) await settled()
  expect(receiver.took.slice(2)).toEqual([
    [1, 2],
    [3, 4],
  ])
  await stop()
})

it('a repeated batch does not wait for memory that its own sink’s prefetch holds', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(1, { body: 'x'.repeat(5_500) })
  await rig.append(2)
  const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 1 }, memory: new MemoryBudget(10_000) })
  sinkRig.sink.maxUnconfirmed = 3
  sinkRig.sink.answer = async (delivery) => {
    if (delivery.lines.seqs[0] === 2) receiver.deny('1-1#1')
    await settled()
    return receiver.take(delivery)
  }
  const stop = sail(sinkRig)
  for (let turn = 0; turn < 20; turn++) {
    await settled()
    rig.clock.advance(rig.clock.now() + 60_000)
  }
  expect(sinkRig.sink.warmed).toContainEqual([3])
  expect(receiver.took).toEqual([
    [1, 1],
    [2, 2],
    [1, 1],
    [3, 3],
  ])
  await stop()
})

it('after a restart with several in-flight batches larger than the share is now, each is asked for or sent again unchanged', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(10)
  const sinkRig = slow(rig, receiver, 4)
  const stop = sail(sinkRig)
  await settled()
  expect(receiver.took).toHaveLength(4)
  await stop()
  const share = new Share(100)
  sinkRig.restart({ memory: share })
  const halt = sail(sinkRig)
  await settled()
  expect(receiver.asked.slice(4)).toEqual(['1-2#1', '3-4#2', '5-6#3', '7-8#4'])
  receiver.deny('1-2#1')
  receiver.deny('5-6#3')
  for (let turn = 0; turn < 20; turn++) {
    for (const detail of receiver.open) receiver.confirm(detail)
    await settled()
    rig.clock.advance(rig.clock.now() + 60_000)
  }
  expect(receiver.took).toEqual([
    range(1, 2),
    range(3, 4),
    range(5, 6),
    range(7, 8),
    range(1, 2),
    range(5, 6),
    [9, 9],
    [10, 10],
  ])
  expect([rig.journal.stats().entries, share.usedBytes, share.around.usedBytes]).toEqual([0, 0, 0])
  await halt()
})

it('of a batch refused in its middle, the prefix is asked for, the bad entry is a dead letter and the rest is sent', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(5)
  const sinkRig = slow(rig, receiver, 2, 5)
  let first = true
  sinkRig.sink.answer = (delivery) => {
    if (!first) return receiver.take(delivery)
    first = false
    const rejected = [{ index: 2, code: 'refused', reason: 'bad' }]
    return { acknowledged: 3, rejected, confirmation: receiver.later('prefix') }
  }
  const stop = sail(sinkRig)
  await settled()
  expect((await rig.journal.deadLetters({})).map(({ seq }) => seq)).toEqual([3])
  expect(receiver.took).toEqual([[4, 5]])
  expect(position(rig)).toBe(0)
  receiver.confirm('prefix')
  receiver.confirm('4-5#1')
  await settled()
  expect(rig.journal.stats().entries).toBe(0)
  await stop()
})

it('filtered entries behind a refused one are counted with it, earlier ones with the receiver’s confirmation', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(12)
  const sinkRig = slow(
    rig,
    receiver,
    2,
    10,
    new Share(),
    ({ firstSeq }, index) => (firstSeq + index) % 5 === 0,
  )
  sinkRig.sink.answer = () => ({
    acknowledged: 2,
    rejected: [{ index: 1, code: 'refused', reason: 'bad' }],
    confirmation: receiver.later('prefix'),
  })
  const stop = sail(sinkRig)
  await settled()
  expect(sinkRig.reporter).toMatchObject({ accepted: 0, filtered: 2, deadLettered: 1, delays: 0 })
  receiver.confirm('prefix')
  await settled()
  expect(sinkRig.reporter).toMatchObject({ accepted: 1, filtered: 10, deadLettered: 1, delays: 1 })
  await stop()
})

it('a sink that waits for confirmation holds no memory that others could use', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(10)
  const sinkRig = slow(rig, receiver, 2)
  const stop = sail(sinkRig)
  await settled()
  expect(receiver.took).toHaveLength(2)
  expect(sinkRig.memory.usedBytes).toBe(0)
  for (const detail of receiver.open) receiver.confirm(detail)
  await settled()
  expect(receiver.took).toHaveLength(4)
  await stop()
})

it('a journal write that fails after a batch was taken is retried, and the batch is not sent again', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(4)
  let failures = 0
  const journal = withMethods(rig.journal, {
    recordInFlight: (sink, inFlight) =>
      inFlight.detail !== '' && failures++ < 2
        ? Promise.reject(new ConnectorError('disk_full', 'no room'))
        : rig.journal.recordInFlight(sink, inFlight),
  })
  const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 2 }, journal })
  sinkRig.sink.answer = receiver.take
  sinkRig.sink.maxUnconfirmed = 2
  const stop = sail(sinkRig)
  await settled()
  expect(receiver.asked).toEqual([])
  while (rig.clock.advance(rig.clock.now() + 60_000)) await settled()
  expect([receiver.took.length, receiver.asked]).toEqual([2, ['1-2#1', '3-4#2']])
  for (const detail of receiver.open) receiver.confirm(detail)
  await settled()
  while (rig.clock.advance(rig.clock.now())) await settled()
  expect(rig.journal.stats().entries).toBe(0)
  await stop()
})

it('a single run ends only when everything is confirmed', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(2)
  const sinkRig = rig.sinkRig('archive', { nothingMoreComes: () => true })
  sinkRig.sink.answer = receiver.take
  let ended = false
  const loop = runDispatcher(sinkRig.dispatcher, sinkRig.options, new AbortController().signal).then(
    () => (ended = true),
  )
  await settled()
  expect(ended).toBe(false)
  receiver.confirm('1-2#1')
  await loop
})

it.each([
  [1, 1],
  [4, 1],
  [4, 3],
])('confirmations that arrive during a stop are acknowledged: %d may wait, %d do', async (most, batches) => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  const sinkRig = slow(rig, receiver, most)
  await rig.append(2 * batches)
  const [stopping, cut] = [new AbortController(), new AbortController()]
  const loop = runDispatcher(sinkRig.dispatcher, sinkRig.options, stopping.signal, cut.signal)
  await settled()
  expect(receiver.took).toHaveLength(batches)
  stopping.abort()
  await settled()
  // Reported once: no later call returns it.
  for (const detail of receiver.open) receiver.confirm(detail)
  await settled()
  cut.abort()
  await loop
  expect(await rig.journal.inFlightBatches('archive')).toEqual([])
  expect(rig.journal.stats().entries).toBe(0)
})

it('a stop waits only for the last answer; what was denied or cut off stays in flight', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  const sinkRig = slow(rig, receiver, 4)
  await rig.append(6)
  const [stopping, cut] = [new AbortController(), new AbortController()]
  let ended = false
  const loop = runDispatcher(sinkRig.dispatcher, sinkRig.options, stopping.signal, cut.signal).then(
    () => (ended = true),
  )
  await settled()
  stopping.abort()
  receiver.deny('1-2#1')
  await settled()
  receiver.confirm('3-4#2')
  await settled()
  expect((await rig.journal.inFlightBatches('archive')).map(({ first }) => first)).toEqual([1, 5])
  expect(ended).toBe(false)
  cut.abort()
  await loop
  expect((await rig.journal.inFlightBatches('archive')).map(({ detail }) => detail)).toEqual([
    '1-2#1',
    '5-6#3',
  ])
})

it('a journal that cannot record confirmations does not delay the stop', async () => {
  const rig = await openRig()
  const receiver = new SlowReceiver()
  await rig.append(2)
  const full = () => Promise.reject(new ConnectorError('disk_full', 'no room'))
  const journal = withMethods(rig.journal, { ack: full })
  const sinkRig = rig.sinkRig('archive', { journal })
  sinkRig.sink.answer = receiver.take
  const [stopping, cut] = [new AbortController(), new AbortController()]
  const loop = runDispatcher(sinkRig.dispatcher, sinkRig.options, stopping.signal, cut.signal)
  await settled()
  stopping.abort()
  receiver.confirm('1-2#1')
  await loop
  expect(await rig.journal.inFlightBatches('archive')).toHaveLength(1)
})

it('whatever is confirmed, denied or forgotten in a crash, nothing unconfirmed is acknowledged and everything arrives', async () => {
  const moment = fc.constantFrom('confirm', 'confirm', 'deny', 'crash', 'more')
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(moment, fc.nat(5)), { maxLength: 30 }),
      fc.integer({ min: 1, max: 4 }),
      fc.constantFrom(100, 500, 1_000, 32 * 2 ** 20),
      async (moments, max, bytes) => {
        const rig = await openRig()
        const receiver = new SlowReceiver()
        const sinkRig = slow(rig, receiver, max, 2, new Share(bytes))
        await rig.append(9)
        let stop = sail(sinkRig)
        const safe = () =>
          new Set(
            [...receiver.safe].flatMap((detail) => {
              const [, first, last] = /^(\d+)-(\d+)/.exec(detail) ?? []
              return range(Number(first), Number(last))
            }),
          )
        const setup = async () => {
          await settled()
          while (rig.clock.advance(rig.clock.now() + 60_000)) await settled()
          const ackedTo = position(rig) ?? 0
          expect(range(1, ackedTo).every((seq) => safe().has(seq))).toBe(true)
        }
        for (const [each, which] of moments) {
          await settled()
          const detail = receiver.open[which % Math.max(1, receiver.open.length)]
          if (each === 'more') await rig.append(1)
          else if (each === 'crash') {
            await stop()
            sinkRig.restart({ memory: new Share(bytes) })
            stop = sail(sinkRig)
          } else if (detail) receiver[each](detail)
          await setup()
        }
        for (let i = 0; i < 200 && rig.journal.stats().entries > 0; i++) {
          for (const detail of receiver.open) receiver.confirm(detail)
          await setup()
        }
        expect(rig.journal.stats().entries).toBe(0)
        expect(sinkRig.memory.usedBytes).toBe(0)
        await stop()
      },
    ),
    { numRuns: 60 },
  )
})
