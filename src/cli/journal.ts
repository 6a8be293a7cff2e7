// `journal`: work on the journal itself: its tables in PostgreSQL, and a copy into the other engine.
import { workspacesByKey } from '../app/process.ts'
import { ConfigFaults } from '../config/faults.ts'
import { readTextFile } from '../config/files.ts'
import { examineConfig } from '../config/load.ts'
import { reasonOf } from '../config/references.ts'
import type { Config } from '../config/schema.ts'
import { randomDigits } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { Secret } from '../core/secret.ts'
import { copyJournal } from '../journal/copy/copy.ts'
import { openPostgresSource, openPostgresTarget } from '../journal/copy/postgres.ts'
import { openSqliteSource, openSqliteTarget } from '../journal/copy/sqlite.ts'
import { addressOf, databaseText, urlFault } from '../journal/postgres/address.ts'
import { SCHEMA_VERSION, migrate } from '../journal/postgres/schema.ts'
import { systemClock, systemRandom } from '../platform/clock.ts'
import { configFile, knownConfig, references } from './shared/config-file.ts'
import { quietEnvironment } from './shared/environment.ts'
import { postgresSettings } from './shared/postgres.ts'
import type { PostgresConfig } from './shared/postgres.ts'
import { exitCodes, WrongUsage } from './shared/context.ts'
import type { CommandContext } from './shared/context.ts'

// `journal migrate`: brings the tables in PostgreSQL to the version of this program.

interface MigrateCommandOptions {
  readonly config?: string
  readonly ownerUrlFile?: string
  readonly runtimeRole?: string
}

export async function journalMigrate(
  context: CommandContext,
  { config, ownerUrlFile, runtimeRole }: MigrateCommandOptions,
): Promise<number> {
  const { postgres } = knownConfig(configFile(context, config), context).journal
  if (!postgres)
    throw new ConnectorError(
      'config_invalid',
      'journal.postgres is not set: a journal in a file is brought to the version of the program when the daemon opens it',
    )
  const url = ownerUrlFile === undefined ? postgres.url : ownerUrl(ownerUrlFile)
  const { schema } = postgres
  const steps = await migrate({ settings: postgresSettings(postgres, url), schema, runtimeRole })
  const where = `The schema ${schema} in ${databaseText(addressOf(url.reveal()))}`
  context.stdout(
    steps === 0
      ? `${where} has version ${SCHEMA_VERSION} already\n`
      : `${where} was brought to version ${SCHEMA_VERSION}: ${steps} step${steps === 1 ? '' : 's'}\n`,
  )
  if (runtimeRole !== undefined) context.stdout(`The role ${runtimeRole} may read and write its rows\n`)
  return exitCodes.done
}

/** It is in no configuration: the daemon needs no such rights. */
function ownerUrl(file: string): Secret {
  let text: string
  try {
    text = readTextFile(file).trim()
  } catch (error) {
    throw new ConnectorError('config_invalid', `--owner-url-file ${file}: ${reasonOf(error)}`)
  }
  const fault = urlFault(text)
  if (fault !== undefined) throw new ConnectorError('config_invalid', `--owner-url-file ${file}: ${fault}`)
  return new Secret(text)
}

// `journal copy`: copies the journal of one configuration into the place that another one names, from
// SQLite to PostgreSQL or back.

interface JournalCopyOptions {
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
    try {
      await copyJournal({
        source,
        target,
        shards: to.journal.postgres?.shards ?? 1,
        groups: workspacesByKey(to.workspaces),
        manifestJournal: () => randomDigits(systemRandom, 24),
        leaveUnlisted: options.leaveUnlisted,
        signal: context.signal,
        onTable: ({ what, count }) => context.stdout(`  ${what}: ${count}\n`),
      })
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
