// `quarantine`: what the source sent malformed, kept as the bytes that came. It never ships; here it can be looked at, taken elsewhere and let go.
import type { QuarantineRecord } from '../../contracts/records.ts'
import { countText, sizeText } from '../../observability/words.ts'
import { withJournal } from '../shared/journal.ts'
import type { OpenJournal } from '../shared/journal.ts'
import { columns } from '../shared/terminal.ts'
import { showContent } from '../shared/export-file.ts'
import { instantText } from '../shared/instants.ts'
import { exitCodes, type World } from '../shared/world.ts'
import { exitOf, idsQuery, isOf, lacksYes, noneText, withMeant } from './selection.ts'
import type { AsideOptions, ShowOptions } from './selection.ts'
import { exportAside, inChunks, only, pages, showList, Sums } from './list.ts'

interface QuarantineOptions extends AsideOptions {
  readonly reason?: string
}

const noun = (count: number) => countText(count, 'quarantined elements')

function recordsOf({ journal }: OpenJournal, options: QuarantineOptions, limit?: number) {
  const isMeant = ({ origin, reason }: QuarantineRecord) =>
    isOf(origin, options) && reason === (options.reason ?? reason)
  return only(
    pages((page) => journal.quarantined({ ...idsQuery(options), ...page })),
    isMeant,
    limit,
  )
}

const allRecords = (opened: OpenJournal) => recordsOf(opened, { id: [] })

export function listQuarantine(world: World, options: QuarantineOptions): Promise<number> {
  return withMeant(world, options, allRecords, async (opened) => {
    const sums = new Sums<QuarantineRecord>({
      kindOf: ({ origin, reason }) => ({ ...origin, reason }),
      bytes: { of: ({ keptBytes }) => keptBytes, name: 'kept_bytes', title: 'KEPT' },
      noun,
    })
    const found = await showList(world, options, recordsOf(opened, options), sums, {
      none: await noneText(options, allRecords(opened), {
        none: 'nothing is quarantined',
        unmatched: 'nothing quarantined matches these options',
      }),
      all: 'quarantine export',
      head: ['ID', 'SOURCE', 'REASON', 'SIZE', 'KEPT', 'SINCE (UTC)'],
      row: ({ id, origin, reason, totalBytes, keptBytes, keptAt }) => [
        ...[String(id), `${origin.workspace} ${origin.source}`, reason, sizeText(totalBytes)],
        ...[sizeText(keptBytes), instantText(keptAt)],
      ],
      facts: factsOf,
    })
    return found ? exitOf(world, options, found, missing) : exitCodes.done
  })
}

export function showQuarantine(world: World, options: ShowOptions, id: number): Promise<number> {
  return withJournal(world, options.config, async ({ journal }) => {
    const [record] = await journal.quarantined({ ids: [id], limit: 1 })
    const raw = options.content ? await journal.quarantinedRaw(id) : undefined
    if (!record || (options.content && !raw)) return missing(world, String(id))
    if (raw) {
      await showContent(world, raw)
      return exitCodes.done
    }
    world.stdout(
      columns([
        ['id', String(record.id)],
        ['workspace', record.origin.workspace],
        ['source', record.origin.source],
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

function missing(world: World, which: string): number {
  world.stderr(`auditferry: nothing quarantined under ${which}: see quarantine list\n`)
  return exitCodes.failed
}

export async function dropQuarantine(world: World, options: QuarantineOptions): Promise<number> {
  if (lacksYes(world, options, { lost: 'bytes', command: 'quarantine' })) return exitCodes.usage
  return withMeant(world, options, allRecords, async (opened) => {
    const seen: { readonly id: number }[] = []
    let count = 0
    for await (const page of recordsOf(opened, options, options.limit)) {
      const sizes = page.map(({ id, keptBytes }) => ({ id, bytes: keptBytes }))
      seen.push(...sizes)
      count += await inChunks(sizes, (ids) => opened.journal.dropQuarantined({ ids }))
    }
    world.stdout(`${noun(count)} dropped\n`)
    return exitOf(world, options, seen, missing, options.limit)
  })
}

function factsOf({ id, origin, ...rest }: QuarantineRecord): object {
  return {
    id,
    workspace: origin.workspace,
    source: origin.source,
    reason: rest.reason,
    total_bytes: rest.totalBytes,
    sha256: rest.sha256,
    kept_at: new Date(rest.keptAt).toISOString(),
    kept_bytes: rest.keptBytes,
  }
}

/** Malformed bytes may be anything: they go out in base64. */
function exported(record: QuarantineRecord, raw: Uint8Array): Uint8Array {
  const line = { ...factsOf(record), base64: Buffer.from(raw).toString('base64') }
  return Buffer.from(`${JSON.stringify(line)}\n`)
}

export function exportQuarantine(world: World, options: QuarantineOptions, file: string): Promise<number> {
  return withMeant(world, options, allRecords, async (opened) => {
    const seen = await exportAside(world, file, {
      pages: recordsOf(opened, options, options.limit),
      rawOf: (id) => opened.journal.quarantinedRaw(id),
      line: exported,
      none: 'nothing quarantined',
      noun,
    })
    return exitOf(world, options, seen, missing, options.limit)
  })
}
