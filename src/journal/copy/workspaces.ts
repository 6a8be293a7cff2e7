// Which shard a workspace goes to, and which workspace a state entry belongs to. Pure.

/**
 * Spreads workspaces evenly over the shards 1 to `shards`. Those of one group share a key, and so
 * one rate limiter, and stay together.
 */
export function assign(groups: readonly (readonly string[])[], shards: number): ReadonlyMap<string, number> {
  const counts = new Array<number>(shards).fill(0)
  const assigned = new Map<string, number>()
  const largestFirst = groups.map((group) => group.toSorted()).sort(bySizeAndName)
  for (const group of largestFirst) {
    const index = counts.indexOf(Math.min(...counts))
    counts[index] = (counts[index] ?? 0) + group.length
    for (const workspace of group) assigned.set(workspace, index + 1)
  }
  return assigned
}

const bySizeAndName = (a: readonly string[], b: readonly string[]) =>
  b.length - a.length || ((a[0] ?? '') < (b[0] ?? '') ? -1 : 1)

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

/** The sink, if the entry is about objects that no manifest lists yet. */
export const unlistedSinkOf = (name: string): string | undefined =>
  /^evidence:(.+):(?:pending|settled:\d+)$/.exec(name)?.[1]
