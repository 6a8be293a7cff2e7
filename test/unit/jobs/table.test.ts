// Jobs in state entries of the journal: kept before they count, found by whoever waits, listed for a day.
import { expect, test } from 'vitest'
import type { Note, NoteChange } from '../../../src/contracts/records.ts'
import type { Log } from '../../../src/core/log.ts'
import { DAY_MS } from '../../../src/core/time.ts'
import { noCounts } from '../../../src/contracts/jobs.ts'
import type { Missing } from '../../../src/contracts/jobs.ts'
import { stateOf } from '../../../src/jobs/record.ts'
import type { JobRecord, JobState } from '../../../src/jobs/record.ts'
import { JobTable } from '../../../src/jobs/table.ts'

/** A backfill of the workspace that is named. */
function job(name: string, more: { endedAt?: number } = {}): JobState {
  const stream = { workspace: name, source: 'audit' as const }
  const spans = { asked: [], spans: [], span: 0, unread: [] }
  return stateOf({ v: 2, kind: 'backfill', stream, ...spans, startedAt: 1, counts: noCounts, ...more })
}

const nameOf = ({ record }: Pick<JobState, 'record'>) => record.stream.workspace
const entry = (name: string) => `backfill:${name}:audit`

/** `refuses`: a job that the journal has no room for. */
function openTable({ refuses = '' } = {}) {
  const entries = new Map<string, string>()
  const logged: unknown[] = []
  const say = () => undefined
  const log: Log = {
    ...{ debug: say, info: say, error: say, with: () => log },
    warn: (sentence, fields) => void logged.push([sentence, fields]),
  }
  const state = { now: 1_000, refuses }
  const journal = {
    notes: async (prefix: string): Promise<Note[]> =>
      [...entries].map(([name, value]) => ({ name, value })).filter(({ name }) => name.startsWith(prefix)),
    putNote: async (name: string, value: string) => void entries.set(name, value),
    async changeNotes({ drop, put }: NoteChange) {
      const names = [...drop, ...put.map(({ name }) => name)]
      if (names.includes(entry(state.refuses))) throw new Error('no room')
      for (const name of drop) entries.delete(name)
      for (const { name, value } of put) entries.set(name, value)
    },
  }
  const clock = { now: () => state.now, sleep: async () => undefined }
  const again = (lacks: (record: JobRecord) => Missing | undefined = () => undefined) =>
    new JobTable({ journal, clock, lacks, log })
  return { table: again(), again, entries, state, logged }
}

/** As its loop does. */
async function end(table: JobTable, one: JobState, endedAt: number): Promise<void> {
  expect(await table.keep(one, { ...one.record, endedAt }, never)).toBe(true)
}

const never = new AbortController().signal

test('what was begun is found by whoever waits, also where the next order cannot be kept', async () => {
  const { table } = openTable({ refuses: 'b' })
  const found = table.next(([first]) => first, never)
  const [a, b] = [job('a'), job('b')]
  await table.start([a])
  await expect(table.start([b])).rejects.toThrow('no room')
  expect(await found).toBe(a)
  expect(table.open()).toEqual([a])
  expect(b.cancelled.signal.aborted).toBe(true)
})

test('one that cannot be kept leaves the one that ended before it where it was', async () => {
  const { table, state } = openTable()
  const ended = job('a', { endedAt: 900 })
  await table.start([ended])
  state.refuses = 'a'
  await expect(table.start([job('a')])).rejects.toThrow('no room')
  expect(table.listed()).toEqual([ended])
})

test('one that cannot be kept leaves alone the one that has taken its place meanwhile', async () => {
  const { table, state } = openTable({ refuses: 'a' })
  const refused = expect(table.start([job('a')])).rejects.toThrow('no room')
  state.refuses = ''
  const next = job('a')
  await table.start([next])
  await refused
  expect(table.open()).toEqual([next])
})

test('one that ended is told to who followed it for a minute after its end, also where the next one has its place', async () => {
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

test('one that ended is told again, for its day and over a restart, once the one in its place was cancelled', async () => {
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

test('one that ended by a clock that was ahead is not told for as long as that was', async () => {
  const { table, state } = openTable()
  const one = job('a', { endedAt: state.now + 365 * DAY_MS })
  await table.start([one])
  expect(table.listed()).toEqual([])
  await table.start([job('a')])
  expect(table.all().map(({ record }) => record.endedAt)).toEqual([undefined])
})

test('one that was cancelled is not saved again, nor cancelled twice; its entries are gone', async () => {
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

test('one that cannot be taken out of the journal is under way on, in its place too, and can be cancelled later', async () => {
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

test('one that has ended is not cancelled: it is told on, after a restart too', async () => {
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

test('after a restart all are there again; one that ended is told for a day', async () => {
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

test('one whose source is switched off is not under way: who asks hears that it waits for that, and it can be cancelled', async () => {
  const { table, again, entries, state, logged } = openTable()
  await table.start([job('a')])
  await table.start([job('b')])
  const ended = job('c', { endedAt: state.now })
  await table.start([ended])
  const next = again((record) => (nameOf({ record }) === 'b' ? undefined : 'source'))
  await next.load()
  expect(next.open().map(nameOf)).toEqual(['b'])
  expect(next.listed().map(nameOf)).toEqual(['b'])
  // Only the one that is under way: what has ended lacks nothing.
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

test('who waits for an order waits no longer than for the stop', async () => {
  const { table } = openTable()
  const stop = new AbortController()
  const found = table.next(([first]) => first, stop.signal)
  stop.abort()
  expect(await found).toBeUndefined()
})
