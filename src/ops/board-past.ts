// What the board says of the past that is read again: in /status, and as metrics.
import type { BoardSource } from './board-source.ts'
import type { Mask } from './mask.ts'
import type { Metrics } from './metrics.ts'
import type { BackfillStatus, ReplayStatus, StatusReport } from './status.ts'

/** Under way, waiting, and those that ended lately. */
export interface PastReads {
  readonly backfills?: () => readonly BackfillStatus[]
  readonly replays?: () => readonly ReplayStatus[]
}

/** Replays of a source to several sinks are told together. */
export function setPastGauges(
  { backfill, replay }: Pick<Metrics, 'backfill' | 'replay'>,
  sources: readonly Pick<BoardSource, 'origin'>[],
  { backfills, replays }: PastReads,
): void {
  const kinds = [[backfill, backfills?.() ?? []] as const, [replay, replays?.() ?? []] as const]
  for (const [gauges, reads] of kinds)
    for (const { origin } of sources) {
      const { workspace, source } = origin
      const its = reads.filter((one) => one.workspace === workspace && one.source === source)
      const sum = (of: (one: (typeof reads)[number]) => number) => its.reduce((all, one) => all + of(one), 0)
      const own = { workspace, source }
      gauges.underWay.set(
        own,
        sum(({ state }) => (state === 'done' ? 0 : 1)),
      )
      gauges.read.set(
        own,
        sum((one) => one.read_entries),
      )
      gauges.gaps.set(
        own,
        sum((one) => one.gaps),
      )
    }
}

/** What is read again, each with its error as it may be shown. */
function safely<One extends Pick<BackfillStatus, 'error'>>(
  reads: (() => readonly One[]) | undefined,
  mask: Mask,
): readonly One[] {
  const safe = ({ code, message }: NonNullable<One['error']>) => ({ code, message: mask(message) })
  return (reads?.() ?? []).map((one) => (one.error ? { ...one, error: safe(one.error) } : one))
}

export function pastStatus(
  { backfills, replays }: PastReads,
  mask: Mask,
): Pick<StatusReport, 'backfills' | 'replays'> {
  return { backfills: safely(backfills, mask), replays: safely(replays, mask) }
}
