// Answers of the history with status 200 that have an error, or elements that are no events: an outage is waited out, and only what repeats beside events is malformed.
import { describe, expect, test } from 'vitest'
import { historyEvent } from '../../../fakes/history-server.ts'
import type { HistoryEvent, HistoryRequest } from '../../../fakes/history-server.ts'
import type { Appended } from '../../../../src/contracts/source.ts'
import type { HistoryOptions } from '../../../../src/sources/history/history.ts'
import { dice } from '../../../simulation/random.ts'
import { DAY, driven, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'

const TODAY = Math.floor(START / DAY) * DAY
const page = '<html><body>Sign in</body></html>'
const bodies = {
  v2: [
    '{"error":"no"}',
    '[{"error":"no"}]',
    '{"events":[null]}',
    '{"events":[{"error":"no"}]}',
    '[null]',
    page,
  ],
  v1: ['{"error":"no"}', '[{"error":"no"}]', '[{"message":"no"}]', '[null]', '["no","no"]', page],
}
const cases = (['v2', 'v1'] as const).flatMap((version) =>
  bodies[version].map((body) => [version, body] as const),
)
const nothing: Appended = {
  ...{ added: 0, late: 0, known: 0, filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 },
}
/** Of an element that is no event, as the server has it. */
const noEvent = (at: number, text: string): HistoryEvent => ({ at, v2: text, v1: text })
const holds = ({ from, to }: HistoryRequest, at: number) => from <= at && at < to

describe.each(cases)('of %s, 200 with %s', (version, body) => {
  test('is an outage: nothing is skipped, quarantined or reported, and all is read when it is over', async () => {
    let isBroken = false
    const harness = await openHistoryHarness({
      source: { version, start: { kind: 'span', ms: 9 * DAY } },
      fault: () => (isBroken ? { body } : undefined),
    })
    harness.server.events = eventsFrom(historyEvent, START - 9 * DAY, 9 * 24 + 48, HOUR)
    // In the middle of the backlog.
    for (let steps = 0; steps < 2; steps++) await harness.step()
    isBroken = true
    await harness.live(START + 5 * HOUR)
    expect([harness.reporter.gaps, harness.reporter.sum('quarantined')]).toEqual([0, 0])
    expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
    expect(harness.state()).toMatchObject({ troubles: [], timeless: false })
    isBroken = false
    await harness.live(START + 6 * HOUR)
    expect(new Set(await harness.ids()).size).toBe(9 * 24 + 6)
    expect([harness.reporter.gaps, harness.reporter.sum('quarantined')]).toEqual([0, 0])
    expect(harness.state()).toMatchObject({ troubles: [], timeless: false })
  })

  test('does not end a single run', async () => {
    let isBroken = true
    const harness = await openHistoryHarness({
      source: { version, start: { kind: 'span', ms: 2 * DAY }, once: true },
      fault: () => (isBroken ? { body } : undefined),
    })
    harness.server.events = eventsFrom(historyEvent, START - 2 * DAY, 48, HOUR)
    for (let tries = 0; tries < 60; tries++) {
      expect(await harness.try()).toMatchObject({ code: 'bad_reply' })
      await driven(harness.clock, harness.clock.sleep(5 * SECOND))
      expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
    }
    isBroken = false
    await harness.once()
    expect(await harness.ids()).toHaveLength(48)
    expect([harness.reporter.gaps, harness.reporter.sum('quarantined')]).toEqual([0, 0])
  })
})

test.each(cases)(
  'of %s, two answers of three with %s by chance lose nothing and report nothing',
  async (version, body) => {
    const random = dice(7)
    const harness = await openHistoryHarness({
      source: { version, start: { kind: 'span', ms: 4 * DAY }, once: true },
      fault: () => (random() < 2 / 3 ? { body } : undefined),
    })
    harness.server.events = eventsFrom(historyEvent, START - 4 * DAY, 4 * 24, HOUR)
    await harness.once()
    expect(new Set(await harness.ids()).size).toBe(4 * 24)
    expect([harness.reporter.gaps, harness.reporter.sum('quarantined')]).toEqual([0, 0])
  },
)

test.each(['null', '{"error":"file not found"}', '7'])(
  'an element %s that repeats beside events is quarantined with its bytes, and is no gap',
  async (text) => {
    const harness = await openHistoryHarness({ source: { start: { kind: 'latest' }, lookbackMs: 0 } })
    harness.open({ start: { kind: 'time', atUs: TODAY * 1000 }, lookbackMs: 0 })
    harness.server.events = [
      historyEvent(START - HOUR),
      noEvent(START - HOUR, text),
      historyEvent(START - MINUTE),
    ]
    expect(await harness.try()).toMatchObject({ code: 'bad_reply' })
    expect(await harness.try()).toMatchObject({ code: 'bad_reply' })
    // The good rest of the answer waits for nothing.
    expect([(await harness.ids()).length, harness.reporter.sum('quarantined')]).toEqual([2, 0])
    await harness.step()
    expect(harness.reporter.sum('quarantined')).toBe(1)
    expect(harness.reporter.gaps).toBe(0)
    harness.asked()
    await harness.live(START + 2 * HOUR)
    // Known by now: one request a poll.
    expect(harness.asked().length).toBeLessThanOrEqual(9)
    expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([1, 0])
  },
)

test('an answer that ends in an error beside its events is requested again, and the missing rest is read', async () => {
  let times = 0
  const events = eventsFrom(historyEvent, TODAY - 5 * DAY, 20, HOUR)
  const part = `{"events":[${[...events.slice(0, 5).map(({ v2 }) => v2), '{"error":"no"}'].join(',')}]}`
  const harness = await openHistoryHarness({
    source: { start: { kind: 'time', atUs: (TODAY - 5 * DAY) * 1000 }, lookbackMs: 0 },
    fault: (request) => (holds(request, TODAY - 5 * DAY) && times++ < 2 ? { body: part } : undefined),
  })
  harness.server.events = events
  await harness.once()
  expect(await harness.ids()).toHaveLength(20)
  expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([0, 0])
})

test('a permanently malformed element that is alone in its window is quarantined, is no gap, and delays nothing', async () => {
  const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: 5 * DAY } } })
  harness.server.events = [
    ...eventsFrom(historyEvent, TODAY - 5 * DAY, 24, HOUR),
    noEvent(TODAY - 3 * DAY + 7 * HOUR, 'null'),
    ...eventsFrom(historyEvent, TODAY - DAY, 24 + 20, HOUR),
  ]
  await harness.live(START + 5 * HOUR)
  expect(await harness.ids()).toHaveLength(14 + 24 + 16)
  expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([1, 0])
  expect(harness.state().troubles).toEqual([])
})

test('a minute that permanently answers an error while all else is read is a possible gap, and is read later when it can be', async () => {
  const at = TODAY - 3 * DAY + 7 * HOUR
  let isBroken = true
  const harness = await openHistoryHarness({
    source: { start: { kind: 'span', ms: 5 * DAY } },
    fault: (request) =>
      isBroken && holds(request, at) ? { body: '{"events":[{"error":"no"}]}' } : undefined,
  })
  harness.server.events = [historyEvent(at), ...eventsFrom(historyEvent, TODAY - DAY, 24, HOUR)]
  await harness.live(START + HOUR)
  expect([(await harness.ids()).length, harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([
    24, 0, 1,
  ])
  isBroken = false
  await harness.live(START + 12 * HOUR)
  expect([(await harness.ids()).length, harness.reporter.gaps]).toEqual([25, 1])
})

test('an event without an id, or without a readable time, is malformed at once: its bytes are kept', async () => {
  const harness = await openHistoryHarness({
    source: { start: { kind: 'time', atUs: TODAY * 1000 }, lookbackMs: 0 },
  })
  const { v2 } = historyEvent(START - HOUR)
  harness.server.events = [
    noEvent(START - HOUR, v2.replace('unique_usage_id', 'was_id')),
    noEvent(START - HOUR, v2.replace('utc_time', 'was_time')),
  ]
  await harness.step()
  expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([2, 0])
  expect(harness.asked()).toHaveLength(1)
})

describe('an element that differs at each answer', () => {
  /** `odd` minutes answer one more element, another one each time. */
  async function differing(source: Partial<HistoryOptions>, isOdd: (request: HistoryRequest) => boolean) {
    let times = 0
    const harness = await openHistoryHarness({
      source: { lookbackMs: 0, ...source },
      fault: (request) =>
        isOdd(request) ? { body: harness.server.bodyOf(request, `{"foo":${String(++times)}}`) } : undefined,
    })
    return harness
  }
  const at = TODAY + HOUR

  test('beside events is quarantined at the ninth answer, as a possible gap, and delays nothing', async () => {
    const harness = await differing({ start: { kind: 'span', ms: HOUR } }, (request) => holds(request, at))
    harness.open({ start: { kind: 'time', atUs: TODAY * 1000 }, lookbackMs: 0 })
    harness.server.events = eventsFrom(historyEvent, at, 24, HOUR)
    const first = (await harness.try())?.message
    expect(first).toContain('requested again to check')
    for (let answers = 2; answers < 9; answers++) {
      expect(await harness.try()).toMatchObject({ code: 'bad_reply' })
      expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([0, 0])
    }
    await harness.step()
    expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([1, 1])
    expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
    await harness.live(START + 10 * HOUR)
    expect(harness.reporter.gaps).toBe(1)
    expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
    expect(new Set(await harness.ids()).size).toBe(20)
    // The odd element is narrowed down at each retry.
    const odd = harness.state().troubles.map(({ from, to }) => to - from)
    expect(odd.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(HOUR)
  })

  test('does not hide events of a server that sometimes breaks off', async () => {
    const random = dice(3)
    let isBroken = true
    const harness = await openHistoryHarness({
      source: { start: { kind: 'span', ms: 2 * DAY }, lookbackMs: 0 },
      fault: () => {
        const some = harness.server.events.filter(() => random() < 0.5).map(({ v2 }) => v2)
        return isBroken
          ? { body: `{"events":[${[...some, `{"error":"no ${String(random())}"}`].join()}]}` }
          : undefined
      },
    })
    harness.server.events = eventsFrom(historyEvent, TODAY - DAY, 30, HOUR)
    for (let answers = 0; answers < 100; answers++) {
      expect(await harness.try()).toMatchObject({ code: 'bad_reply' })
      await driven(harness.clock, harness.clock.sleep(20 * SECOND))
    }
    isBroken = false
    await harness.once()
    expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([0, 0])
  })

  test('leaves a job unread with the span, and the job ends', async () => {
    const harness = await differing({}, (request) => holds(request, at))
    harness.server.events = eventsFrom(historyEvent, at, 6, HOUR)
    const span = { fromUs: TODAY * 1000, toUs: (TODAY + 6 * HOUR) * 1000 }
    const range = harness.range()
    const source = range.open(span, harness.reporter, 'compare')
    let cursor: string | undefined
    for (let steps = 0; !source.plan(cursor).caughtUp; steps++) {
      if (steps > 100) expect.fail('it does not end')
      const parts = source.read(cursor, new AbortController().signal)
      for (let next = await parts.next(nothing); !next.done; next = await parts.next(nothing))
        if (next.value.cursor !== undefined) cursor = next.value.cursor
    }
    const all = range.unread(cursor) ?? []
    const unread = all.filter(({ fromUs, toUs }) => fromUs <= at * 1000 && at * 1000 < toUs)
    expect(unread).toMatchObject([{ why: 'unreadable' }])
  })
})

test('a malformed element that is alone in its day costs an hourly single run no more than any other day once it is known', async () => {
  const source = { start: { kind: 'time', atUs: TODAY * 1000 }, once: true, lookbackMs: 0 } as const
  const harness = await openHistoryHarness({ source })
  harness.server.events = [noEvent(TODAY + 2 * HOUR, '{"foo":1}')]
  const askedInRun: number[] = []
  for (let hour = 0; hour < 5; hour++) {
    harness.open(source)
    await harness.once()
    askedInRun.push(harness.asked().length)
    await driven(harness.clock, harness.clock.sleep(HOUR))
  }
  // First it is narrowed down while other windows are read, then tried once more.
  expect(Math.max(...askedInRun.slice(2))).toBeLessThanOrEqual(3)
  expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([1, 0])
})
