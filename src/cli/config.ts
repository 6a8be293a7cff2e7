// `config print`: the effective configuration, with defaults filled in and secrets masked.
import { loadToRun } from '../config/environment-checks.ts'
import { realFiles } from '../config/files.ts'
import { configText } from '../config/render.ts'
import { configJsonSchema } from '../config/schema.ts'
import { starterText } from '../config/starter.ts'
import { eachOnce, twiceFault } from '../core/units.ts'
import { sinkKinds } from '../sinks/index.ts'
import { configFile, references } from './shared/config-file.ts'
import { exitCodes, WrongUsage } from './shared/context.ts'
import type { CommandContext } from './shared/context.ts'

export async function configPrint(
  context: CommandContext,
  options: { readonly config?: string },
): Promise<number> {
  const { config } = loadToRun(configFile(context, options.config), references(context), realFiles)
  context.stdout(configText(config))
  return exitCodes.done
}

// `init`: prints a starter configuration that explains every key.

interface InitOptions {
  /** comma-separated types */
  readonly sink: string
}

export async function init(context: CommandContext, { sink }: InitOptions): Promise<number> {
  const types = sink.split(',').map((type) => type.trim())
  const known = Object.keys(sinkKinds)
  const unknown = types.find((type) => !known.includes(type))
  if (unknown !== undefined)
    throw new WrongUsage(`--sink ${unknown}: there is no such type; known types: ${known.join(', ')}`)
  if (!eachOnce(types))
    throw new WrongUsage(
      `--sink ${twiceFault}; a second sink of a type is a copy of its item under another name`,
    )
  context.stdout(starterText(types))
  return exitCodes.done
}

// `schema`: the configuration's JSON Schema, for editors and checks.

export async function schema(context: CommandContext): Promise<number> {
  context.stdout(`${JSON.stringify(configJsonSchema(), null, 2)}\n`)
  return exitCodes.done
}
