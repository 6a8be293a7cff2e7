// `dead-letters`: lists, shows, retries, drops and exports dead letters. Content only on request.
import type { DeadLetter, DeadLetterQuery, LeftDeadLetters } from '../../contracts/records.ts'
import { parseInstantText } from '../../core/time.ts'
import { countText, cutText, sizeText } from '../../observability/words.ts'
import { withJournal } from '../shared/journal.ts'
import type { OpenJournal } from '../shared/journal.ts'
import { columns } from '../shared/terminal.ts'
import { showContent } from '../shared/export-file.ts'
import { instantText } from '../shared/instants.ts'
import { printable } from '../../core/printable.ts'
import { exitCodes, WrongUsage, type CommandContext } from '../shared/context.ts'
import { exitOf, idsQuery, isFiltered, isOf, assertConfirmed, emptyText, withSelection } from './selection.ts'
import type { RecordOptions, ShowOptions } from './selection.ts'
import { exportRecords, inChunks, filtered, pages, showList, Sums } from './list.ts'

interface LetterOptions extends RecordOptions {
  readonly sink?: string
  readonly code?: string
}

/** Documented types are short, but an entry may contain any text. */
const typeText = ({ type }: DeadLetter) => cutText(type, 80)
/** The entry's own time, which may have any time zone. */
const timeText = ({ time }: DeadLetter) => {
  const us = parseInstantText(time)
  return Number.isNaN(us) ? time.slice(0, 19) : instantText(us / 1000)
}
const noun = (count: number) => countText(count, 'dead letters')

function queryOf(options: LetterOptions): DeadLetterQuery {
  const { sink } = options
  return { ...(sink === undefined ? {} : { sink }), ...idsQuery(options) }
}

function lettersOf({ journal }: OpenJournal, options: LetterOptions, limit?: number) {
  const isSelected = (letter: DeadLetter) =>
    isOf(letter.stream, options) && letter.code === (options.code ?? letter.code)
  return filtered(
    pages((page) => journal.deadLetters({ ...queryOf(options), ...page })),
    isSelected,
    limit,
  )
}

async function all(opened: OpenJournal, options: LetterOptions, limit?: number): Promise<DeadLetter[]> {
  const found: DeadLetter[] = []
  for await (const page of lettersOf(opened, options, limit)) found.push(...page)
  return found
}

const allLetters = (opened: OpenJournal) => lettersOf(opened, { id: [] })

const noLetters = (opened: OpenJournal, options: LetterOptions) =>
  emptyText(options, allLetters(opened), {
    none: 'no dead letters',
    unmatched: 'no dead letters match these options',
  })

/**
 * Like `withSelection`. An unknown code fails the command, but is not wrong usage: an older version
 * may have stored other codes.
 */
function withLetters(
  context: CommandContext,
  options: LetterOptions,
  use: (opened: OpenJournal) => Promise<number>,
): Promise<number> {
  return withSelection(context, options, allLetters, async (opened) => {
    const { code } = options
    const codes = code === undefined ? new Set<string>() : await codesUpTo(code, opened)
    if (code === undefined || codes.size === 0 || codes.has(code)) return use(opened)
    context.stderr(
      `auditferry: no dead letter has the code ${printable(code)}; known codes: ${[...codes].join(', ')}\n`,
    )
    await use(opened)
    return exitCodes.failed
  })
}

/** All codes up to the first match. */
async function codesUpTo(wanted: string, opened: OpenJournal): Promise<ReadonlySet<string>> {
  const codes = new Set<string>()
  for await (const page of allLetters(opened)) {
    for (const { code } of page) codes.add(code)
    if (codes.has(wanted)) break
  }
  return codes
}

export function listLetters(context: CommandContext, options: LetterOptions): Promise<number> {
  return withLetters(context, options, async (opened) => {
    const sums = new Sums<DeadLetter>({
      kindOf: ({ sink, stream, code }) => ({ sink, ...stream, code }),
      bytes: { of: ({ bytes }) => bytes, name: 'bytes', title: 'SIZE' },
      noun,
    })
    const found = await showList(context, options, lettersOf(opened, options), sums, {
      none: await noLetters(opened, options),
      all: 'dead-letters export',
      head: ['ID', 'SINK', 'SOURCE', 'TIME (UTC)', 'TYPE', 'SIZE', 'SINCE (UTC)', 'CODE', 'REASON'],
      row: (letter) => [
        ...[String(letter.id), letter.sink, `${letter.stream.workspace} ${letter.stream.source}`],
        ...[timeText(letter), typeText(letter), sizeText(letter.bytes), instantText(letter.deadLetteredAt)],
        ...[letter.code, letter.reason],
      ],
      facts: factsOf,
    })
    return found ? exitOf(context, options, found, missing) : exitCodes.done
  })
}

export function showLetter(context: CommandContext, options: ShowOptions, id: number): Promise<number> {
  return withJournal(context, options.config, async ({ journal }) => {
    const [letter] = await journal.deadLetters({ ids: [id], limit: 1 })
    if (!letter) return missing(context, String(id))
    if (options.content) {
      const raw = await journal.deadLetterRaw(id)
      if (!raw) return missing(context, String(id))
      await showContent(context, Buffer.concat([raw, Buffer.from('\n')]))
      return exitCodes.done
    }
    context.stdout(
      columns([
        ['id', String(letter.id)],
        ['sink', letter.sink],
        ['workspace', letter.stream.workspace],
        ['source', letter.stream.source],
        ['entry', letter.entryId],
        ['time', letter.time],
        ['type', typeText(letter)],
        ['bytes', String(letter.bytes)],
        ['position', String(letter.seq)],
        ['since', `${instantText(letter.deadLetteredAt)} UTC`],
        ['code', letter.code],
        ['reason', letter.reason],
        ['content', `not shown: --content prints it`],
      ]),
    )
    return exitCodes.done
  })
}

function missing(context: CommandContext, which: string): number {
  context.stderr(`auditferry: no dead letter ${which}: see dead-letters list\n`)
  return exitCodes.failed
}

function whyLeft({ sink, why }: LeftDeadLetters): string {
  if (why === 'not_configured') return `${sink} is not in the configuration`
  return `${sink} no longer takes them (its ${why}): change that to send them, or remove them with dead-letters drop`
}

const sumOf = (left: readonly LeftDeadLetters[]) => left.reduce((sum, { count }) => sum + count, 0)

export async function retryLetters(context: CommandContext, options: LetterOptions): Promise<number> {
  if (options.id.length === 0 && !isFiltered(options))
    throw new WrongUsage('which to retry? Name a sink with --sink NAME, or letters with --id N')
  return withLetters(context, options, async (opened) => {
    const found = await all(opened, options, options.limit)
    if (found.length === 0 && options.id.length === 0) {
      context.stdout(`${await noLetters(opened, options)}: nothing is put back\n`)
      return exitCodes.done
    }
    const left: LeftDeadLetters[] = []
    const count = await inChunks(found, async (ids) => {
      const retried = await opened.retry({ ids })
      left.push(...retried.left)
      return retried.count
    })
    const when = opened.running
      ? 'they go out as soon as it takes them'
      : 'they are sent when the daemon runs'
    if (found.length > 0)
      context.stdout(`${noun(count)} put back at the journal's end, each for its own sink; ${when}\n`)
    for (const [why, many] of Map.groupBy(left, whyLeft))
      context.stderr(`auditferry: ${noun(sumOf(many))} left where they are: ${why}\n`)
    const code = exitOf(context, options, found, missing, options.limit)
    return left.length > 0 ? exitCodes.failed : code
  })
}

export async function dropLetters(context: CommandContext, options: LetterOptions): Promise<number> {
  assertConfirmed(options, 'entries', 'dead-letters')
  return withLetters(context, options, async (opened) => {
    const found = await all(opened, options, options.limit)
    const count = await inChunks(found, (ids) => opened.journal.dropDeadLetters({ ids }))
    context.stdout(`${noun(count)} dropped\n`)
    return exitOf(context, options, found, missing, options.limit)
  })
}

function factsOf({ stream, entryId, deadLetteredAt, ...rest }: DeadLetter): object {
  return {
    id: rest.id,
    sink: rest.sink,
    workspace: stream.workspace,
    source: stream.source,
    entry_id: entryId,
    time: rest.time,
    type: rest.type,
    code: rest.code,
    reason: rest.reason,
    dead_lettered_at: new Date(deadLetteredAt).toISOString(),
    bytes: rest.bytes,
  }
}

/** The entry is one line of JSON and is written byte for byte. */
function exported(letter: DeadLetter, raw: Uint8Array): Uint8Array {
  const facts = JSON.stringify(factsOf(letter))
  return Buffer.concat([Buffer.from(`${facts.slice(0, -1)},"entry":`), raw, Buffer.from('}\n')])
}

export async function exportLetters(
  context: CommandContext,
  options: LetterOptions,
  file: string,
): Promise<number> {
  return withLetters(context, options, async (opened) => {
    const seen = await exportRecords(context, file, {
      pages: lettersOf(opened, options, options.limit),
      rawOf: (id) => opened.journal.deadLetterRaw(id),
      line: exported,
      none: 'no dead letters',
      noun,
    })
    return exitOf(context, options, seen, missing, options.limit)
  })
}
