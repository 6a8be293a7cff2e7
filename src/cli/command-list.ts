// Every command: its name, what it does, how its arguments are read, and the function that does it.
import type { Command } from 'commander'
import { MOST_LINES } from '../observability/taps.ts'
import {
  apiOptions,
  cancelOption,
  chosenLetters,
  chosenQuarantine,
  listed,
  listenAddress,
  mockOptions,
  replayOptions,
  shown,
  sinkTypes,
  tapLimit,
  toFile,
  verifyOptions,
  withConfig,
} from './command-options.ts'
import { dropLetters, exportLetters, listLetters, retryLetters, showLetter } from './records/dead-letters.ts'
import { bundle } from './bundle.ts'
import { backfill } from './backfill.ts'
import { configPrint, init, schema } from './config.ts'
import { dropQuarantine, exportQuarantine, listQuarantine, showQuarantine } from './records/quarantine.ts'
import { reconcile } from './reconcile/reconcile.ts'
import { replay } from './replay/replay.ts'
import { run } from './run/run.ts'
import { status } from './status.ts'
import { tap } from './tap.ts'
import { validate } from './validate.ts'
import type { ApiOptions } from './api/api.ts'
import type { DemoOptions } from './demo.ts'
import type { MockCommandOptions } from './mock.ts'
import type { VerifyCommandOptions } from './verify.ts'
import type { World } from './shared/world.ts'

export interface CommandSpec {
  readonly name: string
  readonly summary: string
  readonly options?: (command: Command) => Command
  /** Options as commander gives them; arguments follow in their order. */
  readonly run?: (world: World, options: never, ...args: never[]) => Promise<number>
  readonly commands?: readonly CommandSpec[]
}

const letterCommands: readonly CommandSpec[] = [
  {
    name: 'list',
    summary: 'which there are, without content',
    options: (command) => listed(chosenLetters(command)),
    run: listLetters,
  },
  { name: 'show', summary: 'all about one but its content', options: shown, run: showLetter },
  {
    name: 'retry',
    summary: "put them back at the journal's end, for their own sink",
    options: chosenLetters,
    run: retryLetters,
  },
  {
    name: 'drop',
    summary: 'let them go for good',
    options: (command) =>
      chosenLetters(command).option('--yes', 'apply to every match without asking', false),
    run: dropLetters,
  },
  {
    name: 'export',
    summary: 'as JSON lines, content and reason, to a new file of mode 0600',
    options: (command) => toFile(chosenLetters(command)),
    run: exportLetters,
  },
]

const quarantineCommands: readonly CommandSpec[] = [
  {
    name: 'list',
    summary: 'what there is, without content',
    options: (command) => listed(chosenQuarantine(command)),
    run: listQuarantine,
  },
  { name: 'show', summary: 'all about one but its content', options: shown, run: showQuarantine },
  {
    name: 'drop',
    summary: 'let their bytes go for good',
    options: (command) =>
      chosenQuarantine(command).option('--yes', 'apply to every match without asking', false),
    run: dropQuarantine,
  },
  {
    name: 'export',
    summary: 'as JSON lines, the bytes in base64, to a new file of mode 0600',
    options: (command) => toFile(chosenQuarantine(command)),
    run: exportQuarantine,
  },
]

/** One line a command. The mock and what can change a vault are loaded only where they are asked for: the daemon carries neither. */
export const specs: readonly CommandSpec[] = [
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
        .option(
          '--listen <host:port>',
          'where the status page goes (default: $AUDITFERRY_LISTEN, 127.0.0.1:9464)',
          listenAddress,
        ),
    run: async (world: World, options: DemoOptions) => (await import('./demo.ts')).demo(world, options),
  },
  {
    name: 'validate',
    summary: 'check the configuration and what it refers to; reports all errors at once',
    options: (command) => withConfig(command).option('--connect', 'also ask every API and every sink', false),
    run: validate,
  },
  {
    name: 'status',
    summary: 'what the running daemon knows; exit 1 when something is wrong',
    options: (command) =>
      withConfig(command)
        .option('--json', 'as /status has it', false)
        .option(
          '--watch',
          'again every two seconds, until Ctrl-C; waits 30 s for a daemon, 5 min for one that restarts',
          false,
        ),
    run: status,
  },
  {
    name: 'replay',
    summary: 'send to one sink again what it had of a span of time, from the journal or the API',
    options: replayOptions,
    run: replay,
  },
  {
    name: 'backfill',
    summary: 'have the daemon read a span of the past again, and keep what is not known',
    options: (command) =>
      withConfig(command)
        .option(
          '--from <time>',
          "the entries' own time, included: a time, a day, or a span back from now such as 24h",
        )
        .option('--to <time>', 'excluded (default: now)')
        .option('--workspace <name>', 'only this one')
        .option('--source <name>', 'only this one: audit, history.usage or history.query')
        .option('--status', 'how far those under way are, and begin none', false)
        .addOption(cancelOption('end those under way; what they read stays')),
    run: backfill,
  },
  {
    name: 'reconcile',
    summary: 'read full UTC days from the API again and compare them with the journal; a report to sign',
    options: (command) =>
      withConfig(command)
        .requiredOption('--from <time>', 'the first day: a time, a day, or a span back from now such as 7d')
        .option(
          '--to <time>',
          'excluded (default: the last midnight, UTC); now: today too, shown and not judged',
        )
        .option('--workspace <name>', 'only this one')
        .option('--json', 'the report as data', false),
    run: reconcile,
  },
  { name: 'dead-letters', summary: 'entries that a receiver rejected for good', commands: letterCommands },
  { name: 'quarantine', summary: 'what the source sent malformed', commands: quarantineCommands },
  {
    name: 'verify',
    summary: "prove by its signed manifests that an s3 sink's bucket is whole and unchanged",
    options: verifyOptions,
    run: async (world: World, options: VerifyCommandOptions, where?: string) =>
      (await import('./verify.ts')).verify(world, options, where),
  },
  {
    name: 'tap',
    summary: 'live samples of what a sink is sent; off unless its tap: true allows it',
    options: (command) =>
      withConfig(command)
        .requiredOption('--sink <name>', 'the sink to look into')
        .option('--limit <number>', `so many lines, then the end; 1 to ${MOST_LINES}`, tapLimit, 10),
    run: tap,
  },
  {
    name: 'api',
    summary: 'ask one documented operation of the API with the configured key and print the answer',
    options: apiOptions,
    run: async (world: World, options: ApiOptions, operation?: string) =>
      (await import('./api/api.ts')).api(world, options, operation),
  },
  {
    name: 'bundle',
    summary: 'a support bundle without secrets or content, in a new file of mode 0600',
    options: (command) => toFile(withConfig(command)),
    run: bundle,
  },
  {
    name: 'config',
    summary: 'what the configuration comes to',
    commands: [
      {
        name: 'print',
        summary: 'with every default, secrets masked',
        options: withConfig,
        run: configPrint,
      },
    ],
  },
  {
    name: 'init',
    summary: 'print a configuration to begin with',
    options: (command) => command.addOption(sinkTypes()),
    run: init,
  },
  { name: 'schema', summary: "print the configuration's JSON Schema", run: schema },
  {
    name: 'mock',
    summary: 'serve the mock API alone',
    options: mockOptions,
    run: async (world: World, options: MockCommandOptions) =>
      (await import('./mock.ts')).mock(world, options),
  },
]
