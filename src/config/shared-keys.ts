// Workspaces that ask with one key: the API's limits are of the key, and each workspace keeps to them on its own.
import type { Config, WorkspaceConfig } from './schema.ts'
import { documentedLimits, sourcesOf } from './workspace.ts'

export interface SharedKey {
  /** of the later one, which it is told of */
  readonly index: number
  readonly workspace: string
  readonly others: readonly string[]
  readonly areas: readonly Area[]
}

type Area = keyof typeof documentedLimits

const areas = Object.keys(documentedLimits) as readonly Area[]

function asksIn(workspace: WorkspaceConfig, area: Area): boolean {
  if (area === 'assistant') return workspace.canary?.enabled === true
  return sourcesOf(workspace).some((source) => source.split('.')[0] === area)
}

function isSameKey(one: WorkspaceConfig, other: WorkspaceConfig): boolean {
  return new URL(one.base_url).href === new URL(other.base_url).href && one.api_key.isSameValue(other.api_key)
}

/** Each workspace whose key another one before it has too, where both together may exceed the documented limit of an area. */
export function sharedKeys({ workspaces }: Pick<Config, 'workspaces'>): readonly SharedKey[] {
  return workspaces.flatMap((workspace, index) => {
    const others = workspaces.slice(0, index).filter((other) => isSameKey(other, workspace))
    const over = areas.filter((area) => {
      if (!asksIn(workspace, area)) return false
      const asking = others.filter((other) => asksIn(other, area))
      const together = [workspace, ...asking].reduce((sum, { rate_limits }) => sum + rate_limits[area], 0)
      return asking.length > 0 && together > documentedLimits[area]
    })
    const names = others.filter((other) => over.some((area) => asksIn(other, area))).map(({ name }) => name)
    return over.length > 0 ? [{ index, workspace: workspace.name, others: names, areas: over }] : []
  })
}
