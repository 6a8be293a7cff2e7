// `config print`: the configuration as the daemon would take it, defaults filled in, every secret masked.
import { realFiles } from '../../config/files.ts'
import { configText } from '../../config/shown.ts'
import { loadToRun } from '../../config/surroundings.ts'
import { configFile, references } from '../shared/config-file.ts'
import { exitCodes, type World } from '../shared/world.ts'

export async function configPrint(world: World, options: { readonly config?: string }): Promise<number> {
  const { config } = loadToRun(configFile(world, options.config), references(world), realFiles)
  world.stdout(configText(config))
  return exitCodes.done
}
