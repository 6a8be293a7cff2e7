// What a source of the API is to the rest: something that can be asked for the next page, and says when it wants to be asked.
import type { ConnectorError } from '../core/errors.ts'
import type { Seq } from '../core/sequence.ts'
import type { Entries } from './entries.ts'

export const sourceNames = ['audit', 'history.usage', 'history.query', 'vault.projects', 'assistant'] as const
export type SourceName = (typeof sourceNames)[number]

/** One source of one workspace: whose entries, dedup keys and cursor belong together. */
export interface Origin {
  readonly workspace: string
  readonly source: SourceName
}

export const isSameOrigin = (one: Origin, other: Origin): boolean =>
  one.workspace === other.workspace && one.source === other.source

/** Where to read next and what is known so far: JSON of the source's own making, opaque to everybody else. */
export type Cursor = string

/** Live reading comes before sweep and re-read, those before the past (invariant 5). */
export type Lane = 'live' | 'sweep' | 'past'

export const quarantineReasons = [
  ...(['no_id', 'no_time', 'too_deep', 'invalid_utf8', 'not_an_object', 'too_large'] as const),
  'unreadable_page',
] as const

/** A malformed element, or a whole body that stays unreadable: kept as bytes, never shipped as an entry. */
export interface Quarantined {
  readonly reason: (typeof quarantineReasons)[number]
  /** The bytes as they came; of one over the limit its first MiB. */
  readonly bytes: Uint8Array
  readonly totalBytes: number
  /** hash of all the bytes that came, kept here or not; hex */
  readonly sha256: string
}

/** Something about an entry that a person should know of; told once, when the entry is new. */
export interface Finding {
  readonly kind: 'foreign_fetch'
  /** index into the part's entries */
  readonly index: number
}

/**
 * A page, or a part of one that is too large for one transaction. Lands in the journal whole or not at all. What it is:
 *
 *   no cursor             more of the same answer follows
 *   cursor                the last of what was read: all of it went well
 *   cursor, `underWay`    the cursor moves within the read, which goes on
 *   cursor, `fault`       what was read was bad: the cursor counts that, the loop waits and tries again
 */
export interface Part {
  readonly entries: Entries
  readonly quarantined: readonly Quarantined[]
  readonly findings: readonly Finding[]
  /** New entries before this instant (µs) are late: found behind the head. */
  readonly headUs: number | undefined
  /** Stands in a page's last part only: moves with the entries, in the same transaction. */
  readonly cursor: Cursor | undefined
  /** Possible gaps met by this part: entries that may have been missed for good. */
  readonly gaps: number
  /** The cursor moves, but the read goes on: nothing is known of its success yet. */
  readonly underWay?: true
  /** The page could not be read although the other side answered: kept in the cursor, told, tried again. */
  readonly fault: ConnectorError | undefined
  /**
   * Of a walk over the past: what this answer, or all of the walk, has told so far is told again from here on. Where it is kept
   * in the journal that says nothing: there an entry is known.
   */
  readonly void?: 'answer' | 'walk'
}

/** When to read next, told from the cursor alone. */
export interface Plan {
  /** epoch ms; in the past: at once */
  readonly dueAt: number
  readonly lane: Lane
  /** True when all that was there at the last look has been read: `run --once` is done with this source. */
  readonly caughtUp: boolean
}

/**
 * Never sleeps (but for its budget) or retries. All that decides what is read next stands in the cursor; what a source keeps
 * beside it may be lost with the process: that costs a request again, never an entry.
 * `read` makes one request, rarely two, and is told of each part what became of it. It throws ConnectorError when the other
 * side did not answer; then nothing of the current page may be taken as read.
 */
export interface Source {
  readonly origin: Origin
  plan(cursor: Cursor | undefined): Plan
  read(cursor: Cursor | undefined, signal: AbortSignal): AsyncGenerator<Part, void, Appended>
}

// What became of a part that was handed to the journal.

/**
 * Each element of the part has one outcome. added: new and not late; known: entries by their keys, and malformed elements that
 * were quarantined before; quarantined: those that were not.
 */
export interface Appended {
  readonly added: number
  readonly late: number
  readonly known: number
  readonly filtered: number
  readonly quarantined: number
  readonly findings: number
  /** how far behind the head the latest of the late ones was, µs; 0 where none */
  readonly latestBehindUs: number
  /** the journal's last entry by now: nothing of this part stands behind it */
  readonly last?: Seq | undefined
}

/** What is answered of a part that is not taken in. */
export const nothingAppended: Appended = {
  added: 0,
  late: 0,
  known: 0,
  filtered: 0,
  quarantined: 0,
  findings: 0,
  latestBehindUs: 0,
}
