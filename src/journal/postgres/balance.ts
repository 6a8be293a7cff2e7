// Which replica takes or frees a shard: decided by each on its own, from what the database shows.

export interface Holdings {
  /** the name of this replica */
  readonly me: string
  /** that it holds */
  readonly mine: ReadonlySet<number>
  /** that have a workspace */
  readonly used: readonly number[]
  /** replicas that have reported lately */
  readonly live: readonly string[]
  /** the replica whose lease of a shard has not ended; absent: the shard is free */
  readonly holders: ReadonlyMap<number, string>
  /** free for so long that another replica, which should have taken them, cannot */
  readonly overdue: ReadonlySet<number>
}

export type Turn =
  | { readonly action: 'acquire' | 'release'; readonly shards: readonly number[] }
  | { readonly action: 'nothing' }

/**
 * The replica with the fewest shards takes one of those that are free, any replica one that is
 * overdue. The one with the most frees one if another has at least two fewer, so that nothing moves
 * to and fro.
 */
export function turnOf({ me, mine, used, live, holders, overdue }: Holdings): Turn {
  const others = live.filter((name) => name !== me)
  const countOf = (name: string) =>
    name === me ? mine.size : used.filter((shard) => holders.get(shard) === name).length
  const fewest = Math.min(...others.map(countOf))
  const free = used.filter((shard) => !mine.has(shard) && !holders.has(shard))
  if (free.length > 0 && mine.size <= fewest) return { action: 'acquire', shards: free }
  const late = free.filter((shard) => overdue.has(shard))
  if (late.length > 0) return { action: 'acquire', shards: late }
  const isFirstOfMost = others.every(
    (name) => countOf(name) < mine.size || (countOf(name) === mine.size && me < name),
  )
  if (free.length === 0 && isFirstOfMost && mine.size >= fewest + 2)
    return { action: 'release', shards: [...mine] }
  return { action: 'nothing' }
}
