// What a sink has acknowledged: everything up to its position, and some ranges above it.
import type { TakeWhere } from '../../contracts/journal.ts'
import type { Seq, SequenceRange } from '../../core/sequence.ts'

export interface Acknowledged {
  readonly position: Seq
  /** acknowledged above the position; ascending, not adjacent to each other or to the position */
  readonly ahead: readonly SequenceRange[]
}

/**
 * Acknowledges [first, last]. Position 10 with 21 to 30 ahead: acknowledging 11 to 20 gives
 * position 30 and nothing ahead; acknowledging 15 to 18 gives position 10 with 15 to 18 and 21 to
 * 30 ahead.
 */
export function withAcked({ position, ahead }: Acknowledged, { first, last }: SequenceRange): Acknowledged {
  const merged: SequenceRange[] = []
  let reached = position
  for (const range of [...ahead, { first, last }].sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1)
    if (range.first <= reached + 1) reached = Math.max(reached, range.last)
    else if (before && range.first <= before.last + 1)
      merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, range.last) }
    else merged.push(range)
  }
  return { position: reached, ahead: merged }
}

/** The first range from `from` on that is neither acknowledged nor busy. @internal for tests */
export function nextFree(
  { position, ahead }: Acknowledged,
  from: Seq,
  until: Seq,
  busy: readonly SequenceRange[] = [],
): SequenceRange {
  let first = Math.max(from, position + 1)
  for (const range of [...ahead, ...busy].sort((a, b) => a.first - b.first)) {
    if (range.first > first) return { first, last: Math.min(until, range.first - 1) }
    first = Math.max(first, range.last + 1)
  }
  return { first, last: until }
}

export function aheadCount({ ahead }: Acknowledged): number {
  return ahead.reduce((sum, { first, last }) => sum + last - first + 1, 0)
}

// Pending entries in memory: what each sink has acknowledged, and the running totals. Updated after
// the disk or the database, never before.

export interface SinkState {
  acknowledged: Acknowledged
  deadLetters: number
}

/** Chunks that every sink has acknowledged by now, and that were pending until then. */
export interface Released {
  readonly last: Seq | null
  readonly bytes: number
}

export class PendingEntries<Sink extends SinkState> {
  /** payload of the chunks that some sink has not fully acknowledged */
  bytes = 0
  /** payload of all chunks */
  storedBytes = 0
  /** first sequence number of the oldest pending chunk */
  pendingFrom: Seq = 1
  unconfigured: readonly string[] = []
  sinks: ReadonlyMap<string, Sink> = new Map()

  sink(name: string): Sink {
    const sink = this.sinks.get(name)
    if (sink === undefined) throw new Error(`No sink named ${name} is registered with the journal`)
    return sink
  }

  /** Every sink has acknowledged up to here. 0 without sinks: the first one added gets all. */
  get ackedTo(): Seq {
    return this.ackedToWith(this.sinks)
  }

  ackedToWith(sinks: ReadonlyMap<string, SinkState>): Seq {
    const positions = [...sinks.values()].map(({ acknowledged }) => acknowledged.position)
    return positions.length === 0 ? this.pendingFrom - 1 : Math.min(...positions)
  }

  next(name: string, { after, busy }: TakeWhere = {}, lastSeq: Seq): SequenceRange {
    const { acknowledged } = this.sink(name)
    return nextFree(acknowledged, (after ?? acknowledged.position) + 1, lastSeq, busy)
  }

  /** What a sink has acknowledged once it has this range too. */
  ackedWith(name: string, range: SequenceRange, lastSeq: Seq): Acknowledged {
    const { acknowledged } = this.sink(name)
    if (range.last < range.first || range.last > lastSeq)
      throw new Error(
        `Sink ${name} acknowledged ${range.first} to ${range.last}, which the journal does not hold`,
      )
    return withAcked(acknowledged, range)
  }

  applyReleased({ last, bytes }: Released): void {
    if (last === null) return
    this.bytes -= bytes
    this.pendingFrom = last + 1
  }
}
