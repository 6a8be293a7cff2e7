// What somebody asks for of what is set aside, of either kind: which of it, and how sure they are. And what ends the command where it is not there.
import type { Stream } from '../../contracts/source.ts'
import { type OpenJournal, withJournal } from '../shared/journal.ts'
import { areKnown, areNamed, type Whose } from '../shared/names.ts'
import { exitCodes, type CommandContext } from '../shared/world.ts'

export interface AsideOptions {
  readonly config?: string
  readonly id: readonly number[]
  readonly limit?: number
  readonly workspace?: string
  readonly source?: string
  /** of drop */
  readonly yes?: boolean
  /** of list */
  readonly json?: boolean
  /** of list: the sums alone */
  readonly sums?: boolean
}

export interface ShowOptions {
  readonly config?: string
  readonly content: boolean
}

/** Where no id is named, all of it is meant. */
export function idsQuery({ id }: Pick<AsideOptions, 'id'>): { readonly ids?: readonly number[] } {
  return id.length > 0 ? { ids: id } : {}
}

export const isOf = (stream: Stream, { workspace, source }: Pick<AsideOptions, 'workspace' | 'source'>) =>
  stream.workspace === (workspace ?? stream.workspace) && stream.source === (source ?? stream.source)

type Pages = AsyncIterable<readonly { readonly sink?: string; readonly stream: Stream }[]>

/** With the journal open, where what the options name is there; else that is wrong usage. `allIn`: all that is set aside. */
export function withMeant(
  context: CommandContext,
  options: AsideOptions & Whose,
  allIn: (opened: OpenJournal) => Pages,
  use: (opened: OpenJournal) => Promise<number>,
): Promise<number> {
  return withJournal(context, options.config, async (opened) =>
    (await isThere(context, opened, options, allIn(opened))) ? use(opened) : exitCodes.usage,
  )
}

/** False, and said, where a sink or workspace is named that is neither configured nor one of those of which something is set aside still. */
async function isThere(
  context: CommandContext,
  opened: OpenJournal,
  whose: Whose,
  all: Pages,
): Promise<boolean> {
  if (whose.sink === undefined && whose.workspace === undefined) return true
  const there = await opened.there()
  if (areNamed(whose, there)) return true
  const [sinks, workspaces] = [new Set<string>(), new Set<string>()]
  for await (const page of all)
    for (const { sink, stream } of page) {
      if (sink !== undefined) sinks.add(sink)
      workspaces.add(stream.workspace)
    }
  const named = (names: ReadonlySet<string>) => [...names].map((name) => ({ name }))
  return areKnown(context, whose, {
    sinks: [...there.sinks, ...named(sinks)],
    workspaces: [...there.workspaces, ...named(workspaces)],
  })
}

/** What lets all of it go for good wants to be asked for in so many words. */
export function lacksYes(
  context: CommandContext,
  { id, yes }: AsideOptions,
  { lost, command }: { lost: string; command: string },
): boolean {
  if (id.length > 0 || yes === true) return false
  context.stderr(
    `error: this lets ${lost} go for good: say --yes, or name each with --id N (${command} export keeps a copy)\n`,
  )
  return true
}

/** Names of options that tell by something else than its id what is meant. */
const NARROWING = ['sink', 'workspace', 'source', 'code', 'reason'] as const

type Narrowing = Readonly<Partial<Record<(typeof NARROWING)[number], string>>>

export const isNarrowed = (options: Narrowing): boolean =>
  NARROWING.some((name) => options[name] !== undefined)

/** What is said where nothing was found: that the options are in the way, only where anything is set aside. */
export async function noneText(
  options: Narrowing,
  all: AsyncIterable<readonly unknown[]>,
  { none, unmatched }: { none: string; unmatched: string },
): Promise<string> {
  if (isNarrowed(options)) for await (const { length } of all) if (length > 0) return unmatched
  return none
}

/**
 * Ids that were asked for and are not there, or are none of what else was asked for, make the command fail, after the rest was
 * seen to. `most`: where so many were found others were left out, and nothing is known of those.
 */
export function exitOf(
  context: CommandContext,
  options: AsideOptions & Narrowing,
  found: readonly { readonly id: number }[],
  missing: (context: CommandContext, which: string) => number,
  most = Infinity,
): number {
  const { id } = options
  if (found.length >= most) return exitCodes.done
  const known = new Set(found.map((one) => one.id))
  const unknown = id.filter((wanted) => !known.has(wanted))
  const which = `${unknown.join(', ')}${isNarrowed(options) ? ' that the other options mean too' : ''}`
  return unknown.length > 0 ? missing(context, which) : exitCodes.done
}
