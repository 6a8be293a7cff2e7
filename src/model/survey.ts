// What can be asked about surveys: walks over a span of the past that keep nothing, and say what the journal knows of it.
import type { ErrorCode } from './errors.ts'
import type { PastSpan, Unread, WaitsFor } from './past.ts'
import type { Origin } from './source.ts'

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
