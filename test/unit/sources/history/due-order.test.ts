// What of the history comes next: which of what is due goes first, which days are read again and until when, and what the end of a pass leaves behind. By the cursor alone.
import { describe, expect, test } from 'vitest'
import { freshHistoryCursor, rangeReadOver } from '../../../../src/sources/history/cursor.ts'
import type { HistoryCursor, Trouble } from '../../../../src/sources/history/cursor.ts'
import {
  beginLive,
  endRangeRead,
  isCaughtUp,
  nextDue,
  planOf,
  taskOf,
  troubleDelayMs,
  troubleDueAt,
} from '../../../../src/sources/history/due.ts'
import type { HistoryOptions, Task } from '../../../../src/sources/history/step.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'

const TODAY = Math.floor(START / DAY) * DAY
const YESTERDAY = TODAY - DAY

/** All is read and nothing due: each trailing day just now, the next poll far. */
function open(more: Partial<HistoryCursor> = {}, options: Partial<HistoryOptions> = {}) {
  const read = [3, 2, 1].map((day) => [String(TODAY - day * DAY), [START, 0]] as const)
  const cursor: HistoryCursor = {
    ...freshHistoryCursor(START, START - 30 * DAY, 0),
    ...{ todo: [], polledTo: START, dueAt: START + 40 * HOUR, rereads: Object.fromEntries(read) },
    ...more,
  }
  const reporter = new SourceNotes()
  const all = {
    ...{ clock: { now: () => START }, client: { freeAt: () => 0, announce: () => 0 }, reporter },
    ...{
      intervalMs: 40 * HOUR,
      lookbackMs: 2 * DAY,
      keepKeysMs: 35 * DAY,
      once: false,
      version: 'v2',
      v1Until: undefined,
    },
    ...options,
  } as unknown as HistoryOptions
  return { cursor, options: all, reporter }
}

const at = (now: number): Partial<HistoryOptions> =>
  ({ clock: { now: () => now } }) as unknown as Partial<HistoryOptions>

const trouble = (dueAt: number): Trouble => ({
  ...{ from: YESTERDAY - 9 * DAY, to: YESTERDAY - 9 * DAY + MINUTE },
  ...{ sinceAt: START - DAY, tries: 1, dueAt },
})

/** That of the kind, according to the cursor. */
const taskOver = (
  cursor: HistoryCursor,
  kind: Task['kind'],
  from: number,
  to: number,
  begunAt = START,
): Task => ({
  ...{ kind, priority: 'live', rangeRead: rangeReadOver(from, to, begunAt), width: cursor.widths.live },
})

describe('the order of due reads', () => {
  const todo = [rangeReadOver(TODAY - 20 * DAY, TODAY - 10 * DAY, START)]
  const lookback = rangeReadOver(YESTERDAY, TODAY, START)

  test('is live reading, then lookback, then the backlog, then unreadable windows', () => {
    const all = { dueAt: START, lookback, todo, troubles: [trouble(START)] }
    const kinds: string[] = []
    for (const done of [{}, { dueAt: START + HOUR }, { lookback: null }, { todo: [] }]) {
      Object.assign(all, done)
      const { cursor, options } = open(all)
      const [kind, dueAt] = nextDue(options, cursor)
      kinds.push(kind)
      expect(dueAt).toBeLessThanOrEqual(START)
    }
    expect(kinds).toEqual(['live', 'lookback', 'todo', 'trouble'])
  })

  test('has live reading first, however long all else has been due', () => {
    const again = { [TODAY - 2 * DAY]: [START - 30 * HOUR, 0], [YESTERDAY]: [START, 0] } as const
    const { cursor, options } = open({ dueAt: START, rereads: again, troubles: [trouble(START - HOUR)] })
    expect(nextDue(options, cursor)).toEqual(['live', START])
    cursor.dueAt = START + HOUR
    expect(nextDue(options, cursor)[0]).toBe('lookback')
  })

  test('continues a pass under way, whenever the next one is due', () => {
    const live = open({ live: rangeReadOver(TODAY, START, START) })
    expect(nextDue(live.options, live.cursor)).toEqual(['live', START])
    const again = open({ lookback })
    expect(nextDue(again.options, again.cursor)).toEqual(['lookback', START])
  })

  test('waits for no priority without a permit, except that live reading waits for its own', () => {
    const later = () => START + MINUTE
    const client = { freeAt: later, announce: later } as unknown as HistoryOptions['client']
    const priorities: [Task['kind'], Partial<HistoryCursor>][] = [
      ['lookback', { lookback }],
      ['todo', { todo }],
      ['trouble', { troubles: [trouble(START)] }],
    ]
    for (const [kind, more] of priorities) {
      const { cursor, options } = open(more, { client })
      expect(nextDue(options, cursor)).toEqual([kind, START + MINUTE])
    }
    const { cursor, options } = open({ dueAt: START }, { client })
    expect(nextDue(options, cursor)).toEqual(['live', START])
  })

  test('puts a read with a permit before live reading that is due and has none', () => {
    const client = {
      freeAt: () => START + MINUTE,
      announce: () => START,
    } as unknown as HistoryOptions['client']
    const { cursor, options } = open({ dueAt: START, lookback }, { client })
    expect(nextDue(options, cursor)).toEqual(['lookback', START])
  })

  test('names the earliest if nothing is due, and of two at once the one that goes first', () => {
    const { cursor, options } = open({ dueAt: START + HOUR, troubles: [trouble(START + MINUTE)] })
    expect(nextDue(options, cursor)).toEqual(['trouble', START + MINUTE])
    cursor.dueAt = START + MINUTE
    expect(nextDue(options, cursor)).toEqual(['live', START + MINUTE])
  })

  test('is nothing but the poll without lookback, backlog and unreadable windows', () => {
    const { cursor, options } = open({}, { lookbackMs: 0 })
    expect(nextDue(options, cursor)).toEqual(['live', START + 40 * HOUR])
    expect(planOf(options, cursor)).toEqual({ dueAt: START + 40 * HOUR, priority: 'live', caughtUp: true })
    expect(taskOf(options, cursor, 'lookback')).toBeUndefined()
    expect(taskOf(options, cursor, 'todo')).toBeUndefined()
    expect(taskOf(options, cursor, 'trouble')).toBeUndefined()
  })
})

test('is complete once a poll ended, none is under way and no backlog is left', () => {
  const todo = [rangeReadOver(TODAY - DAY, TODAY, START)]
  expect(isCaughtUp(open().cursor)).toBe(true)
  for (const lacking of [{ polledTo: null }, { live: rangeReadOver(TODAY, START, START) }, { todo }])
    expect(isCaughtUp(open(lacking).cursor)).toBe(false)
})

test('retries an unreadable window after a quarter of an hour, twice as late each time, and at last every six hours', () => {
  const delays = [0, 1, 2, 3, 4, 5, 6, 100].map((tries) => troubleDelayMs(tries) / MINUTE)
  expect(delays).toEqual([15, 30, 60, 120, 240, 360, 360, 360])
})

test('starts with the first due of several unreadable windows', () => {
  const later = { ...trouble(START + 2 * HOUR), from: TODAY - 8 * DAY, to: TODAY - 8 * DAY + MINUTE }
  const { cursor, options } = open({ troubles: [later, trouble(START + HOUR)] })
  expect(troubleDueAt(cursor, START)).toBe(START + HOUR)
  expect(taskOf(options, cursor, 'trouble')?.rangeRead.from).toBe(trouble(0).from)
  expect(troubleDueAt(open().cursor, START)).toBe(Infinity)
})

test('takes a long unreadable window one day at a time', () => {
  const { cursor, options } = open({ troubles: [{ ...trouble(START), to: trouble(0).from + 3 * DAY }] })
  expect(taskOf(options, cursor, 'trouble')?.rangeRead).toMatchObject({ to: trouble(0).from + DAY })
})

test('has everything as live reading in a single run', () => {
  const { cursor, options } = open({ todo: [rangeReadOver(YESTERDAY, TODAY, START)] })
  expect(taskOf(options, cursor, 'todo')?.priority).toBe('job')
  expect(taskOf({ ...options, once: true }, cursor, 'todo')?.priority).toBe('live')
})

describe('a day is read again', () => {
  /** When yesterday is, that was read so long after it was over. */
  const dueAfter = (ageMs: number, tookMs = 0) => {
    const readAt = TODAY + ageMs
    const { cursor, options } = open(
      { rereads: { [YESTERDAY]: [readAt, tookMs] }, dueAt: readAt + 40 * HOUR },
      { ...at(readAt + 1), lookbackMs: DAY },
    )
    const [kind, dueAt] = nextDue(options, cursor)
    expect(kind).toBe('lookback')
    return (dueAt - readAt) / MINUTE
  }

  test('after half of its age, half an hour at least and six hours at most', () => {
    expect(
      [0, 30 * MINUTE, HOUR, 2 * HOUR, 8 * HOUR, 12 * HOUR, 20 * HOUR].map((age) => dueAfter(age)),
    ).toEqual([...[30, 30, 30, 60, 240, 360, 360]])
  })

  test('the less often the longer that takes, so that it is a tenth of the time', () => {
    expect(dueAfter(HOUR, 10 * MINUTE)).toBe(100)
    expect(dueAfter(12 * HOUR, 10 * MINUTE)).toBe(360)
    expect(dueAfter(HOUR, 10 * HOUR)).toBe(24 * 60)
  })

  test('at once if it was not read yet, the newest first', () => {
    const { cursor, options } = open({ rereads: {} })
    expect(nextDue(options, cursor)[0]).toBe('lookback')
    expect(taskOf(options, cursor, 'lookback')?.rangeRead).toMatchObject({
      from: YESTERDAY,
      to: TODAY,
      begunAt: START,
    })
  })

  test('in due order, and after a pass under way', () => {
    const { cursor, options } = open()
    cursor.rereads[TODAY - 2 * DAY] = [START - 7 * HOUR, 0]
    expect(taskOf(options, cursor, 'lookback')?.rangeRead.from).toBe(TODAY - 2 * DAY)
    cursor.rereads[YESTERDAY] = [START - 9 * HOUR, 0]
    expect(taskOf(options, cursor, 'lookback')?.rangeRead.from).toBe(TODAY - 2 * DAY)
  })

  /** The days that are read again one after the other, all of them never read yet. */
  const daysOf = (more: Partial<HistoryCursor>, options: Partial<HistoryOptions> = {}) => {
    const opened = open({ rereads: {}, ...more }, options)
    const days: number[] = []
    for (let i = 0; i < 40; i++) {
      const rangeRead = taskOf(opened.options, opened.cursor, 'lookback')?.rangeRead
      if (!rangeRead || days.includes(rangeRead.from)) break
      days.push(rangeRead.from)
      opened.cursor.lookback = null
      opened.cursor.rereads[rangeRead.from] = [START, 0]
    }
    return days.map((day) => (TODAY - day) / DAY)
  }

  test('as far back as the lookback reaches, and not before reading began', () => {
    expect(daysOf({})).toEqual([1, 2])
    expect(daysOf({}, { lookbackMs: 10 * HOUR })).toEqual([])
    expect(daysOf({}, { lookbackMs: 10 * HOUR + 1 })).toEqual([1])
    expect(daysOf({ startAt: YESTERDAY })).toEqual([1])
    expect(daysOf({ startAt: TODAY })).toEqual([])
  })

  test('not before it is over and read, and not while it is read as backlog', () => {
    expect(daysOf({ openDay: YESTERDAY })).toEqual([2])
    expect(daysOf({ openDay: TODAY + DAY })).toEqual([1, 2])
    expect(daysOf({ todo: [rangeReadOver(TODAY - 9 * DAY, YESTERDAY, START)] })).toEqual([1])
    const half = { ...rangeReadOver(TODAY - 9 * DAY, TODAY, START), at: YESTERDAY }
    expect(daysOf({ todo: [half] })).toEqual([2])
  })

  test('also later, if it was due in its span and the daemon did not run, as long as its keys are kept', () => {
    const day = TODAY - 20 * DAY
    const missed = (readAt: number, keepKeysMs = 35 * DAY, startAt = TODAY - 30 * DAY) => {
      const { cursor, options } = open({ startAt }, { keepKeysMs })
      cursor.rereads[day] = [readAt, 0]
      return taskOf(options, cursor, 'lookback')?.rangeRead.from === day
    }
    const end = day + DAY + 2 * DAY
    expect(missed(end - 6 * HOUR)).toBe(true)
    expect(missed(end - 6 * HOUR + 1)).toBe(false)
    const oldest = START - day + DAY
    expect([missed(day + DAY, oldest), missed(day + DAY, oldest - 1)]).toEqual([true, false])
    expect([missed(day + DAY, oldest, day), missed(day + DAY, oldest, day + DAY)]).toEqual([true, false])
  })
})

describe('live reading begins', () => {
  test.each([
    ['today if yesterday is read', TODAY, START, { from: TODAY, to: START }, 0],
    ['yesterday if that is not', YESTERDAY, START, { from: YESTERDAY, to: START }, 0],
    [
      'yesterday after a long absence, whose days are backlog',
      TODAY - 5 * DAY,
      START,
      { from: YESTERDAY },
      1,
    ],
    ['with an empty window if the day begins this moment', TODAY, TODAY, { from: TODAY, to: TODAY + 1 }, 0],
  ])('%s', (_, openDay, now, rangeRead, past) => {
    const { cursor } = open({ openDay })
    expect(beginLive(cursor, now)).toMatchObject(rangeRead)
    expect(cursor.openDay).toBe(rangeRead.from)
    expect(cursor.todo).toMatchObject(past === 0 ? [] : [{ from: openDay, to: YESTERDAY, begunAt: now }])
  })

  test('no new pass while one is under way: that continues where it was', () => {
    const live = { ...rangeReadOver(TODAY, START - HOUR, START - HOUR), at: TODAY + HOUR }
    const { cursor, options } = open({ live })
    expect(taskOf(options, cursor, 'live')?.rangeRead).toBe(live)
  })
})

describe('the end of a pass', () => {
  test('of live reading records what is read, which day is open, when the next poll is due', () => {
    const { cursor, options } = open({ polledTo: null, serverBehindMs: 5 * SECOND })
    const task = taskOver(cursor, 'live', YESTERDAY, START - SECOND)
    cursor.live = task.rangeRead
    endRangeRead({ ...options, intervalMs: HOUR }, cursor, task)
    expect(cursor).toMatchObject({
      ...{ live: null, polledTo: START - 6 * SECOND, openDay: TODAY, dueAt: START + HOUR },
    })
  })

  test('keeps yesterday open for a server that is still in yesterday, and one before the first day', () => {
    const { cursor, options } = open({ serverBehindMs: 11 * HOUR })
    endRangeRead(options, cursor, taskOver(cursor, 'live', TODAY, START))
    expect(cursor.openDay).toBe(YESTERDAY)
    cursor.startAt = TODAY
    endRangeRead(options, cursor, taskOver(cursor, 'live', TODAY, START))
    expect(cursor.openDay).toBe(TODAY)
    cursor.startAt = TODAY + 3 * DAY
    endRangeRead(options, cursor, taskOver(cursor, 'live', TODAY, START))
    expect(cursor.openDay).toBe(TODAY)
  })

  test.each([10 * SECOND, 15 * MINUTE])(
    'lets polls pause a minute at least, or their interval: %d ms',
    (intervalMs) => {
      const { cursor, options } = open()
      endRangeRead({ ...options, intervalMs }, cursor, taskOver(cursor, 'live', TODAY, START, START - HOUR))
      expect(cursor.dueAt).toBe(START + Math.min(intervalMs, MINUTE))
    },
  )

  test('ends its own kind of pass, and no other', () => {
    const past = rangeReadOver(TODAY - 20 * DAY, TODAY - 10 * DAY, START)
    const left = (kind: Task['kind']) => {
      const walks = {
        live: rangeReadOver(TODAY, START, START),
        lookback: rangeReadOver(YESTERDAY, TODAY, START),
        todo: rangeReadOver(TODAY - 9 * DAY, YESTERDAY, START),
        trouble: rangeReadOver(TODAY - 25 * DAY, TODAY - 24 * DAY, START),
      }
      const { cursor, options } = open({
        live: walks.live,
        lookback: walks.lookback,
        todo: [past, walks.todo],
      })
      endRangeRead(options, cursor, {
        kind,
        priority: 'live',
        rangeRead: walks[kind],
        width: cursor.widths.live,
      })
      return [cursor.live !== null, cursor.lookback !== null, cursor.todo.length]
    }
    expect(left('live')).toEqual([false, true, 2])
    expect(left('lookback')).toEqual([true, false, 2])
    expect(left('todo')).toEqual([true, true, 1])
    expect(left('trouble')).toEqual([true, true, 2])
  })

  test('is caught up if this pass was all that was missing, and our clock can be believed', () => {
    const reported = (kind: Task['kind'], more: Partial<HistoryCursor> = {}) => {
      const { cursor, options, reporter } = open(more)
      const task = taskOver(cursor, kind, YESTERDAY, TODAY)
      if (kind === 'todo') cursor.todo.push(task.rangeRead)
      endRangeRead(options, cursor, task)
      return reporter.caughtUps
    }
    expect([reported('live'), reported('todo'), reported('lookback'), reported('trouble')]).toEqual([
      1, 1, 0, 0,
    ])
    expect(reported('live', { todo: [rangeReadOver(TODAY - 9 * DAY, YESTERDAY, START)] })).toBe(0)
    expect(reported('live', { clocksApart: true })).toBe(0)
  })

  test('records when each whole day of it was read, and its share of the request time', () => {
    const read = (from: number, to: number, spentMs = 6 * MINUTE) => {
      const { cursor, options } = open({ rereads: {} })
      // Begun long ago: pauses do not count.
      const task = taskOver(cursor, 'todo', from, to, START - 12 * HOUR)
      task.rangeRead.spentMs = spentMs
      endRangeRead(options, cursor, task)
      return cursor.rereads
    }
    const half = [START, 3 * MINUTE]
    expect(read(TODAY - 2 * DAY, TODAY)).toEqual({ [TODAY - 2 * DAY]: half, [YESTERDAY]: half })
    expect(read(TODAY - 2 * DAY, TODAY - 1)).toEqual({ [TODAY - 2 * DAY]: half })
    expect(read(TODAY - 2 * DAY + 1, TODAY)).toEqual({ [YESTERDAY]: half })
    expect(read(YESTERDAY, TODAY + 5 * DAY)).toEqual({ [YESTERDAY]: [START, MINUTE] })
    expect(read(YESTERDAY, TODAY)).toEqual({ [YESTERDAY]: [START, 6 * MINUTE] })
  })

  test('forgets no day before its span is over, due in it or not: an unknown one is read at once', () => {
    const { cursor, options } = open({ rereads: {} }, { lookbackMs: 36 * HOUR })
    const day = TODAY - 2 * DAY
    const of = (from: number) => endRangeRead(options, cursor, taskOver(cursor, 'lookback', from, from + DAY))
    of(day)
    of(YESTERDAY)
    expect(nextDue(options, cursor)).toEqual(['lookback', START + 5 * HOUR])
    expect(Object.keys(cursor.rereads).map(Number)).toEqual([day, YESTERDAY])
  })

  test('forgets what a clock that was set back since says of days that are not over', () => {
    const { cursor, options } = open({ rereads: {} })
    for (const day of [TODAY, TODAY + DAY, TODAY + 30 * DAY]) cursor.rereads[day] = [day + DAY, 0]
    endRangeRead(options, cursor, taskOver(cursor, 'live', TODAY, START))
    expect(cursor.rereads).toEqual({})
  })

  test('forgets the days that are not read again any more', () => {
    const { cursor, options } = open({ rereads: {} })
    const missed = TODAY - 20 * DAY
    Object.assign(cursor.rereads, {
      [TODAY - 2 * DAY]: [START, 0],
      [TODAY - 3 * DAY]: [START, 0],
      [missed]: [missed + DAY, 0],
    })
    endRangeRead(options, cursor, taskOver(cursor, 'trouble', START - 1, START))
    const left = Object.keys(cursor.rereads).map(Number)
    expect(left.toSorted((a, b) => a - b)).toEqual([missed, TODAY - 2 * DAY])
  })
})
