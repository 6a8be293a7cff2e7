// Every command: its name, what it does, how its arguments are read, and the function that does it.
import type { Command } from 'commander'
import { each, eachNumber, port, wholeNumber } from './arguments.ts'
import { dropLetters, exportLetters, listLetters, retryLetters, showLetter } from './dead-letters.ts'
import { bundle } from './bundle.ts'
import { backfill } from './backfill.ts'
import { configPrint } from './config-print.ts'
import { init } from './init.ts'
import { exportQuarantine, listQuarantine, showQuarantine } from './quarantine.ts'
import { reconcile } from './reconcile.ts'
import { replay } from './replay.ts'
import { run } from './run.ts'
import { schema } from './schema.ts'
import { status } from './status.ts'
import { tap } from './tap.ts'
import { validate } from './validate.ts'
import type { DemoOptions } from './demo.ts'
import type { MockCommandOptions } from './mock.ts'
import type { VerifyCommandOptions } from './verify.ts'
import type { World } from './world.ts'

export interface CommandSpec {
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
    .option(
      '--key <name:secret:permissions>',
      'a key with a user and permissions of its own, such as audit,history.usage (default: all); may stand several times',
      each,
      [],
    )
    .option('--control', 'take POST /mock/rotate-key {"old": …, "new": …} too', false)

const chosen = (command: Command) =>
  withConfig(command)
    .option('--id <number>', 'only this one; may stand several times', eachNumber, [])
    .option('--limit <number>', 'at most so many', wholeNumber)

const chosenLetters = (command: Command) => chosen(command).option('--sink <name>', 'only those of one sink')

const shown = (command: Command) =>
  withConfig(command)
    .argument('<id>', 'as list tells it', wholeNumber)
    .option('--content', 'print the content itself, and nothing else', false)

const toFile = (command: Command) =>
  command.argument('<file>', 'a file that does not exist yet; - for standard output')

const letterCommands: readonly CommandSpec[] = [
  { name: 'list', summary: 'which there are, without content', options: chosenLetters, run: listLetters },
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
    options: (command) => chosenLetters(command).option('--yes', 'all that are meant, unnamed', false),
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
  { name: 'list', summary: 'what there is, without content', options: chosen, run: listQuarantine },
  { name: 'show', summary: 'all about one but its content', options: shown, run: showQuarantine },
  {
    name: 'export',
    summary: 'as JSON lines, the bytes in base64, to a new file of mode 0600',
    options: (command) => toFile(chosen(command)),
    run: exportQuarantine,
  },
]

const verifyOptions = (command: Command) =>
  withConfig(command)
    .argument('[where]', 's3://bucket/prefix, or a folder copied from there')
    .option('--public-key <file>', 'PEM; may stand several times, where the key was changed', each, [])
    .option('--until <time>', 'the chain must reach to here, such as 2026-01-31T00:00:00Z')
    .option(
      '--last-manifest <sha256>',
      'this manifest must be there, as an earlier verify told it; may stand several times',
      each,
      [],
    )
    .option('--accept-gap <first-last>', 'a gap that is explained; may stand several times', each, [])
    .option('--endpoint <url>', 'another server than AWS; keys come from the environment')
    .option('--region <name>', "the bucket's region (default: that of the environment)")
    .option('--allow-insecure', 'allow an endpoint over plain http', false)
    .option('--sink <name>', 'an s3 sink of the configuration: its bucket, server and keys')

/** One line a command. The mock is loaded only where it is asked for: the daemon does not carry it. */
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
        ),
    run: async (world: World, options: DemoOptions) => (await import('./demo.ts')).demo(world, options),
  },
  {
    name: 'validate',
    summary: 'check the configuration and what it refers to; tells all faults of a layer at once',
    options: (command) => withConfig(command).option('--connect', 'also ask every API and every sink', false),
    run: validate,
  },
  {
    name: 'status',
    summary: 'what the running daemon knows; exit 1 when something is wrong',
    options: (command) =>
      withConfig(command)
        .option('--json', 'as /status has it', false)
        .option('--watch', 'again every two seconds, until Ctrl-C', false),
    run: status,
  },
  {
    name: 'replay',
    summary: 'send to one sink again what the journal still keeps of a span of time',
    options: (command) =>
      withConfig(command)
        .requiredOption('--sink <name>', 'the sink that is to have it again')
        .requiredOption(
          '--from <time>',
          "the entries' own time, included: a time, a day, or a span back from now such as 24h",
        )
        .option('--to <time>', 'excluded (default: now)')
        .option('--workspace <name>', 'only entries of this one')
        .option('--dry-run', 'count them, send nothing', false),
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
        .option('--source <name>', 'only this one: audit')
        .option('--status', 'how far those under way are, and begin none', false)
        .option('--cancel', 'end those under way; what they read stays', false),
    run: backfill,
  },
  {
    name: 'reconcile',
    summary: 'walk the API again over whole UTC days and hold it against the journal; a report to sign',
    options: (command) =>
      withConfig(command)
        .requiredOption('--from <time>', 'the first day: a time, a day, or a span back from now such as 7d')
        .option('--to <time>', 'excluded (default: the last midnight, UTC)')
        .option('--workspace <name>', 'only this one')
        .option('--json', 'the report as data', false),
    run: reconcile,
  },
  { name: 'dead-letters', summary: 'what a sink refuses for good', commands: letterCommands },
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
        .option('--limit <number>', 'so many lines, then the end', wholeNumber, 10),
    run: tap,
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
    options: (command) => command.option('--sink <types>', 'one or several, such as splunk_hec,s3', 'file'),
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
