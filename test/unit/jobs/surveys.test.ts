// The step of a walk over the past: one at a time, kept for who asks again, given back when it fails.
import { expect, test } from 'vitest'
import { Entries } from '../../../src/contracts/entries.ts'
import type { SurveyQuery } from '../../../src/contracts/jobs.ts'
import type { Part, Source } from '../../../src/contracts/source.ts'
import { silentWatch } from '../../../src/contracts/reporter.ts'
import type { SourceWatch } from '../../../src/contracts/reporter.ts'
import type { RangeReader } from '../../../src/jobs/orders.ts'
import { ApiSurveys, Walks } from '../../../src/jobs/surveys.ts'
import { entriesOf, spec } from '../../contract/journal-parts.ts'
import { LogLines } from '../../fakes/sink-deps.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'
import { DAY, MINUTE, origin, SECOND, START } from '../app/desk.ts'

const page: Part = {
  ...{ entries: Entries.none, quarantined: [], findings: [], headUs: undefined, gaps: 0, fault: undefined },
  cursor: 'read',
}
const today: SurveyQuery = { walk: 'this', origin, fromUs: 0, toUs: START * 1000, place: undefined }
const other: SurveyQuery = { ...today, fromUs: DAY * 1000 }

/** One source whose answers come when the test says so; a request that is given up rejects. */
function openStand(known: () => Promise<Uint8Array> = async () => new Uint8Array()) {
  const clock = new VirtualClock(START)
  const answers: (() => void)[] = []
  const stand = { requests: 0, held: 0, page }
  const answered = (signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      answers.push(resolve)
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
    })
  let quiet: SourceWatch = silentWatch
  const source: Source = {
    origin,
    plan: (cursor) => ({
      ...{ dueAt: clock.now(), lane: 'past', caughtUp: cursor === 'read' },
    }),
    async *read(_cursor, signal) {
      stand.requests++
      quiet.state('waiting')
      stand.held++
      try {
        await answered(signal)
        yield stand.page
      } finally {
        stand.held--
      }
    },
  }
  const range: RangeReader = {
    ...{ origin, watch: silentWatch, log: new LogLines(), wanted: () => true },
    open: (_span, watch) => {
      quiet = watch
      return source
    },
    startUs: () => undefined,
    rateWait: () => ({ isLimited: false, reason: 'the limiter says so' }),
    unread: () => undefined,
  }
  const surveys = new ApiSurveys({
    ranges: [range],
    journal: { known, cursor: () => Promise.resolve(undefined) },
    clock,
  })
  return { clock, surveys, stand, answer: () => answers.shift()?.() }
}

test('a step that another question of its walk ended leaves that one’s step alone', async () => {
  const { clock, surveys, stand, answer } = openStand()
  const first = expect(surveys.survey(today)).rejects.toThrow('asked for something else')
  const second = surveys.survey(other)
  await first
  clock.advance(START + MINUTE)
  expect(await second).toMatchObject({
    ...{ done: false, waitMs: 1, waitsFor: 'rate_limit', waitReason: 'the limiter says so' },
  })
  answer()
  answer()
  expect(await surveys.survey(other)).toMatchObject({ done: true, place: 'read' })
  expect(stand.requests).toBe(2)
})

test('what nobody fetched is kept for the one who asks again soon, and not for who asks the same tomorrow', async () => {
  const { clock, surveys, stand, answer } = openStand()
  const asked = async () => {
    const step = surveys.survey(today)
    await settled()
    while (clock.advance(clock.now() + 20 * SECOND)) await settled()
    return step
  }
  expect(await asked()).toMatchObject({ done: false, waitMs: 1 })
  answer()
  await settled()
  clock.advance(clock.now() + 30 * SECOND)
  await settled()
  expect(await surveys.survey(today)).toMatchObject({ done: true })
  expect(await asked()).toMatchObject({ done: false })
  answer()
  await settled()
  clock.advance(clock.now() + DAY)
  await settled()
  const tomorrow = surveys.survey(today)
  expect(stand.requests).toBe(3)
  answer()
  expect(await tomorrow).toMatchObject({ done: true })
})

test('a step that cannot ask the journal gives its request back', async () => {
  const { surveys, stand, answer } = openStand(() => Promise.reject(new Error('the disk')))
  const step = expect(surveys.survey(today)).rejects.toThrow('the disk')
  answer()
  await step
  expect(stand.held).toBe(0)
})

test('closed, it gives up the step that is under way', async () => {
  const { surveys, stand } = openStand()
  const step = expect(surveys.survey(today)).rejects.toThrow('Stopping')
  await settled()
  surveys.close()
  await step
  expect(stand.held).toBe(0)
})

test('a step that is under way is told to who asks again', async () => {
  const { clock, surveys, answer } = openStand()
  const first = surveys.survey(today)
  await settled()
  clock.advance(START + MINUTE)
  expect(await first).toMatchObject({ done: false })
  answer()
  await settled()
  expect(await surveys.survey(today)).toMatchObject({ done: true })
})

test('a walk that has come to its end asks for nothing more', async () => {
  const { surveys, stand } = openStand()
  expect(await surveys.survey({ ...today, place: 'read' })).toMatchObject({ done: true, place: 'read' })
  expect(stand.requests).toBe(0)
})

test('a step that failed is read anew by who asks again', async () => {
  let failures = 1
  const { surveys, stand, answer } = openStand(async () => {
    if (failures-- > 0) throw new Error('the disk')
    return new Uint8Array()
  })
  const failed = expect(surveys.survey(today)).rejects.toThrow('the disk')
  answer()
  await failed
  const again = surveys.survey(today)
  answer()
  expect(await again).toMatchObject({ done: true })
  expect(stand.requests).toBe(2)
})

test('of what the journal does not know a step names twenty, and counts all', async () => {
  const entries = entriesOf(Array.from({ length: 25 }, (_, i) => spec(i)))
  const { surveys, stand, answer } = openStand(async () => new Uint8Array(25))
  stand.page = { ...page, entries }
  const step = surveys.survey(today)
  answer()
  const { days, unknown } = await step
  expect(days.reduce((sum, day) => sum + day.unknown, 0)).toBe(25)
  expect(unknown).toHaveLength(20)
})

test('behind a step that was told nobody sleeps on', async () => {
  const { clock, surveys, answer } = openStand()
  const step = surveys.survey(today)
  answer()
  await step
  await settled()
  expect(clock.advance(START + DAY)).toBe(false)
})

test('one walk reads a source at a time: a second is refused with what to do, and the first goes on', async () => {
  const { clock, surveys, stand, answer } = openStand()
  const first = surveys.survey({ ...today, walk: 'first' })
  await expect(surveys.survey({ ...other, walk: 'second' })).rejects.toThrow(
    /^acme audit is walked by another reconcile just now: wait until it has ended, or stop it .* 40 s/,
  )
  answer()
  expect(await first).toMatchObject({ done: true })
  clock.advance(START + 30 * SECOND)
  await expect(surveys.survey({ ...today, walk: 'second' })).rejects.toThrow('another reconcile')
  expect(stand.requests).toBe(1)
})

test('a walk that was refused ends nothing of the one that goes on', async () => {
  const { surveys, answer } = openStand()
  const first = surveys.survey({ ...today, walk: 'first' })
  await expect(surveys.survey({ ...other, walk: 'second' })).rejects.toThrow('another reconcile')
  await surveys.endSurvey('second')
  answer()
  expect(await first).toMatchObject({ done: true })
})

test('an answer may take long: whoever asked counts from its end on', async () => {
  const { clock, surveys, answer } = openStand()
  const first = surveys.survey({ ...today, walk: 'first' })
  await settled()
  clock.advance(START + 15 * SECOND)
  answer()
  await first
  clock.advance(START + 50 * SECOND)
  await expect(surveys.survey({ ...other, walk: 'second' })).rejects.toThrow('another reconcile')
})

test('a walk that has ended holds up no other, nor does one that asks for nothing any more', async () => {
  const { clock, surveys, stand, answer } = openStand()
  const cutOff = expect(surveys.survey({ ...today, walk: 'first' })).rejects.toThrow('The step is over')
  await settled()
  await surveys.endSurvey('first')
  await cutOff
  expect(stand.held).toBe(0)
  const gone = surveys.survey({ ...today, walk: 'second' })
  answer()
  answer()
  await gone
  clock.advance(clock.now() + 41 * SECOND)
  const third = surveys.survey({ ...other, walk: 'third' })
  answer()
  expect(await third).toMatchObject({ done: true })
  await expect(surveys.survey({ ...today, walk: 'second' })).rejects.toThrow('another reconcile')
})

test('a walk that is under way and comes to a source that another walks waits for its turn', async () => {
  const walks = new Walks(new VirtualClock(START))
  expect([walks.mayStep('all', 'audit'), walks.mayStep('one', 'history')]).toEqual([true, true])
  expect(walks.mayStep('all', 'history')).toBe(false)
  // Who waits takes nothing: the other goes on.
  expect(walks.mayStep('one', 'history')).toBe(true)
  walks.end('one')
  expect(walks.mayStep('all', 'history')).toBe(true)
  expect(() => walks.mayStep('one', 'history')).toThrow('history is walked by another reconcile')
})
