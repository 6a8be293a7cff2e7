// Checks names from the command line; an unknown one is reported with the names that exist.
import type { JobFilter } from '../../contracts/jobs.ts'

/** From a configuration, a status report or the journal. */
interface Named {
  readonly name: string
}

/** Names that are valid on the command line. */
export type NameLists = Record<'sinks' | 'workspaces', readonly Named[]>

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

/** The error message for the first unknown name of both. */
export const unknownIn = ({ workspace, sink }: JobFilter, known: NameLists): string | undefined =>
  unknownName('workspace', workspace, known.workspaces) ?? unknownName('sink', sink, known.sinks)
