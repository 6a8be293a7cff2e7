// What somebody asks for of what is set aside, of either kind: which of it, and how sure they are. And what ends the command where it is not there.
import { exitCodes, type World } from '../shared/world.ts'

export interface AsideOptions {
  readonly config?: string
  readonly id: readonly number[]
  readonly limit?: number
  /** of drop */
  readonly yes?: boolean
  /** of list */
  readonly json?: boolean
}

export interface ShowOptions {
  readonly config?: string
  readonly content: boolean
}

/** Where no id is named, all of it is meant. */
export function idsQuery({ id }: Pick<AsideOptions, 'id'>): { readonly ids?: readonly number[] } {
  return id.length > 0 ? { ids: id } : {}
}

/** What lets all of it go for good wants to be asked for in so many words. */
export function lacksYes(
  world: World,
  { id, yes }: AsideOptions,
  { lost, command }: { lost: string; command: string },
): boolean {
  if (id.length > 0 || yes === true) return false
  world.stderr(
    `error: this lets ${lost} go for good: say --yes, or name each with --id N (${command} export keeps a copy)\n`,
  )
  return true
}

/** Ids that were asked for and are not there make the command fail, after the rest was seen to. */
export function exitOf(
  world: World,
  { id }: AsideOptions,
  found: readonly { readonly id: number }[],
  missing: (world: World, ids: readonly number[]) => number,
): number {
  const known = new Set(found.map((one) => one.id))
  const unknown = id.filter((wanted) => !known.has(wanted))
  return unknown.length > 0 ? missing(world, unknown) : exitCodes.done
}
