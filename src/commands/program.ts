// The list of commands and how their arguments are read; turns whatever a command ends with into an exit code.
import { Command, CommanderError } from 'commander'
import { ConfigFaults } from '../config/faults.ts'
import { ConnectorError } from '../model/errors.ts'
import { each, port, wholeNumber } from './arguments.ts'
import { demo } from './demo.ts'
import { mock } from './mock.ts'
import { run } from './run.ts'
import { schema } from './schema.ts'
import { validate } from './validate.ts'
import { exitCodes, type World } from './world.ts'

interface CommandSpec {
  /** With its arguments, as commander writes them: `show <seq>`. */
  readonly name: string
  readonly summary: string
  readonly options?: (command: Command) => Command
  /** Options as commander gives them; arguments follow in their order. */
  readonly run?: (world: World, options: never, ...args: never[]) => Promise<number>
  readonly commands?: readonly CommandSpec[]
}

const withConfig = (command: Command) =>
  command.option(
    '-c, --config <file>',
    'the configuration (default: $AUDITFERRY_CONFIG, ./config/auditferry.yaml, /etc/auditferry/auditferry.yaml)',
  )

const mockOptions = (command: Command) =>
  command
    .option('--port <port>', 'where to listen; 0 for any that is free', port, 9465)
    .option('--host <host>', 'where to listen', '127.0.0.1')
    .option('--seed <number>', 'the same seed makes the same entries', wholeNumber, 1)
    .option('--entries-per-hour <number>', 'the mean over a week', wholeNumber, 600)
    .option('--backlog <number>', 'entries that are there at the start', wholeNumber, 0)
    .option(
      '--rate-limit <number>',
      'requests a minute; 0 for none (default: the documented ones)',
      wholeNumber,
    )
    .option('--switch <name=value>', 'how an open question is answered; may stand several times', each, [])
    .option(
      '--fault <name=rate>',
      'how often something goes wrong, 0 to 1; may stand several times',
      each,
      [],
    )
    .option('--api-key-file <file>', 'the one key that is right (default: a key that is printed)')

/** One line a command. */
const specs: readonly CommandSpec[] = [
  {
    name: 'run',
    summary: 'the daemon: read, keep, deliver, until a signal',
    options: (command) =>
      withConfig(command)
        .option('--once', 'read all that is there now, deliver all of it, stop', false)
        .option('--timeout <duration>', 'of --once: give up after this long (default: never)'),
    run,
  },
  {
    name: 'demo',
    summary: 'mock API, daemon, file sink and status page on this machine',
    options: (command) =>
      command
        .option('--data <folder>', 'where its files go', './data')
        .option('--listen <host:port>', 'where the status page goes', '127.0.0.1:9464'),
    run: demo,
  },
  {
    name: 'validate',
    summary: 'check the configuration and what it refers to; tells all faults at once',
    options: (command) => withConfig(command).option('--connect', 'also ask every API and every sink', false),
    run: validate,
  },
  { name: 'schema', summary: "print the configuration's JSON Schema", run: schema },
  { name: 'mock', summary: 'serve the mock API alone', options: mockOptions, run: mock },
]

function register(parent: Command, spec: CommandSpec, world: World, ended: (code: number) => void): void {
  const command = parent.command(spec.name).description(spec.summary)
  spec.options?.(command)
  for (const inner of spec.commands ?? []) register(command, inner, world, ended)
  const run = spec.run as
    ((world: World, options: unknown, ...args: unknown[]) => Promise<number>) | undefined
  if (!run) return
  command.action(async () => {
    ended(await run(world, command.opts(), ...(command.processedArgs as unknown[])))
  })
}

function codeOf(error: unknown, world: World): number {
  // commander has said what is wrong already.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage
  if (error instanceof ConfigFaults) {
    world.stderr(`${error.message}\n`)
    return exitCodes.config
  }
  if (error instanceof ConnectorError) {
    world.stderr(`auditferry: ${error.message}\n`)
    return error.code === 'config_invalid' ? exitCodes.config : exitCodes.failed
  }
  world.stderr(
    `auditferry: a bug, please report it: ${error instanceof Error ? (error.stack ?? error.message) : 'unknown'}\n`,
  )
  return exitCodes.failed
}

/** `argv` without the names of node and the program. Resolves with the exit code. */
export async function runProgram(argv: readonly string[], world: World): Promise<number> {
  let code: number = exitCodes.done
  const program = new Command('auditferry')
    .description("Ships a workspace's audit log into a security team's SIEM, whole.")
    .version(world.version, '-V, --version')
    .exitOverride()
    .configureOutput({ writeOut: world.stdout, writeErr: world.stderr })
    .showSuggestionAfterError()
    .showHelpAfterError('(auditferry --help tells the commands, auditferry <command> --help their options)')
  for (const spec of specs)
    register(program, spec, world, (ended) => {
      code = ended
    })
  try {
    await program.parseAsync([...argv], { from: 'user' })
    return code
  } catch (error) {
    return codeOf(error, world)
  }
}
