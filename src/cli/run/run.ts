// `auditferry run`: the daemon, until a signal; `once.ts` has --once.
import type { Outside } from '../../app/environment.ts'
import { realFiles } from '../../config/files.ts'
import type { Config } from '../../config/schema.ts'
import { loadToRun } from '../../config/environment-checks.ts'
import type { Log } from '../../core/log.ts'
import { durationMs, durationPattern } from '../../core/units.ts'
import { tellServiceManager } from '../../platform/process.ts'
import { openTracing } from '../../observability/tracing/open.ts'
import { configFile, references } from '../shared/config-file.ts'
import { runDaemon, withLastWords } from './daemon.ts'
import { realOutside } from '../shared/environment.ts'
import { reloading } from './reload.ts'
import { type Once, reportOnce, runOnce } from './once.ts'
import type { World } from '../shared/world.ts'
import { exitCodes } from '../shared/world.ts'

interface RunOptions {
  readonly config?: string
  readonly once?: boolean
  /** of --once: a duration */
  readonly timeout?: string
}

export async function run(world: World, options: RunOptions): Promise<number> {
  const timeoutMs = timeoutOf(options)
  if (timeoutMs === undefined) {
    world.stderr(`auditferry: --timeout ${options.timeout}: expected a duration such as 90s or 10m\n`)
    return exitCodes.usage
  }
  if (options.timeout !== undefined && options.once !== true) {
    world.stderr('auditferry: --timeout needs --once: the daemon runs until it is stopped\n')
    return exitCodes.usage
  }
  return withLastWords(world, (useLog) => runOn(world, options, timeoutMs, useLog))
}

async function runOn(
  world: World,
  options: RunOptions,
  timeoutMs: number,
  useLog: (log: Log) => void,
): Promise<number> {
  const file = configFile(world, options.config)
  const load = () => loadToRun(file, references(world), realFiles)
  const loaded = loadToRun(file, references(world), realFiles, true)
  const { config } = loaded
  const { log, clock } = realOutside(config, world)
  useLog(log)
  for (const { path, message } of loaded.warnings)
    log.warn('Other users of this machine may read, change or replace a file that this program uses', {
      setting: path.join('.') || 'the configuration file',
      reason: message,
    })
  const tracing = await openTracing({ env: world.env, version: world.version, log, clock })
  // One for the process: what is told of a batch may link to what a former configuration read.
  const outsideOf = (of: Config): Outside => ({ ...realOutside(of, world), tracing })
  const outside = outsideOf(config)
  let once: Once | undefined
  try {
    if (options.once === true) {
      once = await runOnce(config, outside, world, timeoutMs)
      return once.code
    }
    const onHangup = world.onHangup ?? (() => undefined)
    const reload = { file, clock, onHangup, references: references(world), loaded, load, outsideOf }
    const { env, signal, journalCheck } = world
    signal.addEventListener('abort', () => tellServiceManager(env, log, 'STOPPING=1'), { once: true })
    await runDaemon({ config, outside }, signal, {
      journalCheck,
      nextSetup: reloading(reload),
      started: () => tellServiceManager(env, log, 'READY=1'),
      takesOver: (next) => useLog(next.outside.log),
    })
    return exitCodes.done
  } finally {
    await tracing?.close()
    // Behind the log, where a job looks for it.
    if (once) reportOnce(once, world, config)
  }
}

/** Undefined: what is given is none. In no time nothing could be read. */
function timeoutOf({ timeout }: RunOptions): number | undefined {
  if (timeout === undefined) return Infinity
  return durationPattern.test(timeout) && durationMs(timeout) > 0 ? durationMs(timeout) : undefined
}
