// State entries of jobs from earlier builds: unfinished
// jobs continue, and unreadable entries are reported.
import { expect, test } from 'vitest'
import { noCounts } from '../../../src/contracts/jobs.ts'
import { entryOf, jobOf, readEntry } from '../../../src/jobs/record.ts'
import { LogLines } from '../../fakes/sink-deps.ts'
import { stream } from '../app/audit-harness.ts'
import { idsIn, isDone, openLateHarness, pastOf, runUntil, SPAN } from './backfill-harness.ts'
import { openReadHarness, replay, replaysOf, REQUEST } from './replay-harness.ts'

const { fromUs, toUs } = SPAN
const backfillCounts = { read: 7, new: 5, known: 1, filtered: 1, quarantined: 0, gaps: 0 }
const replayCounts = { read: 7, sent: 6, filtered: 0, unknown: 2, malformed: 1, gaps: 0 }
const backfillV1 = { v: 1, stream, fromUs, toUs, begunAt: 5, counts: backfillCounts }
const asked = [SPAN, { fromUs: toUs, toUs: toUs + 9 }]
const replayV1 = {
  ...{ v: 1, sink: 'archive', stream, asked: JSON.stringify(asked), spans: [SPAN], span: 0, runAt: 5 },
  counts: replayCounts,
}
const since = { stream, startedAt: 5, endedAt: undefined, error: undefined, waitsFor: 'turn' }

test('a backfill of an earlier build keeps its span, cursor, counts and progress', () => {
  const job = readEntry(JSON.stringify({ ...backfillV1, place: 'there', atUs: 9 })) ?? expect.fail()
  expect(jobOf(job)).toEqual({
    ...{ ...since, kind: 'backfill', asked: [SPAN], spans: [SPAN], atUs: 9, unread: [] },
    counts: { ...noCounts, ...backfillCounts },
  })
  expect(job.record).toMatchObject({ place: 'there', span: 0 })
})

test('a finished backfill of an earlier build is still finished, with its unread ranges', () => {
  const unread = [{ fromUs, toUs, why: 'refused' }]
  const job = readEntry(JSON.stringify({ ...backfillV1, endedAt: 8, unread }))
  expect(job && jobOf(job)).toMatchObject({ endedAt: 8, unread })
})

test('a replay of an earlier build keeps its spans, cursor, counts and the mark of an interrupted answer', () => {
  const job = readEntry(JSON.stringify({ ...replayV1, place: 'there', voided: true })) ?? expect.fail()
  expect(jobOf(job)).toEqual({
    ...{ ...since, kind: 'replay', sink: 'archive', asked, spans: [SPAN], atUs: undefined, unread: [] },
    counts: { ...noCounts, ...replayCounts },
  })
  expect(job.record).toMatchObject({ place: 'there', span: 0, voided: true })
})

test.each([backfillV1, replayV1])('an entry is read as it was written: %o', (old) => {
  const job = readEntry(JSON.stringify({ ...old, atUs: 9 })) ?? expect.fail()
  const again = readEntry(entryOf(job, job.record).value) ?? expect.fail()
  expect(again.record).toEqual(job.record)
  expect(again.atUs).toBe(9)
})

test('an unfinished backfill and an unfinished replay of an earlier build finish, without duplicates', async () => {
  const late = await openLateHarness({}, 300)
  const zero = { read: 0, new: 0, known: 0, filtered: 0, quarantined: 0, gaps: 0 }
  await late.journal.state.put('backfill:acme:audit', JSON.stringify({ ...backfillV1, counts: zero }))
  const past = pastOf(late)
  await runUntil(late, past, isDone)
  expect((await late.ids()).toSorted()).toEqual(idsIn(late, SPAN))
  const harness = await openReadHarness({}, 300)
  const none = { read: 0, sent: 0, filtered: 0, unknown: 0, malformed: 0, gaps: 0 }
  const old = { ...replayV1, asked: JSON.stringify([SPAN]), counts: none }
  await harness.journal.state.put('replay:archive:acme:audit', JSON.stringify(old))
  const replays = replaysOf(harness)
  expect(await replay(replays, { ...REQUEST, startedAt: 6 })).toMatchObject({ startedAt: 5, isJoined: true })
  await runUntil(harness, replays, isDone)
  expect((await harness.ids()).toSorted()).toEqual(idsIn(harness, SPAN))
})

test.each([
  ['backfill', 'backfill:acme:audit'],
  ['replay', 'replay:archive:acme:audit'],
] as const)('an unreadable entry of a %s is reported, and kept', async (kind, name) => {
  const harness = await openLateHarness({}, 10)
  const text = JSON.stringify({ v: 3, kind })
  await harness.journal.state.put(name, text)
  const log = new LogLines()
  const jobs = pastOf({ ...harness, log })
  expect(await jobs.all(kind)).toEqual([])
  const report = new RegExp(`^A ${kind} in the journal cannot be read: .*start it again.*${name}`)
  expect(log.lines).toEqual([expect.stringMatching(report)])
  expect(await harness.journal.state.get(name)).toBe(text)
})
