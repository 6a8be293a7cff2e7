// `run`: the daemon, until a signal; `once.ts` has --once.
import type { Environment } from '../../app/environment.ts'
import { realFiles } from '../../config/files.ts'
import { ConfigFaults } from '../../config/faults.ts'
import type { LoadedConfig } from '../../config/load.ts'
import type { Config } from '../../config/schema.ts'
import { loadToRun } from '../../config/environment-checks.ts'
import type { Log } from '../../core/log.ts'
import { durationMs, durationPattern } from '../../core/units.ts'
import { notifyServiceManager } from '../../platform/process.ts'
import { openTracing } from '../../observability/tracing/open.ts'
import { configFile, references } from '../shared/config-file.ts'
import { runDaemon, withErrorReport } from './daemon.ts'
import { realEnvironment } from '../shared/environment.ts'
import { reloading } from './reload.ts'
import { type Once, reportOnce, runOnce } from './once.ts'
import type { CommandContext } from '../shared/context.ts'
import { exitCodes, WrongUsage } from '../shared/context.ts'

interface RunOptions {
  readonly config?: string
  readonly once?: boolean
  /** of --once: duration */
  readonly timeout?: string
}

export async function run(context: CommandContext, options: RunOptions): Promise<number> {
  const timeoutMs = timeoutOf(options)
  if (options.timeout !== undefined && options.once !== true)
    throw new WrongUsage('--timeout needs --once: the daemon runs until it is stopped')
  return withErrorReport(context, (useLog) => runOn(context, options, timeoutMs, useLog))
}

async function runOn(
  context: CommandContext,
  options: RunOptions,
  timeoutMs: number,
  useLog: (log: Log) => void,
): Promise<number> {
  const file = configFile(context, options.config)
  const load = () => loadToRun(file, references(context), realFiles)
  const loaded = loadToRun(file, references(context), realFiles, true)
  const { config } = loaded
  if (options.once === true) assertOneJournal(loaded)
  const { log, clock } = realEnvironment(config, context)
  useLog(log)
  for (const { path, message } of loaded.warnings)
    log.warn('Other users of this machine may read, change or replace a file that this program uses', {
      setting: path.join('.') || 'the configuration file',
      reason: message,
    })
  const tracing = await openTracing({ env: context.env, version: context.version, log, clock })
  // One per process: the trace of a batch may link to reads under an earlier configuration.
  const environmentOf = (of: Config): Environment => ({ ...realEnvironment(of, context), tracing })
  const environment = environmentOf(config)
  let once: Once | undefined
  try {
    if (options.once === true) {
      once = await runOnce(config, environment, context, timeoutMs)
      return once.code
    }
    const onHangup = context.onHangup ?? (() => undefined)
    const reload = { file, clock, onHangup, references: references(context), loaded, load, environmentOf }
    const { env, signal, journalCheck } = context
    signal.addEventListener('abort', () => notifyServiceManager(env, log, 'STOPPING=1'), { once: true })
    await runDaemon({ config, environment }, signal, {
      journalCheck,
      nextSetup: reloading(reload),
      started: () => notifyServiceManager(env, log, 'READY=1'),
      takesOver: (next) => useLog(next.environment.log),
    })
    return exitCodes.done
  } finally {
    await tracing?.close()
    // After the log, where scripts look for it.
    if (once) reportOnce(once, context, config)
  }
}

/** Throws ConfigFaults. */
function assertOneJournal({ config, document, file }: LoadedConfig): void {
  if (!config.journal.postgres) return
  const path = ['journal', 'postgres']
  const message =
    'run --once does not work with a journal in PostgreSQL. Use the daemon (auditferry run), or give such a job a configuration of its own with journal.path, whose journal begins empty'
  throw new ConfigFaults([{ file, ...document.keyAt(path), path, message }])
}

/** Zero is invalid too: nothing could be read in no time. */
function timeoutOf({ timeout }: RunOptions): number {
  if (timeout === undefined) return Infinity
  if (durationPattern.test(timeout) && durationMs(timeout) > 0) return durationMs(timeout)
  throw new WrongUsage(`--timeout ${timeout}: expected a duration such as 90s or 10m`)
}
