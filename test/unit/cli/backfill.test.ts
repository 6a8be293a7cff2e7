// `backfill` through a real daemon's socket, against the mock.
import { afterEach, expect, test } from 'vitest'
import { backfill } from '../../../src/cli/backfill.ts'
import type { BackfillCommandOptions } from '../../../src/cli/backfill.ts'
import { openControl } from '../../../src/control/server.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import { noCounts } from '../../../src/contracts/jobs.ts'
import type { Job, JobFilter, Jobs } from '../../../src/contracts/jobs.ts'
import { LogLines } from '../../fakes/sink-deps.ts'
import { openRegistrySetup } from '../observability/registry-setup.ts'
import type { Clock } from '../../../src/core/clock.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { connectControl } from '../../../src/control/client.ts'
import { unasked } from '../../fakes/unasked.ts'
import { codeIn } from './context.ts'
import { dayText, openPastSetup } from './past-setup.ts'

let setup: Awaited<ReturnType<typeof openPastSetup>>
afterEach(() => setup.close())

/** Polls twenty times as often. */
const clock: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 20, signal) }

/** Waits until the backfill started and was refused, since live reading may be refused before it. */
async function asked(): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    const begun = await (await connectControl(setup.path))?.jobs.all('backfill')
    if (begun?.some(({ error }) => error !== undefined)) return
    await systemClock.sleep(10)
  }
  throw new Error('nobody asked')
}

/** Entries are delivered a moment after they are read. */
async function delivered(): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    const status = await (await connectControl(setup.path))?.status()
    if (status?.sinks.every(({ pending_entries }) => pending_entries === 0)) return
    await systemClock.sleep(10)
  }
  throw new Error('it stays owed')
}

const options = (more: Partial<BackfillCommandOptions> = {}): BackfillCommandOptions => ({
  ...{ config: setup.config, from: dayText(3), to: dayText(0), status: false, cancel: false },
  ...more,
})

test('without a daemon the command says that one must run', async () => {
  setup = await openPastSetup()
  expect(await backfill(setup.context, options(), clock)).toBe(1)
  expect(setup.heard().stderr).toMatch(
    /no daemon runs on .*keeps the rate limit: start it with: auditferry run/,
  )
})

test('a span that was never read is read, delivered, and reported in one line', async () => {
  setup = await openPastSetup({ start: 'latest' })
  await setup.daemon()
  expect(await backfill(setup.context, options(), clock)).toBe(0)
  const { stdout, stderr } = setup.heard()
  expect(stderr).toBe('')
  expect(stdout).toMatch(
    /^acme audit, \S+ to \S+: done: 75 read, 75 new, 0 known, 0 filtered, 0 quarantined\n$/,
  )
  expect(await backfill(setup.context, options({ status: true }), clock)).toBe(0)
  expect(setup.heard().stdout).toContain('done: 75 read')
  const status = await (await connectControl(setup.path))?.status()
  expect(status?.backfills).toMatchObject([
    { workspace: 'acme', source: 'audit', state: 'done', progress: 1, new_entries: 75 },
  ])
  await delivered()
  await setup.stopDaemons()
  const ids = setup.lines().map((line) => (JSON.parse(line) as { id: string }).id)
  expect(new Set(ids)).toEqual(new Set(setup.mock.entries().map(({ id }) => id)))
  expect(ids).toHaveLength(75)
})

const stream = { workspace: 'acme', source: 'audit' } as const
const counts = { ...noCounts, read: 3, new: 3 }
const spans = [{ fromUs: 0, toUs: 1 }]
/** A backfill that waits for the rate limit. */
const open: Job = {
  ...{
    kind: 'backfill',
    stream,
    asked: spans,
    spans,
    startedAt: 1,
    endedAt: undefined,
    atUs: 0,
    counts,
    unread: [],
  },
  ...{ error: undefined, waitsFor: 'rate_limit' },
}

test('a backfill with possible gaps is reported as not whole, and the command fails', async () => {
  setup = await openPastSetup()
  const ended: Job = {
    ...{ ...open, endedAt: 2, atUs: 1, waitsFor: undefined },
    counts: { ...counts, gaps: 1 },
  }
  const fake = {
    backfill: async () => [ended],
    all: async () => [ended],
  } as Partial<Jobs> as Jobs
  const { registry, metrics, taps } = openRegistrySetup()
  const parts = { registry, metrics, taps, jobs: fake, journal: {} as Journal, log: new LogLines() }
  const control = await openControl({ ...unasked, journalPath: setup.path, ...parts })
  expect(await backfill(setup.context, options(), clock)).toBe(1)
  await control.close()
  expect(setup.heard().stdout).toMatch(/: ended, not whole: 3 read, .*; 1 possible gap: entries there may be/)
})

test('a screen shows a progress bar, which the last line replaces', async () => {
  setup = await openPastSetup({ start: 'latest' })
  await setup.daemon()
  expect(await backfill({ ...setup.context, colours: true }, options(), clock)).toBe(0)
  const { stdout } = setup.heard()
  expect(stdout).toMatch(/\r\u001b\[Kacme audit \[[#.]{30}\] \d+ % {2}\d+ entries read, \d+ new/)
  expect(stdout.split('\u001b[K').at(-1)).toMatch(/^acme audit, .*done: 75 read/)
})

test('what a backfill waits for is printed above the bar, once for each reason', async () => {
  setup = await openPastSetup()
  const waiting = (live: number): Job => ({
    ...open,
    waitReason: `live polling uses ${live} of 60 requests/min. Increase audit.interval to leave more`,
  })
  const states: Job[] = [
    ...[waiting(45), { ...open, waitsFor: undefined }, waiting(46), { ...open, waitsFor: 'room' as const }],
    { ...open, endedAt: 2, waitsFor: undefined },
  ]
  const fake = {
    backfill: async () => [waiting(45)],
    all: async () => states.splice(0, 1),
  } as Partial<Jobs>
  const { registry, metrics, taps } = openRegistrySetup()
  const parts = {
    registry,
    metrics,
    taps,
    jobs: fake as Jobs,
    journal: {} as Journal,
    log: new LogLines(),
  }
  const control = await openControl({ ...unasked, journalPath: setup.path, ...parts })
  expect(await backfill({ ...setup.context, colours: true }, options(), clock)).toBe(0)
  await control.close()
  const lines = setup
    .heard()
    .stdout.split('\n')
    .map((line) => line.split('\u001b[K').at(-1))
  expect(lines.slice(0, 2)).toEqual([
    expect.stringMatching(
      /^acme audit: 0 %, 3 read, .*quarantined\. Waiting: live polling uses 45 of 60 requests\/min\. Increase audit\.interval to leave more\.$/,
    ),
    expect.stringMatching(/^acme audit: 0 %, 3 read, .*\. Waiting for room in the journal/),
  ])
  expect(lines.slice(2)).toEqual([expect.stringContaining('done: 3 read'), ''])
})

test.each([false, true])(
  'a daemon that does not answer is reported, instead of its last report (on a screen: %s)',
  async (colours) => {
    setup = await openPastSetup()
    let now = 0
    const gone = () => Promise.reject(new ConnectorError('unreachable', 'gone'))
    const all = async () => (now < 25_000 ? gone() : [{ ...open, endedAt: 2 }])
    const fake = { backfill: async () => [open], all } as Partial<Jobs> as Jobs
    const { registry, metrics, taps } = openRegistrySetup()
    const parts = { registry, metrics, taps, jobs: fake, journal: {} as Journal, log: new LogLines() }
    const control = await openControl({ ...unasked, journalPath: setup.path, ...parts })
    const steps = { ...systemClock, elapsed: () => now, sleep: async (ms: number) => void (now += ms) }
    expect(await backfill({ ...setup.context, colours }, options(), steps)).toBe(0)
    await control.close()
    const { stdout } = setup.heard()
    for (const seconds of [10, 20]) expect(stdout).toContain(`; no answer from the daemon since ${seconds} s`)
    expect(stdout.includes('Waiting for')).toBe(colours)
    expect(stdout).toContain('done: 3 read')
  },
)

test('Ctrl-C leaves the backfill running and says so; --cancel ends it', async () => {
  setup = await openPastSetup({ start: 'latest' })
  await setup.daemon()
  setup.mock.setFault('error_500', 1)
  const following = backfill(setup.context, options(), clock)
  await asked()
  setup.stop.abort()
  expect(await following).toBe(0)
  expect(setup.heard().stdout).toContain('The daemon continues it: auditferry backfill --status')
  expect(await backfill(setup.context, options({ status: true }), clock)).toBe(0)
  expect(setup.heard().stdout).toMatch(/^acme audit: 0 %, 0 read, .*; trying again: .*500/)
  expect(await backfill(setup.context, options({ cancel: true }), clock)).toBe(0)
  expect(setup.heard().stdout).toBe('1 backfill cancelled; what it read stays\n')
  expect(await backfill(setup.context, options({ status: true }), clock)).toBe(0)
  expect(setup.heard().stdout).toBe(
    'No backfill is under way, and none came to its end within the last day; one that was cancelled is not kept\n',
  )
})

test('a backfill whose source is switched off is reported as waiting for it, and can be cancelled by name', async () => {
  setup = await openPastSetup()
  const asleep: Job = {
    ...open,
    stream: { workspace: 'left', source: 'history.usage' },
    waitsFor: 'source',
  }
  const choices: JobFilter[] = []
  const fake = {
    all: async () => [asleep],
    cancel: async (...[, choice]: Parameters<Jobs['cancel']>) => choices.push(choice),
  } as Partial<Jobs> as Jobs
  const { registry, metrics, taps } = openRegistrySetup()
  const parts = { registry, metrics, taps, jobs: fake, journal: {} as Journal, log: new LogLines() }
  const control = await openControl({ ...unasked, journalPath: setup.path, ...parts })
  expect(await backfill(setup.context, options({ status: true }), clock)).toBe(0)
  expect(setup.heard().stdout).toMatch(
    /^left history.usage: .*\. Waiting for its source, which is no longer in the configuration of the daemon/,
  )
  const named = { workspace: 'left', source: 'history.usage' } as const
  expect(await backfill(setup.context, options({ status: true, ...named }), clock)).toBe(0)
  expect(setup.heard().stdout).toMatch(/^left history.usage: /)
  expect(await backfill(setup.context, options({ status: true, workspace: 'acme' }), clock)).toBe(0)
  expect(setup.heard().stdout).toMatch(/^No such backfill is under way/)
  expect(
    await codeIn(
      setup.context,
      backfill(setup.context, options({ status: true, workspace: 'other' }), clock),
    ),
  ).toBe(2)
  expect(setup.heard()).toEqual({
    stdout: '',
    stderr: 'error: there is no workspace other; there are acme, left\n',
  })
  expect(await backfill(setup.context, options({ cancel: true, ...named }), clock)).toBe(0)
  expect(setup.heard().stdout).toBe('1 backfill cancelled; what it read stays\n')
  expect(choices).toEqual([named])
  await control.close()
})

test('a backfill goes on after the daemon restarts', async () => {
  setup = await openPastSetup({ start: 'latest' })
  await setup.daemon()
  setup.mock.setFault('error_500', 1)
  const following = backfill(setup.context, options(), clock)
  await asked()
  await setup.stopDaemons()
  setup.mock.setFault('error_500', undefined)
  await setup.daemon()
  expect(await following).toBe(0)
  expect(setup.heard().stdout).toContain('done: 75 read')
})

test('an end in the future is reported: now is used', async () => {
  setup = await openPastSetup({ start: 'latest' })
  await setup.daemon()
  expect(await backfill(setup.context, options({ to: dayText(-2) }), clock)).toBe(0)
  expect(setup.heard().stderr).toBe('auditferry: --to lies in the future: now is used\n')
})

test('a warning comes first if the span is older than the dedup retention', async () => {
  setup = await openPastSetup({ start: 'latest' })
  setup.write({ start: 'latest', keepKeys: '1d' })
  await setup.daemon()
  expect(await backfill(setup.context, options(), clock)).toBe(0)
  expect(setup.heard().stderr).toMatch(/older than \S+Z \(journal.dedup_retention\) may no longer be known/)
})

test.each([
  [{ from: 'yesterday' }, '--from yesterday: expected a time'],
  [{ from: '2098-02-01', to: '2098-02-03' }, '--from must be earlier than now'],
  [{ workspace: 'other' }, 'there is no workspace other; there are acme'],
  [{ workspace: 'other', cancel: true }, 'there is no workspace other; there are acme'],
  [{ workspace: 'other', status: true }, 'there is no workspace other; there are acme'],
  [{ source: 'vault.projects', status: true }, '--source vault.projects has no past'],
  [{ source: 'vault.projects' }, '--source vault.projects has no past'],
  [{ source: 'foo' }, 'error: there is no source foo; there are audit, history.usage, history.query\n'],
  [{ source: 'history.usage' }, '--source history.usage is not switched on at any workspace'],
])('wrong usage is reported: %j', async (more, message) => {
  setup = await openPastSetup()
  await setup.daemon()
  expect(await codeIn(setup.context, backfill(setup.context, options(more), clock))).toBe(2)
  expect(setup.heard().stderr).toContain(message)
})

test.each<[Partial<BackfillCommandOptions>, string]>([
  [{}, 'expected --from <time>, --status or --cancel'],
  [{ from: 'yesterday' }, '--from yesterday: expected a time'],
  [{ source: 'vault.projects', cancel: true }, '--source vault.projects has no past'],
])('wrong usage exits 2 with or without a daemon: %j', async (more, message) => {
  setup = await openPastSetup()
  const asked = { config: setup.config, status: false, cancel: false, ...more }
  expect(await codeIn(setup.context, backfill(setup.context, asked, clock))).toBe(2)
  await setup.daemon()
  expect(await codeIn(setup.context, backfill(setup.context, asked, clock))).toBe(2)
  expect(setup.heard().stderr.split(message)).toHaveLength(3)
})
