// What the splitter's tests share: limits as in production, a body pushed in any cut, and what came out of it.
import type { Entries } from '../../../../src/contracts/entries.ts'
import type { Quarantined } from '../../../../src/contracts/source.ts'
import { joined } from '../../../../src/sources/splitter/slab.ts'
import { openSplitter } from '../../../../src/sources/splitter/splitter.ts'
import type { Group } from '../../../../src/sources/splitter/entries-builder.ts'
import type { Splitter, SplitterOptions } from '../../../../src/sources/splitter/splitter.ts'

export const options: SplitterOptions = {
  idKey: 'id',
  timeKey: 'timestamp',
  typeKey: 'type',
  maxDepth: 512,
  maxEntryBytes: 16 * 1024 * 1024,
}

export interface Seen {
  readonly id: string
  readonly time: string
  readonly at: number
  readonly type: string
  readonly raw: string
}

export interface Outcome {
  readonly groups: readonly Group[]
  readonly entries: readonly Seen[]
  readonly quarantined: readonly Quarantined[]
  readonly error: Error | undefined
}

export function drain(splitter: Splitter): Group[] {
  const groups: Group[] = []
  for (let group = splitter.take(); group; group = splitter.take()) groups.push(group)
  return groups
}

export function seen(entries: Entries): Seen[] {
  return Array.from({ length: entries.count }, (_, i) => ({
    id: entries.id(i),
    time: entries.time(i),
    at: entries.at(i),
    type: entries.type(i),
    raw: Buffer.from(entries.raw(i)).toString(),
  }))
}

/** A body in one buffer with spare bytes behind it, like a held page. */
export function splitOurs(bytes: Uint8Array, more: Partial<SplitterOptions>): readonly Seen[] {
  const splitter = openSplitter({ ...options, ...more })
  splitter.push(joined([bytes]), true)
  splitter.end()
  return drain(splitter).flatMap(({ entries }) => seen(entries))
}

/** Each chunk is a copy, as from the network: what the splitter keeps must not depend on its neighbours. */
export function splitAll(
  body: string | Uint8Array,
  more: Partial<SplitterOptions> = {},
  cuts: Iterable<number> = [],
): Outcome {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const splitter = openSplitter({ ...options, ...more })
  const groups: Group[] = []
  let error: Error | undefined
  try {
    let from = 0
    for (const cut of [...cuts, bytes.length]) {
      splitter.push(Buffer.from(bytes.subarray(from, cut)))
      groups.push(...drain(splitter))
      from = cut
    }
    splitter.end()
  } catch (thrown) {
    error = thrown as Error
  }
  groups.push(...drain(splitter))
  return {
    groups,
    entries: groups.flatMap((group) => seen(group.entries)),
    quarantined: groups.flatMap((group) => group.quarantined),
    error,
  }
}

export function everyByte(body: string | Uint8Array): number[] {
  return Array.from({ length: Math.max(0, Buffer.byteLength(body) - 1) }, (_, i) => i + 1)
}

export function entry(id: string, more = ''): string {
  return `{"id":"${id}","timestamp":"2026-11-20T10:00:00.000001","type":"auth:login"${more}}`
}
