// Faults of a configuration with their positions; never with a value, which may be a secret.
import { ConnectorError } from '../core/errors.ts'

export type Path = readonly PropertyKey[]

/** The value under `path`; undefined if absent. */
export function under(tree: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (inner, step) =>
      typeof inner === 'object' && inner !== null ? (inner as Record<PropertyKey, unknown>)[step] : undefined,
    tree,
  )
}

export interface Place {
  readonly line: number
  readonly column: number
}

export interface Fault extends Place {
  readonly file: string
  readonly path: Path
  readonly message: string
}

/** A fault of the file as a whole. */
export const fileFault = (file: string, message: string): Fault => ({
  ...{ file, line: 1, column: 1, path: [], message },
})

/** Other text may be a value in the wrong place, such as `api_key:secret` without its space. */
export function isShowable(key: string): boolean {
  return /^[A-Za-z0-9_.-]{1,64}$/.test(key)
}

/** `workspaces[0].audit.start` */
function pathText(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else text += `${text === '' ? '' : '.'}${isShowable(String(step)) ? String(step) : '?'}`
  }
  return text === '' ? '(whole file)' : text
}

/** `FILE:LINE:COLUMN: path.to.field: what is wrong and what would be right` */
export function faultLine(fault: Fault): string {
  return `${fault.file}:${fault.line}:${fault.column}: ${pathText(fault.path)}: ${fault.message}`
}

/** Sorted by position, without duplicates. */
export function sortFaults(faults: readonly Fault[]): readonly Fault[] {
  const byLine = new Map(faults.map((fault) => [faultLine(fault), fault]))
  return [...byLine.values()].sort((a, b) => a.line - b.line || a.column - b.column)
}

/** All faults of a configuration at once. */
export class ConfigFaults extends ConnectorError {
  readonly faults: readonly Fault[]

  constructor(faults: readonly Fault[]) {
    const sorted = sortFaults(faults)
    super('config_invalid', sorted.map(faultLine).join('\n'))
    this.faults = sorted
  }
}
