// Answers of the history with status 200 that have an error, or elements that are no events: an outage is waited out, and only what repeats beside events is malformed.
import { describe, expect, test } from 'vitest'
import { historyEvent } from '../../../fakes/history-server.ts'
import type { HistoryEvent, HistoryRequest } from '../../../fakes/history-server.ts'
import type { Appended } from '../../../../src/contracts/source.ts'
import type { HistoryOptions } from '../../../../src/sources/history/history.ts'
import { dice } from '../../../simulation/random.ts'
import { DAY, driven, HOUR, MINUTE, SECOND, START } from '../../app/desk.ts'
import { eventsFrom, openHistoryDesk } from './desk.ts'

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
    const desk = await openHistoryDesk({
      source: { version, start: { kind: 'span', ms: 9 * DAY } },
      fault: () => (isBroken ? { body } : undefined),
    })
    desk.server.events = eventsFrom(historyEvent, START - 9 * DAY, 9 * 24 + 48, HOUR)
    // In the middle of the backlog.
    for (let steps = 0; steps < 2; steps++) await desk.step()
    isBroken = true
    await desk.live(START + 5 * HOUR)
    expect([desk.reporter.gaps, desk.reporter.sum('quarantined')]).toEqual([0, 0])
    expect(desk.source.plan(desk.cursor).caughtUp).toBe(false)
    expect(desk.state()).toMatchObject({ troubles: [], timeless: false })
    isBroken = false
    await desk.live(START + 6 * HOUR)
    expect(new Set(await desk.ids()).size).toBe(9 * 24 + 6)
    expect([desk.reporter.gaps, desk.reporter.sum('quarantined')]).toEqual([0, 0])
    expect(desk.state()).toMatchObject({ troubles: [], timeless: false })
  })

  test('does not end a single run', async () => {
    let isBroken = true
    const desk = await openHistoryDesk({
      source: { version, start: { kind: 'span', ms: 2 * DAY }, once: true },
      fault: () => (isBroken ? { body } : undefined),
    })
    desk.server.events = eventsFrom(historyEvent, START - 2 * DAY, 48, HOUR)
    for (let tries = 0; tries < 60; tries++) {
      expect(await desk.try()).toMatchObject({ code: 'bad_reply' })
      await driven(desk.clock, desk.clock.sleep(5 * SECOND))
      expect(desk.source.plan(desk.cursor).caughtUp).toBe(false)
    }
    isBroken = false
    await desk.once()
    expect(await desk.ids()).toHaveLength(48)
    expect([desk.reporter.gaps, desk.reporter.sum('quarantined')]).toEqual([0, 0])
  })
})

test.each(cases)(
  'of %s, two answers of three with %s by chance lose nothing and report nothing',
  async (version, body) => {
    const random = dice(7)
    const desk = await openHistoryDesk({
      source: { version, start: { kind: 'span', ms: 4 * DAY }, once: true },
      fault: () => (random() < 2 / 3 ? { body } : undefined),
    })
    desk.server.events = eventsFrom(historyEvent, START - 4 * DAY, 4 * 24, HOUR)
    await desk.once()
    expect(new Set(await desk.ids()).size).toBe(4 * 24)
    expect([desk.reporter.gaps, desk.reporter.sum('quarantined')]).toEqual([0, 0])
  },
)

test.each(['null', '{"error":"file not found"}', '7'])(
  'an element %s that repeats beside events is quarantined with its bytes, and is no gap',
  async (text) => {
    const desk = await openHistoryDesk({ source: { start: { kind: 'latest' }, lookbackMs: 0 } })
    desk.open({ start: { kind: 'time', atUs: TODAY * 1000 }, lookbackMs: 0 })
    desk.server.events = [
      historyEvent(START - HOUR),
      noEvent(START - HOUR, text),
      historyEvent(START - MINUTE),
    ]
    expect(await desk.try()).toMatchObject({ code: 'bad_reply' })
    expect(await desk.try()).toMatchObject({ code: 'bad_reply' })
    // The good rest of the answer waits for nothing.
    expect([(await desk.ids()).length, desk.reporter.sum('quarantined')]).toEqual([2, 0])
    await desk.step()
    expect(desk.reporter.sum('quarantined')).toBe(1)
    expect(desk.reporter.gaps).toBe(0)
    desk.asked()
    await desk.live(START + 2 * HOUR)
    // Known by now: one request a poll.
    expect(desk.asked().length).toBeLessThanOrEqual(9)
    expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([1, 0])
  },
)

test('an answer that ends in an error beside its events is requested again, and the missing rest is read', async () => {
  let times = 0
  const events = eventsFrom(historyEvent, TODAY - 5 * DAY, 20, HOUR)
  const part = `{"events":[${[...events.slice(0, 5).map(({ v2 }) => v2), '{"error":"no"}'].join(',')}]}`
  const desk = await openHistoryDesk({
    source: { start: { kind: 'time', atUs: (TODAY - 5 * DAY) * 1000 }, lookbackMs: 0 },
    fault: (request) => (holds(request, TODAY - 5 * DAY) && times++ < 2 ? { body: part } : undefined),
  })
  desk.server.events = events
  await desk.once()
  expect(await desk.ids()).toHaveLength(20)
  expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([0, 0])
})

test('a permanently malformed element that is alone in its window is quarantined, is no gap, and delays nothing', async () => {
  const desk = await openHistoryDesk({ source: { start: { kind: 'span', ms: 5 * DAY } } })
  desk.server.events = [
    ...eventsFrom(historyEvent, TODAY - 5 * DAY, 24, HOUR),
    noEvent(TODAY - 3 * DAY + 7 * HOUR, 'null'),
    ...eventsFrom(historyEvent, TODAY - DAY, 24 + 20, HOUR),
  ]
  await desk.live(START + 5 * HOUR)
  expect(await desk.ids()).toHaveLength(14 + 24 + 16)
  expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([1, 0])
  expect(desk.state().troubles).toEqual([])
})

test('a minute that permanently answers an error while all else is read is a possible gap, and is read later when it can be', async () => {
  const at = TODAY - 3 * DAY + 7 * HOUR
  let isBroken = true
  const desk = await openHistoryDesk({
    source: { start: { kind: 'span', ms: 5 * DAY } },
    fault: (request) =>
      isBroken && holds(request, at) ? { body: '{"events":[{"error":"no"}]}' } : undefined,
  })
  desk.server.events = [historyEvent(at), ...eventsFrom(historyEvent, TODAY - DAY, 24, HOUR)]
  await desk.live(START + HOUR)
  expect([(await desk.ids()).length, desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([
    24, 0, 1,
  ])
  isBroken = false
  await desk.live(START + 12 * HOUR)
  expect([(await desk.ids()).length, desk.reporter.gaps]).toEqual([25, 1])
})

test('an event without an id, or without a readable time, is malformed at once: its bytes are kept', async () => {
  const desk = await openHistoryDesk({
    source: { start: { kind: 'time', atUs: TODAY * 1000 }, lookbackMs: 0 },
  })
  const { v2 } = historyEvent(START - HOUR)
  desk.server.events = [
    noEvent(START - HOUR, v2.replace('unique_usage_id', 'was_id')),
    noEvent(START - HOUR, v2.replace('utc_time', 'was_time')),
  ]
  await desk.step()
  expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([2, 0])
  expect(desk.asked()).toHaveLength(1)
})

describe('an element that differs at each answer', () => {
  /** `odd` minutes answer one more element, another one each time. */
  async function differing(source: Partial<HistoryOptions>, isOdd: (request: HistoryRequest) => boolean) {
    let times = 0
    const desk = await openHistoryDesk({
      source: { lookbackMs: 0, ...source },
      fault: (request) =>
        isOdd(request) ? { body: desk.server.bodyOf(request, `{"foo":${String(++times)}}`) } : undefined,
    })
    return desk
  }
  const at = TODAY + HOUR

  test('beside events is quarantined at the ninth answer, as a possible gap, and delays nothing', async () => {
    const desk = await differing({ start: { kind: 'span', ms: HOUR } }, (request) => holds(request, at))
    desk.open({ start: { kind: 'time', atUs: TODAY * 1000 }, lookbackMs: 0 })
    desk.server.events = eventsFrom(historyEvent, at, 24, HOUR)
    const first = (await desk.try())?.message
    expect(first).toContain('requested again to check')
    for (let answers = 2; answers < 9; answers++) {
      expect(await desk.try()).toMatchObject({ code: 'bad_reply' })
      expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([0, 0])
    }
    await desk.step()
    expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([1, 1])
    expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
    await desk.live(START + 10 * HOUR)
    expect(desk.reporter.gaps).toBe(1)
    expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
    expect(new Set(await desk.ids()).size).toBe(20)
    // The odd element is narrowed down at each retry.
    const odd = desk.state().troubles.map(({ from, to }) => to - from)
    expect(odd.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(HOUR)
  })

  test('does not hide events of a server that sometimes breaks off', async () => {
    const random = dice(3)
    let isBroken = true
    const desk = await openHistoryDesk({
      source: { start: { kind: 'span', ms: 2 * DAY }, lookbackMs: 0 },
      fault: () => {
        const some = desk.server.events.filter(() => random() < 0.5).map(({ v2 }) => v2)
        return isBroken
          ? { body: `{"events":[${[...some, `{"error":"no ${String(random())}"}`].join()}]}` }
          : undefined
      },
    })
    desk.server.events = eventsFrom(historyEvent, TODAY - DAY, 30, HOUR)
    for (let answers = 0; answers < 100; answers++) {
      expect(await desk.try()).toMatchObject({ code: 'bad_reply' })
      await driven(desk.clock, desk.clock.sleep(20 * SECOND))
    }
    isBroken = false
    await desk.once()
    expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([0, 0])
  })

  test('leaves a job unread with the span, and the job ends', async () => {
    const desk = await differing({}, (request) => holds(request, at))
    desk.server.events = eventsFrom(historyEvent, at, 6, HOUR)
    const span = { fromUs: TODAY * 1000, toUs: (TODAY + 6 * HOUR) * 1000 }
    const range = desk.range()
    const source = range.open(span, desk.reporter, 'compare')
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
  const desk = await openHistoryDesk({ source })
  desk.server.events = [noEvent(TODAY + 2 * HOUR, '{"foo":1}')]
  const askedInRun: number[] = []
  for (let hour = 0; hour < 5; hour++) {
    desk.open(source)
    await desk.once()
    askedInRun.push(desk.asked().length)
    await driven(desk.clock, desk.clock.sleep(HOUR))
  }
  // First it is narrowed down while other windows are read, then tried once more.
  expect(Math.max(...askedInRun.slice(2))).toBeLessThanOrEqual(3)
  expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([1, 0])
})
