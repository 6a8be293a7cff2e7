// Delivery, step by step: what goes out in one batch, what survives a crash, what a refusal costs (invariants 2, 3 and 4).
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Batch, Journal } from '../../../src/contracts/journal.ts'
import { MemoryBudget } from '../../../src/core/memory-budget.ts'
import type { Delivery, Outcome } from '../../../src/contracts/sink.ts'
import { Share } from '../../fakes/share.ts'
import { failing, taken } from '../../fakes/sink.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { never, nextTurn, openRig, range, START } from './rig.ts'
import type { SinkRig, Rig } from './rig.ts'
import { withMethods } from '../../fakes/with-methods.ts'

/** Refuses a batch that has one of `bad`, like a receiver that names no index. */
const refusing =
  (code: 'refused' | 'too_large', bad: readonly number[]) =>
  (delivery: Delivery): Outcome => {
    if (delivery.lines.seqs.some((seq) => bad.includes(seq))) throw new ConnectorError(code, 'no, thanks')
    return taken(delivery)
  }

/** Every sequence number that was accepted, in the order of acceptance. */
function accepting(sinkRig: SinkRig, answer: SinkRig['sink']['answer'] = taken): number[] {
  const accepted: number[] = []
  sinkRig.sink.answer = async (delivery) => {
    const outcome = await answer(delivery)
    const refused = new Set(outcome.rejected.map(({ index }) => index))
    for (let i = 0; i < outcome.acknowledged; i++)
      if (!refused.has(i)) accepted.push(delivery.lines.seqs[i] as number)
    return outcome
  }
  return accepted
}

const withNow = ({ clock }: Rig, now: () => number): Clock => ({
  now,
  elapsed: () => clock.elapsed(),
  sleep: (ms, signal) => clock.sleep(ms, signal),
})

describe('batches', () => {
  it('a batch has no more entries than the limit', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 4 } })
    await rig.append(10)
    await sinkRig.empty()
    expect(sinkRig.sink.seqs).toEqual([range(1, 4), range(5, 8), range(9, 10)])
  })

  it('a batch has no more bytes than the limit, as they go out', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxBytes: 1_000 } })
    await rig.append(20, { body: 'x'.repeat(200) })
    await sinkRig.empty()
    for (const { texts } of sinkRig.sink.deliveries)
      expect(texts.join('\n').length + 1).toBeLessThanOrEqual(1_000)
    expect(sinkRig.sink.seqs.flat()).toEqual(range(1, 20))
  })

  it('a line that is larger than a batch goes out alone', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxBytes: 1_000 } })
    await rig.append(1)
    await rig.append(1, { body: 'x'.repeat(5_000) })
    await rig.append(1)
    await sinkRig.empty()
    expect(sinkRig.sink.seqs).toEqual([[1], [2], [3]])
  })

  it('a batch that is not full waits for more, at most its linger', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 4, lingerMs: 1_000 } })
    await rig.append(2)
    expect(await sinkRig.step()).toBe(1_000)
    rig.clock.advance(START + 400)
    await rig.append(1)
    expect(await sinkRig.step()).toBe(600)
    rig.clock.advance(START + 1_000)
    expect(await sinkRig.step()).toBe('worked')
    expect(sinkRig.sink.seqs).toEqual([[1, 2, 3]])
  })

  it('after the clock was set back a batch does not wait until the old time is reached again', async () => {
    const rig = await openRig()
    const back = withNow(rig, () => rig.clock.now() - 3_600_000)
    const sinkRig = rig.sinkRig('archive', { batch: { lingerMs: 1_000 }, clock: back })
    await rig.append(2)
    expect(await sinkRig.step()).toBe('worked')
    expect(sinkRig.sink.seqs).toEqual([[1, 2]])
  })

  it('a full batch waits for nothing, by count or by bytes', async () => {
    const rig = await openRig(['archive', 'heavy'])
    const byCount = rig.sinkRig('archive', { batch: { maxEntries: 2, lingerMs: 1_000 } })
    const byBytes = rig.sinkRig('heavy', { batch: { maxBytes: 500, lingerMs: 1_000 } })
    await rig.append(4, { body: 'x'.repeat(300) })
    expect([await byCount.step(), await byBytes.step()]).toEqual(['worked', 'worked'])
  })

  it('a batch waits for nothing when nothing more will come', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { lingerMs: 60_000 }, nothingMoreComes: () => true })
    await rig.append(1)
    expect(await sinkRig.step()).toBe('worked')
  })

  it('a batch waits for nothing when the journal is full, since nothing more enters', async () => {
    const rig = await openRig(['archive'], 2_000)
    const sinkRig = rig.sinkRig('archive', { batch: { lingerMs: 60_000 } })
    await rig.append(1)
    expect(await sinkRig.step()).toBe(60_000)
    await rig.append(3, { body: 'x'.repeat(600) })
    expect(rig.journal.stats().full).toBe(true)
    expect(await sinkRig.step()).toBe('worked')
    expect(sinkRig.sink.seqs).toEqual([[1, 2, 3, 4]])
  })

  it('with nothing pending there is nothing to do until something comes', async () => {
    const rig = await openRig()
    expect(await rig.sinkRig().step()).toBe(Infinity)
  })

  it('lines go out in journal order, each as the sink frames it', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    await rig.append(5)
    await rig.append(5)
    await sinkRig.empty()
    const texts = sinkRig.sink.deliveries.flatMap((delivery) => delivery.texts)
    expect(texts.map((text) => (JSON.parse(text) as { id: string }).id)).toEqual(
      range(1, 10).map((n) => `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`),
    )
  })
})

describe('in-flight records', () => {
  it('an in-flight record is on the disk before its batch is sent', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    sinkRig.sink.prepare = async ({ count }) => `detail of ${count}`
    await rig.append(3)
    sinkRig.sink.answer = async (delivery) => {
      expect(await rig.journal.inFlightBatches('archive')).toMatchObject([
        { first: 1, last: 3, shape: 'one', detail: 'detail of 3' },
      ])
      expect(delivery).toMatchObject({ detail: 'detail of 3', possibleDuplicate: false })
      return taken(delivery)
    }
    await sinkRig.step()
    expect(sinkRig.sink.deliveries).toHaveLength(1)
    expect(await rig.journal.inFlightBatches('archive')).toEqual([])
  })

  it('a slow write of the in-flight record delays sending', async () => {
    const rig = await openRig()
    let written: () => void = () => undefined
    const journal = withMethods(rig.journal, {
      recordInFlight: () => new Promise<void>((resolve) => (written = resolve)),
    })
    const sinkRig = rig.sinkRig('archive', { journal })
    await rig.append(3)
    const step = sinkRig.step()
    await settled()
    expect(sinkRig.sink.deliveries).toEqual([])
    written()
    expect(await step).toBe('worked')
    expect(sinkRig.sink.deliveries).toHaveLength(1)
  })

  it('after a crash the same batch goes out as a possible duplicate, whatever came since and whatever the limits are now', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    sinkRig.sink.prepare = async () => 'an offset'
    await rig.append(5)
    sinkRig.sink.answer = () => new Promise(() => undefined)
    void sinkRig.step()
    await settled()
    await rig.append(5)
    sinkRig.sink.answer = taken
    sinkRig.sink.prepare = async () => 'another offset'
    sinkRig.restart({ limits: { maxEntries: 100, maxBytes: 10, lingerMs: 1e9 } })
    await sinkRig.step()
    const [before, after] = sinkRig.sink.deliveries
    expect(after).toEqual({ ...before, possibleDuplicate: true })
    expect(after?.seqs).toEqual([1, 2, 3])
  })

  it('after a crash before sending, the batch is a possible duplicate too: the journal cannot tell', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(2)
    await rig.journal.recordInFlight('archive', { first: 1, last: 2, shape: 'one', detail: '' })
    await sinkRig.step()
    expect(sinkRig.sink.deliveries).toMatchObject([{ seqs: [1, 2], possibleDuplicate: true }])
  })

  it('a failed batch goes out again unchanged, as a possible duplicate', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    await rig.append(3)
    sinkRig.sink.answer = failing('unreachable')
    await expect(sinkRig.step()).rejects.toMatchObject({ code: 'unreachable' })
    await rig.append(3)
    sinkRig.sink.answer = taken
    await sinkRig.empty()
    expect(sinkRig.sink.deliveries.map(({ seqs, possibleDuplicate }) => [seqs, possibleDuplicate])).toEqual([
      [[1, 2, 3], false],
      [[1, 2, 3], true],
      [[4, 5, 6], false],
    ])
  })

  it('settings that shape the bytes and changed while a batch was in flight are reported once', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(2)
    await rig.journal.recordInFlight('archive', { first: 1, last: 2, shape: 'former', detail: 'an offset' })
    await sinkRig.empty()
    expect(rig.log.lines.filter((line) => line.includes('changed'))).toHaveLength(1)
    expect(sinkRig.sink.deliveries).toMatchObject([
      { seqs: [1, 2], detail: 'an offset', possibleDuplicate: true },
    ])
  })

  it('a batch that went out again under new settings waits for its acknowledgement under these', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(2)
    await rig.journal.recordInFlight('archive', { first: 1, last: 2, shape: 'former', detail: '' })
    sinkRig.sink.answer = () => ({
      ...{ acknowledged: 2, rejected: [] },
      confirmation: { detail: 'a ticket', confirmed: () => new Promise(() => undefined) },
    })
    await sinkRig.step()
    expect(await rig.journal.inFlightBatches('archive')).toEqual([
      { first: 1, last: 2, shape: 'one', detail: 'a ticket' },
    ])
    sinkRig.restart()
    sinkRig.sink.answer = taken
    await sinkRig.empty()
    expect(rig.log.lines.filter((line) => line.includes('changed'))).toHaveLength(1)
  })

  it('an object range that an earlier sink of the same name left goes out in batches, and that is reported', async () => {
    for (const [count, body] of [
      [12_000, 'x'.repeat(10)],
      [600, 'x'.repeat(20_000)],
    ] as const) {
      const rig = await openRig()
      for (let made = 0; made < count; made += 100) await rig.append(100, { body })
      await rig.journal.recordInFlight('archive', { first: 1, last: count, shape: 'of objects', detail: '' })
      const sinkRig = rig.sinkRig()
      const asked: number[] = []
      sinkRig.restart({
        journal: withMethods(rig.journal, {
          range: (first, last) => {
            asked.push(last - first + 1)
            return rig.journal.range(first, last)
          },
        }),
      })
      await sinkRig.empty()
      expect(sinkRig.sink.seqs.flat()).toEqual(range(1, count))
      expect(Math.max(...sinkRig.sink.seqs.map(({ length }) => length))).toBeLessThanOrEqual(1000)
      expect(asked).toEqual([])
      expect(rig.log.lines.filter((line) => line.includes('changed'))).toHaveLength(1)
      expect(await rig.journal.inFlightBatches('archive')).toEqual([])
    }
  })

  it('in-flight batches that could not be read at first are read at the next step, and none goes out twice', async () => {
    const rig = await openRig()
    await rig.append(8)
    for (const first of [1, 3, 5])
      await rig.journal.recordInFlight('archive', {
        first,
        last: first + 1,
        shape: 'one',
        detail: `ticket ${first}`,
      })
    const asked: string[] = []
    let failures = 0
    const journal = withMethods(rig.journal, {
      range: (first, last) =>
        first === 3 && failures++ === 0
          ? Promise.reject(new ConnectorError('disk_full', 'no room'))
          : rig.journal.range(first, last),
    })
    const sinkRig = rig.sinkRig('archive', { journal, batch: { maxEntries: 2 } })
    sinkRig.sink.maxUnconfirmed = 3
    sinkRig.sink.resume = (detail) => {
      asked.push(detail)
      return detail === 'ticket 5' ? undefined : { detail, confirmed: () => Promise.resolve() }
    }
    await expect(sinkRig.step()).rejects.toMatchObject({ code: 'disk_full' })
    await sinkRig.empty()
    expect(asked.filter((detail) => detail === 'ticket 1')).toHaveLength(1)
    expect(sinkRig.sink.seqs).toEqual([
      [5, 6],
      [7, 8],
    ])
    expect(sinkRig.reporter.accepted).toBe(8)
    expect(rig.journal.stats().entries).toBe(0)
    expect(sinkRig.memory.usedBytes).toBe(0)
  })

  it('an in-flight batch that this sink no longer wants is acknowledged without being sent', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { wanted: () => false })
    await rig.append(2)
    await rig.journal.recordInFlight('archive', { first: 1, last: 2, shape: 'one', detail: '' })
    await sinkRig.empty()
    expect(sinkRig.sink.deliveries).toEqual([])
    expect(sinkRig.reporter.filtered).toBe(2)
    expect(rig.journal.stats().entries).toBe(0)
  })

  it('a batch that the receiver took is not sent again because the journal write failed at first', async () => {
    const rig = await openRig()
    let full = true
    const journal = withMethods(rig.journal, {
      ack: (sink, acknowledgement) =>
        full
          ? Promise.reject(new ConnectorError('disk_full', 'no space'))
          : rig.journal.ack(sink, acknowledgement),
    })
    const sinkRig = rig.sinkRig('archive', { journal, batch: { maxEntries: 3 } })
    await rig.append(5)
    await expect(sinkRig.step()).rejects.toMatchObject({ code: 'disk_full' })
    await expect(sinkRig.step()).rejects.toMatchObject({ code: 'disk_full' })
    full = false
    await sinkRig.empty()
    expect(sinkRig.sink.seqs).toEqual([range(1, 3), range(4, 5)])
    expect(sinkRig.reporter.accepted).toBe(5)
    expect(sinkRig.memory.usedBytes).toBe(0)
  })
})

describe('outcomes', () => {
  it('partial acceptance acknowledges the prefix, and the rest goes next', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 6 } })
    await rig.append(10)
    sinkRig.sink.answer = () => ({ acknowledged: 2, rejected: [] })
    await sinkRig.step()
    expect(rig.journal.stats().sinks[0]?.position).toBe(2)
    sinkRig.sink.answer = taken
    await sinkRig.empty()
    expect(sinkRig.sink.seqs).toEqual([range(1, 6), range(3, 8), range(9, 10)])
    expect(sinkRig.reporter.accepted).toBe(10)
  })

  it('an entry refused by name becomes a dead letter with its reason, the others are accepted', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(5)
    sinkRig.sink.answer = ({ lines }) => ({
      acknowledged: lines.count,
      rejected: [{ index: 2, code: 'refused', reason: 'event field cannot be blank' }],
    })
    await sinkRig.empty()
    expect(await rig.journal.deadLetters({})).toMatchObject([
      { sink: 'archive', seq: 3, code: 'refused', reason: 'event field cannot be blank' },
    ])
    expect(sinkRig.reporter).toMatchObject({ accepted: 4, deadLettered: 1, delays: 4 })
    expect(rig.journal.stats().entries).toBe(0)
  })

  it('the warning of a dead letter says why, each code once, and where to look', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(3)
    sinkRig.sink.answer = () => ({
      acknowledged: 3,
      rejected: [
        { index: 0, code: 'refused', reason: 'event field cannot be blank' },
        { index: 1, code: 'too_large', reason: 'larger than 1 MiB' },
        { index: 2, code: 'refused', reason: 'event field cannot be blank' },
      ],
    })
    await sinkRig.empty()
    const [reported, ...more] = rig.log.lines.filter((line) =>
      line.includes('Entries became dead letters: they are kept'),
    )
    expect(more).toEqual([])
    expect(reported).toContain('auditferry dead-letters list')
    const fields = {
      entries: 3,
      code: 'refused, too_large',
      reason: 'event field cannot be blank',
      moreReasons: 1,
    }
    expect(JSON.parse(reported?.slice(reported.indexOf('{')) ?? '')).toEqual(fields)
  })

  it.each(['refused', 'too_large'] as const)(
    'a batch that is %s without an index is halved down to one dead letter, and all others are delivered in order',
    async (code) => {
      const rig = await openRig()
      const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 64 } })
      await rig.append(200)
      const accepted = accepting(sinkRig, refusing(code, [77]))
      await sinkRig.empty()
      expect(accepted).toEqual(range(1, 200).filter((seq) => seq !== 77))
      const letters = await rig.journal.deadLetters({})
      expect(letters.map(({ seq, code: why }) => [seq, why])).toEqual([[77, code]])
      // 4 batches, and the search for one in 64.
      expect(sinkRig.sink.deliveries.length).toBeLessThanOrEqual(4 + 2 * 7)
    },
  )

  it('a single entry that is too large becomes a dead letter at once', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(1)
    sinkRig.sink.answer = failing('too_large')
    await sinkRig.empty()
    expect(sinkRig.sink.deliveries).toHaveLength(1)
    expect(await rig.journal.deadLetters({})).toMatchObject([{ seq: 1, code: 'too_large' }])
  })

  it('any set of refused entries becomes dead letters, all others are accepted once and in order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 20 }),
        fc.uniqueArray(fc.integer({ min: 1, max: 40 }), { maxLength: 8 }),
        async (count, maxEntries, bad) => {
          const rig = await openRig()
          const sinkRig = rig.sinkRig('archive', { batch: { maxEntries } })
          await rig.append(count)
          const accepted = accepting(sinkRig, refusing('refused', bad))
          await sinkRig.empty()
          expect(accepted).toEqual(range(1, count).filter((seq) => !bad.includes(seq)))
          const letters = await rig.journal.deadLetters({})
          expect(letters.map(({ seq }) => seq).toSorted((a, b) => a - b)).toEqual(
            range(1, count).filter((seq) => bad.includes(seq)),
          )
          expect(sinkRig.memory.usedBytes).toBe(0)
        },
      ),
      { numRuns: 25 },
    )
  })

  it('a crash at any moment while a refusal is isolated loses nothing', async () => {
    for (let fatal = 0; fatal < 14; fatal++) {
      const rig = await openRig()
      const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 16 } })
      await rig.append(16)
      const accepted = accepting(sinkRig, refusing('refused', [11]))
      for (let i = 0; i < fatal; i++) await sinkRig.step()
      sinkRig.restart()
      await sinkRig.empty()
      expect(accepted).toEqual(range(1, 16).filter((seq) => seq !== 11))
      expect(await rig.journal.deadLetters({})).toHaveLength(1)
    }
  })

  it('a dead letter’s reason does not contain its content', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(1, { body: 'content-to-hide' })
    sinkRig.sink.answer = failing('refused')
    await sinkRig.empty()
    expect(JSON.stringify(await rig.journal.deadLetters({}))).not.toContain('content-to-hide')
    expect(rig.log.lines.join('\n')).not.toContain('content-to-hide')
  })
})

describe('filters', () => {
  it('entries that a sink does not want are acknowledged without being sent', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { wanted: () => false })
    await rig.append(10)
    await sinkRig.empty()
    expect(sinkRig.sink.deliveries).toEqual([])
    expect(sinkRig.reporter.filtered).toBe(10)
    expect(rig.journal.stats().entries).toBe(0)
  })

  it('filtered entries between wanted ones are acknowledged with them, at every edge of a batch', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', {
      batch: { maxEntries: 4 },
      wanted: (run, index) => (run.firstSeq + index) % 3 === 0,
    })
    await rig.append(20)
    await sinkRig.empty()
    expect(sinkRig.sink.seqs.flat()).toEqual([3, 6, 9, 12, 15, 18])
    expect(sinkRig.reporter).toMatchObject({ accepted: 6, filtered: 14 })
    expect(rig.journal.stats().sinks[0]).toMatchObject({ position: 20, pendingEntries: 0 })
  })

  it('of a partly accepted batch, the filtered entries before the rest are acknowledged and those behind it are not', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { wanted: (run, index) => (run.firstSeq + index) % 2 === 0 })
    await rig.append(8)
    sinkRig.sink.answer = () => ({ acknowledged: 2, rejected: [] })
    await sinkRig.step()
    expect(rig.journal.stats().sinks[0]?.position).toBe(5)
  })

  it('a retried dead letter goes to its sink alone, the others acknowledge it without seeing it', async () => {
    const rig = await openRig(['archive', 'splunk'])
    const archive = rig.sinkRig('archive')
    const splunk = rig.sinkRig('splunk')
    await rig.append(3)
    archive.sink.answer = refusing('refused', [2])
    await archive.empty()
    await splunk.empty()
    expect(await rig.journal.retryDeadLetters({ sink: 'archive' })).toBe(1)
    archive.sink.answer = taken
    await archive.empty()
    await splunk.empty()
    expect(archive.sink.seqs.at(-1)).toEqual([4])
    expect(splunk.sink.seqs.flat()).toEqual([1, 2, 3])
    // Another sink's own entry was never this one's to count.
    expect(splunk.reporter.filtered).toBe(0)
    expect(rig.journal.stats().entries).toBe(0)
  })
})

/** The same journal, each batch of it taken through `through`. */
function taking(
  journal: Journal,
  through: (take: () => Promise<Batch | undefined>) => Promise<Batch | undefined>,
) {
  return withMethods(journal, {
    take: (...wish) => through(() => journal.take(...wish)),
  })
}

describe('memory', () => {
  it.each(['unreachable', 'unauthorized', 'rate_limited', 'timeout'] as const)(
    'between two tries of a dead sink (%s) no memory is held',
    async (code) => {
      const rig = await openRig()
      const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
      await rig.append(9)
      sinkRig.sink.answer = failing(code)
      for (let i = 0; i < 5; i++) {
        await expect(sinkRig.step()).rejects.toMatchObject({ code })
        expect(sinkRig.memory.usedBytes).toBe(0)
      }
    },
  )

  it('a sink that cannot prepare a batch holds no memory', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(9)
    sinkRig.sink.prepare = () =>
      Promise.reject(new ConnectorError('misconfigured', 'the volume is read-only'))
    for (let i = 0; i < 3; i++) {
      await expect(sinkRig.step()).rejects.toMatchObject({ code: 'misconfigured' })
      expect(sinkRig.memory.usedBytes).toBe(0)
    }
  })

  it('a sink with a bug holds no memory either', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    await rig.append(9)
    sinkRig.sink.answer = () => {
      throw new TypeError('a bug')
    }
    await expect(sinkRig.step()).rejects.toThrow('a bug')
    expect(sinkRig.memory.usedBytes).toBe(0)
  })

  it('a batch waits for memory, and an abort ends the wait', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(3)
    await sinkRig.around.reserve(32 * 2 ** 20, never)
    const leaving = new AbortController()
    const step = sinkRig.dispatcher.step(leaving.signal)
    await settled()
    leaving.abort()
    await expect(step).rejects.toThrow()
    expect(sinkRig.sink.deliveries).toEqual([])
  })

  it('a sink that waits for memory holds no batch meanwhile; at its turn it reads it again, and no more than that', async () => {
    const rig = await openRig()
    const batches: unknown[] = []
    const journal = taking(rig.journal, async (take) => {
      const batch = await take()
      if (batch) batches.push(batch)
      return batch
    })
    const sinkRig = rig.sinkRig('archive', { journal })
    await rig.append(3)
    const leave = await sinkRig.around.reserve(32 * 2 ** 20, never)
    const step = sinkRig.step()
    await settled()
    expect(batches).toHaveLength(1)
    await rig.append(3)
    leave()
    await step
    expect(sinkRig.sink.seqs).toEqual([range(1, 3)])
    expect(batches[1]).toMatchObject({ first: 1, last: 3 })
    await sinkRig.empty()
    expect(sinkRig.sink.seqs).toEqual([range(1, 3), range(4, 6)])
    expect(sinkRig.memory.usedBytes).toBe(0)
  })

  it('memory for a batch that no longer exists is given back', async () => {
    const rig = await openRig()
    let takes = 0
    const journal = taking(rig.journal, (take) => (++takes === 2 ? Promise.resolve(undefined) : take()))
    const sinkRig = rig.sinkRig('archive', { journal })
    await rig.append(3)
    const leave = await sinkRig.around.reserve(32 * 2 ** 20, never)
    const step = sinkRig.step()
    await settled()
    leave()
    expect(await step).toBe(Infinity)
    expect(sinkRig.memory.usedBytes).toBe(0)
    await sinkRig.empty()
    expect(sinkRig.sink.seqs).toEqual([range(1, 3)])
  })

  it('a huge entry is read only at its turn', async () => {
    const rig = await openRig()
    const read: (number | undefined)[] = []
    const journal = taking(rig.journal, async (take) => {
      const batch = await take()
      read.push(batch && ('slices' in batch ? batch.slices.length : 0))
      return batch
    })
    const sinkRig = rig.sinkRig('archive', { journal })
    await rig.append(1, { body: 'x'.repeat(9 * 2 ** 20) })
    const leave = await sinkRig.around.reserve(20 * 2 ** 20, never)
    const step = sinkRig.step()
    await settled()
    expect(read).toEqual([0])
    leave()
    await nextTurn(rig)
    await step
    // The third is the prefetch.
    expect(read).toEqual([0, 1, undefined])
    expect(sinkRig.sink.seqs).toEqual([[1]])
    expect(sinkRig.memory.usedBytes).toBe(0)
  })

  it('a huge entry is not skipped when memory for it comes free during the check', async () => {
    const rig = await openRig()
    const ways: (() => void)[] = []
    const journal = taking(rig.journal, async (take) => {
      const batch = await take()
      for (const leave of ways) leave()
      return batch
    })
    const sinkRig = rig.sinkRig('archive', { journal })
    await rig.append(1, { body: 'x'.repeat(9 * 2 ** 20) })
    ways.push(await sinkRig.around.reserve(20 * 2 ** 20, never))
    const step = sinkRig.step()
    await nextTurn(rig)
    await step
    expect(sinkRig.sink.seqs).toEqual([[1]])
    expect(sinkRig.memory.usedBytes).toBe(0)
  })

  it('a journal that fails at the sink’s turn leaves no memory held', async () => {
    const rig = await openRig()
    let takes = 0
    const journal = taking(rig.journal, (take) =>
      ++takes === 2 ? Promise.reject(new ConnectorError('disk_failed', 'as told')) : take(),
    )
    const sinkRig = rig.sinkRig('archive', { journal })
    await rig.append(3)
    const leave = await sinkRig.around.reserve(32 * 2 ** 20, never)
    const step = sinkRig.step()
    await settled()
    leave()
    await expect(step).rejects.toMatchObject({ code: 'disk_failed' })
    expect(sinkRig.memory.usedBytes).toBe(0)
  })

  it('after a crash a batch that waits for memory is not held meanwhile, and is the same at its turn', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive')
    await rig.append(3)
    sinkRig.sink.answer = failing('unreachable')
    await expect(sinkRig.step()).rejects.toThrow('unreachable')
    for (const fails of [true, false]) {
      let reads = 0
      const range = async (first: number, last: number) => {
        if (++reads === 2 && fails) throw new ConnectorError('disk_failed', 'as told')
        return rig.journal.range(first, last)
      }
      sinkRig.sink.answer = taken
      const memory = new MemoryBudget(1_000)
      sinkRig.restart({ journal: withMethods(rig.journal, { range }), memory })
      const leave = await memory.reserve(1_000, never)
      const step = sinkRig.step()
      await settled()
      expect(reads).toBe(1)
      leave()
      if (fails) await expect(step).rejects.toMatchObject({ code: 'disk_failed' })
      else expect(await step).toBe('worked')
      expect(reads).toBe(2)
      expect(memory.usedBytes).toBe(0)
    }
    expect(sinkRig.sink.seqs.at(-1)).toEqual([1, 2, 3])
  })

  it('a batch that cannot be framed leaves no memory held', async () => {
    const rig = await openRig()
    const format = () => {
      throw new TypeError('a bug')
    }
    const sinkRig = rig.sinkRig('archive', { format })
    await rig.append(3)
    await expect(sinkRig.step()).rejects.toThrow('a bug')
    expect(sinkRig.memory.usedBytes).toBe(0)
  })

  it('no memory is held after everything is delivered', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    await rig.append(10)
    await sinkRig.empty()
    expect(sinkRig.memory.usedBytes).toBe(0)
  })
})

describe('prefetch', () => {
  it('while one batch is being sent the next one is framed and warmed', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    await rig.append(9)
    sinkRig.sink.answer = async (delivery) => {
      await settled()
      return taken(delivery)
    }
    await sinkRig.step()
    expect(sinkRig.sink.warmed).toEqual([[4, 5, 6]])
  })

  it('the next batch’s in-flight record lands with the acknowledgement of the one before', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    await rig.append(9)
    await sinkRig.step()
    expect(await rig.journal.inFlightBatches('archive')).toMatchObject([{ first: 4, last: 6 }])
    await sinkRig.step()
    expect(sinkRig.sink.deliveries[1]).toMatchObject({ seqs: [4, 5, 6], possibleDuplicate: false })
  })

  it('a partial outcome drops the prefetched batch', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    await rig.append(9)
    sinkRig.sink.answer = () => ({ acknowledged: 1, rejected: [] })
    await sinkRig.step()
    sinkRig.sink.answer = taken
    await sinkRig.empty()
    expect(sinkRig.sink.seqs).toEqual([range(1, 3), range(2, 4), range(5, 7), range(8, 9)])
  })

  it('without memory for it nothing is prefetched, and delivery continues', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    await rig.append(9, { body: 'x'.repeat(1_000) })
    const leave = await sinkRig.around.reserve(32 * 2 ** 20 - 10_000, never)
    await sinkRig.empty()
    expect(sinkRig.sink.warmed).toEqual([])
    expect(sinkRig.sink.seqs).toEqual([range(1, 3), range(4, 6), range(7, 9)])
    leave()
  })

  it('with the memory budget full the next batch is not even read', async () => {
    const rig = await openRig()
    let takes = 0
    const journal = taking(rig.journal, (take) => {
      takes++
      return take()
    })
    const sinkRig = rig.sinkRig('archive', {
      batch: { maxEntries: 1 },
      journal,
      memory: new MemoryBudget(1_000),
    })
    await rig.append(2, { body: 'x'.repeat(1_000) })
    await sinkRig.step()
    await sinkRig.step()
    expect(sinkRig.sink.seqs).toEqual([[1], [2]])
    expect(takes).toBe(2)
  })

  it('a damaged entry behind a batch being sent is reported at its own turn, and the batch is delivered', async () => {
    const rig = await openRig()
    let takes = 0
    const journal = taking(rig.journal, (take) =>
      ++takes === 1 ? take() : Promise.reject(new ConnectorError('journal_corrupt', 'as told')),
    )
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 }, journal })
    await rig.append(6)
    const loose: unknown[] = []
    const note = (reason: unknown) => void loose.push(reason)
    process.on('unhandledRejection', note)
    onTestFinished(() => void process.off('unhandledRejection', note))
    sinkRig.sink.answer = async (delivery) => {
      await settled()
      return taken(delivery)
    }
    expect(await sinkRig.step()).toBe('worked')
    expect(loose).toEqual([])
    expect(rig.journal.stats().sinks[0]?.position).toBe(3)
    await expect(sinkRig.step()).rejects.toMatchObject({ code: 'journal_corrupt' })
  })

  it('a next batch that cannot be prepared does not undo the acknowledgement of the delivered one', async () => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
    await rig.append(6)
    let prepared = 0
    sinkRig.sink.prepare = () =>
      prepared++ === 1 ? Promise.reject(new ConnectorError('disk_full', 'no space')) : Promise.resolve('ok')
    await sinkRig.step()
    expect(rig.journal.stats().sinks[0]?.position).toBe(3)
    await sinkRig.empty()
    expect(sinkRig.sink.seqs).toEqual([range(1, 3), range(4, 6)])
  })
})

/** From a range without entries to one with all of them. */
const shareBytes = fc.constantFrom(100, 500, 1_000, 4_000, 32 * 2 ** 20)

/** Retried; anything else is a bug. */
const reported = (error: unknown) => {
  if (!(error instanceof ConnectorError)) throw error
}

it('any mix of crashes, failures, partial and refused batches ends with each entry accepted at least once or a dead letter, in order', async () => {
  const moment = fc.constantFrom('taken', 'taken', 'fails', 'partial', 'refuses', 'took and fell', 'crash')
  await fc.assert(
    fc.asyncProperty(
      fc.array(moment, { maxLength: 40 }),
      fc.integer({ min: 1, max: 9 }),
      shareBytes,
      async (moments, maxEntries, bytes) => {
        const rig = await openRig()
        const sinkRig = rig.sinkRig('archive', { batch: { maxEntries }, memory: new Share(bytes) })
        await rig.append(25)
        const arrived: number[] = []
        const take = (delivery: Delivery, count = delivery.lines.count) => {
          arrived.push(...delivery.lines.seqs.subarray(0, count))
          return { acknowledged: count, rejected: [] }
        }
        const answers: Record<string, (delivery: Delivery) => Outcome> = {
          taken: take,
          fails: failing('unreachable'),
          partial: (delivery) => take(delivery, Math.ceil(delivery.lines.count / 2)),
          refuses: failing('refused'),
          'took and fell': (delivery) => {
            take(delivery)
            throw new ConnectorError('timeout', 'no answer')
          },
        }
        sinkRig.sink.answer = take
        for (const each of moments) {
          if (each === 'crash') sinkRig.restart({ memory: new Share(bytes) })
          else sinkRig.sink.answer = answers[each] ?? take
          await sinkRig.step().catch(reported)
        }
        sinkRig.sink.answer = take
        await sinkRig.empty()
        const parked = (await rig.journal.deadLetters({})).map(({ seq }) => seq)
        expect(new Set([...arrived, ...parked])).toEqual(new Set(range(1, 25)))
        const firsts = [...new Set(arrived)]
        expect(firsts).toEqual(firsts.toSorted((a, b) => a - b))
        expect(sinkRig.memory.usedBytes).toBe(0)
      },
    ),
    { numRuns: 40 },
  )
})

it('a sink that acknowledges nothing and gives no reason is an error, and no loop without a pause', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig()
  await rig.append(2)
  sinkRig.sink.answer = () => ({ acknowledged: 0, rejected: [] })
  await expect(sinkRig.step()).rejects.toMatchObject({ code: 'bad_reply' })
  sinkRig.sink.answer = taken
  await sinkRig.empty()
  expect(rig.journal.stats().entries).toBe(0)
})
