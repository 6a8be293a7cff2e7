// A step of reconcile: one at a time, kept for who asks again, given back when it fails.
import { expect, test } from 'vitest'
import { Entries } from '../../../src/contracts/entries.ts'
import type { CompareQuery } from '../../../src/contracts/jobs.ts'
import type { PageChunk, Source } from '../../../src/contracts/source.ts'
import { silentReporter } from '../../../src/contracts/reporter.ts'
import type { StreamReporter } from '../../../src/contracts/reporter.ts'
import { Comparisons, Turns } from '../../../src/jobs/compare.ts'
import type { RangeReader } from '../../../src/jobs/range.ts'
import { entriesOf, spec } from '../../contract/journal-parts.ts'
import { LogLines } from '../../fakes/sink-deps.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'
import { DAY, MINUTE, stream, SECOND, START } from '../app/desk.ts'

const page: PageChunk = {
  ...{ entries: Entries.none, quarantined: [], findings: [], headUs: undefined, gaps: 0, fault: undefined },
  cursor: 'read',
}
const today: CompareQuery = { job: 'this', stream, fromUs: 0, toUs: START * 1000, place: undefined }
const other: CompareQuery = { ...today, fromUs: DAY * 1000 }

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
  let quiet: StreamReporter = silentReporter
  const source: Source = {
    stream,
    plan: (cursor) => ({
      ...{ dueAt: clock.now(), priority: 'job', caughtUp: cursor === 'read' },
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
    ...{ stream, reporter: silentReporter, log: new LogLines(), wanted: () => true },
    open: (_span, reporter) => {
      quiet = reporter
      return source
    },
    startUs: () => undefined,
    rateWait: () => ({ isLimited: false, reason: 'the limiter says so' }),
    unread: () => undefined,
  }
  const comparing = new Comparisons({
    ranges: [range],
    journal: { known, cursor: () => Promise.resolve(undefined) },
    clock,
  })
  return { clock, comparing, stand, answer: () => answers.shift()?.() }
}

test('a step that another question of its command ended leaves that one’s step alone', async () => {
  const { clock, comparing, stand, answer } = openStand()
  const first = expect(comparing.compare(today)).rejects.toThrow('asked for something else')
  const second = comparing.compare(other)
  await first
  clock.advance(START + MINUTE)
  expect(await second).toMatchObject({
    ...{ done: false, waitMs: 1, waitsFor: 'rate_limit', waitReason: 'the limiter says so' },
  })
  answer()
  answer()
  expect(await comparing.compare(other)).toMatchObject({ done: true, place: 'read' })
  expect(stand.requests).toBe(2)
})

test('what nobody fetched is kept for the one who asks again soon, and not for who asks the same tomorrow', async () => {
  const { clock, comparing, stand, answer } = openStand()
  const asked = async () => {
    const step = comparing.compare(today)
    await settled()
    while (clock.advance(clock.now() + 20 * SECOND)) await settled()
    return step
  }
  expect(await asked()).toMatchObject({ done: false, waitMs: 1 })
  answer()
  await settled()
  clock.advance(clock.now() + 30 * SECOND)
  await settled()
  expect(await comparing.compare(today)).toMatchObject({ done: true })
  expect(await asked()).toMatchObject({ done: false })
  answer()
  await settled()
  clock.advance(clock.now() + DAY)
  await settled()
  const tomorrow = comparing.compare(today)
  expect(stand.requests).toBe(3)
  answer()
  expect(await tomorrow).toMatchObject({ done: true })
})

test('a step that cannot ask the journal gives its request back', async () => {
  const { comparing, stand, answer } = openStand(() => Promise.reject(new Error('the disk')))
  const step = expect(comparing.compare(today)).rejects.toThrow('the disk')
  answer()
  await step
  expect(stand.held).toBe(0)
})

test('closed, it gives up the step that is under way', async () => {
  const { comparing, stand } = openStand()
  const step = expect(comparing.compare(today)).rejects.toThrow('Stopping')
  await settled()
  comparing.close()
  await step
  expect(stand.held).toBe(0)
})

test('a step that is under way is told to who asks again', async () => {
  const { clock, comparing, answer } = openStand()
  const first = comparing.compare(today)
  await settled()
  clock.advance(START + MINUTE)
  expect(await first).toMatchObject({ done: false })
  answer()
  await settled()
  expect(await comparing.compare(today)).toMatchObject({ done: true })
})

test('a reconcile that has come to its end asks for nothing more', async () => {
  const { comparing, stand } = openStand()
  expect(await comparing.compare({ ...today, place: 'read' })).toMatchObject({ done: true, place: 'read' })
  expect(stand.requests).toBe(0)
})

test('a step that failed is read anew by who asks again', async () => {
  let failures = 1
  const { comparing, stand, answer } = openStand(async () => {
    if (failures-- > 0) throw new Error('the disk')
    return new Uint8Array()
  })
  const failed = expect(comparing.compare(today)).rejects.toThrow('the disk')
  answer()
  await failed
  const again = comparing.compare(today)
  answer()
  expect(await again).toMatchObject({ done: true })
  expect(stand.requests).toBe(2)
})

test('of what the journal does not know a step names twenty, and counts all', async () => {
  const entries = entriesOf(Array.from({ length: 25 }, (_, i) => spec(i)))
  const { comparing, stand, answer } = openStand(async () => new Uint8Array(25))
  stand.page = { ...page, entries }
  const step = comparing.compare(today)
  answer()
  const { days, unknown } = await step
  expect(days.reduce((sum, day) => sum + day.unknown, 0)).toBe(25)
  expect(unknown).toHaveLength(20)
})

test('behind a step that was told nobody sleeps on', async () => {
  const { clock, comparing, answer } = openStand()
  const step = comparing.compare(today)
  answer()
  await step
  await settled()
  expect(clock.advance(START + DAY)).toBe(false)
})

test('one reconcile reads a stream at a time: a second is refused with what to do, and the first goes on', async () => {
  const { clock, comparing, stand, answer } = openStand()
  const first = comparing.compare({ ...today, job: 'first' })
  await expect(comparing.compare({ ...other, job: 'second' })).rejects.toThrow(
    /^Another reconcile is reading acme audit: wait until it has ended, or stop it .* 40 s/,
  )
  answer()
  expect(await first).toMatchObject({ done: true })
  clock.advance(START + 30 * SECOND)
  await expect(comparing.compare({ ...today, job: 'second' })).rejects.toThrow('Another reconcile')
  expect(stand.requests).toBe(1)
})

test('a reconcile that was refused ends nothing of the one that goes on', async () => {
  const { comparing, answer } = openStand()
  const first = comparing.compare({ ...today, job: 'first' })
  await expect(comparing.compare({ ...other, job: 'second' })).rejects.toThrow('Another reconcile')
  await comparing.endCompare('second')
  answer()
  expect(await first).toMatchObject({ done: true })
})

test('an answer may take long: whoever asked counts from its end on', async () => {
  const { clock, comparing, answer } = openStand()
  const first = comparing.compare({ ...today, job: 'first' })
  await settled()
  clock.advance(START + 15 * SECOND)
  answer()
  await first
  clock.advance(START + 50 * SECOND)
  await expect(comparing.compare({ ...other, job: 'second' })).rejects.toThrow('Another reconcile')
})

test('a reconcile that has ended holds up no other, nor does one that asks for nothing any more', async () => {
  const { clock, comparing, stand, answer } = openStand()
  const cutOff = expect(comparing.compare({ ...today, job: 'first' })).rejects.toThrow('The step is over')
  await settled()
  await comparing.endCompare('first')
  await cutOff
  expect(stand.held).toBe(0)
  const gone = comparing.compare({ ...today, job: 'second' })
  answer()
  answer()
  await gone
  clock.advance(clock.now() + 41 * SECOND)
  const third = comparing.compare({ ...other, job: 'third' })
  answer()
  expect(await third).toMatchObject({ done: true })
  await expect(comparing.compare({ ...today, job: 'second' })).rejects.toThrow('Another reconcile')
})

test('a reconcile that is under way and comes to a source that another reads waits for its turn', async () => {
  const turns = new Turns(new VirtualClock(START))
  expect([turns.mayStep('all', 'audit'), turns.mayStep('one', 'history')]).toEqual([true, true])
  expect(turns.mayStep('all', 'history')).toBe(false)
  // Who waits takes nothing: the other goes on.
  expect(turns.mayStep('one', 'history')).toBe(true)
  turns.end('one')
  expect(turns.mayStep('all', 'history')).toBe(true)
  expect(() => turns.mayStep('one', 'history')).toThrow('Another reconcile is reading history')
})
