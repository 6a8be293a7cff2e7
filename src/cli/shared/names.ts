// Checks names from the command line; an unknown one is reported with the names that exist.
import type { CommandContext } from './context.ts'

/** From a configuration, a status report or the journal. */
interface Named {
  readonly name: string
}

/** The error message; undefined: the name exists, or none was given. */
export function unknownName(
  what: string,
  name: string | undefined,
  known: readonly Named[],
): string | undefined {
  if (name === undefined || known.some((one) => one.name === name)) return undefined
  const names = [...new Set(known.map((one) => one.name))].join(', ')
  return `there is no ${what} ${name}; there ${names === '' ? 'is none' : `are ${names}`}`
}

/** False, after printing the error, if the name is unknown. */
export function isKnown(
  { stderr }: CommandContext,
  what: 'sink' | 'workspace',
  name: string | undefined,
  known: readonly Named[],
): boolean {
  const fault = unknownName(what, name, known)
  if (fault !== undefined) stderr(`error: ${fault}\n`)
  return fault === undefined
}

/** Absent fields match all. */
export interface NameFilter {
  readonly workspace?: string | undefined
  readonly source?: string | undefined
  readonly sink?: string | undefined
}

/** Names that are valid on the command line. */
export type NameLists = Record<'sinks' | 'workspaces', readonly Named[]>

/** False, after printing the error, if one of the names is unknown. */
export function areKnown(
  context: CommandContext,
  { workspace, sink }: NameFilter,
  known: NameLists,
): boolean {
  return (
    isKnown(context, 'workspace', workspace, known.workspaces) && isKnown(context, 'sink', sink, known.sinks)
  )
}

export const areAllKnown = ({ workspace, sink }: NameFilter, known: NameLists): boolean =>
  unknownName('workspace', workspace, known.workspaces) === undefined &&
  unknownName('sink', sink, known.sinks) === undefined
