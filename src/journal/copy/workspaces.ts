// Which shard a workspace goes to, and which workspace a state entry belongs to. Pure.
import { newAssignments } from '../postgres/assignment.ts'
import type { ShardsByWorkspace } from '../postgres/assignment.ts'

/**
 * The shards of all workspaces. Those that left the configuration go to shards of others: a shard
 * without a configured workspace is held by no replica, and their entries may still be pending.
 */
export function shardsOf(
  groups: readonly (readonly string[])[],
  left: readonly string[],
  shards: number,
): ShardsByWorkspace {
  const assigned = newAssignments(groups, new Map(), shards)
  const used = assigned.size === 0 ? [1] : [...new Set(assigned.values())]
  return new Map([...assigned, ...left.map((name, i) => [name, used[i % used.length] ?? 1] as const)])
}

/**
 * Where the workspace is in the name of a state entry, by its first part. Other entries are about
 * the whole journal, a sink or a key.
 */
const workspaceIn: ReadonlyMap<string, number> = new Map([
  ['asked-with', 1],
  ['backfill', 1],
  ['budget', 1],
  ['canary', 1],
  ['gap', 1],
  ['read', 1],
  ['replay', 2],
  ['replay-page', 2],
  ['versions', 1],
  ['workspace_left', 1],
  ['workspace_met', 1],
])

export function workspaceOf(name: string): string | undefined {
  const parts = name.split(':')
  return parts[workspaceIn.get(parts[0] ?? '') ?? Infinity]
}

/** Entries about the file of this engine, or about one opening of it. */
const ofEngine = (name: string) => name.startsWith('journal.') || name.startsWith('file_end:')

/** Entries that contain sequence numbers: they are true only while these do not change. */
const isNumbered = (name: string) => name.startsWith('evidence:') || name.startsWith('canary:')

/** Whether a state entry goes along. */
export const isCopied = (name: string, sameNumbers: boolean): boolean =>
  !ofEngine(name) && (sameNumbers || !isNumbered(name))

/** The entry of a sink that writes manifests. */
export const chainOf = (sink: string): string => `evidence:${sink}:chain`

/** The sink, if the entry is about objects that no manifest lists yet. */
export const unlistedSinkOf = (name: string): string | undefined =>
  /^evidence:(.+):(?:pending|settled:\d+)$/.exec(name)?.[1]
