// A receiver that answers line by line: accepted, rejected, or to be sent again (invariants 2 and 3).
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Delivery, Outcome } from '../../../src/contracts/sink.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { failing, taken } from '../../fakes/sink.ts'
import { openRig, range } from './rig.ts'
import type { SinkRig, Rig } from './rig.ts'

type Result = 'accepted' | 'rejected' | 'retry'

const busy = () => new ConnectorError('rate_limited', 'the receiver is busy', { retryAfterMs: 5_000 })

/** Answers each line as `resultOf` says, and records what it accepted. */
class LineReceiver {
  readonly accepted: number[] = []
  readonly #resultOf: (seq: number) => Result

  constructor(resultOf: (seq: number) => Result) {
    this.#resultOf = resultOf
  }

  answer = ({ lines }: Delivery): Outcome => {
    const results = Array.from(lines.seqs, this.#resultOf)
    const indices = (result: Result) => results.flatMap((each, index) => (each === result ? [index] : []))
    for (const index of indices('accepted')) this.accepted.push(lines.seqs[index] as number)
    const again = indices('retry')
    return {
      acknowledged: lines.count,
      rejected: indices('rejected').map((index) => ({ index, code: 'refused', reason: 'no' })),
      ...(again.length > 0 && { retry: { indices: again, error: busy() } }),
    }
  }
}

const letters = async (rig: Rig) => (await rig.journal.deadLetters({})).map(({ seq }) => seq)
const position = (rig: Rig) => rig.journal.stats().sinks[0]?.position

/** Lines 3 and 7 of ten are retried, line 5 is rejected. */
async function tenLines(): Promise<{ rig: Rig; sinkRig: SinkRig; free: () => void; receiver: LineReceiver }> {
  const rig = await openRig()
  const sinkRig = rig.sinkRig()
  let full = true
  const resultOf = (seq: number): Result => {
    if (seq === 5) return 'rejected'
    return full && (seq === 3 || seq === 7) ? 'retry' : 'accepted'
  }
  const receiver = new LineReceiver(resultOf)
  sinkRig.sink.answer = receiver.answer
  await rig.append(10)
  return { rig, sinkRig, receiver, free: () => (full = false) }
}

it('lines to retry are sent again alone, and the batch is acknowledged once each line has a result', async () => {
  const { rig, sinkRig, receiver, free } = await tenLines()
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'rate_limited', retryAfterMs: 5_000 })
  expect([position(rig), await letters(rig)]).toEqual([0, []])
  expect(await rig.journal.inFlightBatches('archive')).toMatchObject([{ first: 1, last: 10 }])
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'rate_limited' })
  free()
  await sinkRig.empty()
  expect(sinkRig.sink.seqs).toEqual([range(1, 10), [3, 7], [3, 7]])
  expect(receiver.accepted).toEqual([1, 2, 4, 6, 8, 9, 10, 3, 7])
  expect([position(rig), await letters(rig)]).toEqual([10, [5]])
  expect(sinkRig.reporter).toMatchObject({ accepted: 9, deadLettered: 1, filtered: 0, delays: 9 })
  expect(await rig.journal.inFlightBatches('archive')).toEqual([])
  expect(sinkRig.memory.usedBytes).toBe(0)
})

it('a retried line that was named by the receiver is no possible duplicate, one whose try failed is', async () => {
  const { sinkRig, receiver, free } = await tenLines()
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'rate_limited' })
  sinkRig.sink.answer = failing('timeout')
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'timeout' })
  free()
  sinkRig.sink.answer = receiver.answer
  await sinkRig.empty()
  const sent = sinkRig.sink.deliveries.map(({ seqs, possibleDuplicate }) => [seqs.length, possibleDuplicate])
  expect(sent).toEqual([
    [10, false],
    [2, false],
    [2, true],
  ])
})

it('after a crash the whole batch is sent again', async () => {
  const { rig, sinkRig, receiver, free } = await tenLines()
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'rate_limited' })
  free()
  sinkRig.restart()
  await sinkRig.empty()
  expect(sinkRig.sink.seqs).toEqual([range(1, 10), range(1, 10)])
  expect(sinkRig.sink.deliveries[1]?.possibleDuplicate).toBe(true)
  expect(receiver.accepted).toEqual([1, 2, 4, 6, 8, 9, 10, 1, 2, 3, 4, 6, 7, 8, 9, 10])
  expect([position(rig), await letters(rig)]).toEqual([10, [5]])
})

it('lines to retry that are then rejected as a whole are halved within their batch', async () => {
  const { rig, sinkRig, receiver } = await tenLines()
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'rate_limited' })
  sinkRig.sink.answer = ({ lines }) => {
    if (lines.seqs.includes(7)) throw new ConnectorError('refused', 'no')
    receiver.accepted.push(...lines.seqs)
    return { acknowledged: lines.count, rejected: [] }
  }
  await sinkRig.empty()
  expect(sinkRig.sink.seqs).toEqual([range(1, 10), [3, 7], [3], [7]])
  expect(receiver.accepted).toEqual([1, 2, 4, 6, 8, 9, 10, 3])
  expect([position(rig), await letters(rig)]).toEqual([10, [5, 7]])
})

it('a journal that cannot record the results is tried again, and nothing is sent again for that', async () => {
  const { rig, sinkRig, receiver, free } = await tenLines()
  let failures = 0
  sinkRig.restart({
    journal: withMethods(rig.journal, {
      ack: (...given) =>
        failures++ === 0
          ? Promise.reject(new ConnectorError('disk_full', 'no space'))
          : rig.journal.ack(...given),
    }),
  })
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'rate_limited' })
  free()
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'disk_full' })
  await sinkRig.empty()
  expect(sinkRig.sink.seqs).toEqual([range(1, 10), [3, 7]])
  expect(receiver.accepted).toHaveLength(9)
  expect([position(rig), await letters(rig)]).toEqual([10, [5]])
})

it('ten rejections in a row among lines to retry block the sink', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig()
  await rig.append(13)
  let full = true
  const late = (seq: number) => full && (seq === 2 || seq === 13)
  sinkRig.sink.answer = new LineReceiver((seq) => (late(seq) ? 'retry' : 'rejected')).answer
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'rate_limited' })
  full = false
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'misconfigured' })
  sinkRig.sink.answer = taken
  await sinkRig.empty()
  expect(await letters(rig)).toEqual([1, 2, ...range(3, 12)])
})

it('whatever each try answers: every line is accepted once or a dead letter, and nothing else', async () => {
  const result = fc.constantFrom<Result>('accepted', 'accepted', 'rejected', 'retry', 'retry')
  await fc.assert(
    fc.asyncProperty(
      fc.array(result, { minLength: 1, maxLength: 60 }),
      fc.integer({ min: 1, max: 12 }),
      fc.array(fc.boolean(), { maxLength: 20 }),
      async (results, maxEntries, prefixes) => {
        const rig = await openRig()
        const sinkRig = rig.sinkRig('archive', { batch: { maxEntries } })
        await rig.append(20)
        let asked = 0
        const receiver = new LineReceiver(() => results[asked++] ?? 'accepted')
        let tries = 0
        sinkRig.sink.answer = (delivery) => {
          if (prefixes[tries++] !== true) return receiver.answer(delivery)
          receiver.accepted.push(...delivery.lines.seqs.subarray(0, 1))
          return { acknowledged: 1, rejected: [] }
        }
        for (let steps = 0; steps < 400; steps++) {
          const result = await sinkRig.step().catch((error: unknown) => error)
          if (result === Infinity) break
        }
        const rejected = await letters(rig)
        expect([...receiver.accepted, ...rejected].toSorted((a, b) => a - b)).toEqual(range(1, 20))
        expect([position(rig), sinkRig.memory.usedBytes]).toEqual([20, 0])
      },
    ),
    { numRuns: 60 },
  )
})
