// `validate`: checks the text, what it refers to on this machine, and with --connect the peers.
import { faultLine, sortFaults } from '../config/faults.ts'
import { realFiles } from '../config/files.ts'
import { journalText } from '../config/journal.ts'
import { examineConfig } from '../config/load.ts'
import { sourcesOf, type Config, type SinkConfig, type WorkspaceConfig } from '../config/schema.ts'
import { checkEnvironment } from '../config/environment-checks.ts'
import { checkConnections } from '../app/checks.ts'
import { ConnectorError } from '../core/errors.ts'
import { checkDatabase } from '../journal/postgres/check.ts'
import { postgresSettings } from './shared/postgres.ts'
import { printable } from '../core/printable.ts'
import type { CheckResult } from '../contracts/sink.ts'
import { countText } from '../observability/words.ts'
import { systemClock } from '../platform/clock.ts'
import { kindOf } from '../sinks/index.ts'
import { configFile, references } from './shared/config-file.ts'
import { instanceOf, quietEnvironment } from './shared/environment.ts'
import { exitCodes, type CommandContext } from './shared/context.ts'

interface ValidateOptions {
  readonly config?: string
  readonly connect: boolean
}

export type ConnectChecks = (config: Config, context: CommandContext) => Promise<readonly CheckResult[]>

function workspaceLine(workspace: WorkspaceConfig): string {
  return `  workspace ${workspace.name} reads ${sourcesOf(workspace).join(', ') || 'nothing'} from ${workspace.base_url}\n`
}

/** Lists only sources that some workspace has switched on. */
function sinkLine(sink: SinkConfig, read: ReadonlySet<string>): string {
  const sources = sink.sources.filter((source) => read.has(source)).join(', ') || 'nothing'
  return `  sink ${sink.name} (${sink.type}, assurance: ${kindOf(sink.type).assurance(sink)}) takes ${sources} as ${sink.format}\n`
}

function printSummary(context: CommandContext, file: string, config: Config): void {
  context.stdout(`${file}\n  journal ${journalText(config)} (not opened)\n`)
  for (const workspace of config.workspaces) context.stdout(workspaceLine(workspace))
  const read = new Set<string>(config.workspaces.flatMap(sourcesOf))
  for (const sink of config.sinks) context.stdout(sinkLine(sink, read))
}

async function connect(
  config: Config,
  context: CommandContext,
  checks: ConnectChecks,
): Promise<{ readonly failed: number; readonly all: number }> {
  context.stdout("asking each API and sink; the few requests to the API count against the key's rate limit\n")
  const results = await checks(config, context)
  for (const { what, ok, message } of results)
    context[ok ? 'stdout' : 'stderr'](`  ${ok ? 'ok  ' : 'FAIL'} ${what}: ${printable(message)}\n`)
  return { failed: results.filter(({ ok }) => !ok).length, all: results.length }
}

async function checkAll(config: Config, context: CommandContext): Promise<readonly CheckResult[]> {
  const instance = await instanceOf(config)
  return [
    ...(await checkJournal(config)),
    ...(await checkConnections(config, quietEnvironment(config, context), context.signal, instance)),
  ]
}

async function checkJournal({ journal: { postgres } }: Config): Promise<readonly CheckResult[]> {
  if (!postgres) return []
  const { schema } = postgres
  const what = 'journal'
  try {
    const role = await checkDatabase(postgresSettings(postgres), schema)
    return [{ what, ok: true, message: `the role ${role} may work with the schema ${schema}` }]
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    return [{ what, ok: false, message: error.message }]
  }
}

export async function validate(
  context: CommandContext,
  options: ValidateOptions,
  connectChecks: ConnectChecks = checkAll,
): Promise<number> {
  const file = configFile(context, options.config)
  const examined = examineConfig(file, references(context))
  const around = examined.loaded && checkEnvironment(examined.loaded, realFiles, systemClock.now())
  for (const warning of sortFaults(around?.warnings ?? []))
    context.stderr(`${faultLine({ ...warning, message: `warning: ${warning.message}` })}\n`)
  const faults = sortFaults([...examined.faults, ...(around?.faults ?? [])])
  for (const fault of faults) context.stderr(`${faultLine(fault)}\n`)
  if (!examined.loaded || faults.length > 0) return exitCodes.config
  const { config } = examined.loaded
  printSummary(context, file, config)
  const checked = options.connect ? await connect(config, context, connectChecks) : undefined
  if (checked && checked.failed > 0) {
    context.stderr(
      `auditferry: the configuration is valid, but ${checked.failed} of ${checked.all} connection checks failed\n`,
    )
    return exitCodes.config
  }
  context.stdout(
    `ok: ${countText(config.workspaces.length, 'workspaces')}, ${countText(config.sinks.length, 'sinks')}, ${countText(around?.warnings.length ?? 0, 'warnings')}\n`,
  )
  return exitCodes.done
}
