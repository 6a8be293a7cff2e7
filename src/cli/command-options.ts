// Options and arguments that several commands share, and the longest option lists.
import { Argument, InvalidArgumentError, Option } from 'commander'
import type { Command } from 'commander'
import { operationNames } from './api/operations.ts'
import { listen } from '../config/fields.ts'
import { quarantineReasons, sourceNames } from '../contracts/source.ts'
import { MAX_LINES } from '../observability/taps.ts'
import { sinkKinds } from '../sinks/index.ts'

export const withConfig = (command: Command) =>
  command.option(
    '-c, --config <file>',
    'configuration file (default: $AUDITFERRY_CONFIG, ./config/auditferry.yaml, /etc/auditferry/auditferry.yaml)',
  )

/** `--status --cancel` together would be ambiguous. */
export const cancelOption = (does: string) => new Option('--cancel', does).default(false).conflicts('status')

/** A comma-separated list: the choices serve help and completion, and `init` validates it. */
export function sinkTypes(): Option {
  const option = new Option('--sink <types>', 'one or more sink types, such as splunk_hec,s3').default('file')
  option.argChoices = Object.keys(sinkKinds)
  return option
}

export const mockOptions = (command: Command) =>
  command
    .option('--port <port>', 'port to listen on; 0 for any free one', port, 9465)
    .option('--host <host>', 'address to listen on', '127.0.0.1')
    .option('--seed <number>', 'seed; the same seed makes the same entries', wholeNumber, 1)
    .option('--entries-per-hour <number>', 'mean number of entries per hour, over a week', wholeNumber, 600)
    .option(
      '--backlog <number>',
      'number of entries at the start; faults of entries and events do not apply to them',
      wholeNumber,
      0,
    )
    .option(
      '--rate-limit <number>',
      'requests a minute; 0 for no limit (default: the documented limits)',
      wholeNumber,
    )
    .option(
      '--switch <name=value>',
      'how the mock answers an open question of the specification; may be repeated',
      each,
      [],
    )
    .option('--fault <name=rate>', 'how often a fault occurs, 0 to 1; may be repeated', each, [])
    .option('--api-key-file <file>', 'file with the only valid key (default: a key that is printed)')
    .option(
      '--key <name:secret:permissions>',
      'a key with its own user and permissions, such as audit,history.usage (default: all); may be repeated',
      each,
      [],
    )
    .option('--control', 'also accept POST /mock/rotate-key {"old": …, "new": …}', false)

/** Answers of the assistant are not entries. */
const shippedSources = sourceNames.filter((name) => name !== 'assistant')

const chosen = (command: Command) =>
  withConfig(command)
    .option('--id <number>', 'only this id; may be repeated', eachNumber, [])
    .option('--limit <number>', 'at most this many (list: 100 by default)', someNumber)
    .option('--workspace <name>', 'only this workspace')
    .addOption(new Option('--source <name>', 'only this source').choices(shippedSources))

export const chosenLetters = (command: Command) =>
  chosen(command)
    .option('--sink <name>', 'only this sink')
    .option('--code <code>', 'only this code, as shown by list')

export const chosenQuarantine = (command: Command) =>
  chosen(command).addOption(new Option('--reason <reason>', 'only this reason').choices(quarantineReasons))

export const listed = (command: Command) =>
  command
    .option('--sums', 'print only the total and the count per kind; ignores --limit', false)
    .option('--json', 'print one JSON object per line, without content', false)

export const shown = (command: Command) =>
  withConfig(command)
    .argument('<id>', 'id, as shown by list', wholeNumber)
    .option('--content', 'print only the content', false)

export const toFile = (command: Command) => command.argument('<file>', 'new file; - for standard output')

export const verifyOptions = (command: Command) =>
  withConfig(command)
    .argument('[where]', 's3://bucket/prefix, or a folder copied from there')
    .option('--public-key <file>', 'PEM; may be repeated if the key was changed', each, [])
    .option('--until <time>', 'fail unless the manifests reach this time, such as 2026-01-31T00:00:00Z')
    .option(
      '--last-manifest <sha256>',
      'sha256 of a manifest, as printed by an earlier verify: it must still exist; may be repeated',
      each,
      [],
    )
    .option(
      '--accept-gap <first-last>',
      'accept this gap in the sequence numbers, such as 101-250, if it is explained; may be repeated',
      each,
      [],
    )
    .option('--endpoint <url>', 'S3 server other than AWS; keys come from the environment')
    .option('--region <name>', "the bucket's region (default: that of the environment)")
    .option('--allow-insecure', 'allow an endpoint over plain http', false)
    .option('--sink <name>', 'an s3 sink of the configuration: its bucket, server and keys')

export const replayOptions = (command: Command) =>
  withConfig(command)
    .option('--sink <name>', 'the sink that receives the entries again')
    .option('--from <time>', "start (entries' own time): a time, a day, or a span back from now such as 24h")
    .option('--to <time>', 'end, excluded (default: now)')
    .option('--workspace <name>', 'only this workspace')
    .addOption(new Option('--source <name>', 'only this source').choices(shippedSources))
    .addOption(
      new Option(
        '--only <where>',
        'read entries only from the journal or the API (default: the journal for days that it has completely, the API for the others)',
      ).choices(['journal', 'api']),
    )
    .option('--dry-run', 'count entries by source and day; send nothing and do not ask the API', false)
    .option('--status', 'show the progress of running replays from the API', false)
    .addOption(cancelOption('cancel replays from the API, of --sink or of all'))

/** The command checks the operation itself, so that an error does not print the whole list. */
export function apiOptions(command: Command): Command {
  const operation = new Argument(
    '[operation]',
    'such as vault.projects; an area such as vault lists its operations with their parameters; without one, all are listed',
  )
  operation.argChoices = [...operationNames]
  return withConfig(command)
    .addArgument(operation)
    .option('--workspace <name>', 'use the key of this workspace (default: the only one)')
    .option('--param <name=value>', 'a parameter; may be repeated', each, [])
    .option('--body <@file>', 'send this file as a JSON body, or - for standard input, instead of a form')
    .option(
      '--path <path>',
      'path to request, for an operation whose path or parameters the specification leaves open',
    )
    .option('--write', 'allow an operation that changes something', false)
    .option('--verbose', 'print status and headers to standard error', false)
    .option('--output <file>', 'write the answer to a new file of mode 0600')
    .addHelpText(
      'after',
      "\nIt sends one request, which counts against the key's rate limit. The answer is content: it goes to standard output only.",
    )
}

// Parsers of numbers and repeated options. An invalid value is wrong usage.

const wholeFrom = (least: number, most: number, expected: string) => (text: string) => {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN
  if (value >= least && value <= most) return value
  throw new InvalidArgumentError(expected)
}

const wholeNumber = wholeFrom(0, Infinity, 'Expected a whole number.')
const someNumber = wholeFrom(1, Infinity, 'Expected a whole number from 1 on.')
const port = wholeFrom(0, 65_535, 'Expected a port from 0 to 65535.')
export const tapLimit = wholeFrom(1, MAX_LINES, `Expected a number from 1 to ${MAX_LINES}.`)

/** The same rules as `server.listen` in the configuration. */
export function listenAddress(text: string): string {
  const { error } = listen().safeParse(text)
  if (error) throw new InvalidArgumentError('Expected host:port, such as 127.0.0.1:9464.')
  return text
}

function each(text: string, before: readonly string[]): readonly string[] {
  return [...before, text]
}

function eachNumber(text: string, before: readonly number[]): readonly number[] {
  return [...before, someNumber(text)]
}
