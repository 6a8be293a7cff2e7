// Every command: name, summary, options and the function that runs it.
import type { Command } from 'commander'
import { MAX_LINES } from '../observability/taps.ts'
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
import { journalCopy, journalMigrate } from './journal.ts'
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
import type { CommandContext } from './shared/context.ts'

export interface CommandSpec {
  readonly name: string
  readonly summary: string
  readonly options?: (command: Command) => Command
  /** Takes the options as commander parses them, then the arguments in order. */
  readonly run?: (context: CommandContext, options: never, ...args: never[]) => Promise<number>
  readonly commands?: readonly CommandSpec[]
}

const letterCommands: readonly CommandSpec[] = [
  {
    name: 'list',
    summary: 'list dead letters, without content',
    options: (command) => listed(chosenLetters(command)),
    run: listLetters,
  },
  {
    name: 'show',
    summary: 'show one dead letter; its content only with --content',
    options: shown,
    run: showLetter,
  },
  {
    name: 'retry',
    summary: 'deliver dead letters again to their own sink',
    options: chosenLetters,
    run: retryLetters,
  },
  {
    name: 'drop',
    summary: 'drop dead letters for good',
    options: (command) =>
      chosenLetters(command).option('--yes', 'apply to every match without asking', false),
    run: dropLetters,
  },
  {
    name: 'export',
    summary: 'write dead letters with content and reason to a new file, as JSON lines (mode 0600)',
    options: (command) => toFile(chosenLetters(command)),
    run: exportLetters,
  },
]

const quarantineCommands: readonly CommandSpec[] = [
  {
    name: 'list',
    summary: 'list quarantined elements, without content',
    options: (command) => listed(chosenQuarantine(command)),
    run: listQuarantine,
  },
  {
    name: 'show',
    summary: 'show one quarantined element; its content only with --content',
    options: shown,
    run: showQuarantine,
  },
  {
    name: 'drop',
    summary: 'drop quarantined elements for good',
    options: (command) =>
      chosenQuarantine(command).option('--yes', 'apply to every match without asking', false),
    run: dropQuarantine,
  },
  {
    name: 'export',
    summary: 'write quarantined elements to a new file, as JSON lines with the bytes in base64 (mode 0600)',
    options: (command) => toFile(chosenQuarantine(command)),
    run: exportQuarantine,
  },
]

const journalCommands: readonly CommandSpec[] = [
  {
    name: 'migrate',
    summary: 'bring the tables of a journal in PostgreSQL to the version of this program',
    options: (command) =>
      withConfig(command)
        .option(
          '--owner-url-file <file>',
          'file with the URL of the owner of the tables (default: journal.postgres.url)',
        )
        .option('--runtime-role <role>', 'role of the daemon, which gets the rights that it needs'),
    run: journalMigrate,
  },
  {
    name: 'copy',
    summary: 'copy the journal from SQLite to PostgreSQL or back, while no daemon runs',
    options: (command) =>
      command
        .requiredOption('--from <file>', 'configuration with the journal as it is')
        .requiredOption('--to <file>', 'configuration with the place of the copy, which must be empty')
        .option(
          '--leave-unlisted',
          'copy even if an s3 sink has stored objects that no manifest lists yet: none ever will',
          false,
        ),
    run: journalCopy,
  },
]

/** The daemon does not need mock, demo, api and verify: they are loaded when they run. */
export const specs: readonly CommandSpec[] = [
  {
    name: 'run',
    summary: 'run the daemon until SIGTERM or SIGINT',
    options: (command) =>
      withConfig(command)
        .option('--once', 'do every read that is due now, deliver everything, and stop', false)
        .option(
          '--timeout <duration>',
          'with --once: stop with exit code 1 after this long (default: never)',
        ),
    run,
  },
  {
    name: 'demo',
    summary: 'run a mock API, the daemon, a file sink and the status page on this machine',
    options: (command) =>
      command
        .option('--data <folder>', 'folder for its files', './data')
        .option(
          '--listen <host:port>',
          'address of the status page (default: $AUDITFERRY_LISTEN, 127.0.0.1:9464)',
          listenAddress,
        ),
    run: async (context: CommandContext, options: DemoOptions) =>
      (await import('./demo.ts')).demo(context, options),
  },
  {
    name: 'validate',
    summary: 'check the configuration and the files it names; report all errors at once',
    options: (command) =>
      withConfig(command).option('--connect', 'also connect to every API and every sink', false),
    run: validate,
  },
  {
    name: 'status',
    summary: 'show the state of the running daemon; exit 1 if a source or sink is failing or blocked',
    options: (command) =>
      withConfig(command)
        .option('--json', 'print the JSON of /status', false)
        .option(
          '--watch',
          'refresh every two seconds until Ctrl-C; gives up if no daemon answers for 30 s at the start, or for 5 min later',
          false,
        ),
    run: status,
  },
  {
    name: 'replay',
    summary: 'deliver a span of time to one sink again, from the journal or the API',
    options: replayOptions,
    run: replay,
  },
  {
    name: 'backfill',
    summary: 'let the daemon read a period of the past again and deliver entries that are missing',
    options: (command) =>
      withConfig(command)
        .option(
          '--from <time>',
          "start (entries' own time): a time, a day, or a span back from now such as 24h",
        )
        .option('--to <time>', 'end, excluded (default: now)')
        .option('--workspace <name>', 'only this workspace')
        .option('--source <name>', 'only this source: audit, history.usage or history.query')
        .option('--status', 'show the progress of running backfills', false)
        .addOption(cancelOption('cancel running backfills; what they read stays')),
    run: backfill,
  },
  {
    name: 'reconcile',
    summary: 'read full UTC days from the API again and compare them with the journal; print a report',
    options: (command) =>
      withConfig(command)
        .requiredOption('--from <time>', 'first day: a time, a day, or a span back from now such as 7d')
        .option(
          '--to <time>',
          'end, excluded (default: the last midnight UTC); --to now includes today, without a result, since it is not complete',
        )
        .option('--workspace <name>', 'only this workspace')
        .option('--json', 'print the report as JSON', false),
    run: reconcile,
  },
  { name: 'dead-letters', summary: 'entries that a receiver rejected for good', commands: letterCommands },
  { name: 'quarantine', summary: 'malformed elements that the API sent', commands: quarantineCommands },
  {
    name: 'verify',
    summary:
      "check that the bucket of an s3 sink is complete and unchanged, with the sink's signed manifests",
    options: verifyOptions,
    run: async (context: CommandContext, options: VerifyCommandOptions, where?: string) =>
      (await import('./verify.ts')).verify(context, options, where),
  },
  {
    name: 'tap',
    summary: 'print live samples of the lines for a sink; the sink needs tap: true',
    options: (command) =>
      withConfig(command)
        .requiredOption('--sink <name>', 'the sink')
        .option('--limit <number>', `stop after this many lines; 1 to ${MAX_LINES}`, tapLimit, 10),
    run: tap,
  },
  {
    name: 'api',
    summary: 'send one documented API request with the configured key and print the answer',
    options: apiOptions,
    run: async (context: CommandContext, options: ApiOptions, operation?: string) =>
      (await import('./api/api.ts')).api(context, options, operation),
  },
  {
    name: 'bundle',
    summary: 'write a support bundle without secrets or content to a new file (mode 0600)',
    options: (command) => toFile(withConfig(command)),
    run: bundle,
  },
  { name: 'journal', summary: 'work on the journal itself', commands: journalCommands },
  {
    name: 'config',
    summary: 'show the effective configuration',
    commands: [
      {
        name: 'print',
        summary: 'print the configuration with all defaults, secrets masked',
        options: withConfig,
        run: configPrint,
      },
    ],
  },
  {
    name: 'init',
    summary: 'print a starter configuration',
    options: (command) => command.addOption(sinkTypes()),
    run: init,
  },
  { name: 'schema', summary: "print the configuration's JSON Schema", run: schema },
  {
    name: 'mock',
    summary: 'run only the mock API',
    options: mockOptions,
    run: async (context: CommandContext, options: MockCommandOptions) =>
      (await import('./mock.ts')).mock(context, options),
  },
]
