// `tap`: live samples of what a sink is sent. They are content: only where the configuration allows it, only through the running daemon.
import type { StatusReport } from '../observability/status.ts'
import { spanText } from '../observability/words.ts'
import { printable } from '../core/printable.ts'
import { configFile } from './shared/config-file.ts'
import { showContent } from './shared/export-file.ts'
import { reachDaemon } from './shared/journal.ts'
import { isKnown } from './shared/names.ts'
import { exitCodes, type CommandContext } from './shared/world.ts'

interface TapOptions {
  readonly config?: string
  readonly sink: string
  readonly limit: number
}

const WAIT_MS = 2_000
const LF = Buffer.from('\n')

/** Until so many lines were shown, until nobody reads them, or until the signal. */
export async function tap(
  context: CommandContext,
  { config: given, sink, limit }: TapOptions,
): Promise<number> {
  const file = configFile(context, given)
  const { config, client } = await reachDaemon(file, context)
  // What the daemon runs with may not be what the file says by now.
  const { sinks } = client ? await client.status() : config
  if (!isKnown(context, 'sink', sink, sinks)) return exitCodes.usage
  if (!client) {
    context.stderr(`auditferry: no daemon runs on ${file}: there is nothing to look into\n`)
    return exitCodes.failed
  }
  // Whether it may be looked into the daemon says: nobody is told to wait for a refusal.
  await client.tap(sink, 1, 0)
  context.stderr(`auditferry: waiting for what ${sink} is sent next; Ctrl-C ends it\n`)
  const taken = config?.sinks.find(({ name }) => name === sink)?.sources
  let told: string | undefined
  let isDueTold = false
  for (let left = limit; left > 0 && !context.signal.aborted;) {
    const lines = await client.tap(sink, left, WAIT_MS)
    const report = lines.length === 0 ? await client.status() : undefined
    const why = report && whyNothing(report, sink)
    const due: string | undefined = report && !why && !isDueTold ? dueText(report, taken) : undefined
    if (due !== undefined) context.stderr(`auditferry: ${due}\n`)
    isDueTold ||= due !== undefined
    if (why !== undefined && why !== told) context.stderr(`auditferry: ${why}\n`)
    told = why
    for (const line of lines)
      if (!(await showContent(context, line.at(-1) === LF[0] ? line : Buffer.concat([line, LF]))))
        return exitCodes.done
    left -= lines.length
  }
  return exitCodes.done
}

/** What keeps lines from coming, where that is known. */
function whyNothing({ journal, sinks }: StatusReport, name: string): string | undefined {
  const sink = sinks.find((one) => one.name === name)
  if (sink && (sink.state === 'blocked' || sink.state === 'failing'))
    return `${name} receives nothing at the moment: it is ${sink.state}${sink.error ? `: ${printable(sink.error.message)}` : ''}`
  if (!journal.paused) return undefined
  return 'reading is paused, so nothing new comes: auditferry status says why'
}

/** Where all is well, and nothing new is there: of the sources that it takes the one that is read first. */
function dueText(report: StatusReport, taken: readonly string[] | undefined): string | undefined {
  const now = Date.parse(report.reported_at)
  const [first] = report.workspaces
    .flatMap(({ name: workspace, sources }) =>
      sources
        .filter(({ name, state }) => state === 'idle' && (taken?.includes(name) ?? true))
        .flatMap(({ name, last_success_at: at, interval_seconds: seconds }) =>
          at === null || seconds === undefined
            ? []
            : [{ name: `${workspace} ${name}`, left: Math.max(0, seconds - (now - Date.parse(at)) / 1000) }],
        ),
    )
    .sort((one, other) => one.left - other.left)
  if (!first) return undefined
  return `nothing was new so far; ${printable(first.name)} is read next, within ${spanText(first.left)}`
}
