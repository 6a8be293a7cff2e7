// `init`: prints a configuration to begin with, every key with its meaning.
import { starterText } from '../../config/starter.ts'
import { eachOnce, twiceFault } from '../../model/units.ts'
import { sinkKinds } from '../../sinks/index.ts'
import { exitCodes, type World } from '../shared/world.ts'

interface InitOptions {
  /** comma-separated types */
  readonly sink: string
}

export async function init(world: World, { sink }: InitOptions): Promise<number> {
  const types = sink.split(',').map((type) => type.trim())
  const known = Object.keys(sinkKinds)
  const unknown = types.find((type) => !known.includes(type))
  if (unknown !== undefined) {
    world.stderr(`error: --sink ${unknown}: there is no such type; there are ${known.join(', ')}\n`)
    return exitCodes.usage
  }
  if (!eachOnce(types)) {
    world.stderr(
      `error: --sink ${twiceFault}; a second sink of a type is a copy of its item under another name\n`,
    )
    return exitCodes.usage
  }
  world.stdout(starterText(types))
  return exitCodes.done
}
