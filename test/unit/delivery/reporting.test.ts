// What the log says of dead letters: the first at once in full, a row of them as sums, and every one in a sum.
import { expect, test } from 'vitest'
import { runDispatcher } from '../../../src/delivery/loop.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import { MINUTE_MS } from '../../../src/core/time.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { never, openRig, START } from './rig.ts'
import type { SinkRig, Rig } from './rig.ts'

/** A receiver that refuses everything, one entry per batch. */
async function refused() {
  const rig = await openRig()
  const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 1 } })
  let number = 0
  sinkRig.sink.answer = ({ lines }) => ({
    acknowledged: lines.count,
    rejected: [{ index: 0, code: 'refused', reason: `no, ${number++ % 200}`, own: true }],
  })
  const reported = () =>
    rig.log.lines
      .filter((line) => line.includes('Entries became dead letters: they are kept'))
      .map((line) => JSON.parse(line.slice(line.indexOf('{'))) as { entries: number; moreReasons?: number })
  return { rig, sinkRig, reported }
}

test('thousands refused within a minute are one log line, and then their sum', async () => {
  const { rig, sinkRig, reported } = await refused()
  await rig.append(1000)
  await sinkRig.empty()
  expect(reported()).toEqual([{ entries: 1, code: 'refused', reason: 'no, 0' }])
  expect(await rig.journal.deadLetters({})).toHaveLength(1000)
  expect(sinkRig.reporter.deadLettered).toBe(1000)
  rig.clock.advance(rig.clock.now() + MINUTE_MS)
  await rig.append(1)
  await sinkRig.empty()
  expect(reported()[1]).toMatchObject({ entries: 1000, code: 'refused', reason: 'no, 1' })
  expect(reported()[1]?.moreReasons).toBe(99)
  expect(reported()).toHaveLength(2)
})

test('the rest of a row is logged with the first accepted batch a minute later', async () => {
  const { rig, sinkRig, reported } = await refused()
  await rig.append(5)
  await sinkRig.empty()
  sinkRig.sink.answer = ({ lines }) => ({ acknowledged: lines.count, rejected: [] })
  await rig.append(1)
  await sinkRig.empty()
  expect(reported()).toHaveLength(1)
  rig.clock.advance(rig.clock.now() + MINUTE_MS)
  await rig.append(1)
  await sinkRig.empty()
  expect(reported().map(({ entries }) => entries)).toEqual([1, 4])
})

/** Delivers until `ms` after the start of time. */
async function shipUntil({ clock }: Rig, { dispatcher, options }: SinkRig, ms: number) {
  const stop = new AbortController()
  const stepsAt: number[] = []
  const step = async (signal: AbortSignal) => {
    stepsAt.push(clock.now() - START)
    return dispatcher.step(signal)
  }
  const shipped = runDispatcher({ step }, options, stop.signal)
  await settled()
  while (clock.advance(START + ms)) await settled()
  stop.abort()
  await shipped
  return stepsAt
}

test('the rest of a row is logged after its minute, though nothing more is acknowledged', async () => {
  const { rig, sinkRig, reported } = await refused()
  await rig.append(5)
  await shipUntil(rig, sinkRig, MINUTE_MS - 1)
  expect(reported().map(({ entries }) => entries)).toEqual([1])
  const stepsAt = await shipUntil(rig, sinkRig, 10 * MINUTE_MS)
  expect(reported().map(({ entries }) => entries)).toEqual([1, 4])
  expect(stepsAt.at(-1)).toBe(MINUTE_MS)
})

test.each([1, 2])(
  'the rest of a row is logged after its minute, though one of %i batches awaits confirmation',
  async (most) => {
    const { rig, sinkRig, reported } = await refused()
    await rig.append(5)
    await sinkRig.empty()
    sinkRig.sink.maxUnconfirmed = most
    const confirmed = (signal: AbortSignal) => rig.clock.sleep(60 * MINUTE_MS, signal)
    sinkRig.sink.answer = ({ lines }) => ({
      acknowledged: lines.count,
      rejected: [],
      confirmation: { detail: '', confirmed },
    })
    await rig.append(1)
    await shipUntil(rig, sinkRig, 2 * MINUTE_MS)
    expect(reported().map(({ entries }) => entries)).toEqual([1, 4])
  },
)

test('the rest of a row is logged after its minute, though the receiver is down by then', async () => {
  const { rig, sinkRig, reported } = await refused()
  await rig.append(5)
  await sinkRig.empty()
  sinkRig.sink.answer = () => {
    throw new ConnectorError('unreachable', 'nobody is there')
  }
  await rig.append(1)
  await expect(sinkRig.step()).rejects.toThrow('nobody')
  expect(reported()).toHaveLength(1)
  rig.clock.advance(rig.clock.now() + MINUTE_MS)
  await expect(sinkRig.step()).rejects.toThrow('nobody')
  expect(reported().map(({ entries }) => entries)).toEqual([1, 4])
})

test('a sum names the codes that it counts, and refused entries are no success', async () => {
  const { rig, sinkRig, reported } = await refused()
  await rig.append(1)
  await sinkRig.empty()
  rig.clock.advance(rig.clock.now() + MINUTE_MS)
  sinkRig.sink.answer = ({ lines }) => ({
    acknowledged: lines.count,
    rejected: [{ index: 0, code: 'too_large', reason: 'no', own: true }],
  })
  await rig.append(1)
  await sinkRig.empty()
  expect(reported()).toMatchObject([{ code: 'refused' }, { code: 'too_large' }])
  expect(sinkRig.reporter).toMatchObject({ successes: 0, deadLettered: 2 })
})

test('a single run logs the rest at its end', async () => {
  const { rig, sinkRig, reported } = await refused()
  await rig.append(7)
  const single = { nothingMoreComes: () => true }
  sinkRig.restart(single)
  await runDispatcher(sinkRig.dispatcher, { ...sinkRig.options, ...single }, never)
  expect(reported().map(({ entries }) => entries)).toEqual([1, 6])
})

test('a stop logs what was not logged yet', async () => {
  const { rig, sinkRig, reported } = await refused()
  await rig.append(7)
  await sinkRig.empty()
  await sinkRig.dispatcher.awaitConfirmations(never)
  await sinkRig.dispatcher.awaitConfirmations(never)
  expect(reported().map(({ entries }) => entries)).toEqual([1, 6])
})
