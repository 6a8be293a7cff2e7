// Locates the configuration file of a command and loads it.
import { existsSync } from 'node:fs'
import { ConfigFaults } from '../../config/faults.ts'
import { readConfigFile, readTextFile } from '../../config/files.ts'
import { examineConfig } from '../../config/load.ts'
import type { References } from '../../config/references.ts'
import type { Config } from '../../config/schema.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { CommandContext } from './context.ts'

const inCheckout = './config/auditferry.yaml'
const installed = '/etc/auditferry/auditferry.yaml'

/** Throws ConnectorError `config_invalid` if there is none. */
export function configFile(context: CommandContext, given: string | undefined): string {
  const named = given ?? context.env['AUDITFERRY_CONFIG']
  if (named !== undefined && named !== '') return named
  if (existsSync(inCheckout)) return inCheckout
  if (!existsSync(installed))
    throw new ConnectorError(
      'config_invalid',
      `Neither --config nor $AUDITFERRY_CONFIG names a configuration, and neither ${inCheckout} nor ${installed} is there: begin with mkdir -p config && auditferry init > ${inCheckout.slice(2)}, fill it in, then auditferry validate`,
    )
  return installed
}

/** How references in the configuration are resolved. */
export function references(context: CommandContext): References {
  return { env: context.env, readFile: readTextFile, readConfig: readConfigFile }
}

// For commands that need only names and paths: an unreadable secret does not stop them.

/** Replaces values that only the daemon can read, such as credentials of its service. */
const UNKNOWN = 'auditferry-unknown-reference'

function lenient(file: string, context: CommandContext): References {
  const env: Record<string, string | undefined> = { ...context.env }
  for (const [, name = ''] of readConfigFile(file).matchAll(/\$\{env:([^}]*)\}/g)) env[name] ??= UNKNOWN
  const readFile = (path: string) => {
    try {
      return readTextFile(path)
    } catch {
      return UNKNOWN
    }
  }
  return { env, readFile, readConfig: readConfigFile }
}

/** Throws ConfigFaults like loading, if more than secrets is missing. */
export function knownConfig(file: string, context: CommandContext): Config {
  const strict = examineConfig(file, references(context))
  if (strict.loaded && strict.faults.length === 0) return strict.loaded.config
  const faults = new ConfigFaults(strict.faults)
  let known: ReturnType<typeof examineConfig>
  try {
    known = examineConfig(file, lenient(file, context))
  } catch {
    throw faults
  }
  if (!known.loaded || known.faults.length > 0) throw faults
  const { journal, server, sinks } = known.loaded.config
  const needed = [journal.path, server.listen.host, ...sinks.map(({ name }) => name)]
  if (needed.some((text) => text.includes(UNKNOWN))) throw faults
  return known.loaded.config
}
