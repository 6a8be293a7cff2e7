// The invariants: what must hold of every run, whatever went wrong in it.
import type { App } from '../../src/app.ts'
import type { MockEntry } from '../../src/mock/entry.ts'
import { balanceOf } from '../../src/model/balance.ts'
import { hecBatchEntries } from './scenario.ts'
import type { World } from './simulate.ts'
import { FILE_PATH, secrets } from './simulate.ts'

/** What lies between CR and LF outside of strings is all that raw may lack. */
function onOneLine(raw: Uint8Array): string {
  return Buffer.from(raw)
    .toString('latin1')
    .replace(/[\r\n]/g, '')
}

function idOf(line: string): string {
  return (JSON.parse(Buffer.from(line, 'latin1').toString()) as { id: string }).id
}

function fileLines(world: World): string[] {
  // Rotated files hold the older lines.
  const paths = world.disk.paths().filter((path) => path.startsWith(FILE_PATH))
  const age = (path: string) => Number(/\.(\d+)$/.exec(path)?.[1] ?? 0)
  return paths
    .toSorted((a, b) => age(b) - age(a))
    .flatMap((path) => (world.disk.content(path)?.toString('latin1') ?? '').split('\n'))
    .filter((line) => line !== '')
}

const SWEPT_MS = 7 * 3_600_000

/** What each sink must hold: everything that was shown whole or has been there for long, from the start on, and is no malformed element. */
function wanted(world: World): readonly MockEntry[] {
  const { start } = world.scenario
  const startUs = start === 'earliest' ? 0 : (world.scenario.startAt - 6 * 3_600_000) * 1000
  // Behind an entry that cannot be read, the rest of its second is a gap that is told.
  const swept = world.scenario.faults.poison === 0
  return world.mock.entries().filter(({ shownAt, shownBy, defect, atUs, visibleAt }) => {
    // `latest` is only asked for its id and time.
    const shown = shownAt !== undefined && shownBy.some((where) => where !== 'latest')
    // A full sweep comes at least every six hours: what has been visible for longer must have been asked for.
    const due = swept && visibleAt < world.clock.now() - SWEPT_MS
    return (shown || due) && defect === undefined && atUs >= startUs
  })
}

interface Received {
  readonly sink: string
  readonly lines: readonly string[]
  /** how many lines may stand twice */
  readonly mayRepeat: number
  readonly unordered?: boolean
}

function received(world: World): readonly Received[] {
  const { batchEntries, acks } = world.scenario
  const crashes = world.deaths
  const inFlight = acks?.maxInFlight ?? 1
  return [
    { sink: 'archive', lines: fileLines(world), mayRepeat: 0 },
    {
      sink: 'splunk',
      lines: world.hec.indexed.map(({ event }) => event.toString('latin1')),
      mayRepeat: hecBatchEntries(world.scenario) * inFlight * (crashes + world.hecDoubts + 1),
      // What an indexer lost comes later.
      unordered: acks !== undefined,
    },
    {
      sink: 'console',
      lines: world.printed.map((line) => line.toString('latin1')),
      mayRepeat: batchEntries * crashes,
    },
  ]
}

function judgeSink(world: World, { sink, lines, mayRepeat }: Received): string[] {
  const faults: string[] = []
  const byId = new Map(world.mock.entries().map((entry) => [entry.id, entry]))
  const seen = new Set<string>()
  let repeats = 0
  for (const line of lines) {
    const id = idOf(line)
    if (seen.has(id)) repeats++
    seen.add(id)
    const entry = byId.get(id)
    if (!entry) faults.push(`${sink}: a line that the mock never made: ${id}`)
    else if (onOneLine(entry.raw) !== line) faults.push(`${sink}: entry ${id} is not what the API sent`)
  }
  if (repeats > mayRepeat) faults.push(`${sink}: ${repeats} lines stand twice, at most ${mayRepeat} may`)
  const missing = wanted(world).filter(({ id }) => !seen.has(id))
  for (const entry of missing.slice(0, 3))
    faults.push(
      `${sink}: entry ${entry.id} is missing (of ${missing.length}): type ${entry.type}, at ${new Date(entry.atUs / 1000).toISOString()}, visible ${new Date(entry.visibleAt).toISOString()}, shown ${new Date(entry.shownAt ?? 0).toISOString()} by ${entry.shownBy.join(' ')}`,
    )
  return faults
}

function order(lines: readonly string[]): string[] {
  return [...new Set(lines.map(idOf))]
}

function judgeOrder([first, ...others]: readonly Received[]): string[] {
  if (!first) return []
  const journal = order(first.lines)
  return others.flatMap(({ sink, lines, unordered }) => {
    if (unordered) return []
    const own = order(lines)
    const at = own.findIndex((id, index) => id !== journal[index])
    return at < 0 ? [] : [`${sink}: line ${at} is out of the journal's order`]
  })
}

function judgeBudget(world: World): string[] {
  const counted = world.mock.requests.filter((request) => request.area === 'audit').map(({ at }) => at)
  let first = 0
  for (const [index, at] of counted.entries()) {
    while ((counted[first] as number) <= at - 60_000) first++
    if (index - first + 1 > 60)
      return [`more than 60 requests in the minute before ${new Date(at).toISOString()}`]
  }
  return []
}

function judgeLog(world: World): string[] {
  const text = world.logged.join('\n')
  const told = secrets.filter((secret) => text.includes(secret))
  const people = new Set(
    world.mock
      .entries()
      .slice(0, 500)
      .map(({ raw }) => /"user": ?"([^"]+@[^"]+)"/.exec(Buffer.from(raw).toString())?.[1] ?? ''),
  )
  const content = [...people].filter((user) => user.length > 4 && text.includes(user))
  return [
    ...told.map((secret) => `the log tells the secret ${secret}`),
    ...content.map((user) => `the log tells of ${user}`),
  ]
}

function judgeApp(app: App | undefined): string[] {
  if (!app) return ['the daemon does not run at the end']
  const { sinks, workspaces } = app.board.status()
  return [
    ...sinks
      .filter((sink) => sink.owed_entries > 0)
      .map((sink) => `${sink.name}: ${sink.owed_entries} still owed: ${JSON.stringify(sink)}`),
    ...sinks
      .filter((sink) => sink.dead_letters > 0)
      .map((sink) => `${sink.name}: ${sink.dead_letters} dead letters`),
    ...workspaces.flatMap((workspace) =>
      workspace.sources
        .filter(
          (source) => source.state === 'failing' || source.state === 'held' || source.state === 'paused',
        )
        .map((source) => `${source.name}: ${JSON.stringify(source)}`),
    ),
  ]
}

/** Every entry that was kept is accounted for at every sink, on the day of its own time. */
async function judgeBalance(app: App | undefined): Promise<string[]> {
  if (!app) return []
  const sinks = app.board.status().sinks.map(({ name }) => name)
  const { rows } = await balanceOf(app.journal, { fromDay: -1e6, toDay: 1e7 }, sinks)
  const uneven = rows.filter(({ missing }) => missing !== 0)
  return [
    ...(rows.length === 0 ? ['nothing was counted at any sink'] : []),
    ...uneven.slice(0, 3).map((row) => `${row.sink}: does not come out even: ${JSON.stringify(row)}`),
  ]
}

function judgeAcks({ tooEarly }: World): string[] {
  if (tooEarly.length === 0) return []
  return [`splunk: ${tooEarly.length} entries were settled before they were safe, such as ${tooEarly[0]}`]
}

export async function judge(world: World, app: App | undefined): Promise<string[]> {
  const sinks = received(world)
  return [
    ...judgeAcks(world),
    ...sinks.flatMap((sink) => judgeSink(world, sink)),
    ...judgeOrder(sinks),
    ...judgeBudget(world),
    ...judgeLog(world),
    ...judgeApp(app),
    ...(await judgeBalance(app)),
  ].slice(0, 12)
}
