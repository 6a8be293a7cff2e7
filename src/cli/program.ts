// Finds and runs a command, and turns its result into an exit code.
import { Argument, Command, CommanderError, Help, type Option } from 'commander'
import { ConfigFaults } from '../config/faults.ts'
import { bugLine, ConnectorError } from '../core/errors.ts'
import { completion, type Shell, shells } from './completion.ts'
import type { CompletedCommand } from './completion.ts'
import { exitCodeOf, exitCodes, WrongUsage, type CommandContext } from './shared/context.ts'
import { type CommandSpec, specs } from './command-list.ts'

/** Defined here because it needs the list of all commands. */
const completionSpec: CommandSpec = {
  name: 'completion',
  summary: 'print the completion script of a shell: source <(auditferry completion bash)',
  options: (command) =>
    command.addArgument(new Argument('<shell>', 'the shell to complete in').choices(shells)),
  run: (context: CommandContext, _: object, shell: Shell) => completion(context, completed(), shell),
}
const all = [...specs, completionSpec]

/** Every command, for completion; the first is the program itself. */
function completed(): readonly CompletedCommand[] {
  const program = new Command('auditferry')
  for (const spec of all) register(program, spec, undefined, () => undefined)
  const walk = (command: Command, path: readonly string[]): CompletedCommand[] => {
    const options = command.options.flatMap(({ long }) => (long ? [long] : []))
    const own = {
      path,
      commands: command.commands.map((inner) => inner.name()),
      options: [...options, '--help'],
      words: command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
      values: Object.fromEntries(
        command.options.flatMap(({ long, argChoices }) => (long && argChoices ? [[long, argChoices]] : [])),
      ),
    }
    return [own, ...command.commands.flatMap((inner) => walk(inner, [...path, inner.name()]))]
  }
  return walk(program, [])
}

function register(
  parent: Command,
  spec: CommandSpec,
  context: CommandContext | undefined,
  ended: (code: number) => void,
): void {
  const command = parent.command(spec.name).description(spec.summary)
  spec.options?.(command)
  for (const inner of spec.commands ?? []) register(command, inner, context, ended)
  const run = spec.run as
    ((context: CommandContext, options: unknown, ...args: unknown[]) => Promise<number>) | undefined
  if (!run || !context) return
  command.action(async () => {
    ended(await run(context, command.opts(), ...(command.processedArgs as unknown[])))
  })
}

const usualHelp = new Help()

/** Help omits `(default: false)`. */
const optionDescription = (option: Option): string =>
  option.defaultValue === false ? option.description : usualHelp.optionDescription(option)

/** An option of a command was given before the command's name. */
function isBeforeCommand(error: CommanderError, [first = '']: readonly string[]): boolean {
  if (error.code !== 'commander.unknownOption' || !first.startsWith('--')) return false
  const [option = ''] = first.split('=')
  return completed().some(({ options }) => options.includes(option))
}

/** Prints the error. @internal for tests */
export function codeOf(error: unknown, argv: readonly string[], context: CommandContext): number {
  // commander has already printed the error.
  if (error instanceof CommanderError) {
    if (isBeforeCommand(error, argv)) context.stderr('(options follow their command: auditferry run …)\n')
    return error.exitCode === 0 ? exitCodes.done : exitCodes.usage
  }
  if (error instanceof WrongUsage) {
    context.stderr(`error: ${error.message}\n`)
    return exitCodes.usage
  }
  if (error instanceof ConfigFaults) {
    context.stderr(`${error.message}\n`)
    return exitCodes.config
  }
  if (error instanceof ConnectorError) {
    context.stderr(`auditferry: ${error.message}\n`)
    return exitCodeOf(error)
  }
  context.stderr(bugLine(error))
  return exitCodeOf(error)
}

/** `argv`: without node and the program. Resolves with the exit code. */
export async function runProgram(argv: readonly string[], context: CommandContext): Promise<number> {
  let code: number = exitCodes.done
  const program = new Command('auditferry')
    .description("Ships a workspace's audit log to a security team's SIEM, complete and byte for byte.")
    .version(context.version, '-V, --version')
    .exitOverride()
    .configureOutput({ writeOut: context.stdout, writeErr: context.stderr })
    .configureHelp({ optionDescription })
    .showSuggestionAfterError()
    .showHelpAfterError('(see auditferry --help, or auditferry <command> --help)')
  for (const spec of all)
    register(program, spec, context, (ended) => {
      code = ended
    })
  try {
    await program.parseAsync([...argv], { from: 'user' })
    return code
  } catch (error) {
    return codeOf(error, argv, context)
  }
}
