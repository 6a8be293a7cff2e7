// `quarantine`: lists, shows, drops and exports malformed elements. They are never delivered.
import type { QuarantineRecord } from '../../contracts/records.ts'
import { countText, sizeText } from '../../observability/words.ts'
import { withJournal } from '../shared/journal.ts'
import type { OpenJournal } from '../shared/journal.ts'
import { columns } from '../shared/terminal.ts'
import { showContent } from '../shared/export-file.ts'
import { instantText } from '../shared/instants.ts'
import { exitCodes, type CommandContext } from '../shared/context.ts'
import { exitOf, idsQuery, isOf, assertConfirmed, emptyText, withSelection } from './selection.ts'
import type { RecordOptions, ShowOptions } from './selection.ts'
import { exportRecords, inChunks, filtered, pages, showList, Sums } from './list.ts'

interface QuarantineOptions extends RecordOptions {
  readonly reason?: string
}

const noun = (count: number) => countText(count, 'quarantined elements')

function recordsOf({ journal }: OpenJournal, options: QuarantineOptions, limit?: number) {
  const isSelected = ({ stream, reason }: QuarantineRecord) =>
    isOf(stream, options) && reason === (options.reason ?? reason)
  return filtered(
    pages((page) => journal.quarantined({ ...idsQuery(options), ...page })),
    isSelected,
    limit,
  )
}

const allRecords = (opened: OpenJournal) => recordsOf(opened, { id: [] })

export function listQuarantine(context: CommandContext, options: QuarantineOptions): Promise<number> {
  return withSelection(context, options, allRecords, async (opened) => {
    const sums = new Sums<QuarantineRecord>({
      kindOf: ({ stream, reason }) => ({ ...stream, reason }),
      bytes: { of: ({ keptBytes }) => keptBytes, name: 'kept_bytes', title: 'KEPT' },
      noun,
    })
    const found = await showList(context, options, recordsOf(opened, options), sums, {
      none: await emptyText(options, allRecords(opened), {
        none: 'nothing is quarantined',
        unmatched: 'nothing quarantined matches these options',
      }),
      all: 'quarantine export',
      head: ['ID', 'SOURCE', 'REASON', 'SIZE', 'KEPT', 'SINCE (UTC)'],
      row: ({ id, stream, reason, totalBytes, keptBytes, keptAt }) => [
        ...[String(id), `${stream.workspace} ${stream.source}`, reason, sizeText(totalBytes)],
        ...[sizeText(keptBytes), instantText(keptAt)],
      ],
      facts: factsOf,
    })
    return found ? exitOf(context, options, found, missing) : exitCodes.done
  })
}

export function showQuarantine(context: CommandContext, options: ShowOptions, id: number): Promise<number> {
  return withJournal(context, options.config, async ({ journal }) => {
    const [record] = await journal.quarantined({ ids: [id], limit: 1 })
    const raw = options.content ? await journal.quarantinedRaw(id) : undefined
    if (!record || (options.content && !raw)) return missing(context, String(id))
    if (raw) {
      await showContent(context, raw)
      return exitCodes.done
    }
    context.stdout(
      columns([
        ['id', String(record.id)],
        ['workspace', record.stream.workspace],
        ['source', record.stream.source],
        ['reason', record.reason],
        ['bytes', String(record.totalBytes)],
        ['kept bytes', String(record.keptBytes)],
        ['sha256', record.sha256],
        ['kept since', `${instantText(record.keptAt)} UTC`],
        ['content', 'not shown: --content prints it'],
      ]),
    )
    return exitCodes.done
  })
}

function missing(context: CommandContext, which: string): number {
  context.stderr(`auditferry: nothing quarantined under ${which}: see quarantine list\n`)
  return exitCodes.failed
}

export async function dropQuarantine(context: CommandContext, options: QuarantineOptions): Promise<number> {
  assertConfirmed(options, 'bytes', 'quarantine')
  return withSelection(context, options, allRecords, async (opened) => {
    const seen: { readonly id: number }[] = []
    let count = 0
    for await (const page of recordsOf(opened, options, options.limit)) {
      const sizes = page.map(({ id, keptBytes }) => ({ id, bytes: keptBytes }))
      seen.push(...sizes)
      count += await inChunks(sizes, (ids) => opened.journal.dropQuarantined({ ids }))
    }
    context.stdout(`${noun(count)} dropped\n`)
    return exitOf(context, options, seen, missing, options.limit)
  })
}

function factsOf({ id, stream, ...rest }: QuarantineRecord): object {
  return {
    id,
    workspace: stream.workspace,
    source: stream.source,
    reason: rest.reason,
    total_bytes: rest.totalBytes,
    sha256: rest.sha256,
    kept_at: new Date(rest.keptAt).toISOString(),
    kept_bytes: rest.keptBytes,
  }
}

/** Malformed bytes may be anything, hence base64. */
function exported(record: QuarantineRecord, raw: Uint8Array): Uint8Array {
  const line = { ...factsOf(record), base64: Buffer.from(raw).toString('base64') }
  return Buffer.from(`${JSON.stringify(line)}\n`)
}

export function exportQuarantine(
  context: CommandContext,
  options: QuarantineOptions,
  file: string,
): Promise<number> {
  return withSelection(context, options, allRecords, async (opened) => {
    const seen = await exportRecords(context, file, {
      pages: recordsOf(opened, options, options.limit),
      rawOf: (id) => opened.journal.quarantinedRaw(id),
      line: exported,
      none: 'nothing quarantined',
      noun,
    })
    return exitOf(context, options, seen, missing, options.limit)
  })
}
