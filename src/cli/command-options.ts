// The options and arguments that several commands share, and those of the longest lists.
import { Argument, InvalidArgumentError, Option } from 'commander'
import type { Command } from 'commander'
import { operationNames } from './api/operations.ts'
import { listen } from '../config/fields.ts'
import { quarantineReasons, sourceNames } from '../contracts/source.ts'
import { MOST_LINES } from '../observability/taps.ts'
import { sinkKinds } from '../sinks/index.ts'

export const withConfig = (command: Command) =>
  command.option(
    '-c, --config <file>',
    'the configuration (default: $AUDITFERRY_CONFIG, ./config/auditferry.yaml, /etc/auditferry/auditferry.yaml)',
  )

/** Whoever asks for both may mean either. */
export const cancelOption = (does: string) => new Option('--cancel', does).default(false).conflicts('status')

/** Several may stand in one value: what each may be is for help and completion, and the command itself looks at them. */
export function sinkTypes(): Option {
  const option = new Option('--sink <types>', 'one or several, such as splunk_hec,s3').default('file')
  option.argChoices = Object.keys(sinkKinds)
  return option
}

export const mockOptions = (command: Command) =>
  command
    .option('--port <port>', 'where to listen; 0 for any that is free', port, 9465)
    .option('--host <host>', 'where to listen', '127.0.0.1')
    .option('--seed <number>', 'the same seed makes the same entries', wholeNumber, 1)
    .option('--entries-per-hour <number>', 'the mean over a week', wholeNumber, 600)
    .option(
      '--backlog <number>',
      'number of entries at the start; faults of entries and events do not apply to them',
      wholeNumber,
      0,
    )
    .option(
      '--rate-limit <number>',
      'requests a minute; 0 for none (default: the documented ones)',
      wholeNumber,
    )
    .option('--switch <name=value>', 'how an open question is answered; may be repeated', each, [])
    .option('--fault <name=rate>', 'how often something goes wrong, 0 to 1; may be repeated', each, [])
    .option('--api-key-file <file>', 'the one key that is right (default: a key that is printed)')
    .option(
      '--key <name:secret:permissions>',
      'a key with a user and permissions of its own, such as audit,history.usage (default: all); may be repeated',
      each,
      [],
    )
    .option('--control', 'take POST /mock/rotate-key {"old": …, "new": …} too', false)

/** The assistant's answers are nobody's entries. */
const shippedSources = sourceNames.filter((name) => name !== 'assistant')

const chosen = (command: Command) =>
  withConfig(command)
    .option('--id <number>', 'only this one; may be repeated', eachNumber, [])
    .option('--limit <number>', 'at most so many (list: 100 where it is not given)', someNumber)
    .option('--workspace <name>', 'only those of one workspace')
    .addOption(new Option('--source <name>', 'only those of one source').choices(shippedSources))

export const chosenLetters = (command: Command) =>
  chosen(command)
    .option('--sink <name>', 'only those of one sink')
    .option('--code <code>', 'only those with this code, as in list')

export const chosenQuarantine = (command: Command) =>
  chosen(command).addOption(
    new Option('--reason <reason>', 'only those of one reason').choices(quarantineReasons),
  )

export const listed = (command: Command) =>
  command
    .option('--sums', 'only the total and the count per kind, ignoring --limit', false)
    .option('--json', 'one JSON object a line, as export has them, without content', false)

export const shown = (command: Command) =>
  withConfig(command)
    .argument('<id>', 'as in list', wholeNumber)
    .option('--content', 'print the content itself, and nothing else', false)

export const toFile = (command: Command) =>
  command.argument('<file>', 'a file that does not exist yet; - for standard output')

export const verifyOptions = (command: Command) =>
  withConfig(command)
    .argument('[where]', 's3://bucket/prefix, or a folder copied from there')
    .option('--public-key <file>', 'PEM; may be repeated if the key was changed', each, [])
    .option('--until <time>', 'the chain must reach to here, such as 2026-01-31T00:00:00Z')
    .option(
      '--last-manifest <sha256>',
      'this manifest must exist, as an earlier verify printed it; may be repeated',
      each,
      [],
    )
    .option('--accept-gap <first-last>', 'a gap that is explained; may be repeated', each, [])
    .option('--endpoint <url>', 'another server than AWS; keys come from the environment')
    .option('--region <name>', "the bucket's region (default: that of the environment)")
    .option('--allow-insecure', 'allow an endpoint over plain http', false)
    .option('--sink <name>', 'an s3 sink of the configuration: its bucket, server and keys')

export const replayOptions = (command: Command) =>
  withConfig(command)
    .option('--sink <name>', 'the sink that is to have it again')
    .option(
      '--from <time>',
      "the entries' own time, included: a time, a day, or a span back from now such as 24h",
    )
    .option('--to <time>', 'excluded (default: now)')
    .option('--workspace <name>', 'only entries of this one')
    .addOption(new Option('--source <name>', 'only entries of this one').choices(shippedSources))
    .addOption(
      new Option(
        '--only <where>',
        'take all from there (default: from the journal each day that it still keeps whole, the others from the API)',
      ).choices(['journal', 'api']),
    )
    .option('--dry-run', 'count them by source and day, send nothing, ask the API nothing', false)
    .option('--status', 'how far replays from the API are, and begin none', false)
    .addOption(cancelOption('end replays from the API, of --sink or of all'))

/** The command itself looks at the operation: an unknown one is reported without the whole list. */
export function apiOptions(command: Command): Command {
  const operation = new Argument(
    '[operation]',
    'such as vault.projects; an area such as vault lists its operations with their parameters; nothing lists all',
  )
  operation.argChoices = [...operationNames]
  return withConfig(command)
    .addArgument(operation)
    .option('--workspace <name>', 'whose key to use (default: the only workspace)')
    .option('--param <name=value>', 'a parameter; may be repeated', each, [])
    .option('--body <@file>', 'send this file as a JSON body, or - for standard input, instead of a form')
    .option('--path <path>', 'where the specification leaves the path open: use this one')
    .option('--write', 'send an operation that changes something', false)
    .option('--verbose', 'print status and headers to standard error', false)
    .option('--output <file>', 'write the answer to a new file of mode 0600')
    .addHelpText(
      'after',
      "\nIt sends one request, which counts against the key's rate limit: if the daemon uses all of it in the\nsame minute, it may have to wait out a 429. The answer is content: it goes to standard output only.",
    )
}

// How numbers and repeated options are read from the command line; a bad one is wrong usage.

function wholeNumber(text: string): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN
  if (Number.isNaN(value)) throw new InvalidArgumentError('Expected a whole number.')
  return value
}

/** From 1: of none there is nothing to say. */
function someNumber(text: string): number {
  const value = wholeNumber(text)
  if (value < 1) throw new InvalidArgumentError('Expected a whole number from 1 on.')
  return value
}

export function tapLimit(text: string): number {
  const value = wholeNumber(text)
  if (value < 1 || value > MOST_LINES)
    throw new InvalidArgumentError(`Expected a number from 1 to ${MOST_LINES}.`)
  return value
}

function port(text: string): number {
  const value = wholeNumber(text)
  if (value > 65_535) throw new InvalidArgumentError('Expected a port from 0 to 65535.')
  return value
}

/** As `server.listen` of the configuration has it. */
export function listenAddress(text: string): string {
  const { error } = listen().safeParse(text)
  if (error) throw new InvalidArgumentError('Expected host:port, such as 127.0.0.1:9464.')
  return text
}

/** For an option that may be repeated. */
function each(text: string, before: readonly string[]): readonly string[] {
  return [...before, text]
}

function eachNumber(text: string, before: readonly number[]): readonly number[] {
  return [...before, someNumber(text)]
}
