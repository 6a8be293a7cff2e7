// Reading as a step: what lands, what an error means, and how long the loop waits for it.
import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { runIngest, ingestOnce } from '../../../src/ingest/loop.ts'
import type { IngestOptions } from '../../../src/ingest/loop.ts'
import { openReadTimes } from '../../../src/ingest/read-times.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { ErrorCode } from '../../../src/core/errors.ts'
import type { Cursor, PageChunk, Source } from '../../../src/contracts/source.ts'
import type { Recalled } from '../../../src/contracts/reporter.ts'
import { silentReporter } from '../../../src/contracts/reporter.ts'
import { partOf } from '../../../src/sources/shared.ts'
import { entriesOf, spec } from '../../contract/journal-parts.ts'
import { SourceNotes } from '../../fakes/reporters.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { never, openRig, START } from '../delivery/rig.ts'
import type { Rig } from '../delivery/rig.ts'
import { driven } from '../app/audit-harness.ts'

const MINUTE = 60_000
const stream = { workspace: 'acme', source: 'audit' } as const
const nothingRead = {
  ...{ stream, entries: entriesOf([]), quarantined: [], findings: [], headUs: undefined, gaps: 0 },
}

function page(from: number, count: number, more: Partial<PageChunk> = {}): PageChunk {
  return partOf({ entries: entriesOf(Array.from({ length: count }, (_, i) => spec(from + i))), ...more })
}

/** Reads what `read` yields; says whether each read was closed. */
class FakeSource implements Source {
  readonly stream = stream
  readonly starts: (Cursor | undefined)[] = []
  readonly times: number[] = []
  closed = 0
  caughtUp = false
  dueAt = 0
  pages: (cursor: Cursor | undefined) => Iterable<PageChunk>
  now: () => number = () => 0

  constructor(pages: (cursor: Cursor | undefined) => Iterable<PageChunk>) {
    this.pages = pages
  }

  plan = () => ({ dueAt: this.dueAt, priority: 'live' as const, caughtUp: this.caughtUp })

  async *read(cursor: Cursor | undefined) {
    this.starts.push(cursor)
    this.times.push(this.now())
    try {
      for (const part of this.pages(cursor)) yield part
      this.dueAt = this.now() + MINUTE
    } finally {
      this.closed++
    }
  }
}

function collectorOf(rig: Rig, source: FakeSource, more: Partial<IngestOptions> = {}) {
  const reporter = new SourceNotes()
  source.now = () => rig.clock.now()
  const collector: IngestOptions = {
    source,
    journal: rig.journal,
    reporter,
    log: rig.log,
    clock: rig.clock,
    random: () => 0.5,
    wanted: () => true,
    once: false,
    ...more,
  }
  return { collector, reporter }
}

async function pass(rig: Rig, until: number): Promise<void> {
  for (;;) {
    await settled()
    if (!rig.clock.advance(until)) return
  }
}

it('a page of several chunks lands chunk by chunk, and the cursor with the last', async () => {
  const rig = await openRig()
  const source = new FakeSource(function* () {
    yield page(1, 3)
    expect(rig.journal.stats().entries).toBe(3)
    yield page(4, 3, { cursor: 'six' })
  })
  const { collector, reporter } = collectorOf(rig, source)
  expect((await ingestOnce(collector, undefined, never)).cursor).toBe('six')
  expect(await rig.journal.cursor(stream)).toBe('six')
  expect([reporter.sum('added'), reporter.successes, source.closed]).toEqual([6, 1, 1])
})

it('after each chunk that it keeps, reading yields to deliveries that are close behind', async () => {
  const rig = await openRig()
  const source = new FakeSource(() => [page(1, 3), page(4, 3, { cursor: 'six' })])
  const { collector } = collectorOf(rig, source)
  const journal = withMethods(rig.journal, {
    pressure: () => ({ ...rig.journal.pressure(), bytes: 6 * 1024 * 1024 }),
  })
  await driven(rig.clock, ingestOnce({ ...collector, journal }, undefined, never))
  expect(rig.clock.now() - START).toBe(50)
})

it('a read that moves no cursor keeps the one it began with', async () => {
  const rig = await openRig()
  const source = new FakeSource(() => [page(1, 3)])
  expect((await ingestOnce(collectorOf(rig, source).collector, 'here', never)).cursor).toBe('here')
})

it('a failure in the middle of a page keeps its chunks and the old cursor, and reading again adds no duplicates', async () => {
  const rig = await openRig()
  let broken = true
  const source = new FakeSource(function* () {
    yield page(1, 3)
    if (broken) throw new ConnectorError('unreachable', 'cut')
    yield page(4, 3, { cursor: 'six' })
  })
  const { collector, reporter } = collectorOf(rig, source)
  await expect(ingestOnce(collector, 'zero', never)).rejects.toMatchObject({ code: 'unreachable' })
  expect(await rig.journal.cursor(stream)).toBeUndefined()
  broken = false
  await ingestOnce(collector, 'zero', never)
  expect(rig.journal.stats().entries).toBe(6)
  expect(reporter.sum('known')).toBe(3)
})

function remembering(rig: Rig, source: FakeSource) {
  const notes = new SourceNotes()
  const reported = {
    ...silentReporter,
    caughtUp: () => notes.caughtUp(),
    recalled: (last: Recalled) => notes.recalled(last),
  }
  const reads = openReadTimes(stream, reported, { state: rig.journal.state, clock: rig.clock })
  return { notes, reads, ...collectorOf(rig, source, { reads, reporter: reads.reporter }) }
}

it('the time of the last successful read lands with its last chunk, and the next process reports it', async () => {
  const rig = await openRig()
  const source = new FakeSource(() => [page(1, 3), page(4, 3, { cursor: 'six' })])
  const first = remembering(rig, source)
  first.reads.reporter.caughtUp()
  await ingestOnce(first.collector, undefined, never)
  expect(first.notes.caughtUps).toBe(1)
  const next = remembering(rig, source)
  await next.reads.recall()
  expect(next.notes.recalls).toEqual([{ readAt: START, caughtUpAt: START, gapAt: 0 }])
  // What was known of being caught up survives to the process after that.
  await ingestOnce(next.collector, 'six', never)
  expect(await rig.journal.state.get('read:acme:audit')).toBe(`${START} ${START}`)
})

it.each([
  ['began and failed', [page(1, 0, { cursor: 'begun', underWay: true })]],
  ['was bad', [page(1, 3, { cursor: 'three', fault: new ConnectorError('bad_reply', 'bad') })]],
  [
    'was bad before its end',
    [page(1, 3, { fault: new ConnectorError('bad_reply', 'bad') }), page(4, 1, { cursor: 'four' })],
  ],
])('a read that %s is kept as no success', async (_what, pages) => {
  const rig = await openRig()
  const source = new FakeSource(function* () {
    yield* pages
    throw new ConnectorError('unreachable', 'cut')
  })
  const { collector, reads, notes } = remembering(rig, source)
  await expect(ingestOnce(collector, undefined, never)).rejects.toThrow()
  await reads.recall()
  expect(notes.recalls).toEqual([{ readAt: 0, caughtUpAt: 0, gapAt: 0 }])
})

it.each([`${START + MINUTE} 0`, 'not a time', ''])(
  'a stored success of %j counts for nothing',
  async (value) => {
    const rig = await openRig()
    await rig.journal.state.put('read:acme:audit', value)
    const { reads, notes } = remembering(rig, new FakeSource(() => []))
    await reads.recall()
    expect(notes.recalls).toEqual([{ readAt: 0, caughtUpAt: 0, gapAt: 0 }])
  },
)

it('the time of a gap lands with it, in a bad page too', async () => {
  const rig = await openRig()
  const fault = new ConnectorError('bad_reply', 'bad')
  const source = new FakeSource(() => [page(1, 1, { gaps: 1, cursor: 'one', fault })])
  const { collector, reads, notes } = remembering(rig, source)
  expect((await ingestOnce(collector, undefined, never)).fault).toBe(fault)
  await reads.recall()
  expect(notes.recalls).toEqual([{ readAt: 0, caughtUpAt: 0, gapAt: START }])
})

it('a page that cannot be kept is dropped and its request closed', async () => {
  const rig = await openRig(['archive'], 100)
  await rig.append(5)
  const source = new FakeSource(() => [page(100, 3), page(103, 3, { cursor: 'on' })])
  const { collector } = collectorOf(rig, source)
  await expect(ingestOnce(collector, undefined, never)).rejects.toMatchObject({ code: 'journal_full' })
  expect(source.closed).toBe(1)
})

it('a bad page still moves its cursor and is reported', async () => {
  const rig = await openRig()
  const fault = new ConnectorError('bad_reply', 'no JSON')
  const source = new FakeSource(() => [page(1, 0, { cursor: 'tried once', fault })])
  const { collector, reporter } = collectorOf(rig, source)
  expect(await ingestOnce(collector, undefined, never)).toEqual({ cursor: 'tried once', fault })
  expect(await rig.journal.cursor(stream)).toBe('tried once')
  expect(reporter.successes).toBe(0)
})

/** From which cursors the loop's first two reads began. */
async function firstStarts(source: FakeSource): Promise<(Cursor | undefined)[]> {
  const rig = await openRig()
  const stopping = new AbortController()
  const loop = runIngest(collectorOf(rig, source).collector, stopping.signal)
  await pass(rig, START + 90_000)
  stopping.abort()
  await loop
  return source.starts.slice(0, 2)
}

it('the loop continues from the cursor of a bad page', async () => {
  const source = new FakeSource((cursor) => [
    cursor === undefined
      ? page(1, 0, { cursor: 'tried once', fault: new ConnectorError('bad_reply', 'no JSON') })
      : page(1, 1, { cursor: 'good' }),
  ])
  expect(await firstStarts(source)).toEqual([undefined, 'tried once'])
})

it('after a read that failed once a part of it had landed, the loop continues from the cursor of that part', async () => {
  const source = new FakeSource(function* (cursor) {
    yield page(1, 0, { cursor: cursor === undefined ? 'the start' : 'later', underWay: true })
    throw new ConnectorError('unreachable', 'gone')
  })
  expect(await firstStarts(source)).toEqual([undefined, 'the start'])
})

it('the loop starts at the journal’s cursor', async () => {
  const rig = await openRig()
  const first = new FakeSource(() => [page(1, 1, { cursor: 'here' })])
  await ingestOnce(collectorOf(rig, first).collector, undefined, never)
  const source = new FakeSource(() => [page(2, 1, { cursor: 'there' })])
  source.dueAt = START
  const stopping = new AbortController()
  const { collector } = collectorOf(rig, source)
  const loop = runIngest(collector, stopping.signal)
  await settled()
  stopping.abort()
  await loop
  expect(source.starts[0]).toBe('here')
})

it('nothing is read before it is due, and `once` ends when all is read', async () => {
  const rig = await openRig()
  const source = new FakeSource(() => [page(1, 1, { cursor: 'on' })])
  source.dueAt = START + MINUTE
  const { collector, reporter } = collectorOf(rig, source, { once: true })
  const loop = runIngest(collector, never)
  await pass(rig, START + MINUTE - 1)
  expect(source.starts).toEqual([])
  expect(reporter.states).toEqual(['idle'])
  source.caughtUp = true
  await pass(rig, START + MINUTE)
  await loop
})

async function waitsOf(code: ErrorCode, retryAfterMs?: number) {
  const rig = await openRig()
  const source = new FakeSource(() => {
    throw new ConnectorError(code, `says ${code}`, retryAfterMs === undefined ? {} : { retryAfterMs })
  })
  const { collector, reporter } = collectorOf(rig, source)
  const stopping = new AbortController()
  const loop = runIngest(collector, stopping.signal)
  await pass(rig, START + 60 * MINUTE)
  stopping.abort()
  await loop
  const waits = source.times.slice(1).map((at, i) => at - (source.times[i] ?? 0))
  const reported = reporter.triesInMs.slice(0, waits.length)
  return {
    waits,
    reported,
    states: new Set(reporter.states),
    logged: rig.log.lines.length,
    lines: rig.log.lines,
  }
}

it.each<[ErrorCode, string, number, number]>([
  ['unreachable', 'failing', 750, 300_000],
  ['server_error', 'failing', 750, 300_000],
  ['timeout', 'failing', 750, 300_000],
  ['bad_reply', 'failing', 750, 5_000],
  ['unauthorized', 'blocked', 7_500, 60_000],
  ['forbidden', 'blocked', 7_500, 60_000],
  ['redirected', 'blocked', 7_500, 60_000],
  ['tls_invalid', 'blocked', 7_500, 60_000],
])(
  '%s: the source is %s and retries after at least %i ms and at most %i ms',
  async (code, state, least, most) => {
    const { waits, reported, states, logged } = await waitsOf(code)
    expect(states).toEqual(new Set([state]))
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(least)
    expect(Math.max(...waits)).toBeLessThanOrEqual(most)
    expect(waits.at(-1)).toBeGreaterThan(least)
    expect(reported).toEqual(waits)
    expect(logged).toBeLessThan(20)
  },
)

it('a rate limit, which the limiter waits out, is reported without a retry time', async () => {
  const rig = await openRig()
  const stopping = new AbortController()
  const source = new FakeSource((): PageChunk[] => {
    if (source.starts.length > 1) stopping.abort()
    throw new ConnectorError('rate_limited', 'the API said 429')
  })
  const { collector, reporter } = collectorOf(rig, source)
  await driven(rig.clock, runIngest(collector, stopping.signal))
  expect(reporter.states).toEqual(['failing'])
  expect(reporter.triesInMs).toEqual([])
})

it('a key that changed meanwhile is used at once', async () => {
  const rig = await openRig()
  let tries = 0
  const source = new FakeSource(() => {
    if (++tries === 1) throw new ConnectorError('unauthorized', 'the old key', { retryAfterMs: 0 })
    return [page(1, 1, { cursor: 'on' })]
  })
  const stopping = new AbortController()
  const { collector } = collectorOf(rig, source)
  const loop = runIngest(collector, stopping.signal)
  await pass(rig, START)
  expect(source.times).toEqual([START, START])
  stopping.abort()
  await loop
})

it('Retry-After of the server is respected', async () => {
  const { waits } = await waitsOf('server_error', 600_000)
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(600_000)
})

it('the log says apart what is blocked and what fails, with the time of the next try', async () => {
  const [blocked] = (await waitsOf('forbidden')).lines
  expect(blocked).toMatch(
    /^Reading is blocked until this is fixed; it is retried automatically .*"attempt":1,"nextTrySeconds":\d+\}$/,
  )
  const [failed] = (await waitsOf('unreachable')).lines
  expect(failed).toMatch(/^Reading failed and will be retried .*"nextTrySeconds":1\}$/)
})

it('with a full disk it does not ask every second: each try would be a request and an audit entry', async () => {
  const { waits, reported, states } = await waitsOf('disk_full')
  expect(reported).toEqual(waits)
  expect(states).toEqual(new Set(['paused']))
  expect(waits.length).toBeLessThan(100)
  expect(Math.max(...waits)).toBeLessThanOrEqual(60_000)
})

it('a fatal error is thrown, and so are a lost lease and a bug', async () => {
  const errors = [
    new ConnectorError('journal_corrupt', 'torn'),
    new ConnectorError('lease_lost', 'taken'),
    new TypeError('a bug'),
  ]
  for (const thrown of errors) {
    const rig = await openRig()
    const source = new FakeSource(() => {
      throw thrown
    })
    await expect(runIngest(collectorOf(rig, source).collector, never)).rejects.toBe(thrown)
  }
})

it('a journal whose database is away at the start is asked again for the cursor, before anything is read', async () => {
  const rig = await openRig()
  await rig.journal.append({ ...nothingRead, cursor: 'here' })
  let asked = 0
  const away = async () => {
    if (++asked <= 2) throw new ConnectorError('store_unavailable', 'no database')
  }
  const journal = withMethods(rig.journal, {
    cursor: async (of) => (await away(), rig.journal.cursor(of)),
  })
  const source = new FakeSource(() => [])
  const stopping = new AbortController()
  const { collector, reporter } = collectorOf(rig, source, { journal })
  const loop = runIngest(collector, stopping.signal)
  await pass(rig, START + 5_000)
  stopping.abort()
  await loop
  expect(source.starts).toEqual(['here'])
  expect(reporter.states.slice(0, 2)).toEqual(['failing', 'failing'])
  expect(rig.log.lines.map((line) => line.split(' {')[0])).toEqual([
    ...['Reading failed and will be retried', 'Reading failed and will be retried', 'Reading resumed'],
  ])
})

it('an abort ends the loop silently, wherever it was', async () => {
  const rig = await openRig()
  const source = new FakeSource(() => [])
  source.dueAt = START + MINUTE
  const stopping = new AbortController()
  const { collector, reporter } = collectorOf(rig, source)
  const loop = runIngest(collector, stopping.signal)
  await settled()
  stopping.abort()
  await loop
  expect([rig.log.lines, reporter.errors]).toEqual([[], []])
})

it.each<ErrorCode>(['unauthorized', 'unreachable', 'aborted'])(
  'a read that fails after a stop was asked for is not reported: %s',
  async (code) => {
    const rig = await openRig()
    const stopping = new AbortController()
    const source = new FakeSource(() => {
      stopping.abort()
      throw new ConnectorError(code, 'as told')
    })
    const { collector, reporter } = collectorOf(rig, source)
    await runIngest(collector, stopping.signal)
    expect([rig.log.lines, reporter.states]).toEqual([[], []])
  },
)

it('a full journal is not read into: the loop waits, reports paused, and continues when there is room', async () => {
  const rig = await openRig(['archive'], 100)
  await rig.append(5)
  const source = new FakeSource(() => [page(100, 1, { cursor: 'on' })])
  source.dueAt = START
  const { collector, reporter } = collectorOf(rig, source)
  const stopping = new AbortController()
  const loop = runIngest(collector, stopping.signal)
  await pass(rig, START + MINUTE)
  expect([source.starts, new Set(reporter.states)]).toEqual([[], new Set(['paused'])])
  source.dueAt = START + 60 * MINUTE
  await rig.journal.ack('archive', { first: 1, through: 5, rejected: [] })
  await pass(rig, START + 61 * MINUTE)
  expect(source.starts.length).toBeGreaterThan(0)
  stopping.abort()
  await loop
})

const NO_ROOM = 'Reading is paused: undelivered entries have reached journal.max_bytes'
const ROOM = 'The journal has room again: reading resumes'

function ofRoom({ log }: Rig): string[] {
  const lines = log.lines.map((line) => JSON.stringify(line))
  return [NO_ROOM, ROOM].flatMap((sentence) => lines.filter((line) => line.includes(sentence)))
}

it('a pause at journal.max_bytes is logged once, and its end once, also where it begins in the middle of a read', async () => {
  for (const atOnce of [true, false]) {
    const rig = await openRig(['archive'], 100)
    if (atOnce) await rig.append(5)
    const source = new FakeSource(() => [page(100, 5, { cursor: 'on' }), page(200, 5, { cursor: 'on' })])
    source.dueAt = START
    const { collector } = collectorOf(rig, source)
    const stopping = new AbortController()
    const loop = runIngest(collector, stopping.signal)
    await pass(rig, START + 20 * MINUTE)
    expect(ofRoom(rig)).toEqual([expect.stringContaining('journal.max_bytes')])
    expect(JSON.stringify(rig.log.lines)).not.toContain('Reading failed')
    source.dueAt = START + 60 * MINUTE
    await rig.journal.ack('archive', { first: 1, through: 5, rejected: [] })
    await pass(rig, START + 21 * MINUTE)
    expect(ofRoom(rig)).toHaveLength(2)
    stopping.abort()
    await loop
  }
})

it('a journal that is full and not full by turns logs few lines, and the last of them is true', async () => {
  const rig = await openRig(['archive'])
  const source = new FakeSource(() => [])
  source.dueAt = START + 60 * MINUTE
  const { collector } = collectorOf(rig, source)
  let isFull = false
  const journal = withMethods(rig.journal, {
    pressure: () => {
      isFull = rig.clock.now() < START + 10 * MINUTE && !isFull
      return { ...rig.journal.pressure(), full: isFull }
    },
  })
  source.plan = () => ({ dueAt: rig.clock.now() + 1_000, priority: 'live' as const, caughtUp: false })
  const stopping = new AbortController()
  const loop = runIngest({ ...collector, journal }, stopping.signal)
  await pass(rig, START + 12 * MINUTE)
  expect(ofRoom(rig).length).toBeLessThan(45)
  expect(JSON.stringify(rig.log.lines.at(-1))).toContain(ROOM)
  stopping.abort()
  await loop
})

it('foreign fetches and malformed elements are logged when they begin and then as an hourly sum, while each is counted', async () => {
  const rig = await openRig()
  let seq = 0
  const malformed = () => {
    const bytes = Buffer.from(`{"number":${seq}}`)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    return { reason: 'no_id' as const, bytes, totalBytes: bytes.length, sha256 }
  }
  const source = new FakeSource(() => [
    page((seq += 1), 1, {
      ...{ cursor: String(seq), findings: [{ kind: 'foreign_fetch', index: 0 }] },
      quarantined: [malformed()],
    }),
  ])
  const { collector, reporter } = collectorOf(rig, source)
  const stop = new AbortController()
  const reading = runIngest(collector, stop.signal)
  await pass(rig, START + 150 * MINUTE)
  stop.abort()
  await pass(rig, START + 151 * MINUTE)
  await reading
  for (const words of ['not by this instance', 'Malformed elements are quarantined']) {
    const reported = rig.log.lines.filter((line) => line.includes(words))
    expect(reported).toHaveLength(3)
    expect(reported[1]).toContain('60')
  }
  expect(reporter.sum('findings')).toBeGreaterThan(140)
  expect(reporter.sum('quarantined')).toBeGreaterThan(140)
})
