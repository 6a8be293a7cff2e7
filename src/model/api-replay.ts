// What can be asked about replays that are read from the API again: for one sink alone, beside all that it is sent anyway.
import { ConnectorError } from './errors.ts'
import type { ErrorCode } from './errors.ts'
import type { PastSpan, WaitsFor } from './past.ts'
import { isSameOrigin } from './source.ts'
import type { Origin } from './source.ts'

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
