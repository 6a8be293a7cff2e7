// What the journal keeps for a person to look at: dead letters, quarantine, findings.
import type { Seq } from '../core/sequence.ts'
import type { Finding, Origin, Quarantined } from './source.ts'

/** So many of what is kept, and their bytes. */
export interface Amount {
  readonly count: number
  readonly bytes: number
}

export interface DeadLetter {
  readonly id: number
  readonly sink: string
  /** where the entry stood when it was parked: its chunk may be pruned by now */
  readonly seq: Seq
  readonly origin: Origin
  readonly entryId: string
  /** the entry's own, as the API wrote it */
  readonly time: string
  readonly type: string
  /** as of `Parked`, the reason too */
  readonly code: string
  readonly reason: string
  /** epoch ms */
  readonly parkedAt: number
  /** of the raw entry */
  readonly bytes: number
}

/** Those for which all holds that is given, the oldest first; nothing given: all. */
export interface DeadLetterQuery {
  readonly sink?: string
  readonly ids?: readonly number[]
  readonly limit?: number
  /** only letters with a greater id: for paging */
  readonly after?: number
}

/** Letters of one sink that were meant and stay where they are. */
export interface LeftLetters {
  readonly sink: string
  /** it left the configuration, or does not want them any more by this key of it */
  readonly why: 'not_configured' | 'sources' | 'types' | 'deny'
  readonly count: number
}

export interface Retried {
  /** put back */
  readonly count: number
  readonly left: readonly LeftLetters[]
}

/** What the source sent malformed, as it is kept. */
export interface QuarantineRecord {
  readonly id: number
  readonly origin: Origin
  readonly reason: Quarantined['reason']
  /** of the whole; kept is its first MiB at most */
  readonly totalBytes: number
  readonly keptBytes: number
  /** of the whole, hex */
  readonly sha256: string
  /** epoch ms */
  readonly keptAt: number
}

/** As of dead letters. */
export interface QuarantineQuery {
  readonly ids?: readonly number[]
  readonly limit?: number
  /** only records with a greater id: for paging */
  readonly after?: number
}

export interface FindingRecord {
  readonly origin: Origin
  readonly kind: Finding['kind']
  readonly entryId: string
  /** the entry's own time, µs; undefined: found by a version that did not keep it */
  readonly entryUs: number | undefined
  /** epoch ms */
  readonly foundAt: number
}

// What is remembered under a name, beside entries and cursors.

/** A small fact of another room. Names are plain ASCII. */
export interface Note {
  readonly name: string
  readonly value: string
}

export interface NoteChange {
  readonly drop: readonly string[]
  readonly put: readonly Note[]
}
