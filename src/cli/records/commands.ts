// The commands for dead letters and quarantined elements alike. Content only on request.
import { showContent, writeExport } from '../shared/export-file.ts'
import { withJournal } from '../shared/journal.ts'
import type { OpenJournal } from '../shared/journal.ts'
import { columns } from '../shared/terminal.ts'
import { exitCodes, WrongUsage, type CommandContext } from '../shared/context.ts'
import { showList } from './list.ts'
import { emptyText, exitOf, missing, recordsOf, withRecords } from './selection.ts'
import type { AnyRecord, RecordKind, RecordOptions } from './selection.ts'

interface ShowOptions {
  readonly config?: string
  readonly content: boolean
}

export const recordCommands = <T extends AnyRecord>(kind: RecordKind<T>) => ({
  list: (context: CommandContext, options: RecordOptions): Promise<number> =>
    withRecords(context, kind, options, async (opened) => {
      const none = await emptyText(kind, opened, options)
      const found = await showList(context, options, recordsOf(kind, opened, options), kind, none)
      return found ? exitOf(context, kind, options, found) : exitCodes.done
    }),

  show: (context: CommandContext, options: ShowOptions, id: number): Promise<number> =>
    withJournal(context, options.config, async ({ journal }) => {
      const [record] = await kind.ask(journal, { ids: [id], limit: 1, after: 0 })
      const raw = options.content ? await kind.rawOf(journal, id) : undefined
      if (!record || (options.content && !raw)) return missing(context, kind, String(id))
      if (raw) await showContent(context, kind.content(raw))
      else context.stdout(columns([...kind.details(record), ['content', 'not shown: --content prints it']]))
      return exitCodes.done
    }),

  drop: async (context: CommandContext, options: RecordOptions): Promise<number> => {
    if (options.id.length === 0 && options.yes !== true)
      throw new WrongUsage(
        `this lets ${kind.texts.lost} go for good: say --yes, or name each with --id N (${kind.name} export keeps a copy)`,
      )
    return withRecords(context, kind, options, async (opened) => {
      const found = await allSelected(kind, opened, options)
      const count = await inChunks(found, (ids) => kind.drop(opened.journal, ids))
      context.stdout(`${kind.noun(count)} dropped\n`)
      return exitOf(context, kind, options, found, options.limit)
    })
  },

  export: (context: CommandContext, options: RecordOptions, file: string): Promise<number> =>
    withRecords(context, kind, options, async (opened) => {
      const seen: T[] = []
      await writeExport(context, file, linesOf(kind, opened, options, seen))
      const where = file === '-' ? '' : `: ${file} was not made`
      if (seen.length === 0) context.stderr(`auditferry: ${kind.texts.nothing} to export${where}\n`)
      else if (file !== '-') context.stderr(`auditferry: ${kind.noun(seen.length)} in ${file}\n`)
      return exitOf(context, kind, options, seen, options.limit)
    }),
})

/** Each record with its content, added to `seen`. One that was dropped meanwhile is skipped. */
async function* linesOf<T extends AnyRecord>(
  kind: RecordKind<T>,
  opened: OpenJournal,
  options: RecordOptions,
  seen: T[],
): AsyncGenerator<Uint8Array> {
  for await (const page of recordsOf(kind, opened, options, options.limit))
    for (const record of page) {
      const raw = await kind.rawOf(opened.journal, record.id)
      if (!raw) continue
      seen.push(record)
      yield kind.line(record, raw)
    }
}

/** Bound of one transaction, which reads all of its bytes at once. */
const CHUNK = { records: 500, bytes: 8 * 1024 * 1024 }

interface Sized {
  readonly id: number
  readonly bytes: number
}

/** Listed before any is changed: a letter rejected again meanwhile has a new id. */
export async function allSelected<T extends AnyRecord>(
  kind: RecordKind<T>,
  opened: OpenJournal,
  options: RecordOptions,
): Promise<readonly Sized[]> {
  const found: Sized[] = []
  for await (const page of recordsOf(kind, opened, options, options.limit))
    for (const record of page) found.push({ id: record.id, bytes: kind.bytesOf(record) })
  return found
}

export async function inChunks(
  records: readonly Sized[],
  work: (ids: readonly number[]) => Promise<number>,
): Promise<number> {
  let done = 0
  let ids: number[] = []
  let bytes = 0
  for (const record of records) {
    if (ids.length >= CHUNK.records || (ids.length > 0 && bytes + record.bytes > CHUNK.bytes)) {
      done += await work(ids)
      ids = []
      bytes = 0
    }
    ids.push(record.id)
    bytes += record.bytes
  }
  return ids.length > 0 ? done + (await work(ids)) : done
}
