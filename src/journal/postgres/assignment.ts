// The shard of a workspace, which is chosen once, for good: its journal is there.
import { ConnectorError } from '../../core/errors.ts'

export type ShardsByWorkspace = ReadonlyMap<string, number>

/**
 * The shards of workspaces that have none yet: that of a workspace with the same key, whose rate
 * limit they share, else the one with the fewest workspaces. `groups`: names of workspaces, those
 * with the same key together. Shards count from 1. Throws ConnectorError `config_invalid`.
 */
export function newAssignments(
  groups: readonly (readonly string[])[],
  assigned: ShardsByWorkspace,
  shards: number,
): ShardsByWorkspace {
  const added = new Map<string, number>()
  const sizes = Array.from({ length: shards }, () => 0)
  const grow = (shard: number) => (sizes[shard - 1] = (sizes[shard - 1] ?? 0) + 1)
  for (const name of groups.flat()) {
    const shard = assigned.get(name)
    if (shard !== undefined) grow(shard)
  }
  for (const group of groups) {
    const shard = shardOf(group, assigned) ?? fewest(sizes.slice(0, shards))
    for (const name of group) {
      if (assigned.has(name)) continue
      added.set(name, shard)
      grow(shard)
    }
  }
  return added
}

function shardOf(group: readonly string[], assigned: ShardsByWorkspace): number | undefined {
  const [one, ...others] = group.filter((name) => assigned.has(name))
  if (one === undefined) return undefined
  const shard = assigned.get(one)
  const other = others.find((name) => assigned.get(name) !== shard)
  if (other !== undefined)
    throw new ConnectorError(
      'config_invalid',
      `workspaces: ${one} and ${other} have the same api_key, but are in two shards of the journal (${shard} and ${assigned.get(other)}), which would each use the whole rate limit: give one of them a key of its own`,
    )
  return shard
}

const fewest = (sizes: readonly number[]): number => sizes.indexOf(Math.min(...sizes)) + 1
