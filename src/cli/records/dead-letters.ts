// `dead-letters`: lists, shows, retries, drops and exports dead letters.
import type { DeadLetter, LeftDeadLetters } from '../../contracts/records.ts'
import { parseInstantText } from '../../core/time.ts'
import { countText, cutText, sizeText } from '../../observability/words.ts'
import { instantText } from '../shared/instants.ts'
import { exitCodes, WrongUsage, type CommandContext } from '../shared/context.ts'
import { allSelected, inChunks, recordCommands } from './commands.ts'
import { emptyText, exitOf, isFiltered, withRecords } from './selection.ts'
import type { RecordKind, RecordOptions } from './selection.ts'

/** Documented types are short, but an entry may contain any text. */
const typeText = ({ type }: DeadLetter) => cutText(type, 80)
/** The entry's own time, which may have any time zone. */
const timeText = ({ time }: DeadLetter) => {
  const us = parseInstantText(time)
  return Number.isNaN(us) ? time.slice(0, 19) : instantText(us / 1000)
}
const noun = (count: number) => countText(count, 'dead letters')

const factsOf = ({ stream, entryId, deadLetteredAt, ...rest }: DeadLetter) => ({
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
})

const letters: RecordKind<DeadLetter> = {
  name: 'dead-letters',
  noun,
  texts: {
    none: 'no dead letters',
    unmatched: 'no dead letters match these options',
    nothing: 'no dead letters',
    missing: (ids) => `no dead letter ${ids}`,
    lost: 'entries',
  },
  ask: (journal, query) => journal.deadLetters(query),
  rawOf: (journal, id) => journal.deadLetterRaw(id),
  drop: (journal, ids) => journal.dropDeadLetters({ ids }),
  head: ['ID', 'SINK', 'SOURCE', 'TIME (UTC)', 'TYPE', 'SIZE', 'SINCE (UTC)', 'CODE', 'REASON'],
  row: (letter) => [
    ...[String(letter.id), letter.sink, `${letter.stream.workspace} ${letter.stream.source}`],
    ...[timeText(letter), typeText(letter), sizeText(letter.bytes), instantText(letter.deadLetteredAt)],
    ...[letter.code, letter.reason],
  ],
  details: (letter) => [
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
  ],
  facts: factsOf,
  content: (raw) => Buffer.concat([raw, Buffer.from('\n')]),
  // The entry is one line of JSON and is written byte for byte.
  line(letter, raw) {
    const facts = JSON.stringify(factsOf(letter))
    return Buffer.concat([Buffer.from(`${facts.slice(0, -1)},"entry":`), raw, Buffer.from('}\n')])
  },
  sumOf: ({ sink, stream, code }) => ({ sink, ...stream, code }),
  bytesOf: ({ bytes }) => bytes,
  bytes: { name: 'bytes', title: 'SIZE' },
}

export const {
  list: listLetters,
  show: showLetter,
  drop: dropLetters,
  export: exportLetters,
} = recordCommands(letters)

function whyLeft({ sink, why }: LeftDeadLetters): string {
  if (why === 'not_configured') return `${sink} is not in the configuration`
  return `${sink} no longer takes them (its ${why}): change that to send them, or remove them with dead-letters drop`
}

const sumOf = (left: readonly LeftDeadLetters[]) => left.reduce((sum, { count }) => sum + count, 0)

export async function retryLetters(context: CommandContext, options: RecordOptions): Promise<number> {
  if (options.id.length === 0 && !isFiltered(options))
    throw new WrongUsage('which to retry? Name a sink with --sink NAME, or letters with --id N')
  return withRecords(context, letters, options, async (opened) => {
    const found = await allSelected(letters, opened, options)
    if (found.length === 0 && options.id.length === 0) {
      context.stdout(`${await emptyText(letters, opened, options)}: nothing is put back\n`)
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
    const code = exitOf(context, letters, options, found, options.limit)
    return left.length > 0 ? exitCodes.failed : code
  })
}
