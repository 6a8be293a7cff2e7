// Takes each day of a replay from the journal if it keeps the whole day, else from the API.
import type { SinkConfig } from '../../config/schema.ts'
import type { DayCount } from '../../contracts/accounts.ts'
import type { DaysOf } from '../../contracts/journal.ts'
import { matches } from '../../contracts/jobs.ts'
import type { JobSpan } from '../../contracts/jobs.ts'
import { isSameStream } from '../../contracts/source.ts'
import type { Stream, SourceName } from '../../contracts/source.ts'
import { DAY_US } from '../../core/time.ts'
import type { OperatorJournal } from '../../control/questions.ts'
import { wholeDays } from '../shared/instants.ts'

export type Only = 'journal' | 'api'

export interface ReplayChoice {
  readonly sink: SinkConfig
  readonly span: JobSpan
  readonly workspace: string | undefined
  readonly source: SourceName | undefined
  readonly only: Only | undefined
}

/** A UTC day on which the journal has entries of a stream. */
export interface PlannedDay {
  readonly stream: Stream
  readonly day: number
  /** entries received */
  readonly kept: number
  /** entries still stored */
  readonly stored: number
  readonly via: Only
}

export interface ReplayPlan {
  readonly days: readonly PlannedDay[]
  /** reads from the API */
  readonly reads: readonly { readonly stream: Stream; readonly spans: readonly JobSpan[] }[]
  /** days read from the API, which the journal's part leaves out */
  readonly leave: readonly DaysOf[]
  /** days that are incomplete in the journal and are not read from the API */
  readonly short: readonly PlannedDay[]
}

const nothingPlanned: ReplayPlan = { days: [], reads: [], leave: [], short: [] }

/** Key of a stream, or of one day of it. */
export const keyOf = ({ workspace, source }: Stream, day = -1) => `${workspace} ${source} ${day}`

export const isSelected = ({ sink, workspace, source }: ReplayChoice, stream: Stream): boolean =>
  sink.sources.some((name) => name === stream.source) && matches({ workspace, source }, { stream })

/** The journal still stores everything it received. */
const isWhole = (day: Pick<PlannedDay, 'kept' | 'stored'>) => day.stored >= day.kept

/** `readable`: streams that the daemon can read again; called only if needed. */
export async function planOf(
  journal: Pick<OperatorJournal, 'counts' | 'storedDays'>,
  asked: ReplayChoice,
  readable: () => Promise<readonly Stream[]>,
): Promise<ReplayPlan> {
  const { span, only } = asked
  const { kept } = await journal.counts(wholeDays(span))
  const stored = await storedCounts(journal)
  const days = kept
    .filter((row) => row.kept > 0 && isSelected(asked, row.stream))
    .map(({ stream, day, kept: count }) => ({
      stream,
      day,
      kept: count,
      stored: stored.get(keyOf(stream, day)) ?? 0,
    }))
  if (only !== 'api' && days.every(isWhole)) return { ...nothingPlanned, days: days.map(fromJournal) }
  const streams = (await readable()).filter((stream) => isSelected(asked, stream))
  const canRead = new Set(streams.map((stream) => keyOf(stream)))
  const planned = days.map((day): PlannedDay => {
    const isRead = (only === 'api' || !isWhole(day)) && canRead.has(keyOf(day.stream))
    return { ...day, via: isRead ? 'api' : 'journal' }
  })
  const short = planned.filter((day) => day.via === 'journal' && (only === 'api' || !isWhole(day)))
  if (only === 'api')
    return { days: planned, reads: streams.map((stream) => ({ stream, spans: [span] })), leave: [], short }
  const leave = streams.flatMap((stream) => dayRanges(stream, planned))
  const reads = streams.map((stream) => ({ stream, spans: spansOf(stream, leave, span) }))
  return { days: planned, reads: reads.filter(({ spans }) => spans.length > 0), leave, short }
}

/** Days that were complete when planned, and lost entries to pruning before they were sent. */
export async function prunedDays(
  journal: Pick<OperatorJournal, 'counts' | 'storedDays'>,
  asked: ReplayChoice,
  plan: ReplayPlan,
  sent: readonly DayCount[],
): Promise<readonly PlannedDay[]> {
  const before = plan.days.filter((day) => day.via === 'journal' && isWhole(day))
  if (before.length === 0) return []
  const { short } = await planOf(journal, { ...asked, only: undefined }, async () => [])
  const now = new Map(short.map((day) => [keyOf(day.stream, day.day), day]))
  const counts = new Map(sent.map(({ stream, day, count }) => [keyOf(stream, day), count]))
  return before.flatMap((day) => {
    const key = keyOf(day.stream, day.day)
    // Everything was sent before it was pruned.
    const isSent = (counts.get(key) ?? 0) >= day.stored
    return isSent ? [] : (now.get(key) ?? [])
  })
}

/** Without the journal's part of joined streams: the command that started the job sends it. */
export function withoutJoined(
  { span }: ReplayChoice,
  plan: ReplayPlan,
  joined: readonly Stream[],
): ReplayPlan {
  return {
    ...plan,
    days: plan.days.filter(({ stream }) => !includesStream(joined, stream)),
    leave: [...plan.leave, ...joined.map((stream) => ({ stream, ...wholeDays(span) }))],
  }
}

/** Days of a joined stream come from the journal, and may or may not have been sent. */
export const isUnsure = ({ days }: ReplayPlan, joined: readonly Stream[]): boolean =>
  days.some(({ stream, via }) => via === 'journal' && includesStream(joined, stream))

export const includesStream = (streams: readonly Stream[], stream: Stream) =>
  streams.some((one) => isSameStream(one, stream))

const fromJournal = (day: Omit<PlannedDay, 'via'>): PlannedDay => ({ ...day, via: 'journal' })

async function storedCounts(
  journal: Pick<OperatorJournal, 'storedDays'>,
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>()
  for (let after: number | undefined; ;) {
    const step = await journal.storedDays(after)
    for (const { stream, day, count } of step.rows) {
      const key = keyOf(stream, day)
      counts.set(key, (counts.get(key) ?? 0) + count)
    }
    if (!step.more) return counts
    after = step.through
  }
}

/** Ranges of days read from the API, including days in between without any entry. */
function dayRanges(stream: Stream, planned: readonly PlannedDay[]): DaysOf[] {
  const own = planned.filter((day) => isSameStream(day.stream, stream)).sort((a, b) => a.day - b.day)
  const found: DaysOf[] = []
  let isOpen = false
  for (const { day, via } of own) {
    const last = found.at(-1)
    if (via === 'api' && isOpen && last) found[found.length - 1] = { ...last, toDay: day + 1 }
    else if (via === 'api') found.push({ stream, fromDay: day, toDay: day + 1 })
    isOpen = via === 'api'
  }
  return found
}

function spansOf(stream: Stream, leave: readonly DaysOf[], { fromUs, toUs }: JobSpan): JobSpan[] {
  return leave
    .filter((days) => isSameStream(days.stream, stream))
    .map(({ fromDay, toDay }) => ({
      fromUs: Math.max(fromUs, fromDay * DAY_US),
      toUs: Math.min(toUs, toDay * DAY_US),
    }))
}
