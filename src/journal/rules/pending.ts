// Pending entries in memory: what each sink has acknowledged, and the running totals. Updated after
// the disk or the database, never before.
import type { TakeWhere } from '../../contracts/journal.ts'
import type { Seq, SequenceRange } from '../../core/sequence.ts'
import { nextFree, withAcked } from './acknowledgement.ts'
import type { Acknowledged } from './acknowledgement.ts'

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
