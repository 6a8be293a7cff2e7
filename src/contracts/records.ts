// Records that the journal keeps for operators: dead letters, quarantine, findings.
import type { Seq } from '../core/sequence.ts'
import type { Finding, Stream, Quarantined } from './source.ts'

/** Number of kept records, and their bytes. */
export interface Amount {
  readonly count: number
  readonly bytes: number
}

export interface DeadLetter {
  readonly id: number
  readonly sink: string
  /** the entry's sequence number when it became a dead letter: its chunk may be pruned by now */
  readonly seq: Seq
  readonly stream: Stream
  readonly entryId: string
  /** the entry's own time, as the API sent it */
  readonly time: string
  readonly type: string
  /** code of the receiver's rejection, like the reason */
  readonly code: string
  readonly reason: string
  /** epoch ms */
  readonly deadLetteredAt: number
  /** of the raw entry */
  readonly bytes: number
}

/** Records that match every given field, oldest first; no field: all. */
export interface DeadLetterQuery {
  readonly sink?: string
  readonly ids?: readonly number[]
  readonly limit?: number
  /** only letters with a greater id: for paging */
  readonly after?: number
}

/** Selected dead letters of one sink that were not put back. */
export interface LeftLetters {
  readonly sink: string
  /** it left the configuration, or this key of its settings excludes them */
  readonly why: 'not_configured' | 'sources' | 'types' | 'deny'
  readonly count: number
}

export interface Retried {
  /** put back */
  readonly count: number
  readonly left: readonly LeftLetters[]
}

/** A quarantined element. */
export interface QuarantineRecord {
  readonly id: number
  readonly stream: Stream
  readonly reason: Quarantined['reason']
  /** of the whole element; at most its first MiB is kept */
  readonly totalBytes: number
  readonly keptBytes: number
  /** hash of the whole element, hex */
  readonly sha256: string
  /** epoch ms */
  readonly keptAt: number
}

/** Same meaning as for dead letters. */
export interface QuarantineQuery {
  readonly ids?: readonly number[]
  readonly limit?: number
  /** only records with a greater id: for paging */
  readonly after?: number
}

export interface FindingRecord {
  readonly stream: Stream
  readonly kind: Finding['kind']
  readonly entryId: string
  /** the entry's own time, µs; undefined: found by a version that did not store it */
  readonly entryUs: number | undefined
  /** epoch ms */
  readonly foundAt: number
}

// Small persisted facts by name, in addition to entries and cursors.

/** A small persisted fact of another module. Names are plain ASCII. */
export interface Note {
  readonly name: string
  readonly value: string
}

export interface NoteChange {
  readonly drop: readonly string[]
  readonly put: readonly Note[]
}
