// `journal copy`: copies the journal of one configuration into the place that another one names,
// from SQLite to PostgreSQL or back.
import { workspacesByKey } from '../app/process.ts'
import { ConfigFaults } from '../config/faults.ts'
import { examineConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { randomDigits } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import { copyJournal } from '../journal/copy/copy.ts'
import type { CopyOptions } from '../journal/copy/copy.ts'
import { openPostgresSource, openPostgresTarget } from '../journal/copy/postgres.ts'
import { openSqliteSource, openSqliteTarget } from '../journal/copy/sqlite.ts'
import { systemClock, systemRandom } from '../platform/clock.ts'
import { references } from './shared/config-file.ts'
import { quietEnvironment } from './shared/environment.ts'
import { postgresSettings } from './shared/postgres.ts'
import type { PostgresConfig } from './shared/postgres.ts'
import { exitCodes, WrongUsage } from './shared/context.ts'
import type { CommandContext } from './shared/context.ts'

interface JournalCopyOptions {
  /** files */
  readonly from: string
  readonly to: string
  readonly leaveUnlisted: boolean
}

export async function journalCopy(context: CommandContext, options: JournalCopyOptions): Promise<number> {
  const [from, to] = [loaded(options.from, context), loaded(options.to, context)]
  if ((from.journal.postgres === undefined) === (to.journal.postgres === undefined))
    throw new WrongUsage(
      '--from and --to: exactly one of the two configurations has journal.postgres; a journal in a file is moved by moving the file while no daemon runs',
    )
  const { log } = quietEnvironment(from, context)
  const source = await sourceOf(from.journal, log)
  try {
    const target = await targetOf(to.journal, log)
    const shards = to.journal.postgres?.shards ?? 1
    try {
      await copyJournal({ source, target, shards, ...settingsOf(context, to, options) })
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
  context.stdout(
    `The copy is complete. Start with ${options.to} from now on, and never again with ${options.from}: its journal would deliver the same entries once more\n`,
  )
  return exitCodes.done
}

/** With all secrets: which workspaces share a key decides where they go. */
function loaded(file: string, context: CommandContext): Config {
  const { loaded: found, faults } = examineConfig(file, references(context))
  if (found === undefined || faults.length > 0) throw new ConfigFaults(faults)
  return found.config
}

function settingsOf(
  context: CommandContext,
  { workspaces }: Config,
  { leaveUnlisted }: JournalCopyOptions,
): Omit<CopyOptions, 'source' | 'target' | 'shards'> {
  return {
    groups: workspacesByKey(workspaces),
    manifestJournal: () => randomDigits(systemRandom, 24),
    leaveUnlisted,
    signal: context.signal,
    onTable: ({ what, count }) => context.stdout(`  ${what}: ${count}\n`),
  }
}

function sourceOf({ path, postgres }: Config['journal'], log: Log) {
  const common = { clock: systemClock, log }
  return postgres === undefined
    ? openSqliteSource({ path, ...common })
    : openPostgresSource({ ...placeOf(postgres), ...common })
}

function targetOf({ path, postgres }: Config['journal'], log: Log) {
  const common = { clock: systemClock, log }
  return postgres === undefined
    ? openSqliteTarget({ path, ...common })
    : openPostgresTarget({ ...placeOf(postgres), ...common }, postgres.shards)
}

const placeOf = (postgres: PostgresConfig) => ({
  settings: postgresSettings(postgres),
  schema: postgres.schema,
})
