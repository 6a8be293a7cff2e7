// What the command line names and is not there: told with the names that there are, before anything is done.
import type { CommandContext } from './world.ts'

/** As a configuration, a status report or the journal has it. */
interface Named {
  readonly name: string
}

/** What to say of it; undefined: it is one of them, or none was named. */
export function unknownName(
  what: string,
  name: string | undefined,
  there: readonly Named[],
): string | undefined {
  if (name === undefined || there.some((one) => one.name === name)) return undefined
  const names = [...new Set(there.map((one) => one.name))].join(', ')
  return `there is no ${what} ${name}; there ${names === '' ? 'is none' : `are ${names}`}`
}

/** False, and said, where it is none of them. */
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

/** Whose; what is absent means all. */
export interface Whose {
  readonly workspace?: string | undefined
  readonly source?: string | undefined
  readonly sink?: string | undefined
}

/** What there is to name on the command line. */
export type There = Record<'sinks' | 'workspaces', readonly Named[]>

/** False, and said, where one of the names is none of them. */
export function areKnown(context: CommandContext, { workspace, sink }: Whose, there: There): boolean {
  return (
    isKnown(context, 'workspace', workspace, there.workspaces) && isKnown(context, 'sink', sink, there.sinks)
  )
}

export const areNamed = ({ workspace, sink }: Whose, there: There): boolean =>
  unknownName('workspace', workspace, there.workspaces) === undefined &&
  unknownName('sink', sink, there.sinks) === undefined
