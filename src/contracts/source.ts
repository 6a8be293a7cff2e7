// Contract of a source: returns the next page on request, and says when to request it.
import type { ConnectorError } from '../core/errors.ts'
import type { Seq } from '../core/sequence.ts'
import type { Entries } from './entries.ts'

export const sourceNames = ['audit', 'history.usage', 'history.query', 'vault.projects', 'assistant'] as const
export type SourceName = (typeof sourceNames)[number]

/** One source of one workspace: whose entries, dedup keys and cursor belong together. */
export interface Stream {
  readonly workspace: string
  readonly source: SourceName
}

export const isSameStream = (one: Stream, other: Stream): boolean =>
  one.workspace === other.workspace && one.source === other.source

/** Where to read next and what is known so far: JSON that only the source understands. */
export type Cursor = string

/** Priorities: live reading, then lookback and re-reads, then jobs over the past (invariant 5). */
export type Priority = 'live' | 'lookback' | 'job'

export const quarantineReasons = [
  ...(['no_id', 'no_time', 'too_deep', 'invalid_utf8', 'not_an_object', 'too_large'] as const),
  'unreadable_page',
] as const

/** A malformed element, or a body that stays unreadable: kept as bytes, never sent as an entry. */
export interface Quarantined {
  readonly reason: (typeof quarantineReasons)[number]
  /** The bytes as received; of an element over the limit its first MiB. */
  readonly bytes: Uint8Array
  readonly totalBytes: number
  /** hash of all received bytes, including those not kept; hex */
  readonly sha256: string
}

/** A finding about an entry for an operator; reported once, when the entry is new. */
export interface Finding {
  readonly kind: 'foreign_fetch'
  /** index into the entries of the page chunk */
  readonly index: number
}

/**
 * A page, or a page chunk if it is too large for one transaction. Lands in the journal whole or not
 * at all. Kinds:
 *
 *   no cursor             more of the same answer follows
 *   cursor                the last page chunk: everything was read successfully
 *   cursor, `underWay`    the cursor moves within the read, which continues
 *   cursor, `fault`       the answer was bad: the cursor counts that, the loop waits and retries
 */
export interface PageChunk {
  readonly entries: Entries
  readonly quarantined: readonly Quarantined[]
  readonly findings: readonly Finding[]
  /** New entries before this instant (µs) are late: found behind the cursor. */
  readonly headUs: number | undefined
  /** Only in a page's last chunk: moves with the entries, in the same transaction. */
  readonly cursor: Cursor | undefined
  /** Possible gaps found by this page chunk: entries that may be missing for good. */
  readonly gaps: number
  /** The cursor moves, but the read continues: its success is not known yet. */
  readonly underWay?: true
  /** The API answered, but the page could not be read: kept in the cursor, reported, retried. */
  readonly fault: ConnectorError | undefined
  /**
   * For jobs: reports of this answer, or of the whole job, start over from here and are repeated.
   * No meaning for entries stored in the journal, which knows them.
   */
  readonly void?: 'answer' | 'walk'
}

/** When to read next, computed from the cursor alone. */
export interface Plan {
  /** epoch ms; in the past: at once */
  readonly dueAt: number
  readonly priority: Priority
  /** True once all that was available at the last read is read: `run --once` is done with it. */
  readonly caughtUp: boolean
}

/**
 * Never sleeps (except for the rate limiter) or retries. Everything that decides what is read next
 * is in the cursor; other state may be lost with the process: that costs a repeated request, never
 * an entry. `read` makes one request, rarely two, and gets the result of each page chunk. It throws
 * ConnectorError if the API did not answer; then nothing of the current page counts as read.
 */
export interface Source {
  readonly stream: Stream
  plan(cursor: Cursor | undefined): Plan
  read(cursor: Cursor | undefined, signal: AbortSignal): AsyncGenerator<PageChunk, void, Appended>
}

// Result of a page chunk that was appended to the journal.

/**
 * Each element of the page chunk has one outcome. added: new and not late; known: entries by their
 * keys, and malformed elements that were quarantined before; quarantined: new malformed elements.
 */
export interface Appended {
  readonly added: number
  readonly late: number
  readonly known: number
  readonly filtered: number
  readonly quarantined: number
  readonly findings: number
  /** how far behind the cursor the latest of the late entries was, µs; 0 if none */
  readonly latestBehindUs: number
  /** the journal's last sequence number now: nothing of this page chunk is behind it */
  readonly last?: Seq | undefined
}

/** The result for a page chunk that is not stored. */
export const nothingAppended: Appended = {
  added: 0,
  late: 0,
  known: 0,
  filtered: 0,
  quarantined: 0,
  findings: 0,
  latestBehindUs: 0,
}
