// `backfill`: starts a backfill in the daemon and follows it. It continues without the command.
import { basePath } from '../config/journal.ts'
import { sourcesOf } from '../config/schema.ts'
import type { Config } from '../config/schema.ts'
import { progressOf } from '../contracts/jobs.ts'
import type { Job } from '../contracts/jobs.ts'
import { sourceNames } from '../contracts/source.ts'
import type { SourceName } from '../contracts/source.ts'
import { connectControl } from '../control/client.ts'
import type { Clock } from '../core/clock.ts'
import { secondText } from '../core/time.ts'
import { countText, numberText } from '../observability/words.ts'
import { systemClock } from '../platform/clock.ts'
import { configFile, knownConfig } from './shared/config-file.ts'
import { spanOf } from './shared/instants.ts'
import {
  follow,
  gapsText,
  showOrCancel,
  nameText,
  percentText,
  spanText,
  unreadText,
  withoutDaemon,
} from './shared/jobs.ts'
import type { JobTexts } from './shared/jobs.ts'
import { unknownName } from './shared/names.ts'
import { assertUsage, WrongUsage } from './shared/context.ts'
import type { CommandContext } from './shared/context.ts'

export interface BackfillCommandOptions {
  readonly config?: string
  readonly from?: string
  readonly to?: string
  readonly workspace?: string
  readonly source?: string
  readonly status: boolean
  readonly cancel: boolean
}

/** Sources with a past: the vault shows only its current state, and prompts are in the history. */
const again: readonly SourceName[] = ['audit', 'history.usage', 'history.query']

export async function backfill(
  context: CommandContext,
  options: BackfillCommandOptions,
  clock: Clock = systemClock,
): Promise<number> {
  const { workspace, source: name } = options
  const file = configFile(context, options.config)
  const source = again.find((one) => one === name)
  const streams = { ...(workspace !== undefined && { workspace }), ...(source && { source }) }
  if (name !== undefined && !source) throw withoutJobs(name)
  if (options.status || options.cancel) return showOrCancel(context, file, texts, streams, !options.status)
  if (options.from === undefined) throw new WrongUsage('expected --from <time>, --status or --cancel')
  const span = spanOf(options.from, options.to, clock.now())
  const config = knownConfig(file, context)
  assertUsage(unknownName('workspace', workspace, config.workspaces))
  if (source && !config.workspaces.some((one) => sourcesOf(one).includes(source)))
    throw new WrongUsage(`--source ${source} is not switched on at any workspace: nothing reads it`)
  const connect = () => connectControl(basePath(config))
  const client = await connect()
  if (!client) return withoutDaemon(context, file, texts)
  if (span.toUs > clock.now() * 1000) context.stderr('auditferry: --to lies in the future: now is used\n')
  warnOfRepeats(context, span.fromUs, config, clock)
  return follow(context, texts, await client.jobs.backfill(streams, span), connect, clock)
}

function withoutJobs(source: string): WrongUsage {
  const fault = sourceNames.some((name) => name === source)
    ? `--source ${source} has no past that could be read again`
    : `there is no source ${source}`
  return new WrongUsage(`${fault}; there are ${again.join(', ')}`)
}

/** Warns about entries whose keys are forgotten: they would count as new. */
function warnOfRepeats({ stderr }: CommandContext, fromUs: number, { journal }: Config, clock: Clock): void {
  const sinceMs = clock.now() - journal.dedup_retention
  if (fromUs / 1000 >= sinceMs) return
  stderr(
    `auditferry: what is older than ${secondText(sinceMs)} (journal.dedup_retention) may no longer be known: such entries are kept and sent again, with the same ids\n`,
  )
}

const BAR_WIDTH = 30

const texts: JobTexts = {
  kind: 'backfill',
  needs: 'a backfill',
  title: 'backfill',
  stays: (whose) => `what ${whose} read stays`,
  countsText,
  endText: (job, ended) =>
    `${nameText(job)}, ${job.spans.map(spanText).join(', ')}: ${ended}: ${countsText(job)}${unreadText(job.unread)}`,
  barText,
}

function barText(all: readonly Job[]): string {
  const ratio = all.reduce((sum, job) => sum + (progressOf(job) ?? 0), 0) / Math.max(1, all.length)
  const done = Math.round(ratio * BAR_WIDTH)
  const [first] = all
  const name = all.length === 1 && first ? nameText(first) : countText(all.length, 'backfills')
  const read = all.reduce((sum, { counts }) => sum + counts.read, 0)
  const added = all.reduce((sum, { counts }) => sum + counts.new, 0)
  const counts = `${countText(read, 'entries')} read, ${countText(added, 'new')}`
  return `${name} [${'#'.repeat(done)}${'.'.repeat(BAR_WIDTH - done)}] ${percentText(ratio)}  ${counts}`
}

function countsText({ counts }: Job): string {
  const { read, new: added, known, filtered, quarantined, gaps } = counts
  return `${numberText(read)} read, ${numberText(added)} new, ${numberText(known)} known, ${numberText(filtered)} filtered, ${numberText(quarantined)} quarantined${gapsText(gaps)}`
}
