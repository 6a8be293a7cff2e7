// A configuration for commands that only need its names and paths: a secret that this shell cannot read is no reason to stop.
import { examineConfig } from '../../config/load.ts'
import { ConfigFaults } from '../../config/faults.ts'
import { readConfigFile, readTextFile } from '../../config/files.ts'
import type { References } from '../../config/references.ts'
import type { Config } from '../../config/schema.ts'
import { references } from './config-file.ts'
import type { World } from './world.ts'

/** Stands for what is there for the daemon only: a service's credential, its environment. */
const UNKNOWN = 'auditferry-unknown-reference'

function lenient(file: string, world: World): References {
  const env: Record<string, string | undefined> = { ...world.env }
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

/** Throws ConfigFaults as loading does, where more than a secret is missing. */
export function knownConfig(file: string, world: World): Config {
  const strict = examineConfig(file, references(world))
  if (strict.loaded && strict.faults.length === 0) return strict.loaded.config
  const faults = new ConfigFaults(strict.faults)
  let known: ReturnType<typeof examineConfig>
  try {
    known = examineConfig(file, lenient(file, world))
  } catch {
    throw faults
  }
  if (!known.loaded || known.faults.length > 0) throw faults
  const { journal, server, sinks } = known.loaded.config
  const needed = [journal.path, server.listen.host, ...sinks.map(({ name }) => name)]
  if (needed.some((text) => text.includes(UNKNOWN))) throw faults
  return known.loaded.config
}
