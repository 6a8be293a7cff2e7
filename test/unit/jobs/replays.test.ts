// Replays from the API: whole and nothing twice at the one sink, marked, over restarts, in the middle of a page too; live reading does not notice.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Note, NoteChange } from '../../../src/contracts/records.ts'
import { noCounts } from '../../../src/contracts/jobs.ts'
import type { Job } from '../../../src/contracts/jobs.ts'
import { stateOf } from '../../../src/jobs/record.ts'
import { markOf, marksIn, SentPages } from '../../../src/jobs/sent-pages.ts'
import { replayStatusOf } from '../../../src/observability/status.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { DAY, MINUTE, openDesk, stream, START } from '../app/desk.ts'
import type { Desk } from '../app/desk.ts'
import { fillPast, idsIn, isDone, rangeOn, runUntil, SPAN, TODAY } from './backfill-desk.ts'
import { ARCHIVE, forget, openReadDesk, replay, replaysOf, REQUEST } from './replay-desk.ts'

const everything = { maxEntries: 1e6, maxBytes: 2 ** 30 }
const counts = ([one]: readonly Job[]) => one?.counts

test('a span that the journal no longer keeps comes again once, as its bytes, marked; live reading stays where it was', async () => {
  const desk = await openReadDesk({}, 4_000)
  expect(await desk.journal.take('archive', everything)).toBeUndefined()
  const [cursor, kept] = [
    await desk.journal.cursor(stream),
    await desk.journal.counts({ fromDay: 0, toDay: 1e6 }),
  ]
  const replays = replaysOf(desk)
  expect(await replay(replays)).toMatchObject({ ...REQUEST, endedAt: undefined })
  await runUntil(desk, replays, isDone)
  const wanted = desk.mock.entries().filter(({ atUs }) => atUs >= SPAN.fromUs && atUs < SPAN.toUs)
  const slices = (await desk.journal.take('archive', everything))?.slices ?? []
  for (const run of slices)
    expect(run).toMatchObject({ replay: true, onlySink: 'archive', appendedAt: 77_000 })
  expect(await desk.raws()).toEqual(wanted.map(({ raw }) => Buffer.from(raw).toString()))
  expect(await desk.journal.cursor(stream)).toBe(cursor)
  expect(await desk.journal.counts({ fromDay: 0, toDay: 1e6 })).toEqual(kept)
  const sent = wanted.length
  expect(counts(replays.list())).toEqual({
    ...{ ...noCounts, read: sent, sent },
  })
  expect(desk.reporter.gaps).toBe(0)
  const told = { workspace: 'acme', source: 'audit', sink: 'archive', state: 'done', progress: 1 }
  expect(replays.list().map(replayStatusOf)).toEqual([
    expect.objectContaining({ ...told, sent_entries: sent }),
  ])
})

test('it goes on after a restart where it stood, and nothing comes twice', async () => {
  const desk = await openReadDesk({ limit: 20, switches: { page_cap: 100 } }, 5_000)
  const first = replaysOf(desk)
  await replay(first)
  await runUntil(desk, first, (told) => (counts(told)?.read ?? 0) > 1_000)
  desk.asked()
  const second = replaysOf(desk)
  const found = await second.all('replay')
  const before = counts(found)?.read ?? 0
  expect(before).toBeGreaterThan(1_000)
  expect(found[0]?.atUs).toBeGreaterThan(SPAN.fromUs)
  // No page back: it was kept with how far it went.
  expect(found[0]?.atUs).toBe(first.list()[0]?.atUs)
  await runUntil(desk, second, isDone)
  expect(await desk.ids()).toEqual(inOrder(desk))
  // The rest, and not all of it again.
  expect(desk.asked().length).toBeLessThan((inOrder(desk).length - before) / 100 + 5)
})

test('the same replay that is begun right behind a restart is joined, whether or not the old one is read on yet', async () => {
  const desk = await openReadDesk({}, 100)
  await replay(replaysOf(desk))
  const next = replaysOf(desk)
  expect(await replay(next, { ...REQUEST, startedAt: 88_000 })).toMatchObject({
    isJoined: true,
    startedAt: 77_000,
  })
})

test('a page that is whole leaves nothing remembered: neither marks nor names of notes', async () => {
  const changes: NoteChange[] = []
  const journal = { notes: async () => [], changeNotes: async () => undefined }
  const asked = { asked: [SPAN], spans: [SPAN], span: 0, counts: noCounts, unread: [] }
  const job = stateOf({ v: 2, kind: 'replay', ...REQUEST, ...asked })
  const { record } = job
  const pages = new SentPages({ journal, open: () => [job], mostMarks: undefined })
  const mark = 'm'.repeat(16)
  const land = (isWhole: boolean) =>
    pages.land(job, { record, marks: [mark], isWhole }, async (notes) => void changes.push(notes))
  await land(false)
  expect([job.sent.size, job.pageEntries.length]).toEqual([1, 1])
  const names = job.pageEntries
  await land(true)
  expect(changes.at(-1)?.drop).toEqual(names)
  expect([job.sent.size, job.pageEntries.length]).toEqual([0, 0])
  await land(true)
  expect(changes.at(-1)?.drop).toEqual([])
})

test.each([1, 2, 3])(
  'a page that is broken off by death after %i of its parts is read again, and none of its entries comes twice',
  async (parts) => {
    const desk = await openHugeDesk()
    let landed = 0
    const dying = withMethods(desk.journal, {
      resend: async (again) => {
        if (landed++ >= parts) throw new Error('death')
        await desk.journal.resend(again)
      },
    })
    const first = replaysOf(desk, { journal: dying })
    await replay(first)
    await expect(runUntil(desk, first, isDone)).rejects.toThrow('death')
    const sent = (await desk.ids()).length
    expect(sent).toBeGreaterThan(0)
    expect(sent).toBeLessThan(1_000)
    const second = replaysOf(desk)
    expect(counts(await second.all('replay'))?.sent).toBe(sent)
    await runUntil(desk, second, isDone)
    expect(await desk.ids()).toEqual(inOrder(desk))
    expect(counts(second.list())).toMatchObject({ read: 1_500, sent: 1_500, unknown: 0 })
    expect(await desk.journal.notes('replay-page:', 10)).toEqual([])
  },
)

test.each([
  ['once', [2]],
  ['until it is asked for in smaller pieces', [2, 3, 4]],
])(
  'a page of which parts were sent and whose answer then breaks off is read again, and none of its entries comes twice: %s',
  async (_, nth) => {
    const desk = await openHugeDesk(24_000)
    breakOff(desk, nth)
    const replays = replaysOf(desk)
    await replay(replays)
    await runUntil(desk, replays, isDone)
    expect(desk.asked().flatMap(({ faults }) => faults)).toEqual(nth.map(() => 'truncated'))
    expect(await desk.ids()).toEqual(inOrder(desk))
    expect(counts(replays.list())).toMatchObject({ read: 1_500, sent: 1_500, gaps: 0 })
    expect(await desk.journal.notes('replay-page:', 10)).toEqual([])
  },
)

test('all replays together remember no more of what they sent than the bound, and each comes to its end', async () => {
  const desk = await openHugeDesk(24_000)
  const other = { workspace: 'other', source: 'audit' } as const
  const ranges = [rangeOn(desk, ['*']), { ...rangeOn(desk, ['*']), stream: other }]
  let most = 0
  const journal = withMethods(desk.journal, {
    resend: async (again) => {
      await desk.journal.resend(again)
      const notes = await desk.journal.notes('replay-page:', 1e6)
      most = Math.max(
        most,
        notes.reduce((sum, { value }) => sum + marksIn(value).length, 0),
      )
    },
  })
  const replays = replaysOf(desk, { journal, ranges, mostMarks: 300 })
  await replay(replays)
  await replay(replays, { ...REQUEST, stream: other })
  await runUntil(desk, replays, (told) => told.every(({ endedAt }) => endedAt !== undefined))
  expect(replays.list().map((one) => one.counts.sent)).toEqual([1_500, 1_500])
  expect(most).toBe(300)
})

test('only what was sent is noted, and after a restart in the middle of a broken page it is known', async () => {
  const desk = await openHugeDesk(24_000)
  breakOff(desk, [2, 3, 4])
  const notes: Note[] = []
  const journal = withMethods(desk.journal, {
    resend: async (again) => {
      notes.push(...again.notes.put.filter(({ name }) => name.startsWith('replay-page:')))
      await desk.journal.resend(again)
    },
  })
  const first = replaysOf(desk, { journal })
  await replay(first)
  await runUntil(desk, first, (told) => (counts(told)?.read ?? 0) > 0)
  const second = replaysOf(desk, { journal })
  await second.all('replay')
  await runUntil(desk, second, isDone)
  expect(await desk.ids()).toEqual(inOrder(desk))
  // Each by a name of its own, and none where a part showed nothing new.
  expect(notes.length).toBeGreaterThan(1)
  expect(new Set(notes.map(({ name }) => name)).size).toBe(notes.length)
  expect(notes.map(({ value }) => value)).not.toContain('')
})

test('what a replay before it left behind hides nothing from the next one', async () => {
  const desk = await openReadDesk({}, 500)
  const first = replaysOf(desk)
  await replay(first)
  await runUntil(desk, first, isDone)
  const batch = await desk.journal.take('archive', everything)
  const marks = batch?.slices.flatMap(({ entries }) =>
    Array.from({ length: entries.count }, (_, i) => markOf(entries, i)),
  )
  await forget(desk)
  await desk.journal.putNote('replay-page:archive:acme:audit:000007', marks?.join('') ?? '')
  const second = replaysOf(desk)
  await replay(second, { ...REQUEST, startedAt: 78_000 })
  expect(await desk.journal.notes('replay-page:', 10)).toHaveLength(0)
  // Not from the journal's notes either, after a restart.
  const third = replaysOf(desk)
  await third.all('replay')
  await runUntil(desk, third, isDone)
  expect(await desk.ids()).toEqual(inOrder(desk))
})

test('what the daemon never saw is sent, counted, and stays new to live reading', async () => {
  const desk = await openReadDesk({}, 500)
  const lost = desk.mock.add({ at: TODAY - 2 * DAY + 1000, visibleAt: 0 })
  const replays = replaysOf(desk)
  await replay(replays)
  await runUntil(desk, replays, isDone)
  expect(counts(replays.list())?.unknown).toBe(1)
  const batch = await desk.journal.take('archive', everything)
  expect(await desk.ids()).toContain(lost.id)
  const entries = batch?.slices.map(({ entries: each }) => each) ?? []
  const known = await Promise.all(entries.map((each) => desk.journal.known(stream, each)))
  expect(known.flatMap((each) => [...each]).filter((each) => each === 0)).toHaveLength(1)
})

test('what live reading has not come to is not sent: it comes anyway', async () => {
  const desk = await openReadDesk({}, 1_000)
  const readTo = (TODAY - 2 * DAY) * 1000
  const replays = replaysOf(desk, { readTo: async () => readTo })
  await replay(replays)
  await runUntil(desk, replays, isDone)
  expect((await desk.ids()).sort()).toEqual(idsIn(desk, { fromUs: SPAN.fromUs, toUs: readTo + 1 }))
})

test('the newest entry that live reading has read is sent', async () => {
  const desk = await openReadDesk({}, 1_000)
  const newest = inOrder(desk).at(500)
  const readTo = desk.mock.entries().find(({ id }) => id === newest)?.atUs
  const replays = replaysOf(desk, { readTo: async () => readTo })
  await replay(replays)
  await runUntil(desk, replays, isDone)
  expect((await desk.ids()).at(-1)).toBe(newest)
})

test('nothing that is still to come is sent, though live reading has read an entry dated ahead: what comes meanwhile is new to every sink', async () => {
  const desk = await openReadDesk({}, 10)
  const replays = replaysOf(desk, { readTo: async () => (START + MINUTE) * 1000 })
  const { spans } = await replay(replays, {
    ...REQUEST,
    spans: [{ ...SPAN, toUs: (START + DAY) * 1000 }],
    dryRun: true,
  })
  expect(spans).toEqual([{ fromUs: SPAN.fromUs, toUs: START * 1000 }])
})

test('of several of one source the one that was asked for first is read first, over a restart too', async () => {
  const desk = await openReadDesk({}, 10)
  const sinks = [ARCHIVE, { ...ARCHIVE, name: 'older' }]
  const before = replaysOf(desk, { sinks })
  await replay(before, { ...REQUEST, sink: 'older', startedAt: 76_000 })
  await replay(before)
  const taken: string[] = []
  const journal = withMethods(desk.journal, { resend: async ({ sink }) => void taken.push(sink) })
  const replays = replaysOf(desk, { sinks, journal })
  await replays.all('replay')
  await runUntil(desk, replays, isDone)
  expect([...new Set(taken)]).toEqual(['older', 'archive'])
})

test('several spans are read one after the other, and nothing between them', async () => {
  const desk = await openReadDesk({}, 2_000)
  const day = (ago: number) => ({
    fromUs: (TODAY - ago * DAY) * 1000,
    toUs: (TODAY - (ago - 1) * DAY) * 1000,
  })
  const replays = replaysOf(desk)
  await replay(replays, { ...REQUEST, spans: [day(3), day(1)] })
  await runUntil(desk, replays, isDone)
  expect((await desk.ids()).sort()).toEqual([...idsIn(desk, day(3)), ...idsIn(desk, day(1))].sort())
})

test('types that are not wanted are counted and not sent; what is malformed is counted once', async () => {
  const desk = await openDesk()
  fillPast(desk, 300)
  desk.mock.add({ at: TODAY - DAY - 1000, visibleAt: 0, defect: 'no_id' })
  const replays = replaysOf(desk, { types: ['auth:*'] })
  await replay(replays)
  await runUntil(desk, replays, isDone)
  const { read = 0, sent = 0, filtered = 0, malformed } = counts(replays.list()) ?? {}
  expect((await desk.ids()).length).toBe(sent)
  expect(filtered).toBeGreaterThan(0)
  expect(malformed).toBe(1)
  expect(read).toBe(sent + filtered + 1)
  expect(desk.journal.stats().quarantined).toBe(0)
})

test('one that is cancelled in the middle of a page ends, and comes back neither with that page nor with a restart', async () => {
  const desk = await openReadDesk({}, 2_000)
  const landing = withMethods(desk.journal, {
    known: async (of, entries) => {
      const known = await desk.journal.known(of, entries)
      if (entries.count > 0) expect(await replays.cancel('replay', { sink: 'archive' })).toBeLessThan(2)
      return known
    },
  })
  const replays = replaysOf(desk, { journal: landing })
  await replay(replays)
  expect(await replays.cancel('replay', { sink: 'siem' })).toBe(0)
  await runUntil(desk, replays, (told) => told.length === 0)
  expect(await replaysOf(desk).all('replay')).toEqual([])
  expect(await desk.journal.notes('replay', 10)).toEqual([])
})

test.each([
  ['source', { ranges: [] }],
  ['sink', { sinks: [{ ...ARCHIVE, name: 'other' }] }],
  ['sources', { sinks: [{ ...ARCHIVE, sources: ['history.usage' as const] }] }],
] as const)(
  'one whose %s is gone over a restart is told as waiting for it, and can be cancelled with all its notes',
  async (what, left) => {
    const desk = await openReadDesk({}, 100)
    await replay(replaysOf(desk))
    await desk.journal.putNote('replay-page:archive:acme:audit:000007', 'x')
    const replays = replaysOf(desk, left)
    expect(await replays.all('replay')).toMatchObject([
      { sink: 'archive', endedAt: undefined, waitsFor: what },
    ])
    expect(replays.list()).toEqual([])
    expect(await replays.cancel('replay', { sink: 'other' })).toBe(0)
    expect(await replays.cancel('replay', { sink: 'archive' })).toBe(1)
    expect(await replays.all('replay')).toEqual([])
    expect(await desk.journal.notes('replay', 10)).toEqual([])
  },
)

test('a disk too full for the notes of its end stops neither the replay nor the process', async () => {
  const desk = await openReadDesk({}, 100)
  let refused = 0
  const full = withMethods(desk.journal, {
    putNote: async (name, value) => {
      // That a span is read, and that all are.
      if (++refused % 3 !== 0) throw new ConnectorError('disk_full', 'no room for a note')
      await desk.journal.putNote(name, value)
    },
  })
  const replays = replaysOf(desk, { journal: full })
  const middle = (TODAY - 2 * DAY) * 1000
  const halves = [
    { fromUs: SPAN.fromUs, toUs: middle },
    { fromUs: middle, toUs: SPAN.toUs },
  ]
  await replay(replays, { ...REQUEST, spans: halves })
  await runUntil(desk, replays, ([one]) => one?.error?.code === 'disk_full')
  await runUntil(desk, replays, isDone)
  expect(refused).toBe(6)
  expect(replays.list()).toMatchObject([{ error: undefined, counts: { sent: idsIn(desk, SPAN).length } }])
})

test('one that is cancelled while a part of a page is on its way into the journal leaves no note of that page', async () => {
  const desk = await openHugeDesk()
  let cancelled: Promise<number> | undefined
  const landing = withMethods(desk.journal, {
    resend: async (again) => {
      if (again.notes.put.some(({ name }) => name.startsWith('replay-page:')))
        cancelled ??= replays.cancel('replay', { sink: 'archive' })
      await desk.journal.resend(again)
    },
  })
  const replays = replaysOf(desk, { journal: landing })
  await replay(replays)
  await runUntil(desk, replays, (told) => told.length === 0)
  expect(await cancelled).toBe(1)
  expect(await desk.journal.notes('replay', 10)).toEqual([])
})

test('one that is begun while its like is being cancelled keeps the notes of its pages', async () => {
  const desk = await openReadDesk({}, 10)
  const page = { name: 'replay-page:archive:acme:audit:000000', value: '' }
  let next: Promise<unknown> | undefined
  const journal = withMethods(desk.journal, {
    changeNotes: async (change) => {
      await desk.journal.changeNotes(change)
      if (change.put.length > 0 || next) return
      next = replay(replays, { ...REQUEST, startedAt: 78_000 })
      await next
      await desk.journal.putNote(page.name, page.value)
    },
  })
  const replays = replaysOf(desk, { journal })
  await replay(replays)
  expect(await replays.cancel('replay', { sink: 'archive' })).toBe(1)
  expect(replays.list()).toMatchObject([{ startedAt: 78_000 }])
  expect(await desk.journal.notes('replay-page:', 10)).toEqual([page])
})

test('the same order is joined, another is refused while the first is under way, and so is what is not there', async () => {
  const desk = await openReadDesk({}, 10)
  const replays = replaysOf(desk)
  const first = await replay(replays)
  expect(await replay(replays, { ...REQUEST, startedAt: 78_000 })).toEqual({ ...first, isJoined: true })
  const other = { ...REQUEST, spans: [{ fromUs: SPAN.fromUs, toUs: START * 1000 }] }
  await expect(replay(replays, other)).rejects.toThrow('over another span is under way')
  await expect(replay(replays, { ...REQUEST, sink: 'siem' })).rejects.toThrow('There is no sink siem')
  const usage = { workspace: 'acme', source: 'history.usage' } as const
  await expect(replay(replays, { ...REQUEST, stream: usage })).rejects.toThrow('is not switched on')
  await runUntil(desk, replays, isDone)
  expect(await replay(replays, other)).toMatchObject({ endedAt: undefined })
})

test('of several streams all start or none: also where one is over another span, or the journal has no room', async () => {
  const desk = await openReadDesk({}, 10)
  const other = { workspace: 'other', source: 'audit' } as const
  const ranges = [rangeOn(desk), { ...rangeOn(desk), stream: other }]
  let isFull = false
  const journal = withMethods(desk.journal, {
    changeNotes: async (change) => {
      if (isFull) throw new ConnectorError('disk_full', 'no room')
      await desk.journal.changeNotes(change)
    },
  })
  const replays = replaysOf(desk, { ranges, journal })
  const first = await replay(replays, {
    ...REQUEST,
    stream: other,
    spans: [{ ...SPAN, toUs: SPAN.toUs - 1 }],
  })
  const reads = [stream, other].map((one) => ({ stream: one, spans: [SPAN] }))
  const both = { sink: 'archive', startedAt: 88_000, reads }
  await expect(replays.replay(both)).rejects.toThrow('other audit to archive over another span is under way')
  expect(replays.list()).toEqual([first])
  expect(await replays.cancel('replay', { workspace: 'other' })).toBe(1)
  isFull = true
  await expect(replays.replay(both)).rejects.toThrow('no room')
  expect(replays.list()).toEqual([])
  isFull = false
  expect(await replays.replay(both)).toMatchObject([{ stream }, { stream: other }])
  expect(await replaysOf(desk, { ranges }).all('replay')).toHaveLength(2)
})

test('half of the journal is left to live reading: it waits there and goes on when there is room', async () => {
  const desk = await openReadDesk({}, 500)
  let bytes = 500
  const journal = withMethods(desk.journal, {
    stats: () => ({ ...desk.journal.stats(), bytes, capacityBytes: 1000 }),
  })
  const replays = replaysOf(desk, { journal })
  await replay(replays)
  await runUntil(desk, replays, () => desk.clock.now() > START + 2 * MINUTE)
  expect(replays.list()[0]).toMatchObject({ waitsFor: 'room', counts: { read: 0 } })
  expect(replays.list().map(replayStatusOf)).toMatchObject([{ state: 'waiting', progress: null }])
  bytes = 499
  const next = replaysOf(desk, { journal })
  await runUntil(desk, next, isDone)
  expect(counts(next.list())?.sent).toBe(idsIn(desk, SPAN).length)
})

test('an answer that is larger than what is left stops at half of the journal too, and goes on with nothing twice', async () => {
  const desk = await openHugeDesk(24_000)
  let put = 0
  let most = 0
  let capacityBytes = 8e6
  const journal = withMethods(desk.journal, {
    stats: () => ({ ...desk.journal.stats(), bytes: put, capacityBytes }),
    resend: async (again) => {
      most = Math.max(most, put)
      for (let i = 0; i < again.entries.count; i++) put += again.entries.raw(i).length
      await desk.journal.resend(again)
    },
  })
  const replays = replaysOf(desk, { journal })
  await replay(replays)
  await runUntil(desk, replays, () => desk.clock.now() > START + 2 * MINUTE)
  expect(most).toBeLessThan(capacityBytes / 2)
  expect(replays.list()[0]).toMatchObject({ endedAt: undefined, waitsFor: 'room', error: undefined })
  capacityBytes = 1e9
  await runUntil(desk, replays, isDone)
  expect(await desk.ids()).toEqual(inOrder(desk))
})

test('an order that could not be kept was not begun', async () => {
  const desk = await openReadDesk({}, 10)
  let failing = true
  const journal = withMethods(desk.journal, {
    changeNotes: async (change) => {
      if (failing) throw new Error('no room')
      await desk.journal.changeNotes(change)
    },
  })
  const replays = replaysOf(desk, { journal })
  await expect(replay(replays)).rejects.toThrow('no room')
  expect(replays.list()).toEqual([])
  failing = false
  await replay(replays, { ...REQUEST, startedAt: 78_000 })
  await runUntil(desk, replays, isDone)
  expect(replays.list()[0]?.startedAt).toBe(78_000)
})

test('one begun again at the very instant at which its like was cancelled has none of its pages', async () => {
  const desk = await openReadDesk({}, 2_000)
  let landing = false
  const journal = withMethods(desk.journal, {
    known: async (of, entries) => {
      const known = await desk.journal.known(of, entries)
      if (landing || entries.count === 0) return known
      landing = true
      await replays.cancel('replay', { sink: 'archive' })
      await replay(replays)
      return known
    },
  })
  const replays = replaysOf(desk, { journal })
  await replay(replays)
  await runUntil(desk, replays, isDone)
  expect(await desk.ids()).toEqual(inOrder(desk))
})

test('a key that is refused is told, tried again, and the replay goes on when it is good', async () => {
  const desk = await openReadDesk({}, 100)
  desk.mock.setFault('unauthorized', 1)
  const replays = replaysOf(desk)
  await replay(replays)
  await runUntil(desk, replays, ([one]) => one?.error !== undefined)
  expect(replays.list()[0]?.error?.code).toBe('unauthorized')
  desk.mock.setFault('unauthorized', undefined)
  await runUntil(desk, replays, isDone)
  expect(replays.list()[0]).toMatchObject({ error: undefined })
})

test.each(['no JSON', 'null', '{"v":2}', '{"v":1}'])(
  'a note that is damaged or of another version is as good as none: %s',
  async (note) => {
    const desk = await openReadDesk({}, 10)
    await desk.journal.putNote('replay:archive:acme:audit', note)
    expect(await replaysOf(desk).all('replay')).toEqual([])
  },
)

/** Two pages of the past, each an answer that comes in parts. */
async function openHugeDesk(entryBytes = 12_000): Promise<Desk> {
  const desk = await openDesk({ switches: { huge_bytes: entryBytes } })
  for (let i = 0; i < 1_500; i++) desk.mock.add({ at: TODAY - DAY + i * 1000, visibleAt: 0, defect: 'huge' })
  await desk.drain()
  await forget(desk)
  return desk
}

/** The answers with these numbers, from now on, end in the middle. */
function breakOff(desk: Desk, numbers: readonly number[]): void {
  const before = desk.asked().length
  desk.mock.setFault('truncated', { nth: numbers.map((number) => before + number) })
}

function inOrder(desk: Desk): string[] {
  const within = desk.mock.entries().filter(({ atUs }) => atUs >= SPAN.fromUs && atUs < SPAN.toUs)
  return within.map(({ id }) => id)
}
