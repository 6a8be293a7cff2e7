// `quarantine`: what the source sent malformed, kept as the bytes that came. It never ships; here it can be looked at, taken elsewhere and let go.
import type { QuarantineRecord } from '../model/set-aside.ts'
import { countText, sizeText } from '../ops/words.ts'
import type { OpenAside, ShowOptions } from './aside.ts'
import { inChunks, isThere, only, pages, withAside } from './aside.ts'
import { type ListOptions, showList } from './aside-list.ts'
import { Sums } from './aside-sums.ts'
import { columns } from './columns.ts'
import { exportAside, showContent } from './export-file.ts'
import { instantText } from './instants.ts'
import { exitCodes, type World } from './world.ts'

interface QuarantineOptions extends ListOptions {
  readonly config?: string
  readonly id: readonly number[]
  readonly workspace?: string
  readonly source?: string
  readonly reason?: string
  /** of drop */
  readonly yes?: boolean
}

const noun = (count: number) => countText(count, 'quarantined elements')

function recordsOf({ aside }: OpenAside, options: QuarantineOptions, limit?: number) {
  const { id, workspace, source, reason } = options
  const query = id.length > 0 ? { ids: id } : {}
  const isMeant = ({ origin, ...record }: QuarantineRecord) =>
    origin.workspace === (workspace ?? origin.workspace) &&
    origin.source === (source ?? origin.source) &&
    record.reason === (reason ?? record.reason)
  return only(
    pages((page) => aside.quarantined({ ...query, ...page })),
    isMeant,
    limit,
  )
}

function withQuarantine(
  world: World,
  options: QuarantineOptions,
  use: (opened: OpenAside) => Promise<number>,
): Promise<number> {
  return withAside(world, options.config, async (opened) => {
    const all = recordsOf(opened, { id: [] })
    return (await isThere(world, opened, options, all)) ? use(opened) : exitCodes.usage
  })
}

export function listQuarantine(world: World, options: QuarantineOptions): Promise<number> {
  return withQuarantine(world, options, async (opened) => {
    const sums = new Sums<QuarantineRecord>({
      kindOf: ({ origin, reason }) => ({ ...origin, reason }),
      bytesOf: ({ keptBytes }) => keptBytes,
      noun,
    })
    const found = await showList(world, options, recordsOf(opened, options), sums, {
      ...{ none: 'nothing is quarantined', all: 'quarantine export' },
      head: ['ID', 'SOURCE', 'REASON', 'SIZE', 'KEPT', 'SINCE (UTC)'],
      row: ({ id, origin, reason, totalBytes, keptBytes, keptAt }) => [
        ...[String(id), `${origin.workspace} ${origin.source}`, reason, sizeText(totalBytes)],
        ...[sizeText(keptBytes), instantText(keptAt)],
      ],
      facts: factsOf,
    })
    return found ? judged(world, options, new Set(found.map(({ id }) => id))) : exitCodes.done
  })
}

export function showQuarantine(world: World, options: ShowOptions, id: number): Promise<number> {
  return withAside(world, options.config, async ({ aside }) => {
    const [record] = await aside.quarantined({ ids: [id], limit: 1 })
    const raw = options.content ? await aside.quarantinedRaw(id) : undefined
    if (!record || (options.content && !raw)) return missing(world, [id])
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

function missing(world: World, ids: readonly number[]): number {
  world.stderr(
    `auditferry: nothing quarantined under ${ids.join(', ')}: quarantine list tells what there is\n`,
  )
  return exitCodes.failed
}

/** Ids that were asked for and are not there make the command fail, after the rest was seen to. */
function judged(world: World, { id }: QuarantineOptions, seen: ReadonlySet<number>): number {
  const unknown = id.filter((wanted) => !seen.has(wanted))
  return unknown.length > 0 ? missing(world, unknown) : exitCodes.done
}

export async function dropQuarantine(world: World, options: QuarantineOptions): Promise<number> {
  if (options.id.length === 0 && options.yes !== true) {
    world.stderr(
      'error: this lets bytes go for good: say --yes, or name each with --id N (quarantine export keeps a copy)\n',
    )
    return exitCodes.usage
  }
  return withQuarantine(world, options, async (opened) => {
    const seen = new Set<number>()
    let count = 0
    for await (const page of recordsOf(opened, options, options.limit)) {
      for (const { id } of page) seen.add(id)
      const sizes = page.map(({ id, keptBytes }) => ({ id, bytes: keptBytes }))
      count += await inChunks(sizes, (ids) => opened.aside.dropQuarantined({ ids }))
    }
    world.stdout(`${noun(count)} dropped\n`)
    return judged(world, options, seen)
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
  return withQuarantine(world, options, async (opened) => {
    const seen = await exportAside(world, file, {
      pages: recordsOf(opened, options, options.limit),
      rawOf: (id) => opened.aside.quarantinedRaw(id),
      line: exported,
      none: 'nothing quarantined',
      noun,
    })
    return judged(world, options, new Set(seen.map(({ id }) => id)))
  })
}
