// Selects dead letters or quarantined elements by options, and decides the exit code.
import type { JobFilter } from '../../contracts/jobs.ts'
import type { Stream } from '../../contracts/source.ts'
import { type OpenJournal, withJournal } from '../shared/journal.ts'
import { unknownIn } from '../shared/names.ts'
import { assertUsage, exitCodes, WrongUsage, type CommandContext } from '../shared/context.ts'

export interface RecordOptions {
  readonly config?: string
  readonly id: readonly number[]
  readonly limit?: number
  readonly workspace?: string
  readonly source?: string
  /** of drop */
  readonly yes?: boolean
  /** of list */
  readonly json?: boolean
  /** of list: only the sums */
  readonly sums?: boolean
}

export interface ShowOptions {
  readonly config?: string
  readonly content: boolean
}

/** Without ids all are selected. */
export function idsQuery({ id }: Pick<RecordOptions, 'id'>): { readonly ids?: readonly number[] } {
  return id.length > 0 ? { ids: id } : {}
}

export const isOf = (stream: Stream, { workspace, source }: Pick<RecordOptions, 'workspace' | 'source'>) =>
  stream.workspace === (workspace ?? stream.workspace) && stream.source === (source ?? stream.source)

type Pages = AsyncIterable<readonly { readonly sink?: string; readonly stream: Stream }[]>

/**
 * Opens the journal and runs `use`. Throws WrongUsage if the options name something unknown.
 * `allIn`: all records of the kind.
 */
export function withSelection(
  context: CommandContext,
  options: RecordOptions & JobFilter,
  allIn: (opened: OpenJournal) => Pages,
  use: (opened: OpenJournal) => Promise<number>,
): Promise<number> {
  return withJournal(context, options.config, async (opened) => {
    await assertNames(opened, options, allIn(opened))
    return use(opened)
  })
}

/** Throws WrongUsage if a name is neither configured nor in a record. */
async function assertNames(opened: OpenJournal, whose: JobFilter, records: Pages): Promise<void> {
  if (whose.sink === undefined && whose.workspace === undefined) return
  const known = await opened.names()
  if (unknownIn(whose, known) === undefined) return
  const [sinks, workspaces] = [new Set<string>(), new Set<string>()]
  for await (const page of records)
    for (const { sink, stream } of page) {
      if (sink !== undefined) sinks.add(sink)
      workspaces.add(stream.workspace)
    }
  const named = (names: ReadonlySet<string>) => [...names].map((name) => ({ name }))
  const all = {
    sinks: [...known.sinks, ...named(sinks)],
    workspaces: [...known.workspaces, ...named(workspaces)],
  }
  assertUsage(unknownIn(whose, all))
}

/** Dropping everything for good needs an explicit --yes. */
export function assertConfirmed({ id, yes }: RecordOptions, lost: string, command: string): void {
  if (id.length > 0 || yes === true) return
  throw new WrongUsage(
    `this lets ${lost} go for good: say --yes, or name each with --id N (${command} export keeps a copy)`,
  )
}

/** Options other than ids that narrow the selection. */
const FILTERS = ['sink', 'workspace', 'source', 'code', 'reason'] as const

type Filters = Readonly<Partial<Record<(typeof FILTERS)[number], string>>>

export const isFiltered = (options: Filters): boolean => FILTERS.some((name) => options[name] !== undefined)

/** The message for an empty result. It mentions the options only if there are records at all. */
export async function emptyText(
  options: Filters,
  all: AsyncIterable<readonly unknown[]>,
  { none, unmatched }: { none: string; unmatched: string },
): Promise<string> {
  if (isFiltered(options)) for await (const { length } of all) if (length > 0) return unmatched
  return none
}

/**
 * Fails for ids that were not found or do not match the other options, after the rest was
 * processed. `most`: with that many found, others were left out, so missing ids prove nothing.
 */
export function exitOf(
  context: CommandContext,
  options: RecordOptions & Filters,
  found: readonly { readonly id: number }[],
  missing: (context: CommandContext, which: string) => number,
  most = Infinity,
): number {
  const { id } = options
  if (found.length >= most) return exitCodes.done
  const known = new Set(found.map((one) => one.id))
  const unknown = id.filter((wanted) => !known.has(wanted))
  const which = `${unknown.join(', ')}${isFiltered(options) ? ' that the other options mean too' : ''}`
  return unknown.length > 0 ? missing(context, which) : exitCodes.done
}
