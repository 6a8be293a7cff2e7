// `tap`: live samples of a sink's lines. They are content, so the sink must allow it (`tap: true`).
import type { StatusReport } from '../observability/status.ts'
import { spanText } from '../observability/words.ts'
import { printable } from '../core/printable.ts'
import { configFile } from './shared/config-file.ts'
import { showContent } from './shared/export-file.ts'
import { reachDaemon } from './shared/journal.ts'
import { unknownName } from './shared/names.ts'
import { assertUsage, exitCodes, type CommandContext } from './shared/context.ts'

interface TapOptions {
  readonly config?: string
  readonly sink: string
  readonly limit: number
}

const WAIT_MS = 2_000
const LF = Buffer.from('\n')

/** Ends after `limit` lines, when the reader of the output is gone, or at the signal. */
export async function tap(
  context: CommandContext,
  { config: given, sink, limit }: TapOptions,
): Promise<number> {
  const file = configFile(context, given)
  const { config, client } = await reachDaemon(file, context)
  // The daemon may run with an older configuration than the file.
  const { sinks } = client ? await client.status() : config
  assertUsage(unknownName('sink', sink, sinks))
  if (!client) {
    context.stderr(`auditferry: no daemon runs on ${file}: there is nothing to look into\n`)
    return exitCodes.failed
  }
  // The daemon rejects a sink without `tap: true`: ask before announcing the wait.
  await client.tap(sink, 1, 0)
  context.stderr(`auditferry: waiting for what ${sink} is sent next; Ctrl-C ends it\n`)
  const taken = config?.sinks.find(({ name }) => name === sink)?.sources
  let printed: string | undefined
  let isDuePrinted = false
  for (let left = limit; left > 0 && !context.signal.aborted;) {
    const lines = await client.tap(sink, left, WAIT_MS)
    const report = lines.length === 0 ? await client.status() : undefined
    const why = report && whyNothing(report, sink)
    const due: string | undefined = report && !why && !isDuePrinted ? dueText(report, taken) : undefined
    if (due !== undefined) context.stderr(`auditferry: ${due}\n`)
    isDuePrinted ||= due !== undefined
    if (why !== undefined && why !== printed) context.stderr(`auditferry: ${why}\n`)
    printed = why
    for (const line of lines)
      if (!(await showContent(context, line.at(-1) === LF[0] ? line : Buffer.concat([line, LF]))))
        return exitCodes.done
    left -= lines.length
  }
  return exitCodes.done
}

/** Why no lines come, if known. */
function whyNothing({ journal, sinks }: StatusReport, name: string): string | undefined {
  const sink = sinks.find((one) => one.name === name)
  if (sink && (sink.state === 'blocked' || sink.state === 'failing'))
    return `${name} receives nothing at the moment: it is ${sink.state}${sink.error ? `: ${printable(sink.error.message)}` : ''}`
  if (!journal.paused) return undefined
  return 'reading is paused, so nothing new comes: auditferry status says why'
}

/** When nothing is wrong but nothing new has come: which source of the sink is read next. */
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
