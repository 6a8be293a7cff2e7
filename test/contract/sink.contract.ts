// What every sink promises to the dispatcher, for any receiver: one suite, run for each kind.
import { describe, expect, onTestFinished, test } from 'vitest'
import { ConnectorError } from '../../src/core/errors.ts'
import type { Confirmation, Lines, Sink } from '../../src/contracts/sink.ts'
import { ByteWriter } from '../../src/core/bytes.ts'
import { BatchDispatcher } from '../../src/delivery/dispatcher.ts'
import { linesOf, rawFormat, runOf, someEntries } from '../fakes/lines.ts'
import { type DeliveryBench, deliveryContract, neverTwice } from './delivery.contract.ts'
import { casesWith, given, type Lacks } from './means.ts'

/** A sink of batches, alone and with the dispatcher. */
export interface SinkBench extends Omit<DeliveryBench, 'start'> {
  /** A process with this sink; called again: the next process, the earlier one killed. */
  open(): Sink
  /** Its sink reports that a batch is taken now and safe later. */
  readonly later?: true | undefined
  /** The next batch is taken, but the answer is lost. */
  readonly loseAnswer?: (() => void) | undefined
  /** Texts that may never be in an error or a log. */
  readonly secrets: readonly string[]
  /** Everything that was logged. */
  logged(): string
}

const never = new AbortController().signal
const idsOf = (count: number, from: number) => someEntries(count, from).map(({ id }) => id)
const batchOf = (sink: Sink, count: number, from: number): Lines =>
  linesOf(runOf(someEntries(count, from), { firstSeq: from }), sink.frame)
const prepared = async (sink: Sink, lines: Lines) => (await sink.prepare?.(lines, never)) ?? ''

/** Until it is safe, if that comes later: time continues for it. */
async function confirmed({ clock }: SinkBench, later: Confirmation | undefined): Promise<void> {
  const waiting = { over: later === undefined }
  const safe = later?.confirmed(never).finally(() => (waiting.over = true))
  safe?.catch(() => undefined)
  while (!waiting.over) {
    await new Promise((resolve) => setImmediate(resolve))
    clock?.advance()
  }
  await safe
}

async function deliver(bench: SinkBench, sink: Sink, lines: Lines) {
  const detail = await prepared(sink, lines)
  const { confirmation, ...outcome } = await sink.deliver({ lines, detail, possibleDuplicate: false }, never)
  await confirmed(bench, confirmation)
  return outcome
}

const caught = async (work: Promise<unknown>): Promise<ConnectorError> => {
  const error = await work.then(() => new Error('nothing was thrown'), (each: unknown) => each) // prettier-ignore
  expect(error).toBeInstanceOf(ConnectorError)
  return error as ConnectorError
}

/** The same bench; what its dead processes left open is closed when the test is over. */
function closing(bench: SinkBench): SinkBench {
  return {
    ...bench,
    open: () => {
      const sink = bench.open()
      onTestFinished(() => sink.close())
      return sink
    },
  }
}

/** Each bench of a sink goes through all of it: alone, and behind the dispatcher. */
export function sinkContract(kind: string, bench: () => SinkBench, lacks: Lacks = {}): void {
  const setUp = () => closing(bench())
  deliveryContract(
    kind,
    () => {
      const bench = setUp()
      return {
        ...bench,
        start: (parts) => {
          const sink = bench.open()
          return { sink, stepper: new BatchDispatcher({ ...parts, sink }) }
        },
      }
    },
    lacks,
  )
  describe(`${kind} as a sink`, () => {
    const caseWith = casesWith(setUp, lacks)
    test('batches arrive whole and in order, each acknowledged to its end', async () => {
      const bench = setUp()
      const sink = bench.open()
      for (const [count, from] of [
        [3, 1],
        [1, 4],
        [40, 5],
      ] as const)
        // prettier-ignore
        expect(await deliver(bench, sink, batchOf(sink, count, from))).toEqual({ acknowledged: count, rejected: [] })
      expect(await bench.received()).toEqual(idsOf(44, 1))
    })

    test('an empty batch is acknowledged and sends nothing', async () => {
      const bench = setUp()
      const sink = bench.open()
      const lines = batchOf(sink, 0, 1)
      expect(await sink.deliver({ lines, detail: '', possibleDuplicate: true }, never)).toEqual({
        acknowledged: 0,
        rejected: [],
      })
      expect(await bench.received()).toEqual([])
    })

    test('a frame calls the format once, and the same entry gives the same bytes', () => {
      const sink = setUp().open()
      const run = runOf(someEntries(2))
      let calls = 0
      const once = new ByteWriter(1)
      sink.frame(run, 1, once, (...given) => {
        calls++
        rawFormat(...given)
      })
      const again = new ByteWriter()
      sink.frame(run, 0, again, rawFormat)
      again.clear()
      sink.frame(run, 1, again, rawFormat)
      expect(calls).toBe(1)
      expect(again.view().equals(once.view())).toBe(true)
      expect(once.view().includes(run.entries.raw(1))).toBe(true)
    })

    test('with the receiver down nothing is acknowledged and nothing becomes a dead letter; the batch arrives once it is up', async () => {
      const bench = setUp()
      const sink = bench.open()
      await deliver(bench, sink, batchOf(sink, 2, 1))
      const lines = batchOf(sink, 3, 3)
      const detail = await prepared(sink, lines)
      await bench.down()
      for (const possibleDuplicate of [false, true]) {
        const error = await caught(sink.deliver({ lines, detail, possibleDuplicate }, never))
        expect(['retry', 'block', 'pause']).toContain(error.action)
        expect(error.message).toMatch(/\w/)
      }
      await bench.up()
      expect(await sink.deliver({ lines, detail, possibleDuplicate: true }, never)).toMatchObject({
        acknowledged: 3,
      })
      expect(await bench.received()).toEqual(idsOf(5, 1))
    })

    caseWith('loseAnswer')(
      'a possible duplicate is sent again by the next process: nothing is missing, and nothing twice at a sink that stores',
      async () => {
        const bench = setUp()
        const first = bench.open()
        const lines = batchOf(first, 3, 1)
        const detail = await prepared(first, lines)
        given(bench.loseAnswer)()
        await first.deliver({ lines, detail, possibleDuplicate: false }, never).catch(() => undefined)
        const second = bench.open()
        const outcome = await second.deliver({ lines, detail, possibleDuplicate: true }, never)
        expect(outcome.acknowledged).toBe(3)
        await deliver(bench, second, batchOf(second, 2, 4))
        const twice = neverTwice(bench, second) ? [] : idsOf(3, 1)
        expect(await bench.received()).toEqual([...twice, ...idsOf(5, 1)])
      },
    )

    test('a stop in mid-batch throws aborted, and the batch goes out again', async () => {
      const bench = setUp()
      const sink = bench.open()
      const lines = batchOf(sink, 3, 1)
      const detail = await prepared(sink, lines)
      const stop = new AbortController()
      bench.stall?.()
      const delivery = sink.deliver({ lines, detail, possibleDuplicate: false }, stop.signal)
      if (bench.stall) await new Promise((resolve) => setImmediate(resolve))
      stop.abort()
      if (bench.stall) expect((await caught(delivery)).code).toBe('aborted')
      await delivery.catch(() => undefined)
      const late = sink.deliver({ lines, detail, possibleDuplicate: true }, stop.signal)
      expect((await caught(late)).code).toBe('aborted')
      await bench.up()
      const next = bench.open()
      await next.deliver({ lines, detail, possibleDuplicate: true }, never)
      expect([...new Set(await bench.received())]).toEqual(idsOf(3, 1))
    })

    caseWith('later')(
      'a batch that is taken now and safe later is confirmed to the next process too',
      async () => {
        const bench = setUp()
        const sink = bench.open()
        const lines = batchOf(sink, 3, 1)
        const outcome = await sink.deliver({ lines, detail: '', possibleDuplicate: false }, never)
        const later = given(outcome.confirmation)
        expect(sink.maxUnconfirmed).toBeGreaterThan(0)
        const next = bench.open()
        expect(next.resume?.(await prepared(next, lines))).toBeUndefined()
        const resumed = next.resume?.(later.detail)
        expect(resumed?.detail).toBe(later.detail)
        await confirmed(bench, resumed)
        expect(await bench.received()).toEqual(idsOf(3, 1))
      },
    )

    caseWith('refuse')(
      'a line refused for good is named by its index, and all around it arrive',
      async () => {
        const bench = setUp()
        const refuse = given(bench.refuse)
        const sink = bench.open()
        const lines = batchOf(sink, 5, 1)
        refuse(2)
        const outcome = await deliver(bench, sink, lines)
        expect(outcome.rejected.map(({ index }) => index)).toEqual([2])
        expect(outcome.rejected[0]?.reason).not.toContain('zoë')
        // Some stop at a refused line, others go on behind it: both report how far they got.
        expect([3, 5]).toContain(outcome.acknowledged)
        await deliver(bench, sink, batchOf(sink, 5 - outcome.acknowledged, outcome.acknowledged + 1))
        const [one, two, , four, five] = idsOf(5, 1)
        expect(await bench.received()).toEqual([one, two, four, five])
      },
    )

    test('warming changes nothing but the time', async () => {
      const bench = setUp()
      const sink = bench.open()
      const [now, next] = [batchOf(sink, 3, 1), batchOf(sink, 2, 4)]
      sink.warm?.(now)
      sink.warm?.(next)
      await deliver(bench, sink, now)
      await deliver(bench, sink, next)
      expect(await bench.received()).toEqual(idsOf(5, 1))
    })

    test('check reports in plain words and throws nothing, up or down', async () => {
      const bench = setUp()
      const sink = bench.open()
      const good = await sink.check(never)
      expect(good.map(({ ok }) => ok)).not.toContain(false)
      await bench.down()
      for (const { what, message } of [...good, ...(await sink.check(never))])
        expect(`${what} ${message}`).toMatch(/\w \w/)
      expect(await bench.received()).toEqual([])
    })

    test('a probe sends nothing, throws errors of ours alone, and leaves the sink unchanged', async () => {
      const bench = setUp()
      const sink = bench.open()
      if (!sink.probe) return
      await sink.probe(never)
      await bench.down()
      // Not every way of being down shows without an entry.
      const error = await sink.probe(never).catch((each: unknown) => each)
      if (error !== undefined) expect(error).toBeInstanceOf(ConnectorError)
      await bench.up()
      await sink.probe(never)
      expect(await bench.received()).toEqual([])
      await deliver(bench, sink, batchOf(sink, 3, 1))
      expect(await bench.received()).toEqual(idsOf(3, 1))
    })

    test('no error and no log has a secret or a byte of content', async () => {
      const bench = setUp()
      const sink = bench.open()
      await bench.down()
      const error = await caught(deliver(bench, sink, batchOf(sink, 3, 1)))
      const seen = `${error.message} ${String(error.stack)} ${bench.logged()} ${sink.shape}`
      for (const secret of [...bench.secrets, 'zoë', 'example.com']) expect(seen).not.toContain(secret)
    })

    test('close may be called twice and leaves nothing open', async () => {
      const bench = setUp()
      const sink = bench.open()
      await deliver(bench, sink, batchOf(sink, 3, 1))
      await prepared(sink, batchOf(sink, 3, 4))
      await sink.close()
      await sink.close()
      expect(bench.leftOpen()).toBe(0)
    })
  })
}
