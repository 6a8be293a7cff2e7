// A configuration for commands that only need its names and paths: a secret that this shell cannot read is no reason to stop.
import { parseDocument } from 'yaml'
import { examineConfig } from '../../config/load.ts'
import { ConfigFaults } from '../../config/faults.ts'
import { readConfigFile, readTextFile } from '../../config/files.ts'
import { resolveText, type References } from '../../config/references.ts'
import { configSchema, type Config } from '../../config/schema.ts'
import { connectControl, type ControlClient } from '../../ops/control-client.ts'
import { references } from './config-file.ts'
import type { There } from './named.ts'
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

/** Where the daemon of a configuration is asked. */
export type DaemonPlace = Pick<Config, 'journal' | 'server'>

/** Where the daemon of a file is, and the file's configuration or what is wrong with it. */
type Known =
  | { readonly place: DaemonPlace; readonly config: Config; readonly faults: undefined }
  | { readonly place: DaemonPlace; readonly config: undefined; readonly faults: ConfigFaults }

/**
 * For what only asks a running daemon: it goes on with the configuration it has while the file is at fault.
 * Throws ConfigFaults where not even the place of its daemon can be read.
 */
export function configOrPlace(file: string, world: World): Known {
  try {
    const config = knownConfig(file, world)
    return { place: config, config, faults: undefined }
  } catch (error) {
    if (!(error instanceof ConfigFaults)) throw error
    const place = placeIn(file, world)
    if (!place) throw error
    return { place, config: undefined, faults: error }
  }
}

/** `client`: the way to the daemon; undefined where none runs. */
type Reached = (
  | (Known & { readonly client: ControlClient })
  | (Extract<Known, { readonly config: Config }> & { readonly client: undefined })
) & {
  /** What there is to name on the command line; where the file is at fault, of what its daemon goes on with. */
  readonly there: () => Promise<There>
}

/** The daemon of a file, which may be at fault meanwhile: that is said. Throws ConfigFaults where nobody is there to go by. */
export async function reachDaemon(file: string, world: World): Promise<Reached> {
  const known = configOrPlace(file, world)
  const client = await connectControl(known.place.journal.path)
  if (client) {
    if (known.faults) tellFaulty(file, world)
    return { ...known, client, there: async () => known.config ?? (await client.status()) }
  }
  if (known.faults) throw known.faults
  return { ...known, client, there: () => Promise.resolve(known.config) }
}

/** Two keys, whatever is wrong around them; undefined where one of these is wrong itself. */
function placeIn(file: string, world: World): DaemonPlace | undefined {
  try {
    const document = parseDocument(readConfigFile(file), { prettyErrors: false, logLevel: 'silent' })
    const textAt = (path: readonly string[]) => {
      const found = document.getIn(path)
      return typeof found === 'string' ? resolveText(found, references(world)) : found
    }
    const path = textAt(['journal', 'path'])
    const listen = textAt(['server', 'listen']) ?? (world.env['AUDITFERRY_LISTEN'] || undefined)
    const { journal, server } = configSchema.shape
    return { journal: journal.parse({ path }), server: server.parse({ listen }) }
  } catch {
    return undefined
  }
}

/** To be said before what the daemon answers. */
export function tellFaulty(file: string, { stderr }: World): void {
  stderr(
    `auditferry: ${file} is at fault, a running daemon goes on with the configuration it has: this is what it tells; for the faults: auditferry validate --config ${file}\n`,
  )
}
