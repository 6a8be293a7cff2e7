// The invariants: what must be true of every run, whatever went wrong in it.
import type { App } from '../../src/app/app.ts'
import type { MockEntry } from '../../src/mock/entry.ts'
import type { FakeS3 } from '../fakes/s3.ts'
import { accountReport } from '../../src/contracts/accounts.ts'
import { historyTruth, judgeHistory, judgeQueryText } from './judge-history.ts'
import type { HistoryTruth } from './judge-history.ts'
import { judgePast } from './judge-jobs.ts'
import { judgeReports } from './judge-reports.ts'
import { judgeInventory, judgeRecords } from './judge-vault.ts'
import type { VaultFacts } from './judge-vault.ts'
import { lineOf, onOneLine } from './lines.ts'
import type { Judged, Line } from './lines.ts'
import { FILE_PATH, secrets, sourcesOf } from './config.ts'
import { hecBatchEntries } from './scenario.ts'
import type { Stage } from './simulate.ts'

function fileLines(stage: Stage): string[] {
  // Rotated files have the older lines.
  const paths = stage.disk.paths().filter((path) => path.startsWith(FILE_PATH))
  const age = (path: string) => Number(/\.(\d+)$/.exec(path)?.[1] ?? 0)
  return paths
    .toSorted((a, b) => age(b) - age(a))
    .flatMap((path) => (stage.disk.content(path)?.toString('latin1') ?? '').split('\n'))
    .filter((line) => line !== '')
}

const SWEPT_MS = 7 * 3_600_000

/** What each sink must have: everything that was shown whole or has existed for long, from the start on, and is no malformed element. */
function wanted(stage: Stage): readonly MockEntry[] {
  const { start } = stage.scenario
  const startUs = start === 'earliest' ? 0 : (stage.scenario.startAt - 6 * 3_600_000) * 1000
  // Behind an unreadable entry, or a dead cursor, the rest of its second is a gap that is reported.
  const swept = stage.scenario.faults.poison === 0
  const second = (atUs: number) => Math.floor(atUs / 1e6)
  const entries = stage.mock.entries()
  const dead = entries.find(({ id }) => id === stage.outages.deadCursor())
  return entries.filter(({ shownAt, shownBy, defect, atUs, visibleAt }) => {
    // `latest` is only used for its id and time.
    const shown = shownAt !== undefined && shownBy.some((where) => where !== 'latest')
    // A full lookback comes at least every six hours: what has been visible for longer must have been requested.
    const isBehindDead = dead !== undefined && second(atUs) === second(dead.atUs)
    const due = swept && visibleAt < stage.clock.now() - SWEPT_MS
    // A page that only checks whether the API answers may show such an entry too.
    return (shown || due) && !isBehindDead && defect === undefined && atUs >= startUs
  })
}

interface Received {
  readonly sink: string
  readonly lines: readonly Line[]
  readonly sources: readonly string[]
  /** how many lines may be there twice */
  readonly mayRepeat: number
  readonly unordered?: boolean
  /** of a bucket: the lines that share a folder, in the order of its names; absent: all lines */
  readonly folders?: readonly (readonly Line[])[]
}

/** A replay is recognized by its mark. */
function hecLines({ hec }: Stage, marked: boolean): Line[] {
  const own = hec.indexed.filter(({ fields }) => (fields['replay'] !== undefined) === marked)
  return own.map(({ event }) => lineOf(event.toString('latin1')))
}

function mayRepeatAtHec({ scenario, deaths, takeovers, hecDoubts }: Stage): number {
  const ends = deaths + takeovers
  return hecBatchEntries(scenario) * (scenario.acks?.maxInFlight ?? 1) * (ends + hecDoubts + 1)
}

/** Its lines by workspace, source and day: only those are in the journal's order. */
function bucketFolders(s3: FakeS3): readonly (readonly Line[])[] {
  const objects = s3.entries.toSorted((one, other) => (one.key < other.key ? -1 : 1))
  const folders = Map.groupBy(objects, ({ key }) => key.slice(0, key.lastIndexOf('/')))
  return [...folders.values()].map((inOne) =>
    inOne.flatMap(({ body }) => body.toString('latin1').split('\n').slice(0, -1).map(lineOf)),
  )
}

/** Replaced objects would hide entries that were stored twice. */
function judgeBucket({ s3 }: Stage): string[] {
  const replaced = s3?.entries.filter(({ versions }) => versions > 1) ?? []
  return replaced.length === 0 ? [] : [`archive: ${replaced.length} objects were stored more than once`]
}

function archiveOf(stage: Stage): Received {
  const common = { sink: 'archive', sources: sourcesOf(stage.scenario, 'archive'), mayRepeat: 0 }
  if (!stage.s3) return { ...common, lines: fileLines(stage).map(lineOf) }
  const folders = bucketFolders(stage.s3)
  return { ...common, lines: folders.flat(), folders }
}

function received(stage: Stage): readonly Received[] {
  const { batchEntries, acks } = stage.scenario
  const sources = (sink: string) => sourcesOf(stage.scenario, sink)
  const crashes = stage.deaths
  const always: Received[] = [
    archiveOf(stage),
    {
      sink: 'splunk',
      lines: hecLines(stage, false),
      sources: sources('splunk'),
      mayRepeat: mayRepeatAtHec(stage),
      // What an indexer lost comes later.
      unordered: acks !== undefined,
    },
  ]
  if (stage.s3) return always
  return [
    ...always,
    {
      sink: 'console',
      // An empty line precedes what may have been printed before, and been cut.
      lines: stage.printed.filter(({ length }) => length > 0).map((line) => lineOf(line.toString('latin1'))),
      sources: sources('console'),
      mayRepeat: batchEntries * crashes,
    },
  ]
}

function judgeSink(
  stage: Stage,
  truth: HistoryTruth | undefined,
  { sink, sources, lines, mayRepeat }: Received,
  archive: readonly Line[],
): string[] {
  const judged = [
    judgeAudit(stage, sink, lines),
    judgeHistory(truth, sink, sources, lines),
    judgeRecords(sink, lines, archive),
  ]
  const repeats = judged.reduce((sum, one) => sum + one.repeats, 0)
  return [
    ...(repeats > mayRepeat ? [`${sink}: ${repeats} lines stand twice, at most ${mayRepeat} may`] : []),
    ...judged.flatMap(({ faults }) => faults),
  ]
}

function judgeAudit(stage: Stage, sink: string, lines: readonly Line[]): Judged {
  const faults: string[] = []
  const byId = new Map(stage.mock.entries().map((entry) => [entry.id, entry]))
  const seen = new Set<string>()
  let repeats = 0
  for (const { source, id, text } of lines) {
    if (source !== 'audit' || id === undefined) continue
    if (seen.has(id)) repeats++
    seen.add(id)
    const entry = byId.get(id)
    if (!entry) faults.push(`${sink}: a line that the mock never made: ${id}`)
    else if (onOneLine(entry.raw) !== text) faults.push(`${sink}: entry ${id} is not what the API sent`)
  }
  const missing = wanted(stage).filter(({ id }) => !seen.has(id))
  for (const entry of missing.slice(0, 3))
    faults.push(
      `${sink}: entry ${entry.id} is missing (of ${missing.length}): type ${entry.type}, at ${new Date(entry.atUs / 1000).toISOString()}, visible ${new Date(entry.visibleAt).toISOString()}, shown ${new Date(entry.shownAt ?? 0).toISOString()} by ${entry.shownBy.join(' ')}`,
    )
  return { faults, repeats }
}

/** What both of two sinks want, each once, as it came first. */
function order(lines: readonly Line[], sources: readonly string[]): string[] {
  return [...new Set(lines.flatMap(({ source, text }) => (sources.includes(source) ? [text] : [])))]
}

const only = (lines: readonly Line[], texts: ReadonlySet<string>) =>
  lines.filter(({ text }) => texts.has(text))

function judgeOrder([first, ...others]: readonly Received[]): string[] {
  if (!first) return []
  return others.flatMap(({ sink, sources, lines, unordered }) => {
    if (unordered) return []
    const both = sources.filter((source) => first.sources.includes(source))
    return (first.folders ?? [first.lines]).flatMap((folder) => {
      const journal = order(folder, both)
      const shared = first.folders ? only(lines, new Set(journal)) : lines
      const at = order(shared, both).findIndex((text, index) => text !== journal[index])
      return at < 0 ? [] : [`${sink}: line ${at} is out of the journal's order`]
    })
  })
}

const limits = { audit: 60, history: 60, vault: 10 } as const

function judgeBudget(stage: Stage, area: keyof typeof limits): string[] {
  const counted = stage.mock.requests.filter((request) => request.area === area).map(({ at }) => at)
  let first = 0
  for (const [index, at] of counted.entries()) {
    while ((counted[first] as number) <= at - 60_000) first++
    if (index - first + 1 > limits[area])
      return [
        `${area}: more than ${limits[area]} requests in the minute before ${new Date(at).toISOString()}`,
      ]
  }
  return []
}

function judgeLog(stage: Stage, truth: HistoryTruth | undefined): string[] {
  const text = stage.logged.join('\n')
  const reported = secrets.filter((secret) => text.includes(secret))
  const people = new Set(
    stage.mock
      .entries()
      .slice(0, 500)
      .map(({ raw }) => /"user": ?"([^"]+@[^"]+)"/.exec(Buffer.from(raw).toString())?.[1] ?? ''),
  )
  const content = [...people].filter((user) => user.length > 4 && text.includes(user))
  return [
    ...reported.map((secret) => `the log tells the secret ${secret}`),
    ...content.map((user) => `the log tells of ${user}`),
    ...judgeQueryText(truth, text),
  ]
}

function judgeApp({ scenario }: Stage, app: App | undefined): string[] {
  // What stays unreadable is reported and retried for days.
  const poisoned = (scenario.faults.history_poison ?? 0) !== 0
  if (!app) return ['the daemon does not run at the end']
  const { sinks, workspaces } = app.registry.status()
  return [
    ...sinks
      .filter((sink) => sink.pending_entries > 0)
      .map((sink) => `${sink.name}: ${sink.pending_entries} still owed: ${JSON.stringify(sink)}`),
    ...sinks
      .filter((sink) => sink.dead_letters > 0)
      .map((sink) => `${sink.name}: ${sink.dead_letters} dead letters`),
    ...workspaces.flatMap((workspace) =>
      workspace.sources
        .filter(
          ({ name, state }) =>
            ['failing', 'blocked', 'paused'].includes(state) && !(poisoned && name.startsWith('history.')),
        )
        .map((source) => `${source.name}: ${JSON.stringify(source)}`),
    ),
  ]
}

/** Every entry that was kept is in the accounts of every sink, on the day of its own time. */
async function judgeBalance(app: App | undefined, received: number): Promise<string[]> {
  if (!app) return []
  const sinks = app.registry.status().sinks.map(({ name }) => name)
  const { rows } = await accountReport(app.journal, { fromDay: -1e6, toDay: 1e7 }, sinks)
  const uneven = rows.filter(({ missing }) => missing !== 0)
  return [
    ...(rows.length === 0 && received > 0 ? ['nothing was counted at any sink'] : []),
    ...uneven.slice(0, 3).map((row) => `${row.sink}: does not come out even: ${JSON.stringify(row)}`),
  ]
}

function judgeAcks({ tooEarly }: Stage): string[] {
  if (tooEarly.length === 0) return []
  return [`splunk: ${tooEarly.length} entries were settled before they were safe, such as ${tooEarly[0]}`]
}

/** A day is read again at least every six hours. */
const REREAD_MS = 7 * 3_600_000
/** Some passes without faults, each every two hours at least. */
const GONE_MS = 9 * 3_600_000
const CLOCKS_MS = 120_000

function historyOf({
  scenario: seed,
  mock,
  clock,
  deaths,
  takeovers,
  orders,
}: Stage): HistoryTruth | undefined {
  const scenario = seed.areas?.history
  if (!scenario) return undefined
  const poisoned = (seed.faults.history_poison ?? 0) !== 0
  return historyTruth({
    ...{ scenario, mock, startAt: seed.startAt, now: clock.now() },
    askedFromMs: orders && seed.operator?.backfills === true ? orders.span.fromUs / 1000 : Infinity,
    timeless: seed.switches.history_v1_time === 'off',
    doubles: (seed.faults.duplicated ?? 0) !== 0,
    dueBefore: poisoned ? -Infinity : clock.now() - REREAD_MS,
    // An answer may be lost with its reader, or find no memory, and the next one may show something else.
    everyContent: deaths + takeovers === 0 && seed.journalBytes === '2GiB',
  })
}

function vaultOf({ scenario, mock, clock }: Stage): VaultFacts | undefined {
  if (!scenario.areas?.vault) return undefined
  const passes = mock.requests.filter(
    ({ area, target, at }) => area === 'vault' && /[?&]page=1&/.test(target) && at < clock.now() - 600_000,
  )
  return {
    mock,
    passAt: passes.at(-1)?.at ?? 0,
    goneBefore: clock.now() - GONE_MS,
    clocksMs: CLOCKS_MS,
  }
}

export async function judge(stage: Stage, app: App | undefined): Promise<string[]> {
  const sinks = received(stage)
  const truth = historyOf(stage)
  const vault = vaultOf(stage)
  const archive = sinks[0]?.lines ?? []
  return [
    ...judgeAcks(stage),
    ...sinks.flatMap((sink) => judgeSink(stage, truth, sink, archive)),
    ...(vault ? judgeInventory(vault, archive) : []),
    ...judgeOrder(sinks),
    ...judgeBucket(stage),
    ...(['audit', 'history', 'vault'] as const).flatMap((area) => judgeBudget(stage, area)),
    ...(await judgePast(stage, app, sinks, hecLines(stage, true), mayRepeatAtHec(stage))),
    ...judgeLog(stage, truth),
    ...judgeApp(stage, app),
    ...(await judgeBalance(app, archive.length)),
    ...(await judgeReports(stage, app)),
  ].slice(0, 12)
}
