// Checks names from the command line; an unknown one is reported with the names that exist.
import type { CommandContext } from './world.ts'

/** From a configuration, a status report or the journal. */
interface Named {
  readonly name: string
}

/** The error message; undefined: the name exists, or none was given. */
export function unknownName(
  what: string,
  name: string | undefined,
  there: readonly Named[],
): string | undefined {
  if (name === undefined || there.some((one) => one.name === name)) return undefined
  const names = [...new Set(there.map((one) => one.name))].join(', ')
  return `there is no ${what} ${name}; there ${names === '' ? 'is none' : `are ${names}`}`
}

/** False, after printing the error, if the name is unknown. */
export function isKnown(
  { stderr }: CommandContext,
  what: 'sink' | 'workspace',
  name: string | undefined,
  there: readonly Named[],
): boolean {
  const fault = unknownName(what, name, there)
  if (fault !== undefined) stderr(`error: ${fault}\n`)
  return fault === undefined
}

/** Absent fields match all. */
export interface Whose {
  readonly workspace?: string | undefined
  readonly source?: string | undefined
  readonly sink?: string | undefined
}

/** Names that are valid on the command line. */
export type There = Record<'sinks' | 'workspaces', readonly Named[]>

/** False, after printing the error, if one of the names is unknown. */
export function areKnown(context: CommandContext, { workspace, sink }: Whose, there: There): boolean {
  return (
    isKnown(context, 'workspace', workspace, there.workspaces) && isKnown(context, 'sink', sink, there.sinks)
  )
}

export const areNamed = ({ workspace, sink }: Whose, there: There): boolean =>
  unknownName('workspace', workspace, there.workspaces) === undefined &&
  unknownName('sink', sink, there.sinks) === undefined
