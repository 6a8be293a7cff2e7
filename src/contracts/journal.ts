// What the journal is to the rest: the one place that remembers. Every method is one transaction; what resolved is on the disk.
import type { Seq, Stretch } from '../core/sequence.ts'
import type { Books, DayCount, DayTally, OwedStep } from './accounts.ts'
import type { Entries } from './entries.ts'
import type {
  DeadLetter,
  DeadLetterQuery,
  FindingRecord,
  Note,
  NoteChange,
  QuarantineQuery,
  QuarantineRecord,
} from './records.ts'
import type { Appended, Cursor, Finding, Origin, Part, Quarantined, SourceName } from './source.ts'

export interface Append {
  readonly origin: Origin
  readonly entries: Entries
  readonly quarantined: readonly Quarantined[]
  /** of entries that are not known yet, wanted or not; each is kept once */
  readonly findings: readonly Finding[]
  /** Entries of other types are counted as filtered and not kept. Asked once for each type of the page. */
  readonly wanted?: (type: string) => boolean
  /** New entries before this instant (µs) count as late. */
  readonly headUs: number | undefined
  /** Absent: the page is not whole yet, the cursor stays. */
  readonly cursor: Cursor | undefined
  readonly gaps: number
  /** as in the part; the journal keeps the part all the same */
  readonly void?: NonNullable<Part['void']>
  /** written in the same transaction: what is to be known of this part later, if and only if it landed. A function is asked there, and may be asked again. */
  readonly notes?: readonly Note[] | ((appended: Appended) => readonly Note[]) | undefined
}

/** A stretch of one chunk: entries of one origin with consecutive sequence numbers. */
export interface Run {
  readonly origin: Origin
  readonly firstSeq: Seq
  /** epoch ms at which the journal took them */
  readonly appendedAt: number
  /** Addressed to one sink alone: a retried dead letter, or a replay. */
  readonly onlySink: string | undefined
  readonly replay: boolean
  readonly entries: Entries
}

/** Consecutive runs of the journal: all that stands in [first, last]. */
export interface Batch {
  readonly first: Seq
  readonly last: Seq
  readonly count: number
  readonly runs: readonly Run[]
}

/** An entry that was left on the disk, since it is larger than it may be to be read. */
export interface TooLarge {
  /** of its raw payload */
  readonly rawBytes: number
}

export interface TakeLimits {
  readonly maxEntries: number
  /** of raw payload; one entry is always taken, however large */
  readonly maxBytes: number
}

export interface LoneLimits extends TakeLimits {
  /** a larger first entry is not read from the disk, only told of; undefined: it is taken all the same */
  readonly loneBytes: number | undefined
}

/** Where a take looks; without: at all that is owed. */
export interface TakeWhere {
  /** behind this one alone */
  readonly after?: Seq | undefined
  /** in none of these: they are on their way */
  readonly busy?: readonly Stretch[] | undefined
}

/** A batch that is being sent, written before it is sent: after a crash the same batch goes out again (invariant 2). */
export interface Intent {
  readonly first: Seq
  readonly last: Seq
  /** hash of the settings that shape the bytes; another hash: the bytes will differ from the first try's */
  readonly shape: string
  /** what the sink needs to recognise its own half-done work: an offset, an acknowledgement's id; JSON of its making */
  readonly detail: string
}

/** An entry that a sink refuses for good. */
export interface Parked {
  readonly seq: Seq
  /** one of our error codes, as text: what an older version kept stays readable */
  readonly code: string
  /** the receiver's own words where it is safe to keep them; never content */
  readonly reason: string
}

/** What a sink has answered for, to land in one transaction. */
export interface Settlement {
  /** all of [first, through] is settled: accepted, filtered, or parked by name here */
  readonly first: Seq
  readonly through: Seq
  readonly parked: readonly Parked[]
  /** what became of the others; nothing of what is another sink's alone */
  readonly tally?: readonly DayTally[] | undefined
  /** written in the same transaction: the batch that is sent next */
  readonly next?: Intent | undefined
  /** written in the same transaction: what is to be known of this settlement later, if and only if it landed */
  readonly notes?: readonly Note[] | undefined
}

export interface SinkPosition {
  readonly sink: string
  /** all up to here is settled */
  readonly position: Seq
  /** not settled yet, with those among them that the sink will pass by */
  readonly owedEntries: number
  /** epoch ms when the oldest owed entry came into the journal */
  readonly oldestOwedAt: number | undefined
  readonly deadLetters: number
}

export interface JournalStats {
  /** owed entries: not yet settled by every sink */
  readonly entries: number
  /** owed payload */
  readonly bytes: number
  readonly capacityBytes: number
  /** owed payload is at its bound: append refuses */
  readonly full: boolean
  readonly sinks: readonly SinkPosition[]
  /** sinks that have a position here but left the config: told once, they hold nothing back */
  readonly strangers: readonly string[]
  /** kept now */
  readonly quarantined: number
  readonly gaps: number
  readonly findings: number
  /** the newest of them first; a few */
  readonly lastFindings: readonly FindingRecord[]
}

/**
 * One transaction a method: it lands whole or not at all. Throws ConnectorError `journal_full` (append,
 * replay and resend: nothing of it is kept), `disk_full`, `disk_failed`, `journal_corrupt`. Methods may be called concurrently; they take effect in call order.
 */
export interface Journal extends Books {
  cursor(origin: Origin): Promise<Cursor | undefined>
  append(part: Append): Promise<Appended>
  /** One byte an entry: 1 where its key is known, 2 where it is and this content would be kept as a new version. A look only. */
  known(origin: Origin, entries: Entries): Promise<Uint8Array>
  /** The oldest that are not settled, whatever they are: the caller filters. Undefined: none. */
  take(sink: string, limits: LoneLimits, where?: TakeWhere): Promise<Batch | TooLarge | undefined>
  take(sink: string, limits: TakeLimits, where?: TakeWhere): Promise<Batch | undefined>
  /** Exactly [first, last]: for an intent found at start. */
  range(first: Seq, last: Seq): Promise<Batch>
  intents(sink: string): Promise<readonly Intent[]>
  /** Writes an intent; one with the same `first` is replaced. */
  intend(sink: string, intent: Intent): Promise<void>
  settle(sink: string, settlement: Settlement): Promise<void>
  /** Resolves when something may be new for this sink since the last call resolved, or when the signal aborts. */
  arrival(sink: string, signal: AbortSignal): Promise<void>
  deadLetters(query: DeadLetterQuery): Promise<readonly DeadLetter[]>
  deadLetterRaw(id: number): Promise<Uint8Array | undefined>
  /** Puts them back at the journal's end, addressed to their sink alone, whether it still wants them or not. Returns how many. */
  retryDeadLetters(query: DeadLetterQuery): Promise<number>
  dropDeadLetters(query: DeadLetterQuery): Promise<number>
  /** One bounded step of a replay: entries that are kept still are put at the journal's end again, for one sink. */
  replay(query: ReplayQuery): Promise<Replayed>
  /**
   * Puts entries at the journal's end for one sink, marked as a replay, whether they are known or not: no key is taken, nothing
   * is counted as new. Throws `journal_full` as append does (never without entries), `misconfigured` where the sink is unknown.
   */
  resend(again: Resend): Promise<void>
  /** One bounded step over what came in and is kept still, behind `after` (undefined: all of it); what was put back is left out. */
  shelved(after: Seq | undefined): Promise<OwedStep>
  quarantined(query: QuarantineQuery): Promise<readonly QuarantineRecord[]>
  quarantinedRaw(id: number): Promise<Uint8Array | undefined>
  /** Their bytes go for good. What was counted stays counted, and the same bytes read again soon are not kept again. Returns how many. */
  dropQuarantined(query: QuarantineQuery): Promise<number>
  findings(limit: number): Promise<readonly FindingRecord[]>
  /** Small facts of the other rooms: a budget's window, the instance's id. */
  note(name: string): Promise<string | undefined>
  putNote(name: string, value: string): Promise<void>
  /** The notes whose names begin with `prefix`, in the order of their names. */
  notes(prefix: string, limit: number): Promise<readonly Note[]>
  /** Drops, then puts: all of it or nothing. */
  changeNotes(change: NoteChange): Promise<void>
  stats(): JournalStats
  /** Why the next process would not find what is kept here, such as a file that was removed, and what to do; undefined: it would. A cheap look. */
  lost(): Promise<string | undefined>
  /** Drops settled chunks over `keepSettledBytes` and keys older than `keepKeysMs`; a bounded step, true when more is left. */
  prune(): Promise<boolean>
  close(): Promise<void>
}

// What all entries of one origin and instant share in their lines: made once, copied from then on. Of the run itself nothing is kept, or a sink that waits would hold entries that it has sent.

export type Shared = Pick<Run, 'origin' | 'appendedAt' | 'replay'>

/** The answer of `make`, asked anew where a run is of another origin or instant than the one before it. */
export function perOrigin<T>(make: (shared: Shared) => T): (run: Shared) => T {
  let known: (Shared & { readonly made: T }) | undefined
  return ({ origin, appendedAt, replay }) => {
    if (known?.origin !== origin || known.appendedAt !== appendedAt || known.replay !== replay)
      known = { origin, appendedAt, replay, made: make({ origin, appendedAt, replay }) }
    return known.made
  }
}

// What is put at the journal's end once more, for one sink alone: what it keeps still, or what was read again.

/** What is to be delivered again to one sink: of its own sources, by the entries' own time. */
export interface ReplayQuery {
  readonly sink: string
  /** µs, included */
  readonly fromUs: number
  /** µs, excluded */
  readonly toUs: number
  /** absent: all of them */
  readonly workspace?: string
  readonly sources: readonly SourceName[]
  /** epoch ms; the same in all steps of one replay, and its name where objects are named by it */
  readonly runAt: number
  /** counts only */
  readonly dryRun: boolean
  /** left out, by the entries' own UTC day: what is read from the API instead */
  readonly leave?: readonly DaysOf[]
  /** where the last step ended, and what it told as `until`; 0 and undefined at first */
  readonly after: Seq
  readonly until: Seq | undefined
}

/** UTC days of one source, since 1970: included, excluded. */
export interface DaysOf {
  readonly origin: Origin
  readonly fromDay: number
  readonly toDay: number
}

/** What was read again for one sink alone. */
export interface Resend {
  readonly sink: string
  readonly origin: Origin
  readonly entries: Entries
  /** as in ReplayQuery */
  readonly runAt: number
  /** lands with them: how far the reading is */
  readonly notes: NoteChange
}

export interface Replayed {
  readonly entries: number
  /** of raw payload */
  readonly bytes: number
  /** the same entries by source and UTC day */
  readonly days: readonly DayCount[]
  readonly through: Seq
  readonly until: Seq
  /** false: the last step */
  readonly more: boolean
  /** epoch ms at which the oldest entry that is still kept was taken in */
  readonly keptSince: number | undefined
}
