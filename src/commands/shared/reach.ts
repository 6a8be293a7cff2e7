// The way to the daemon of a configuration, which may be at fault meanwhile: where it is, and whether it answers.
import { parseDocument } from 'yaml'
import { ConfigFaults } from '../../config/faults.ts'
import { readConfigFile } from '../../config/files.ts'
import { folderOf, pathFrom, resolveText } from '../../config/references.ts'
import { configSchema, type Config } from '../../config/schema.ts'
import { connectControl, type ControlClient } from '../../ops/control-client.ts'
import { references } from './config-file.ts'
import { knownConfig } from './known-config.ts'
import type { There } from './named.ts'
import type { World } from './world.ts'

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
    const folder = folderOf(file)
    const document = parseDocument(readConfigFile(file), { prettyErrors: false, logLevel: 'silent' })
    const textAt = (path: readonly string[]) => {
      const found = document.getIn(path)
      return typeof found === 'string' ? resolveText(found, { ...references(world), folder }) : found
    }
    const path = textAt(['journal', 'path'])
    const listen = textAt(['server', 'listen']) ?? (world.env['AUDITFERRY_LISTEN'] || undefined)
    const { journal, server } = configSchema.shape
    const whole = typeof path === 'string' && path !== '' ? pathFrom(folder, path) : path
    return { journal: journal.parse({ path: whole }), server: server.parse({ listen }) }
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
