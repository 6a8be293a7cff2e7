// Where each day of a replay comes from: from the journal where it still keeps all that it took in of that day, else from the API.
import type { SinkConfig } from '../../config/schema.ts'
import type { DayCount } from '../../contracts/accounts.ts'
import type { DaysOf } from '../../contracts/journal.ts'
import type { JobSpan } from '../../contracts/jobs.ts'
import { isSameStream } from '../../contracts/source.ts'
import type { Stream, SourceName } from '../../contracts/source.ts'
import { DAY_US } from '../../core/time.ts'
import type { AskedJournal } from '../../control/questions.ts'
import { wholeDays } from '../shared/instants.ts'

export type Only = 'journal' | 'api'

export interface ReplayChoice {
  readonly sink: SinkConfig
  readonly span: JobSpan
  readonly workspace: string | undefined
  readonly source: SourceName | undefined
  readonly only: Only | undefined
}

/** A source's UTC day of which the journal took something in. */
export interface PlannedDay {
  readonly stream: Stream
  readonly day: number
  /** entries taken in */
  readonly kept: number
  /** entries that are kept still */
  readonly still: number
  readonly via: Only
}

export interface ReplayPlan {
  readonly days: readonly PlannedDay[]
  /** what is read from the API */
  readonly reads: readonly { readonly stream: Stream; readonly spans: readonly JobSpan[] }[]
  /** the days of that: the journal's part of the replay leaves them out */
  readonly leave: readonly DaysOf[]
  /** days that the journal does not keep whole, and that are not read from the API */
  readonly short: readonly PlannedDay[]
}

const nothingPlanned: ReplayPlan = { days: [], reads: [], leave: [], short: [] }

/** Of a source, or of a day of it. */
export const keyOf = ({ workspace, source }: Stream, day = -1) => `${workspace} ${source} ${day}`

export const isMeant = ({ sink, workspace, source }: ReplayChoice, stream: Stream): boolean =>
  sink.sources.some((name) => name === stream.source) &&
  (workspace ?? stream.workspace) === stream.workspace &&
  (source ?? stream.source) === stream.source

/** The journal keeps all that it took in. */
const isWhole = (day: Pick<PlannedDay, 'kept' | 'still'>) => day.still >= day.kept

/** `readable` tells whose past the daemon can read again; it is asked only where that matters. */
export async function planOf(
  journal: Pick<AskedJournal, 'counts' | 'storedDays'>,
  asked: ReplayChoice,
  readable: () => Promise<readonly Stream[]>,
): Promise<ReplayPlan> {
  const { span, only } = asked
  const { kept } = await journal.counts(wholeDays(span))
  const still = await chunkStore(journal)
  const days = kept
    .filter((row) => row.kept > 0 && isMeant(asked, row.stream))
    .map(({ stream, day, kept: count }) => ({
      stream,
      day,
      kept: count,
      still: still.get(keyOf(stream, day)) ?? 0,
    }))
  if (only !== 'api' && days.every(isWhole)) return { ...nothingPlanned, days: days.map(fromJournal) }
  const origins = (await readable()).filter((stream) => isMeant(asked, stream))
  const canRead = new Set(origins.map((stream) => keyOf(stream)))
  const planned = days.map((day): PlannedDay => {
    const isRead = (only === 'api' || !isWhole(day)) && canRead.has(keyOf(day.stream))
    return { ...day, via: isRead ? 'api' : 'journal' }
  })
  const short = planned.filter((day) => day.via === 'journal' && (only === 'api' || !isWhole(day)))
  if (only === 'api')
    return { days: planned, reads: origins.map((stream) => ({ stream, spans: [span] })), leave: [], short }
  const leave = origins.flatMap((stream) => stretches(stream, planned))
  const reads = origins.map((stream) => ({ stream, spans: spansOf(stream, leave, span) }))
  return { days: planned, reads: reads.filter(({ spans }) => spans.length > 0), leave, short }
}

/** Days that were whole in the journal when it was planned, and of which the journal has dropped some before they were sent. */
export async function overtaken(
  journal: Pick<AskedJournal, 'counts' | 'storedDays'>,
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
    // All of it was sent, and dropped only then.
    const isSent = (counts.get(key) ?? 0) >= day.still
    return isSent ? [] : (now.get(key) ?? [])
  })
}

/** What the journal gives of a joined source was the command's that began it: all of it is left out. */
export function withoutJoined(
  { span }: ReplayChoice,
  plan: ReplayPlan,
  joined: readonly Stream[],
): ReplayPlan {
  return {
    ...plan,
    days: plan.days.filter(({ stream }) => !isOneOf(joined, stream)),
    leave: [...plan.leave, ...joined.map((stream) => ({ stream, ...wholeDays(span) }))],
  }
}

/** Whether it has a day of a joined source that the journal is to give: whether the command before this one sent it, nobody knows. */
export const isUnsure = ({ days }: ReplayPlan, joined: readonly Stream[]): boolean =>
  days.some(({ stream, via }) => via === 'journal' && isOneOf(joined, stream))

export const isOneOf = (origins: readonly Stream[], stream: Stream) =>
  origins.some((one) => isSameStream(one, stream))

const fromJournal = (day: Omit<PlannedDay, 'via'>): PlannedDay => ({ ...day, via: 'journal' })

async function chunkStore(journal: Pick<AskedJournal, 'storedDays'>): Promise<ReadonlyMap<string, number>> {
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

/** Days that are read from the API, with those between them of which nothing was ever taken in. */
function stretches(stream: Stream, planned: readonly PlannedDay[]): DaysOf[] {
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
