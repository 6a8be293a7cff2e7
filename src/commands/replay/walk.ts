// The journal's part of a replay: step after step, so that the daemon does its own work in between, and with a pause while there is no room.
import type { DayCount } from '../../model/balance.ts'
import type { Clock } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import { PAST_SHARE_IN_USE } from '../../model/past-share.ts'
import type { Replayed, ReplayQuery } from '../../model/replay.ts'
import type { AskedJournal } from '../../ops/control-questions.ts'
import { countText } from '../../ops/words.ts'
import { keyOf } from './plan.ts'
import type { ReplayChoice, ReplayPlan } from './plan.ts'
import type { World } from '../shared/world.ts'

/** The past's share of the journal is in use: the sinks make room, and the replay goes on. */
const WAIT_MS = 2_000
/** So long without room, and the replay ends with what it has done. */
const PATIENCE_MS = 60_000

export interface Done {
  entries: number
  bytes: number
  days: DayCount[]
  keptSince: number | undefined
  /** by a signal, or by a journal that stayed full */
  stopped: boolean
}

export const nothingDone = (): Done => ({
  entries: 0,
  bytes: 0,
  days: [],
  keptSince: undefined,
  stopped: false,
})

type Query = Omit<ReplayQuery, 'after' | 'until'>

/** All that is asked for but what the plan leaves to the API. */
export function queryOf(
  { sink, span, workspace, source }: ReplayChoice,
  { leave }: ReplayPlan,
  how: Pick<Query, 'dryRun' | 'runAt'>,
): Query {
  const sources = sink.sources.filter((name) => (source ?? name) === name)
  return {
    ...span,
    ...how,
    sink: sink.name,
    sources,
    ...(workspace === undefined ? {} : { workspace }),
    ...(leave.length === 0 ? {} : { leave }),
  }
}

/** Where a step fails that is tried no more, what was put so far is told before the error. */
export async function walk(
  journal: Pick<AskedJournal, 'replay'>,
  query: Query,
  { signal, stderr }: World,
  clock: Pick<Clock, 'sleep'>,
): Promise<Done> {
  const done = nothingDone()
  let at: Pick<ReplayQuery, 'after' | 'until'> = { after: 0, until: undefined }
  let waitedMs = 0
  for (;;) {
    const step = await journal.replay({ ...query, ...at }).catch((error: unknown) => {
      if (isFull(error)) return undefined
      if (!query.dryRun) stderr(brokenOffText(done))
      throw error
    })
    if (step) {
      add(done, step)
      waitedMs = 0
      if (!step.more) return done
      at = { after: step.through, until: step.until }
    } else {
      if (waitedMs === 0) stderr(`auditferry: ${PAST_SHARE_IN_USE}: waiting for the sinks to take some\n`)
      waitedMs += WAIT_MS
      await clock.sleep(WAIT_MS, signal)
    }
    if (signal.aborted || waitedMs >= PATIENCE_MS) return { ...done, stopped: true }
  }
}

const isFull = (error: unknown) => error instanceof ConnectorError && error.code === 'journal_full'

/** An answer that was lost may be one to a step that has landed. */
const brokenOffText = ({ entries }: Done): string =>
  `auditferry: broken off: ${countText(entries, 'entries')} had been put at the journal's end, and those of one step more may have been: they go out, and the same command begins at the beginning again, so that they come twice
`

function add(done: Done, step: Replayed): void {
  done.entries += step.entries
  done.bytes += step.bytes
  done.days = summed(done.days, step.days)
  done.keptSince = step.keptSince
}

function summed(one: readonly DayCount[], other: readonly DayCount[]): DayCount[] {
  const sums = new Map<string, DayCount>()
  for (const each of [...one, ...other]) {
    const key = keyOf(each.origin, each.day)
    sums.set(key, { ...each, count: each.count + (sums.get(key)?.count ?? 0) })
  }
  return [...sums.values()]
}
