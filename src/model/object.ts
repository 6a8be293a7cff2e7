// What an object of many lines is: what its lines have in common, and what becomes of it from the first line to the bucket.
import type { Seq } from './seq.ts'
import type { Origin } from './source.ts'

/** What the lines of one object have in common. */
export interface ObjectGroup {
  readonly origin: Origin
  /** of the entries' own times, UTC: YYYY-MM-DD; `unknown` for a time that is none */
  readonly day: string
  /** Sent again on purpose: what sets this run of it apart, safe as a part of a name. */
  readonly replay: string | undefined
}

/** What an object holds: told when its last line is written. */
export interface ObjectContent {
  readonly group: ObjectGroup
  readonly count: number
  /** sequence numbers of its first and last line: those between may belong to other objects */
  readonly first: Seq
  readonly last: Seq
  /** own times of the earliest and the latest entry, µs; NaN where none has a time */
  readonly firstAtUs: number
  readonly lastAtUs: number
}

/** An object that the receiver has. */
export interface StoredObject extends ObjectContent {
  readonly key: string
  /** of the uncompressed lines */
  readonly linesBytes: number
  readonly linesSha256: string
  /** as it was sent by us, hex; one that an earlier try stored may be packed otherwise, its lines are the same */
  readonly bodySha256: string
  readonly bodyBytes: number
  /** An earlier try had stored it: its body may be packed otherwise. */
  readonly there: boolean
}

/** An object while it is written: on the disk, not in memory. Calls come one after the other. */
export interface OpenObject {
  /** Whole framed lines; the bytes may change once it resolved. */
  write(lines: Uint8Array): Promise<void>
  end(content: ObjectContent): Promise<ReadyObject>
  /** Gives it up; never throws. */
  discard(): Promise<void>
}

/** An object that waits to be sent; it stays on the disk between two tries. */
export interface ReadyObject {
  /** Resolves when the receiver has it, by this try or an earlier one. Throws ConnectorError otherwise. */
  put(signal: AbortSignal): Promise<StoredObject>
  /** True once the disk gave back something else than was written to it: only writing it anew helps. */
  readonly spoiled?: () => boolean
  /** Removes it from the disk; never throws. */
  discard(): Promise<void>
}
