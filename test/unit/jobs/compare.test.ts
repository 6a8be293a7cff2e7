// Reconcile in the daemon: one comparison per stream, which
// continues between two requests and ends with its command.
import { expect, test } from 'vitest'
import { Entries } from '../../../src/contracts/entries.ts'
import type { CompareRequest } from '../../../src/contracts/jobs.ts'
import type { Pressure } from '../../../src/contracts/journal.ts'
import { silentReporter } from '../../../src/contracts/reporter.ts'
import type { StreamReporter } from '../../../src/contracts/reporter.ts'
import { nothingAppended } from '../../../src/contracts/source.ts'
import type { PageChunk, Source } from '../../../src/contracts/source.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import { Comparisons } from '../../../src/jobs/compare.ts'
import type { RangeReader } from '../../../src/jobs/range.ts'
import { entriesOf, spec } from '../../contract/journal-parts.ts'
import { LogLines } from '../../fakes/sink-deps.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'
import { DAY, driven, MINUTE, SECOND, START, stream } from '../app/audit-harness.ts'

const page: PageChunk = {
  ...{ entries: Entries.none, quarantined: [], findings: [], headUs: undefined, gaps: 0, fault: undefined },
  cursor: 'read',
}
const today: CompareRequest = { job: 'this', fromUs: 0, toUs: START * 1000 }
const history = { workspace: 'acme', source: 'history.usage' } as const
const other = { workspace: 'other', source: 'audit' } as const

type Answer = readonly PageChunk[] | Error

/** Three streams whose pages come when the test says so. An abandoned request rejects. */
function openSetup(known = async (_: unknown, { count }: Entries) => new Uint8Array(count)) {
  const clock = new VirtualClock(START)
  const waiting: ((answer: Answer) => void)[] = []
  const setup = { requests: 0, open: 0 }
  const answered = (signal: AbortSignal) =>
    new Promise<Answer>((resolve, reject) => {
      waiting.push(resolve)
      const giveUp = () => {
        waiting.splice(waiting.indexOf(resolve), 1)
        reject(signal.reason as Error)
      }
      signal.addEventListener('abort', giveUp, { once: true })
    })
  const sourceOf = (of: RangeReader['stream'], reporter: StreamReporter): Source => ({
    stream: of,
    plan: (cursor) => ({ dueAt: clock.now(), priority: 'job', caughtUp: cursor === 'read' }),
    async *read(_cursor, signal) {
      setup.requests++
      reporter.state('waiting')
      setup.open++
      try {
        const answer = await answered(signal)
        if (answer instanceof Error) throw answer
        for (const chunk of answer) expect(yield chunk).toEqual(nothingAppended)
      } finally {
        setup.open--
      }
    },
  })
  const ranges = [stream, history, other].map((of): RangeReader => ({
    ...{ stream: of, reporter: silentReporter, log: new LogLines(), wanted: () => true },
    open: (_span, reporter) => sourceOf(of, reporter),
    startUs: () => undefined,
    rateWait: () => ({ isLimited: false, reason: 'the limiter says so' }),
    unread: () => undefined,
  }))
  const pressure = () => ({ bytes: 1, full: true }) as Pressure
  const append = () => Promise.reject(new Error('Nothing may be stored'))
  const journal = { known, append, pressure, cursor: () => Promise.resolve(undefined) }
  const comparing = new Comparisons({ ranges, journal, clock, random: () => 0.5 })
  const answer = async (...answers: Answer[]) => {
    for (const one of answers) {
      for (let turn = 0; turn < 20 && waiting.length === 0; turn++) {
        await settled()
        clock.advance(clock.now() + SECOND / 2)
      }
      waiting.shift()?.(one)
      await settled()
    }
  }
  const compare = (request: CompareRequest) => driven(clock, comparing.compare(request))
  return { clock, comparing, compare, setup, answer }
}

const acme: CompareRequest = { ...today, workspace: 'acme' }
const one: CompareRequest = { ...today, workspace: 'other' }

test('a request is answered after a second with what the comparison waits for, while reading goes on', async () => {
  const { compare, comparing, setup, answer } = openSetup()
  expect(await compare(acme)).toMatchObject({
    ...{ isDone: false, waitsFor: 'rate_limit', waitReason: 'the limiter says so' },
    streams: [{ stream }],
  })
  await answer([page])
  expect(await compare(acme)).toMatchObject({ isDone: false, streams: [{ stream }, { stream: history }] })
  expect(setup.requests).toBe(2)
  await answer([page])
  expect(await compare(acme)).toMatchObject({ isDone: true, error: undefined, streams: [{}, {}] })
  expect(await compare(acme)).toMatchObject({ isDone: true })
  await comparing.endCompare('this')
  expect(setup).toEqual({ requests: 2, open: 0 })
})

test('a finished comparison leaves no timer', async () => {
  const { clock, compare, answer } = openSetup()
  await Promise.all([compare(one), answer([page])])
  expect(await compare(one)).toMatchObject({ isDone: true })
  await settled()
  expect(clock.advance(START + DAY)).toBe(false)
})

test('an error of the journal is thrown, and the request for the page ends', async () => {
  const { comparing, setup, answer } = openSetup(() => Promise.reject(new Error('the disk')))
  const asked = expect(comparing.compare(one)).rejects.toThrow('the disk')
  await answer([page])
  await asked
  expect(setup.open).toBe(0)
  await comparing.endCompare('this')
})

test('closing ends the open request', async () => {
  const { comparing, setup } = openSetup()
  const asked = expect(comparing.compare(one)).rejects.toThrow('Stopping')
  await settled()
  comparing.close()
  await asked
  expect(setup.open).toBe(0)
})

test('at most twenty unknown entries are named, all are counted, and only from complete pages', async () => {
  const { compare, answer } = openSetup()
  const entries = entriesOf(Array.from({ length: 25 }, (_, i) => spec(i)))
  await compare(one)
  await answer([{ ...page, entries, cursor: 'more' }], [{ ...page, entries: entries.pick([0]) }])
  const { streams } = await compare(one)
  expect(streams[0]?.days.reduce((sum, { unknown }) => sum + unknown, 0)).toBe(26)
  expect(streams[0]?.unknown).toHaveLength(20)
})

test('failed pages are counted once they are read again, and from zero if the comparison starts over', async () => {
  const entries = entriesOf([spec(0), spec(1)])
  const more = { ...page, entries, cursor: 'more', gaps: 1 }
  const { compare, answer } = openSetup()
  const counted = async () => {
    const { days = [], gaps } = (await compare(one)).streams[0] ?? {}
    return { fetched: days.reduce((sum, { fetched }) => sum + fetched, 0), gaps }
  }
  await compare(one)
  await answer([more])
  expect(await counted()).toEqual({ fetched: 2, gaps: 1 })
  const fault = new ConnectorError('bad_reply', 'cut off')
  await answer([
    { ...more, cursor: undefined, gaps: 0 },
    { ...page, cursor: 'more', fault },
  ])
  expect(await counted()).toEqual({ fetched: 2, gaps: 1 })
  await answer([more])
  expect(await counted()).toEqual({ fetched: 4, gaps: 2 })
  await answer([{ ...page, cursor: 'more', void: 'walk' }])
  expect(await counted()).toEqual({ fetched: 0, gaps: 0 })
})

test.each([
  ['does not answer', 8, new ConnectorError('server_error', 'the API answered 500')],
  ['answers badly', 32, [{ ...page, cursor: 'more', fault: new ConnectorError('bad_reply', 'no JSON') }]],
])('an API that %s too often ends the comparison with the reason', async (_how, most, answered) => {
  const { compare, setup, answer } = openSetup()
  for (let i = 0; i < most; i++) {
    do expect(await compare(one)).toMatchObject({ isDone: false })
    while (setup.open === 0)
    await answer(answered)
  }
  const { isDone, error } = await compare(one)
  expect(isDone).toBe(true)
  expect(error?.message).toMatch(/^other audit could not be read to the end: (the API answered 500|no JSON)$/)
  expect(setup.requests).toBe(most)
})

test('an error that a person must fix ends the comparison at once', async () => {
  const { compare, answer } = openSetup()
  await compare(one)
  await answer(new ConnectorError('unauthorized', 'the key was refused'))
  expect(await compare(one)).toMatchObject({
    ...{ isDone: true, error: { code: 'unauthorized', message: 'the key was refused' } },
  })
})

test('a second reconcile of a stream is refused with what to do; the first goes on, other streams are free', async () => {
  const { compare, comparing, setup, answer } = openSetup()
  await compare({ ...acme, job: 'first' })
  await expect(compare({ ...today, job: 'second' })).rejects.toThrow(
    /^Another reconcile is reading acme audit: wait until it has ended, or stop it .* 40 s/,
  )
  await comparing.endCompare('second')
  expect(setup.requests).toBe(1)
  await compare({ ...one, job: 'third' })
  expect(setup.requests).toBe(2)
  await answer([page])
  expect(await compare({ ...acme, job: 'first' })).toMatchObject({ streams: [{ stream }, {}] })
  // Its finished streams stay reserved until it ends.
  await expect(compare({ ...acme, job: 'second' })).rejects.toThrow('Another reconcile')
  await comparing.endCompare('first')
  expect(await compare({ ...acme, job: 'second' })).toMatchObject({ isDone: false })
})

test('an abandoned command reserves its streams for 40 s, and reads at most one more page', async () => {
  const { clock, compare, setup, answer } = openSetup()
  await compare({ ...one, job: 'first' })
  clock.advance(clock.now() + 39 * SECOND)
  await expect(compare({ ...one, job: 'second' })).rejects.toThrow('Another reconcile')
  clock.advance(clock.now() + 2 * SECOND)
  expect(await compare({ ...one, job: 'second' })).toMatchObject({ isDone: false })
  expect(setup).toEqual({ requests: 2, open: 1 })
  clock.advance(clock.now() + MINUTE)
  await answer([{ ...page, cursor: 'more' }])
  expect(setup).toEqual({ requests: 2, open: 0 })
})

test('a reconcile without a readable stream is refused', async () => {
  const { compare } = openSetup()
  await expect(compare({ ...today, workspace: 'none' })).rejects.toThrow(
    'no source that can be read again is switched on',
  )
})
