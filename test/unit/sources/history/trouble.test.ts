// How an unreadable window changes, step by step, where days in a full harness would take too long.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Appended } from '../../../../src/contracts/source.ts'
import type { HistoryCursor, RangeRead } from '../../../../src/sources/history/cursor.ts'
import { freshHistoryCursor, rangeReadOver } from '../../../../src/sources/history/cursor.ts'
import type { HistoryOptions, Step, Parts, Task } from '../../../../src/sources/history/step.ts'
import { failed, overcome, refused } from '../../../../src/sources/history/trouble.ts'
import { freshWidth } from '../../../../src/sources/history/width.ts'
import type { Window } from '../../../../src/sources/history/window.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import { LogLines } from '../../../fakes/sink-deps.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { DAY, HOUR, MINUTE, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY
const error = new ConnectorError('server_error', 'the API answered 500')

function openStep(troubles: HistoryCursor['troubles']) {
  const log = new LogLines()
  const cursor = { ...freshHistoryCursor(START, START - 30 * DAY, 0), troubles }
  const options = { clock: { now: () => START }, log, reporter: new SourceNotes(), lookbackMs: 0 }
  const step: Step = {
    options: options as unknown as HistoryOptions,
    cursor,
    signal: AbortSignal.timeout(1000),
  }
  return { step, cursor, log }
}

const taskOn = (kind: Task['kind'], rangeRead: RangeRead): Task => ({
  ...{ kind, rangeRead, priority: 'job' },
  width: { ...freshWidth(), ms: MINUTE },
})
const windowOn = ({ from, to }: RangeRead): Window => ({
  from,
  to,
  version: 'v2',
  isDay: false,
  divisible: false,
})
const trouble = (from: number, to: number, sinceAt = START) => ({ from, to, sinceAt, tries: 0, dueAt: START })

const unread = {
  ...{ pending: undefined, elements: 0, omitted: 0, light: false, answered: true },
  seenMs: 0,
}

const nothing: Appended = {
  ...{ added: 0, late: 0, known: 0, filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 },
}

/** Takes all chunks; how many gaps they report. */
async function partsOf(steps: Parts): Promise<number> {
  let gaps = 0
  for (let next = await steps.next(nothing); !next.done; next = await steps.next(nothing))
    gaps += next.value.gaps
  return gaps
}

test('if the first day of an unreadable window is read, the rest stays unreadable', () => {
  const { step, cursor } = openStep([trouble(TODAY - 3 * DAY, TODAY - DAY)])
  const first = rangeReadOver(TODAY - 3 * DAY, TODAY - 2 * DAY, START)
  overcome(step, taskOn('trouble', first), windowOn(first))
  expect(cursor.troubles).toMatchObject([{ from: TODAY - 2 * DAY, to: TODAY - DAY }])
  const second = rangeReadOver(TODAY - 2 * DAY, TODAY - DAY, START)
  overcome(step, taskOn('trouble', second), windowOn(second))
  expect(cursor.troubles).toEqual([])
})

test('if an unreadable window is read as a UTC day, the rest behind the day’s end stays unreadable', () => {
  const [from, to] = [TODAY - DAY - 2 * MINUTE, TODAY - DAY + 3 * MINUTE]
  const { step, cursor } = openStep([trouble(from, to)])
  const overDay = (at: number) => ({ ...windowOn(rangeReadOver(at, at + DAY, START)), isDay: true })
  overcome(step, taskOn('trouble', rangeReadOver(from, to, START)), overDay(TODAY - 2 * DAY))
  expect(cursor.troubles).toMatchObject([{ from: TODAY - DAY, to }])
  overcome(step, taskOn('trouble', rangeReadOver(TODAY - DAY, to, START)), overDay(TODAY - DAY))
  expect(cursor.troubles).toEqual([])
})

test.each([
  [14 * DAY, 1, false],
  [14 * DAY + 1, 0, true],
])(
  'an unreadable window of %i ms is retried for 14 days, then given up and reported',
  async (ageMs, left, reported) => {
    const { step, cursor, log } = openStep([trouble(TODAY, TODAY + MINUTE, START - ageMs)])
    const rangeRead = rangeReadOver(TODAY, TODAY + MINUTE, START)
    const reading = { ...unread, fault: { kind: 'unread', error, elements: [] } as const }
    await partsOf(failed(step, taskOn('trouble', rangeRead), windowOn(rangeRead), reading))
    expect(cursor.troubles).toHaveLength(left)
    expect(log.lines.some((line) => line.includes('is no longer retried'))).toBe(reported)
  },
)

test.each([
  ['before', -MINUTE, 0],
  ['behind', MINUTE, 2 * MINUTE],
])(
  'a window that is skipped today right %s one of 13 days ago is retried for its own 14 days, and soon',
  async (_, from, to) => {
    const old = {
      ...trouble(TODAY - DAY, TODAY - DAY + MINUTE, START - 13 * DAY),
      tries: 60,
      dueAt: START + 6 * HOUR,
    }
    const { step, cursor } = openStep([old])
    const rangeRead = rangeReadOver(TODAY - DAY + from, TODAY - DAY + to, START)
    await partsOf(refused(step, taskOn('todo', rangeRead), windowOn(rangeRead), error))
    const joined = { from: Math.min(old.from, rangeRead.from), to: Math.max(old.to, rangeRead.to) }
    expect(cursor.troubles).toEqual([{ ...joined, sinceAt: START, tries: 0, dueAt: START + 15 * MINUTE }])
  },
)

test('of more unreadable windows than are remembered the two nearest become one, and no other', async () => {
  const from = (i: number) => TODAY - 20 * DAY + i * HOUR - (i === 40 ? 30 * MINUTE : 0)
  const { step, cursor } = openStep(Array.from({ length: 64 }, (_, i) => trouble(from(i), from(i) + MINUTE)))
  const rangeRead = rangeReadOver(TODAY - DAY, TODAY - DAY + MINUTE, START)
  expect(await partsOf(refused(step, taskOn('todo', rangeRead), windowOn(rangeRead), error))).toBe(1)
  expect(cursor.troubles).toHaveLength(64)
  expect(cursor.troubles[39]).toMatchObject({ from: from(39), to: from(40) + MINUTE })
  expect(cursor.troubles.at(-1)).toMatchObject({ from: TODAY - DAY })
})

test('an API that failed everywhere and is back is no proof against the doubted window', async () => {
  let broken = false
  const harness = await openHistoryHarness({
    source: { start: { kind: 'latest' }, lookbackMs: 0 },
    fault: () => (broken ? { status: 500 } : undefined),
  })
  harness.server.events = eventsFrom(historyEvent, START, 48, HOUR)
  await harness.live(START + HOUR)
  broken = true
  for (let tries = 0; (harness.state().live?.elsewhere ?? 0) < 3; tries++) {
    if (tries > 200) expect.fail('never in doubt')
    harness.clock.advance(harness.clock.now() + 15 * MINUTE)
    await harness.try()
  }
  broken = false
  await harness.live(harness.clock.now() + HOUR)
  expect([harness.reporter.gaps, harness.state().troubles]).toEqual([0, []])
})

test('rows on both sides of an unreadable midnight are read once rows without a time were met', async () => {
  const midnight = TODAY - 3 * DAY
  let broken = true
  const isStruck = (from: number, to: number) => from < midnight + 3 * MINUTE && to > midnight - 2 * MINUTE
  const harness = await openHistoryHarness({
    source: { version: 'v1', start: { kind: 'span', ms: 5 * DAY }, lookbackMs: 0 },
    fault: ({ from, to }) => (broken && isStruck(from, to) ? { status: 500 } : undefined),
  })
  const struck = eventsFrom(historyEvent, midnight - 90_000, 8, 30_000)
  harness.server.events = [...eventsFrom(historyEvent, START - 5 * DAY, 40, HOUR), ...struck]
  await harness.once()
  const [only, ...others] = harness.state().troubles
  expect(others).toEqual([])
  expect(only && only.from < midnight && only.to > midnight).toBe(true)
  harness.server.events.push(historyEvent(harness.clock.now(), { timeless: true }))
  // Live reading comes before the unreadable window if both are due.
  harness.clock.advance(harness.clock.now() + HOUR)
  await harness.step()
  expect(harness.state().timeless).toBe(true)
  broken = false
  await harness.live(harness.clock.now() + DAY)
  const raws = new Set(await harness.raws())
  expect(struck.filter(({ v1 }) => !raws.has(v1))).toEqual([])
  expect(harness.state().troubles).toEqual([])
})

test.each([
  ['server_error', 62, 2],
  ['server_error', 63, 1],
  ['bad_request', 0, 1],
] as const)(
  'a long unreadable window that fails as %s beside %i others is %i from then on',
  async (code, others, pieces) => {
    const from = (i: number) => TODAY - 20 * DAY + i * HOUR
    const rest = Array.from({ length: others }, (_, i) => trouble(from(i), from(i) + MINUTE))
    const rangeRead = rangeReadOver(TODAY, TODAY + 4 * MINUTE, START)
    const { step, cursor } = openStep([...rest, trouble(rangeRead.from, rangeRead.to)])
    const failure = new ConnectorError(code, 'no')
    const reading = { ...unread, fault: { kind: 'unread', error: failure, elements: [] } as const }
    await partsOf(failed(step, taskOn('trouble', rangeRead), windowOn(rangeRead), reading))
    const left = cursor.troubles.filter((one) => one.from >= TODAY)
    expect(left.map(({ to, tries }) => [to - TODAY, tries])).toEqual(
      pieces === 1
        ? [[4 * MINUTE, 1]]
        : [
            [2 * MINUTE, 1],
            [4 * MINUTE, 1],
          ],
    )
  },
)
