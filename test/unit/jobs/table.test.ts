// Jobs in state entries of the journal: saved before
// they count, found by waiting loops, listed for a day.
import { stateIn } from '../../fakes/state.ts'
import { expect, test } from 'vitest'
import type { Log } from '../../../src/core/log.ts'
import { DAY_MS } from '../../../src/core/time.ts'
import { noCounts } from '../../../src/contracts/jobs.ts'
import type { Missing } from '../../../src/contracts/jobs.ts'
import { stateOf } from '../../../src/jobs/record.ts'
import type { JobRecord, JobState } from '../../../src/jobs/record.ts'
import { JobTable } from '../../../src/jobs/table.ts'

/** A backfill of the workspace with this name. */
function job(name: string, more: { endedAt?: number } = {}): JobState {
  const stream = { workspace: name, source: 'audit' as const }
  const spans = { asked: [], spans: [], span: 0, unread: [] }
  return stateOf({ v: 2, kind: 'backfill', stream, ...spans, startedAt: 1, counts: noCounts, ...more })
}

const nameOf = ({ record }: Pick<JobState, 'record'>) => record.stream.workspace
const entry = (name: string) => `backfill:${name}:audit`

/** `refuses`: the job that the journal has no room for. */
function openTable({ refuses = '' } = {}) {
  const entries = new Map<string, string>()
  const logged: unknown[] = []
  const say = () => undefined
  const log: Log = {
    ...{ debug: say, info: say, error: say, with: () => log },
    warn: (sentence, fields) => void logged.push([sentence, fields]),
  }
  const state = { now: 1_000, refuses }
  const stored = stateIn(entries, ({ drop, put }) => {
    const names = [...drop, ...put.map(({ name }) => name)]
    if (names.includes(entry(state.refuses))) throw new Error('no room')
  })
  const clock = { now: () => state.now, sleep: async () => undefined }
  const again = (lacks: (record: JobRecord) => Missing | undefined = () => undefined) =>
    new JobTable({ state: stored, clock, lacks, log })
  return { table: again(), again, entries, state, logged }
}

/** Ends a job the way its loop does. */
async function end(table: JobTable, one: JobState, endedAt: number): Promise<void> {
  expect(await table.keep(one, { ...one.record, endedAt }, never)).toBe(true)
}

const never = new AbortController().signal

test('a started job is found by a waiting loop, even if the next one cannot be saved', async () => {
  const { table } = openTable({ refuses: 'b' })
  const found = table.next(([first]) => first, never)
  const [a, b] = [job('a'), job('b')]
  await table.start([a])
  await expect(table.start([b])).rejects.toThrow('no room')
  expect(await found).toBe(a)
  expect(table.open()).toEqual([a])
  expect(b.cancelled.signal.aborted).toBe(true)
})

test('a job that cannot be saved leaves the finished one before it listed', async () => {
  const { table, state } = openTable()
  const ended = job('a', { endedAt: 900 })
  await table.start([ended])
  state.refuses = 'a'
  await expect(table.start([job('a')])).rejects.toThrow('no room')
  expect(table.listed()).toEqual([ended])
})

test('a job that cannot be saved leaves alone the job that replaced it meanwhile', async () => {
  const { table, state } = openTable({ refuses: 'a' })
  const refused = expect(table.start([job('a')])).rejects.toThrow('no room')
  state.refuses = ''
  const next = job('a')
  await table.start([next])
  await refused
  expect(table.open()).toEqual([next])
})

test('a finished job is reported to its command for a minute, even if the next one replaced it', async () => {
  const { table, state } = openTable()
  const one = job('a')
  await table.start([one])
  await end(table, one, state.now)
  const next = job('a')
  await table.start([next])
  expect(table.listed()).toEqual([next])
  expect(table.all()).toEqual([one, next])
  state.now += 60_001
  expect(table.all()).toEqual([next])
})

test('a finished job is listed again, for a day and across restarts, once the job that replaced it was cancelled', async () => {
  const { table, again, state } = openTable()
  const one = job('a')
  await table.start([one])
  one.atUs = 7
  await end(table, one, state.now)
  for (let times = 0; times < 2; times++) {
    const next = job('a')
    await table.start([next])
    expect(await table.cancel(next)).toBe(true)
    expect(table.all()).toEqual([one])
    expect(table.open()).toEqual([])
  }
  const restarted = again()
  await restarted.load()
  expect(restarted.listed()).toMatchObject([{ record: { endedAt: state.now }, atUs: 7 }])
  state.now += DAY_MS + 1
  expect(table.listed()).toEqual([])
})

test('a job that ended by a clock in the future is not listed', async () => {
  const { table, state } = openTable()
  const one = job('a', { endedAt: state.now + 365 * DAY_MS })
  await table.start([one])
  expect(table.listed()).toEqual([])
  await table.start([job('a')])
  expect(table.all().map(({ record }) => record.endedAt)).toEqual([undefined])
})

test('a cancelled job is neither saved nor cancelled again, and its entries are gone', async () => {
  const { table, entries } = openTable()
  const one = job('a')
  await table.start([one])
  entries.set('a page', '')
  expect(await table.cancel(one, ['a page'])).toBe(true)
  expect(await table.cancel(one)).toBe(false)
  expect(await table.keep(one, one.record, never)).toBe(true)
  expect(entries.size).toBe(0)
  expect(() => table.assertCurrent(one)).toThrow('The backfill was cancelled')
})

test('a job whose cancel cannot be saved goes on and can be cancelled later', async () => {
  const { table, again, state } = openTable()
  const ended = job('a', { endedAt: 900 })
  await table.start([ended])
  const one = job('a')
  await table.start([one])
  await table.start([job('b')])
  const [, b] = table.open()
  state.refuses = 'b'
  await expect(b ? table.cancel(b) : undefined).rejects.toThrow('no room')
  state.refuses = 'a'
  await expect(table.cancel(one)).rejects.toThrow('no room')
  expect(new Set(table.open())).toEqual(new Set([one, b]))
  expect(one.cancelled.signal.aborted).toBe(false)
  expect(table.all()).toContain(ended)
  state.refuses = ''
  expect(await table.cancel(one)).toBe(true)
  expect(one.cancelled.signal.aborted).toBe(true)
  expect(new Set(table.listed())).toEqual(new Set([ended, b]))
  const next = again(() => 'source')
  await next.load()
  const [asleep] = next.lacking()
  state.refuses = 'b'
  await expect(asleep ? next.cancel(asleep) : undefined).rejects.toThrow('no room')
  expect(next.lacking()).toEqual([asleep])
})

test('a finished job cannot be cancelled and stays listed, also after a restart', async () => {
  const { table, again, state } = openTable()
  const one = job('a')
  await table.start([one])
  await end(table, one, state.now)
  expect(await table.cancel(one)).toBe(false)
  expect(table.listed()).toEqual([one])
  const next = again()
  await next.load()
  expect(next.listed().map(({ record }) => record.endedAt)).toEqual([state.now])
})

test('after a restart all jobs are back; a finished one is listed for a day', async () => {
  const { table, again, state } = openTable()
  const one = job('a')
  await table.start([one])
  await end(table, one, state.now)
  await table.start([job('b')])
  const next = again()
  await next.load()
  expect(next.listed().map(nameOf)).toEqual(['a', 'b'])
  expect(next.open().map(nameOf)).toEqual(['b'])
  state.now += DAY_MS + 1
  expect(next.listed().map(nameOf)).toEqual(['b'])
})

test('a job whose source is switched off does not run, is reported as waiting for the source, and can be cancelled', async () => {
  const { table, again, entries, state, logged } = openTable()
  await table.start([job('a')])
  await table.start([job('b')])
  const ended = job('c', { endedAt: state.now })
  await table.start([ended])
  const next = again((record) => (nameOf({ record }) === 'b' ? undefined : 'source'))
  await next.load()
  expect(next.open().map(nameOf)).toEqual(['b'])
  expect(next.listed().map(nameOf)).toEqual(['b'])
  // Only the unfinished one is logged: a finished job lacks nothing.
  expect(logged).toEqual([
    [
      expect.stringMatching(/^A backfill waits .*source is not in the config/),
      { workspace: 'a', source: 'audit' },
    ],
  ])
  const [asleep] = next.lacking()
  expect(asleep).toMatchObject({ record: { stream: { workspace: 'a' } }, waitsFor: 'source' })
  expect(next.all().map(nameOf)).toEqual(['b', 'a'])
  expect(asleep && (await next.cancel(asleep, ['a page']))).toBe(true)
  expect(asleep && (await next.cancel(asleep))).toBe(false)
  expect([...entries.keys()]).toEqual([entry('b'), entry('c')])
  expect(next.lacking()).toEqual([])
})

test('waiting for a job ends with the stop', async () => {
  const { table } = openTable()
  const stop = new AbortController()
  const found = table.next(([first]) => first, stop.signal)
  stop.abort()
  expect(await found).toBeUndefined()
})
