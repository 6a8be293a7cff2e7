// `replay` if the journal has only part of the span: which days come from where,
// what the daemon is asked to do, and what the command does without a daemon.
import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { shortText } from '../../../../src/cli/replay/text.ts'
import type { PlannedDay } from '../../../../src/cli/replay/plan.ts'
import { replay } from '../../../../src/cli/replay/replay.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { matches, noCounts } from '../../../../src/contracts/jobs.ts'
import type { Job, Jobs, JobSpan, ReplayRequest, StartedJob } from '../../../../src/contracts/jobs.ts'
import type { Stream } from '../../../../src/contracts/source.ts'
import { openControl } from '../../../../src/control/server.ts'
import type { Control } from '../../../../src/control/server.ts'
import { unasked } from '../../../fakes/unasked.ts'
import {
  audit,
  idsOf,
  logOf,
  part,
  plenty,
  acknowledgement,
  spec,
  START_US,
  uuid,
} from '../../../contract/journal-parts.ts'
import { openRegistrySetup, ack, startAt } from '../../observability/registry-setup.ts'
import { codeIn } from '../context.ts'
import { openSetup } from '../setup.ts'

const DAY_US = 86_400_000_000
const FIRST = { fromUs: START_US, toUs: START_US + DAY_US }
const vault: Stream = { workspace: 'acme', source: 'vault.projects' }
const second = (n: number) => spec(n, { at: START_US + DAY_US + n })

let setup: ReturnType<typeof openSetup>
let journal: Journal
let control: Control | undefined
let now = 0
let daemonRig: ReturnType<typeof openRegistrySetup>
/** Sleeps pass virtual time, so that waiting ends soon. */
const clock = {
  now: () => START_US / 1000 + 5 * 86_400_000,
  elapsed: () => now,
  sleep: async () => void (now += 60_000),
}

const options = (more: object = {}) => ({
  ...{ config: setup.config, sink: 'siem', from: '2026-01-31', to: '2026-02-02', dryRun: false },
  ...more,
})

/** Three entries of the first day, since dropped, and one of the second, kept. Both sinks have them. */
beforeEach(async () => {
  setup = openSetup()
  journal = await setup.openJournal(['siem', 'archive'], 200)
  await journal.append(part([spec(1), spec(2), spec(3)]))
  await journal.append(part([second(4)]))
  for (const sink of ['siem', 'archive']) await journal.ack(sink, acknowledgement(1, 4))
  while (await journal.prune());
})
afterEach(async () => {
  await control?.close()
  await journal.close()
  control = undefined
  setup.remove()
})

/** A request for one stream. */
interface Request {
  readonly sink: string
  readonly stream: Stream
  readonly spans: readonly JobSpan[]
  readonly startedAt: number
}

class FakeReplays implements Jobs {
  readonly requests: Request[] = []
  readonly #readable: readonly Stream[]
  reported: Partial<Omit<Job, 'asked'>> = { endedAt: 1 }
  refuse = false
  joins: number | undefined
  /** how far live reading is, in µs */
  readTo = Infinity

  constructor(readable: readonly Stream[]) {
    this.#readable = readable
  }

  async origins() {
    return this.#readable
  }
  async backfill(): Promise<never> {
    throw new Error('nobody asks for one')
  }
  async replay({ reads, dryRun, ...more }: ReplayRequest): Promise<readonly StartedJob[]> {
    const requests = reads.map((read) => ({ ...more, ...read }))
    if (dryRun === true) return requests.map((request) => this.#as(request))
    if (this.refuse) throw new ConnectorError('misconfigured', 'another span is under way')
    this.requests.push(...requests)
    return requests.map((request) => {
      const started = this.#as({ ...request, startedAt: this.joins ?? request.startedAt, endedAt: undefined })
      return this.joins === undefined ? started : { ...started, isJoined: true as const }
    })
  }
  async all(): Promise<readonly Job[]> {
    return this.requests.map((request) =>
      this.#as({ ...request, startedAt: this.joins ?? request.startedAt, ...this.reported }),
    )
  }
  async cancel(...[, which]: Parameters<Jobs['cancel']>) {
    return this.requests.filter((request) => matches(which, request)).length
  }
  #as(reported: Request & Partial<Omit<Job, 'asked'>>): Job {
    const spans = reported.spans
      .map(({ fromUs, toUs }) => ({ fromUs, toUs: Math.min(toUs, this.readTo) }))
      .filter(({ fromUs, toUs }) => fromUs < toUs)
    return {
      ...{ kind: 'replay', endedAt: undefined, atUs: undefined, error: undefined, waitsFor: undefined },
      ...{ counts: { ...noCounts, read: 3, sent: 3 }, unread: [], asked: reported.spans },
      ...reported,
      spans,
    }
  }
}

/** Starts a replay of one stream, as another command would. */
const started = (replays: FakeReplays, { stream, spans, ...more }: Request) =>
  replays.replay({ ...more, reads: [{ stream, spans }] })

async function running(readable: readonly Stream[] = [audit]): Promise<FakeReplays> {
  const jobs = new FakeReplays(readable)
  daemonRig = openRegistrySetup()
  daemonRig.registry.sink('siem', 'file', () => 'stored')
  const { registry, metrics, taps } = daemonRig
  const parts = { registry, metrics, taps, journal, jobs }
  control = await openControl({ ...unasked, journalPath: setup.path, log: logOf(), ...parts })
  return jobs
}

test('a day that the journal has only in part is read from the API, other days come from the journal', async () => {
  const replays = await running()
  expect(await replay(setup.context, options(), clock)).toBe(0)
  expect(replays.requests).toEqual([{ sink: 'siem', stream: audit, spans: [FIRST], startedAt: clock.now() }])
  expect(idsOf(await journal.take('siem', plenty))).toEqual([uuid(4)])
  const { stdout } = setup.heard()
  expect(stdout).toContain('1 entry (121 B) queued for siem')
  expect(stdout).toContain(
    'acme audit to siem, from the API: done: 3 read, 3 queued as a replay, 0 filtered, 0 malformed',
  )
})

test("the journal's part of such a day is not sent, and part of a day is requested as given", async () => {
  await journal.append(part([spec(5)]))
  for (const sink of ['siem', 'archive']) await journal.ack(sink, acknowledgement(5, 5))
  const replays = await running()
  expect(await replay(setup.context, options({ from: '2026-01-31T00:00:02Z' }), clock)).toBe(0)
  expect(replays.requests[0]?.spans).toEqual([{ fromUs: START_US + 2_000_000, toUs: FIRST.toUs }])
  expect(idsOf(await journal.take('siem', plenty))).toEqual([uuid(4)])
})

test('the API is not asked for days that the journal has whole, even if entries are still pending', async () => {
  await journal.append(part([second(6)]))
  const replays = await running()
  expect(await replay(setup.context, options({ from: '2026-02-01' }), clock)).toBe(0)
  expect(replays.requests).toEqual([])
  expect(setup.heard().stdout).toContain('1 entry (121 B)')
})

test('a dry run lists by source and day what would come from where, and starts nothing', async () => {
  const replays = await running()
  expect(await replay(setup.context, options({ dryRun: true }), clock)).toBe(0)
  expect(replays.requests).toEqual([])
  const { stdout, stderr } = setup.heard()
  expect(stdout).toContain('1 entry (121 B) would be sent to siem again')
  expect(stdout).toMatch(/^acme {7}audit {3}2026-01-31 {2}- {13}up to 3$/m)
  expect(stdout).toMatch(/^acme {7}audit {3}2026-02-01 {2}1 {13}-$/m)
  expect(stdout).toContain('acme audit is read from the API: about 2 requests for the 3 entries')
  expect(stderr).toBe('')
  expect(await journal.take('siem', plenty)).toBeUndefined()
})

test('--only api reads the whole span, --only journal sends no request', async () => {
  const replays = await running()
  expect(await replay(setup.context, options({ only: 'api' }), clock)).toBe(0)
  expect(replays.requests[0]?.spans).toEqual([{ fromUs: START_US, toUs: START_US + 2 * DAY_US }])
  expect(await journal.take('siem', plenty)).toBeUndefined()
  expect(await replay(setup.context, options({ only: 'journal' }), clock)).toBe(0)
  expect(replays.requests).toHaveLength(1)
  expect(idsOf(await journal.take('siem', plenty))).toEqual([uuid(4)])
})

test('a request that the daemon refuses ends the command before anything is sent', async () => {
  const replays = await running()
  replays.refuse = true
  await expect(replay(setup.context, options(), clock)).rejects.toThrow('another span is under way')
  expect(await journal.take('siem', plenty)).toBeUndefined()
})

test.each([
  [false, /perhaps some more; .*a second time.*\n.*replay from the API \(acme audit\) continues/],
  [true, /^$/],
])(
  "if the journal's part fails, the command says what goes on without it (dry run: %s)",
  async (dryRun, reported) => {
    await running()
    Object.assign(journal, { replay: () => Promise.reject(new ConnectorError('unreachable', 'broke off')) })
    await expect(replay(setup.context, options({ dryRun }), clock)).rejects.toThrow('broke off')
    expect(setup.heard().stderr).toMatch(reported)
  },
)

test('all streams are requested at once, so that none starts if one is refused', async () => {
  const usage: Stream = { workspace: 'acme', source: 'history.usage' }
  const replays = await running([audit, usage])
  const asked: ReplayRequest[] = []
  replays.replay = async (request) => {
    asked.push(request)
    throw new ConnectorError('misconfigured', 'another span is under way')
  }
  await expect(replay(setup.context, options({ only: 'api' }), clock)).rejects.toThrow('another span')
  expect(asked.map(({ reads }) => reads.map(({ stream }) => stream))).toEqual([[audit, usage]])
  expect(await journal.take('siem', plenty)).toBeUndefined()
})

test('a replay that another command started in the same instant is joined too', async () => {
  const replays = await running()
  replays.joins = clock.now()
  expect(await replay(setup.context, options(), clock)).toBe(1)
  expect(await journal.take('siem', plenty)).toBeUndefined()
})

test("the same command again joins the replay, and does not send the journal's part twice", async () => {
  const replays = await running()
  replays.joins = 77
  expect(await replay(setup.context, options({ to: '2026-02-01' }), clock)).toBe(0)
  expect(await replay(setup.context, options(), clock)).toBe(1)
  expect(await journal.take('siem', plenty)).toBeUndefined()
  const { stdout, stderr } = setup.heard()
  // The journal has the second day, and the earlier command may have included only the first.
  expect(stderr.match(/The command that started the replay may not have sent them/g)).toHaveLength(1)
  expect(stdout).toContain('Joined the running replay of ')
  expect(stdout).toContain('--only journal sends that again')
  expect(stdout).toContain('from the API: done: 3 read')
})

test("a wider command beside a narrower one sends the journal's part of the other sources", async () => {
  const usage: Stream = { workspace: 'acme', source: 'history.usage' }
  await journal.append(part([second(7)], { stream: usage }))
  for (const sink of ['siem', 'archive']) await journal.ack(sink, acknowledgement(5, 5))
  const replays = await running([audit, usage])
  replays.joins = 77
  await replay(setup.context, options(), clock)
  const again = await journal.take('siem', plenty)
  expect(again?.slices.map(({ stream }) => stream)).toEqual([usage])
  expect(idsOf(again)).toEqual([uuid(7)])
  expect(setup.heard().stdout).toContain('Joined the running replay of acme audit: ')
})

test('a day that the journal drops between planning and sending is reported, and the command fails', async () => {
  const replays = await running()
  const begin = replays.replay.bind(replays)
  replays.replay = async (request) => {
    await journal.append(part([spec(9, { at: START_US + 40 * DAY_US })]))
    for (const sink of ['siem', 'archive']) await journal.ack(sink, acknowledgement(5, 5))
    while (await journal.prune());
    return begin(request)
  }
  expect(await replay(setup.context, options(), clock)).toBe(1)
  const { stdout, stderr } = setup.heard()
  expect(stdout).toContain('0 entries')
  expect(stderr).toContain(
    'of acme audit, 2026-02-01, the journal keeps 0 of the 1 entry that it took in on 1 day',
  )
})

test("without a daemon the journal's part is sent and the rest is reported; --only api needs a daemon", async () => {
  await journal.close()
  expect(await replay(setup.context, options(), clock)).toBe(1)
  const { stdout, stderr } = setup.heard()
  expect(stdout).toContain('1 entry (121 B) queued for siem')
  expect(stderr).toContain(
    'of acme audit, 2026-01-31, the journal keeps 0 of the 3 entries that it took in on 1 day: only that is sent; with the daemon running the same command',
  )
  expect(await replay(setup.context, options({ only: 'journal' }), clock)).toBe(0)
  expect(setup.heard().stderr).toContain(
    'of acme audit, 2026-01-31, the journal keeps 0 of the 3 entries that it took in on 1 day: only that is sent with --only journal\n',
  )
  expect(await replay(setup.context, options({ only: 'api' }), clock)).toBe(1)
  expect(setup.heard().stderr).toContain('what comes from the API needs one')
  journal = await setup.openJournal(['siem', 'archive'], 200)
})

test('skipped days are reported: which, how many, and how to get them', async () => {
  await running()
  const span = { from: '2026-01-29', to: '2026-02-08', dryRun: true }
  expect(await replay(setup.context, options(span), clock)).toBe(0)
  const left =
    'the journal took nothing in on 2026-01-29 to 2026-01-30, 2026-02-02 to 2026-02-04 (5 days, left out)'
  expect(setup.heard().stdout).toContain(`Of acme audit ${left}; --only api reads what the API has of it\n`)
  expect(await replay(setup.context, options({ from: '2026-01-10', to: '2026-01-12' }), clock)).toBe(0)
  const { stdout } = setup.heard()
  expect(stdout).toContain(
    'The journal has nothing of this span to send to siem again: 0 entries; the journal keeps',
  )
  expect(stdout).not.toContain('they are sent')
  expect(stdout).toContain(
    'From the sources that siem takes (acme audit), the journal has nothing of 2026-01-10 to 2026-01-11 (2 days, left out); --only',
  )
})

test('a source without any days is reported too, also for today, and so is a source that no workspace reads', async () => {
  const text = readFileSync(setup.config, 'utf8')
  writeFileSync(setup.config, text.replace('audit: {}', 'audit: {}, history: {}, vault: { projects: true }'))
  await running()
  expect(await replay(setup.context, options({ dryRun: true, to: '2026-02-06' }), clock)).toBe(0)
  const { stdout } = setup.heard()
  expect(stdout).toContain(
    'Of acme audit the journal took nothing in on 2026-02-02 to 2026-02-04 (3 days, left out)',
  )
  const all = 'the journal took nothing in on 2026-01-31 to 2026-02-05 (6 days, left out)'
  expect(stdout).toContain(`Of acme history.usage ${all}; --only api reads what the API has of it\n`)
  expect(stdout).toContain(`Of acme vault.projects ${all}\n`)
  expect(await replay(setup.context, options({ dryRun: true, from: '1h', to: 'now' }), clock)).toBe(0)
  expect(setup.heard().stdout).toContain(
    'From the sources that siem takes (acme audit, acme history.usage, acme vault.projects), the journal has nothing of 2026-02-04 (1 day, left out)',
  )
  expect(await replay(setup.context, options({ dryRun: true, only: 'api' }), clock)).toBe(0)
  expect(setup.heard().stdout).toContain(
    'Of acme vault.projects nothing is sent: an inventory has no past that the API could show again\n',
  )
  writeFileSync(setup.config, text)
  const off = options({ dryRun: true, source: 'history.usage' })
  expect(await replay(setup.context, off, clock)).toBe(0)
  expect(setup.heard().stdout).toContain(
    'Nothing of history.usage is sent: no workspace reads it, and the journal has no entries of it\n',
  )
})

test('a dry run has a row for a day that is entirely pending', async () => {
  await journal.append(part([spec(6, { at: START_US + 2 * DAY_US })]))
  await running()
  const span = { dryRun: true, from: '2026-02-01', to: '2026-02-03' }
  expect(await replay(setup.context, options(span), clock)).toBe(0)
  expect(setup.heard().stdout).toMatch(/^acme {7}audit {3}2026-02-02 {2}0 {13}-$/m)
})

test('incomplete days with others in between are listed one by one, the first few', () => {
  const from = START_US / DAY_US
  const short = [0, 1, 3].map((i) => ({
    stream: audit,
    day: from + i,
    kept: 2,
    stored: 1,
    via: 'journal' as const,
  }))
  expect(shortText(short, () => 'so it is')).toBe(
    'auditferry: of acme audit, 2026-01-31 to 2026-02-01, 2026-02-03, the journal keeps 3 of the 6 entries that it took in on 3 days: so it is\n',
  )
  const many = Array.from({ length: 10 }, (_, i) => ({ ...short[0], day: from + 2 * i }) as PlannedDay)
  expect(shortText(many, () => '')).toContain('2026-02-14 and 2 days more, the journal')
})

test('an inventory cannot be read again: what the journal lost of it is reported, and the command fails', async () => {
  await journal.append(part([spec(7)], { stream: vault }))
  await journal.append(part([second(8)]))
  for (const sink of ['siem', 'archive']) await journal.ack(sink, acknowledgement(5, 6))
  while (await journal.prune());
  await running()
  expect(await replay(setup.context, options({ source: 'vault.projects' }), clock)).toBe(1)
  expect(setup.heard().stderr).toContain('an inventory has no past that the API could show again')
})

test('--only api fails for sources that the API cannot show again; a span that live reading has not reached is reported', async () => {
  const replays = await running([])
  expect(await replay(setup.context, options({ only: 'api' }), clock)).toBe(1)
  expect(setup.heard().stderr).toContain(
    'none of the selected sources (audit, history.usage, vault.projects)',
  )
  replays.reported = { endedAt: 1, spans: [] }
  await started(replays, { sink: 'siem', stream: audit, spans: [FIRST], startedAt: 1 })
  expect(await replay(setup.context, { config: setup.config, dryRun: false, status: true }, clock)).toBe(0)
  expect(setup.heard().stdout).toContain(
    'nothing to read: this span is later than what live reading has read in order',
  )
})

test('entries unknown to the journal are reported with the command that fetches them for the other sinks', async () => {
  const replays = await running()
  replays.reported = {
    endedAt: 1,
    counts: { ...noCounts, read: 4, sent: 4, unknown: 1, gaps: 1 },
  }
  expect(await replay(setup.context, options(), clock)).toBe(1)
  const { stdout, stderr } = setup.heard()
  expect(stdout).toContain('from the API: ended, not whole: 4 read')
  expect(stdout).toContain('1 of them the journal does not know, or not with this content; 1 possible gap')
  expect(stderr).toContain(
    'auditferry backfill --workspace acme --from 2026-01-31T00:00:00Z --to 2026-02-01T00:00:00Z',
  )
})

test('a replay that another one replaced is not reported as cancelled, since it may have finished', async () => {
  const replays = await running()
  const reported = replays.all.bind(replays)
  replays.all = async () => (await reported()).map((one) => ({ ...one, startedAt: one.startedAt + 1 }))
  expect(await replay(setup.context, options(), clock)).toBe(1)
  expect(setup.heard().stdout).toContain(
    'it ended or was cancelled, and another one has started since: see the log of the daemon; what it put',
  )
})

test('a cancelled replay fails the command; a daemon that is gone is waited for, for a while', async () => {
  const replays = await running()
  const begun = replays.all.bind(replays)
  replays.all = async () => []
  expect(await replay(setup.context, options(), clock)).toBe(1)
  expect(setup.heard().stdout).toContain('it was cancelled')
  const earlier = { endedAt: clock.now() - 1, startedAt: clock.now() - 9 }
  replays.all = async () => (await begun()).map((one) => ({ ...one, ...earlier }))
  expect(await replay(setup.context, options(), clock)).toBe(1)
  expect(setup.heard().stdout).toContain('it was cancelled; what it put')
  replays.all = () => Promise.reject(new ConnectorError('unreachable', 'gone'))
  expect(await replay(setup.context, options(), clock)).toBe(1)
  expect(setup.heard().stderr).toContain('the replay continues when it runs again')
})

test.each(['source', 'sink'])(
  'a replay whose %s was removed before a restart is reported as waiting, not as cancelled',
  async (what) => {
    const replays = await running()
    const reported = replays.all.bind(replays)
    const waitsFor = what === 'source' ? 'source' : 'sink'
    replays.all = async () => (await reported()).map((one) => ({ ...one, waitsFor }))
    expect(await replay(setup.context, options(), clock)).toBe(1)
    const { stdout } = setup.heard()
    expect(stdout).toContain(`its ${what} is not in the configuration of the daemon any more: it waits in`)
    expect(stdout).not.toContain('cancelled')
  },
)

test('--status and --cancel ask the daemon, and take no span', async () => {
  const replays = await running()
  const bare = { config: setup.config, dryRun: false }
  expect(await replay(setup.context, { ...bare, status: true }, clock)).toBe(0)
  expect(setup.heard().stdout).toContain('No replay from the API is under way')
  await started(replays, { sink: 'siem', stream: audit, spans: [FIRST], startedAt: 1 })
  replays.reported = { waitsFor: 'turn', atUs: START_US + DAY_US / 4 }
  expect(await replay(setup.context, { ...bare, status: true }, clock)).toBe(0)
  const { stdout } = setup.heard()
  expect(stdout).toContain('acme audit to siem, from the API: 25 %, 3 read')
  expect(stdout).toContain('. Waiting for its turn: another job that reads the same source comes first.')
  for (const whose of [{ sink: 'siem' }, { workspace: 'acme', source: 'audit' }] as const) {
    expect(await replay(setup.context, { ...bare, status: true, ...whose }, clock)).toBe(0)
    expect(setup.heard().stdout).toMatch(/^acme audit to siem/)
  }
  expect(await replay(setup.context, { ...bare, status: true, sink: 'archive' }, clock)).toBe(0)
  expect(setup.heard().stdout).toMatch(/^No such replay from the API is under way/)
  for (const [whose, why] of [
    [{ sink: 'other' }, 'there is no sink other; there are siem, archive'],
    [{ workspace: 'other' }, 'there is no workspace other; there are acme'],
  ] as const) {
    expect(
      await codeIn(setup.context, replay(setup.context, { ...bare, status: true, ...whose }, clock)),
    ).toBe(2)
    expect(setup.heard()).toEqual({ stdout: '', stderr: `error: ${why}\n` })
  }
  expect(
    await codeIn(setup.context, replay(setup.context, { ...bare, cancel: true, workspace: 'acme' }, clock)),
  ).toBe(2)
  expect(setup.heard().stderr).toContain('it takes no --workspace and no --source')
  expect(await replay(setup.context, { ...bare, cancel: true, sink: 'archive' }, clock)).toBe(0)
  expect(setup.heard().stdout).toBe('No replay from the API was under way: nothing to cancel\n')
  expect(await replay(setup.context, { ...bare, cancel: true }, clock)).toBe(0)
  expect(setup.heard().stdout).toBe('1 replay cancelled; what it put into the journal goes out\n')
  expect(await codeIn(setup.context, replay(setup.context, { ...bare, sink: 'siem' }, clock))).toBe(2)
  expect(await codeIn(setup.context, replay(setup.context, { ...bare, from: '24h' }, clock))).toBe(2)
})

test('a sink that takes only other sources gets nothing', async () => {
  const text = readFileSync(setup.config, 'utf8')
  writeFileSync(setup.config, text.replace('name: siem,', 'name: siem, sources: [history.usage],'))
  const replays = await running()
  expect(await replay(setup.context, options(), clock)).toBe(0)
  expect(replays.requests).toEqual([])
  expect(await journal.take('siem', plenty)).toBeUndefined()
})

test('what live reading has not reached is reported at the start and at the end', async () => {
  const replays = await running()
  ack(daemonRig)
  replays.readTo = START_US + DAY_US / 2
  expect(await replay(setup.context, options(), clock)).toBe(0)
  const { stdout, stderr } = setup.heard()
  const left = '2026-01-31T12:00:00.000Z to 2026-02-01T00:00:00.000Z'
  expect(stderr).toContain(
    `of acme audit, ${left} is not read from the API: live reading has not reached it yet. New entries that live reading finds there`,
  )
  expect(stdout).toContain(
    `done: 3 read, 3 queued as a replay, 0 filtered, 0 malformed; not read, later than what live reading had read in order: ${left}`,
  )
})

test.each([true, false])(
  'a day read in part while live reading lags is reported, and the command fails (read since the start: %s)',
  async (isRead) => {
    const replays = await running()
    if (isRead) {
      ack(daemonRig)
      daemonRig.source.head((startAt + 5_000) * 1000)
    }
    replays.readTo = START_US + DAY_US / 2
    expect(await replay(setup.context, options(), clock)).toBe(1)
    expect(setup.heard().stderr).toContain('of acme audit, the rest of 2026-01-31 is not sent')
  },
)

test.each([undefined, 'api'] as const)(
  'a dry run prints the total and what live reading has not reached, and starts nothing (--only %s)',
  async (only) => {
    const replays = await running()
    ack(daemonRig)
    replays.readTo = START_US + DAY_US / 2
    expect(await replay(setup.context, options({ dryRun: true, only, to: '2026-02-01' }), clock)).toBe(0)
    const { stdout, stderr } = setup.heard()
    expect(stdout).toContain(
      'Up to 3 entries that the journal took in would be read from the API and sent to siem again\n',
    )
    expect(stderr).toContain(
      'of acme audit, 2026-01-31T12:00:00.000Z to 2026-02-01T00:00:00.000Z is not read from the API',
    )
    replays.readTo = START_US - 1
    expect(await replay(setup.context, options({ dryRun: true, only, to: '2026-02-01' }), clock)).toBe(1)
    const cut = setup.heard()
    expect(cut.stdout).not.toContain('read from the API')
    expect(cut.stderr).toContain('live reading has not come to them yet')
    expect(replays.requests).toEqual([])
  },
)

test.each([undefined, 'api'] as const)(
  'days that live reading has not reached but the journal has are sent or reported, and the command fails (--only %s)',
  async (only) => {
    await journal.append(part([spec(5)]))
    for (const sink of ['siem', 'archive']) await journal.ack(sink, acknowledgement(5, 5))
    const replays = await running()
    replays.readTo = START_US - 1
    expect(await replay(setup.context, options({ only }), clock)).toBe(1)
    const { stderr } = setup.heard()
    expect(stderr).toContain(
      only === 'api'
        ? 'keeps 2 of the 5 entries that it took in on 2 days: not sent; live reading has not come to them yet'
        : 'keeps 1 of the 4 entries that it took in on 1 day: only that is sent; live reading has not come to them yet',
    )
    const taken = await journal.take('siem', plenty)
    expect(taken && idsOf(taken)).toEqual(only === 'api' ? undefined : [uuid(4), uuid(5)])
  },
)

test('for a joined replay such days are reported as not sent', async () => {
  const replays = await running()
  replays.readTo = START_US - 1
  replays.joins = 1
  expect(await replay(setup.context, options(), clock)).toBe(1)
  expect(setup.heard().stderr).toContain('not sent; live reading has not come to them yet')
})
