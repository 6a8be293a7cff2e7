// What can be asked about spans of the past: reading one again into the journal, and holding one against it.
import type { ErrorCode } from './errors.ts'
import type { Origin, SourceName } from './source.ts'

/** What the past is read for: what it shows goes into the journal, to one sink again, or nowhere: it is only told. */
export type PastUse = 'keep' | 'send' | 'tell'

/** What one that is not under way lacks: it is not in the configuration any more. `sources`: its sink is, and does not name its source there. */
export type Lacking = 'source' | 'sink' | 'sources'

/** Why one that reads the past is not under way. */
export const lackingText: Readonly<Record<Lacking, string>> = {
  source: 'its source is not in the configuration of the daemon any more',
  sink: 'its sink is not in the configuration of the daemon any more',
  sources: "its source is not among the sink's `sources` any more",
}

/** What holds a walk over the past up for now: one begun before it, its share of the request budget, the end of a 429, room in the journal or in memory, what it lacks. */
export type WaitsFor = 'turn' | 'budget' | 'limit' | 'room' | 'memory' | Lacking

/** By the entries' own time, µs: included, excluded. */
export interface PastSpan {
  readonly fromUs: number
  readonly toUs: number
}

/** A part of a span that the API did not tell whole: it answered 400, or nothing readable while it told others. */
export interface Unread extends PastSpan {
  readonly why: 'refused' | 'unreadable'
}

/** Whose: absent means all that can be read again. */
export interface PastChoice {
  readonly workspace?: string
  readonly source?: SourceName
}

interface BackfillCounts {
  /** elements that the API showed, the malformed among them */
  readonly read: number
  readonly new: number
  readonly known: number
  readonly filtered: number
  /** malformed elements that were not kept before */
  readonly quarantined: number
  /** places at which entries may have been left out */
  readonly gaps: number
}

export interface Backfill extends PastSpan {
  readonly origin: Origin
  /** epoch ms; tells it from others of the same source */
  readonly begunAt: number
  readonly endedAt: number | undefined
  /** the own time of what was read last, µs; undefined: nothing yet */
  readonly atUs: number | undefined
  readonly counts: BackfillCounts
  /** told once it has ended: these parts are not complete */
  readonly unread: readonly Unread[]
  /** why it does not come on just now; it is tried again */
  readonly error: { readonly code: ErrorCode; readonly message: string } | undefined
  readonly waitsFor: WaitsFor | undefined
}

/** One step of a walk that keeps nothing. */
export interface SurveyQuery extends PastSpan {
  readonly origin: Origin
  /** as the last step told it; undefined at first */
  readonly place: string | undefined
  /** tells the walk from another over the same source */
  readonly walk: string
}

/** fetched = known + changed + filtered + malformed + early + unknown. */
export interface SurveyDay {
  /** days since 1970 */
  readonly day: number
  readonly fetched: number
  /** the journal has it, whatever its type */
  readonly known: number
  /** of a known id, with a content other than was kept of it last: it would be kept as a new version */
  readonly changed: number
  /** not known, and of a type that is not wanted */
  readonly filtered: number
  /** no entry: without a time that can be told, it stands on the day where it was met */
  readonly malformed: number
  /** not known, and from before the start of live reading; absent: a daemon of an older version */
  readonly early?: number
  readonly unknown: number
}

export const emptyDay = (day: number): Required<SurveyDay> => ({
  day,
  fetched: 0,
  known: 0,
  changed: 0,
  filtered: 0,
  malformed: 0,
  early: 0,
  unknown: 0,
})

/** Both of one day. */
export function summed(a: SurveyDay, b: SurveyDay): Required<SurveyDay> {
  const sum = emptyDay(a.day) as { -readonly [name in keyof SurveyDay]-?: number }
  for (const name of Object.keys(sum) as (keyof SurveyDay)[])
    if (name !== 'day') sum[name] = (a[name] ?? 0) + (b[name] ?? 0)
  return sum
}

export interface Surveyed {
  readonly days: readonly SurveyDay[]
  /** ids of some of the unknown ones */
  readonly unknown: readonly { readonly id: string; readonly day: number }[]
  readonly gaps: number
  /** all of the walk so far, as far as its source can tell */
  readonly unread: readonly Unread[]
  /** the walk begins again: what was told before this step is told once more */
  readonly anew: boolean
  readonly place: string | undefined
  readonly done: boolean
  /** Nothing was read: the next step may be asked for after so long. */
  readonly waitMs: number
  /** what the next step waits for, where nothing was read */
  readonly waitsFor: WaitsFor | undefined
  /** the own time of what this step read last, µs; undefined: it read nothing that tells one */
  readonly atUs: number | undefined
  /** the page could not be read, and is tried again with the next step */
  readonly fault: { readonly code: ErrorCode; readonly message: string } | undefined
  /** nothing before it was ever to be read by live reading, µs; absent: nobody knows, or all was */
  readonly startUs?: number | undefined
  /** who the key is to the audit log, where the walk met a fetch of ours */
  readonly user: string | undefined
}

export interface Past {
  /** Whose past can be read again. */
  origins(): Promise<readonly Origin[]>
  /**
   * Begins one for each source that is meant; one that is under way over the same span is joined. Throws ConnectorError
   * `misconfigured` where there is none to read, or one over another span is under way.
   */
  backfill(choice: PastChoice, span: PastSpan): Promise<readonly Backfill[]>
  /** Under way, those that ended within the last day, and those that wait for their source to be switched on: of each source one. */
  backfills(): Promise<readonly Backfill[]>
  /** Ends those under way and those that wait for their source; what they read stays. Returns how many. */
  cancelBackfill(choice: PastChoice): Promise<number>
  /** One bounded step: a page, or none. Throws ConnectorError, `misconfigured` where another walk has the source. */
  survey(query: SurveyQuery): Promise<Surveyed>
  /** The walk asks for nothing more: its sources are free for another at once, and not only once it has been silent. */
  endSurvey(walk: string): Promise<void>
}
