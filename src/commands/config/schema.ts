// `schema`: the configuration's JSON Schema, for editors and checks.
import { configJsonSchema } from '../../config/schema.ts'
import { exitCodes, type World } from '../shared/world.ts'

export async function schema(world: World): Promise<number> {
  world.stdout(`${JSON.stringify(configJsonSchema(), null, 2)}\n`)
  return exitCodes.done
}
