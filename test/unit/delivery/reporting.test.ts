// What the log says of dead letters: the first at once in full, a row of them as sums, and every one in a sum.
import { expect, test } from 'vitest'
import { runDispatcher } from '../../../src/delivery/loop.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import { MINUTE_MS } from '../../../src/core/time.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { never, openQuay, START } from './quay.ts'
import type { Berth, Quay } from './quay.ts'

/** A receiver that refuses everything, one entry per batch. */
async function refused() {
  const quay = await openQuay()
  const berth = quay.berth('archive', { batch: { maxEntries: 1 } })
  let number = 0
  berth.sink.answer = ({ lines }) => ({
    acknowledged: lines.count,
    rejected: [{ index: 0, code: 'refused', reason: `no, ${number++ % 200}`, own: true }],
  })
  const told = () =>
    quay.log.lines
      .filter((line) => line.includes('they became dead letters'))
      .map((line) => JSON.parse(line.slice(line.indexOf('{'))) as { entries: number; moreReasons?: number })
  return { quay, berth, told }
}

test('thousands refused within a minute are one log line, and then their sum', async () => {
  const { quay, berth, told } = await refused()
  await quay.append(1000)
  await berth.empty()
  expect(told()).toEqual([{ entries: 1, code: 'refused', reason: 'no, 0' }])
  expect(await quay.journal.deadLetters({})).toHaveLength(1000)
  expect(berth.reporter.deadLettered).toBe(1000)
  quay.clock.advance(quay.clock.now() + MINUTE_MS)
  await quay.append(1)
  await berth.empty()
  expect(told()[1]).toMatchObject({ entries: 1000, code: 'refused', reason: 'no, 1' })
  expect(told()[1]?.moreReasons).toBe(99)
  expect(told()).toHaveLength(2)
})

test('the rest of a row is logged with the first accepted batch a minute later', async () => {
  const { quay, berth, told } = await refused()
  await quay.append(5)
  await berth.empty()
  berth.sink.answer = ({ lines }) => ({ acknowledged: lines.count, rejected: [] })
  await quay.append(1)
  await berth.empty()
  expect(told()).toHaveLength(1)
  quay.clock.advance(quay.clock.now() + MINUTE_MS)
  await quay.append(1)
  await berth.empty()
  expect(told().map(({ entries }) => entries)).toEqual([1, 4])
})

/** Delivers until `ms` after the start of time. */
async function shipUntil({ clock }: Quay, { dispatcher, options }: Berth, ms: number) {
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
  const { quay, berth, told } = await refused()
  await quay.append(5)
  await shipUntil(quay, berth, MINUTE_MS - 1)
  expect(told().map(({ entries }) => entries)).toEqual([1])
  const stepsAt = await shipUntil(quay, berth, 10 * MINUTE_MS)
  expect(told().map(({ entries }) => entries)).toEqual([1, 4])
  expect(stepsAt.at(-1)).toBe(MINUTE_MS)
})

test.each([1, 2])(
  'the rest of a row is logged after its minute, though one of %i batches awaits confirmation',
  async (most) => {
    const { quay, berth, told } = await refused()
    await quay.append(5)
    await berth.empty()
    berth.sink.maxUnconfirmed = most
    const confirmed = (signal: AbortSignal) => quay.clock.sleep(60 * MINUTE_MS, signal)
    berth.sink.answer = ({ lines }) => ({
      acknowledged: lines.count,
      rejected: [],
      confirmation: { detail: '', confirmed },
    })
    await quay.append(1)
    await shipUntil(quay, berth, 2 * MINUTE_MS)
    expect(told().map(({ entries }) => entries)).toEqual([1, 4])
  },
)

test('the rest of a row is logged after its minute, though the receiver is down by then', async () => {
  const { quay, berth, told } = await refused()
  await quay.append(5)
  await berth.empty()
  berth.sink.answer = () => {
    throw new ConnectorError('unreachable', 'nobody is there')
  }
  await quay.append(1)
  await expect(berth.step()).rejects.toThrow('nobody')
  expect(told()).toHaveLength(1)
  quay.clock.advance(quay.clock.now() + MINUTE_MS)
  await expect(berth.step()).rejects.toThrow('nobody')
  expect(told().map(({ entries }) => entries)).toEqual([1, 4])
})

test('a sum names the codes that it counts, and refused entries are no success', async () => {
  const { quay, berth, told } = await refused()
  await quay.append(1)
  await berth.empty()
  quay.clock.advance(quay.clock.now() + MINUTE_MS)
  berth.sink.answer = ({ lines }) => ({
    acknowledged: lines.count,
    rejected: [{ index: 0, code: 'too_large', reason: 'no', own: true }],
  })
  await quay.append(1)
  await berth.empty()
  expect(told()).toMatchObject([{ code: 'refused' }, { code: 'too_large' }])
  expect(berth.reporter).toMatchObject({ successes: 0, deadLettered: 2 })
})

test('a single run logs the rest at its end', async () => {
  const { quay, berth, told } = await refused()
  await quay.append(7)
  const single = { nothingMoreComes: () => true }
  berth.restart(single)
  await runDispatcher(berth.dispatcher, { ...berth.options, ...single }, never)
  expect(told().map(({ entries }) => entries)).toEqual([1, 6])
})

test('a stop logs what was not logged yet', async () => {
  const { quay, berth, told } = await refused()
  await quay.append(7)
  await berth.empty()
  await berth.dispatcher.hearOut(never)
  await berth.dispatcher.hearOut(never)
  expect(told().map(({ entries }) => entries)).toEqual([1, 6])
})
