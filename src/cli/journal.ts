// `journal`: work on the journal itself, such as its tables in PostgreSQL.
import { readTextFile } from '../config/files.ts'
import { reasonOf } from '../config/references.ts'
import { ConnectorError } from '../core/errors.ts'
import { Secret } from '../core/secret.ts'
import { addressOf, databaseText, urlFault } from '../journal/postgres/address.ts'
import { SCHEMA_VERSION, migrate } from '../journal/postgres/schema.ts'
import { configFile, knownConfig } from './shared/config-file.ts'
import { postgresSettings } from './shared/postgres.ts'
import { exitCodes } from './shared/context.ts'
import type { CommandContext } from './shared/context.ts'

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
