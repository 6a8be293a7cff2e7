// The words of all that reads a span of the past, whatever it reads it for.
import { ConnectorError } from '../core/errors.ts'
import type { ErrorCode } from '../core/errors.ts'
import type { JournalStats } from './journal.ts'
import { isSameOrigin } from './source.ts'
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
export type WaitsFor = 'turn' | 'rate_limit' | 'limit' | 'room' | 'memory' | Lacking

/** By the entries' own time, µs: included, excluded. */
export interface PastSpan {
  readonly fromUs: number
  readonly toUs: number
}

/** A part of a span that the API did not tell whole: it answered 400, or nothing readable while it told others. */
export interface Unread extends PastSpan {
  readonly why: 'refused' | 'unreadable'
}

// What can be asked about replays that are read from the API again: for one sink alone, beside all that it is sent anyway.

export interface ReplayOrder {
  readonly sink: string
  readonly origin: Origin
  /** read one after the other, none of them twice */
  readonly spans: readonly PastSpan[]
  /** epoch ms at which the whole replay began; its name where objects are named by it */
  readonly runAt: number
}

/** read = sent + filtered + malformed */
export interface ReplayCounts {
  /** elements that the API showed, each once */
  readonly read: number
  /** put at the journal's end for the sink, which may still leave out what its own settings do not want */
  readonly sent: number
  /** of types that the workspace does not want */
  readonly filtered: number
  /** of the sent: what the journal does not know, or knows with other content, so that other sinks may lack it too */
  readonly unknown: number
  /** no entries: not sent */
  readonly malformed: number
  /** places at which entries may have been left out */
  readonly gaps: number
}

export interface ApiReplay extends ReplayOrder {
  /** the spans as they were asked for, as JSON: another order of the same spans joins this one */
  readonly asked: string
  readonly endedAt: number | undefined
  /** the own time of what was read last, µs; undefined: nothing yet */
  readonly atUs: number | undefined
  readonly counts: ReplayCounts
  /** why it does not come on just now; it is tried again */
  readonly error: { readonly code: ErrorCode; readonly message: string } | undefined
  readonly waitsFor: WaitsFor | undefined
  /** in words, where more is known of it */
  readonly waitReason?: string | undefined
}

export interface BegunReplay extends ApiReplay {
  /** The replay was under way before, by another command, though perhaps in the same instant. */
  readonly isJoined?: true
}

/** The replay under way that the order joins, since a sink has one of a source at a time; undefined: none is. Throws ConnectorError `misconfigured` where it is of another span. */
export function joinedBy(
  all: readonly ApiReplay[],
  { sink, origin, spans }: Omit<ReplayOrder, 'runAt'>,
): ApiReplay | undefined {
  const one = all.find(
    (each) => each.endedAt === undefined && each.sink === sink && isSameOrigin(each.origin, origin),
  )
  if (one === undefined || one.asked === JSON.stringify(spans)) return one
  throw new ConnectorError(
    'misconfigured',
    `A replay of ${origin.workspace} ${origin.source} to ${sink} over another span is under way: wait for it (replay --status) or end it (replay --cancel)`,
  )
}

/** What of the spans asked for is not read: live reading had not come to it when the replay began. */
export function leftOut({ asked, spans }: Pick<ApiReplay, 'asked' | 'spans'>): readonly PastSpan[] {
  const whole = JSON.parse(asked) as readonly PastSpan[]
  return whole.flatMap(({ fromUs, toUs }) => {
    const read = spans.find((span) => span.fromUs === fromUs)
    const left = { fromUs: read?.toUs ?? fromUs, toUs }
    return left.fromUs < left.toUs ? [left] : []
  })
}

export interface Replays {
  /**
   * Begins one; the same one under way is joined. What live reading has not come to yet is cut off: it comes anyway. Throws
   * ConnectorError `misconfigured` where the sink or the source is not known, or another one of both is under way.
   */
  begin(order: ReplayOrder): Promise<BegunReplay>
  /** What `begin` would begin if nothing like it were under way: nothing is begun. Throws as it does for what is not known. */
  preview(order: ReplayOrder): Promise<ApiReplay>
  /** Under way, lately ended, and such as wait for their source or sink to be in the configuration again. */
  replays(): Promise<readonly ApiReplay[]>
  /** Ends those under way and those that wait so, of this sink or of all; what they put into the journal goes out. Returns how many. */
  cancelReplays(sink: string | undefined): Promise<number>
}

// What can be asked about backfills: spans of the past that are read again into the journal.

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
  /** in words, where more is known of it */
  readonly waitReason?: string | undefined
}

export interface Backfills {
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
}

// The past's share of the journal: half of its bound, since the other half is live reading's, which stops when all is full.

const PAST_SHARE = 0.5

export const PAST_SHARE_IN_USE = "half of journal.max_bytes is in use, and the other half is live reading's"

type Filling = Pick<JournalStats, 'bytes' | 'capacityBytes'>

const isInUse = ({ bytes, capacityBytes }: Filling) => bytes >= capacityBytes * PAST_SHARE

/** As what reads the past sees them: the journal is full once its share is. */
export const statsForPast = (stats: JournalStats): JournalStats => ({ ...stats, full: isInUse(stats) })

/** An answer may be larger than the room that was there when it was asked for. Throws ConnectorError `journal_full`. */
export function assertPastShare(filling: Filling): void {
  if (!isInUse(filling)) return
  throw new ConnectorError(
    'journal_full',
    `No room for the past: ${PAST_SHARE_IN_USE}; it goes on when the sinks have taken some`,
  )
}

// What can be asked about surveys: walks over a span of the past that keep nothing, and say what the journal knows of it.

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
  /** in words, where more is known of it */
  readonly waitReason?: string | undefined
  /** the own time of what this step read last, µs; undefined: it read nothing that tells one */
  readonly atUs: number | undefined
  /** the page could not be read, and is tried again with the next step */
  readonly fault: { readonly code: ErrorCode; readonly message: string } | undefined
  /** nothing before it was ever to be read by live reading, µs; absent: nobody knows, or all was */
  readonly startUs?: number | undefined
  /** who the key is to the audit log, where the walk met a fetch of ours */
  readonly user: string | undefined
}

export interface Surveys {
  /** One bounded step: a page, or none. Throws ConnectorError, `misconfigured` where another walk has the source. */
  survey(query: SurveyQuery): Promise<Surveyed>
  /** The walk asks for nothing more: its sources are free for another at once, and not only once it has been silent. */
  endSurvey(walk: string): Promise<void>
}
