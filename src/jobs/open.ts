// All that reads the past again, built of what the readers let read: backfills, replays and surveys.
import type { Clock, Random } from '../core/clock.ts'
import type { Journal } from '../contracts/journal.ts'
import type { Log } from '../core/log.ts'
import { isSameOrigin } from '../contracts/source.ts'
import type { Origin, Source } from '../contracts/source.ts'
import type { Board } from '../observability/status-registry.ts'
import { ApiBackfills } from './backfills.ts'
import type { RangeReader, Taker } from './orders.ts'
import { ApiReplays } from './replays.ts'
import { ApiSurveys } from './surveys.ts'

interface PastOptions {
  readonly journal: Journal
  readonly board: Pick<Board, 'reading'>
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly sinks: readonly Taker[]
  /** of all that are read live */
  readonly sources: readonly Pick<Source, 'origin' | 'plan'>[]
  readonly ranges: readonly RangeReader[]
}

export interface PastReading {
  readonly backfills: ApiBackfills
  readonly replays: ApiReplays
  readonly surveys: ApiSurveys
}

export function openPast(options: PastOptions): PastReading {
  const { sinks, ranges, journal, clock, random, log } = options
  const common = { ranges, journal, clock, random, log }
  const backfills = new ApiBackfills(common)
  const surveys = new ApiSurveys(common)
  const replays = new ApiReplays({ ...common, sinks, readTo: (origin) => readTo(origin, options) })
  return { backfills, replays, surveys }
}

/** How far live reading of this source is, µs; undefined: it has read nothing yet. */
async function readTo(origin: Origin, { sources, board, journal }: PastOptions): Promise<number | undefined> {
  const told = () => board.reading(origin)?.readTo()
  if (told() !== undefined) return told()
  // Right after a start its loop may not have told yet where the process before it was.
  const source = sources.find((each) => isSameOrigin(each.origin, origin))
  source?.plan(await journal.cursor(origin))
  return told()
}
