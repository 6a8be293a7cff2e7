// What the board says of the past that is read again: in /status, and as metrics.
import type { BoardSource } from './board-source.ts'
import type { Mask } from './mask.ts'
import type { Metrics } from './metrics.ts'
import type { BackfillStatus, ReplayStatus, StatusReport } from './status.ts'

/** Under way, waiting, and those that ended lately. */
export interface Rereads {
  readonly backfills?: () => readonly BackfillStatus[]
  readonly replays?: () => readonly ReplayStatus[]
}

/** Replays of a source to several sinks are told together. */
export function setRereadGauges(
  { backfill, replay }: Pick<Metrics, 'backfill' | 'replay'>,
  sources: readonly Pick<BoardSource, 'origin'>[],
  { backfills, replays }: Rereads,
): void {
  const kinds = [[backfill, backfills?.() ?? []] as const, [replay, replays?.() ?? []] as const]
  for (const [gauges, rereads] of kinds)
    for (const { origin } of sources) {
      const { workspace, source } = origin
      const its = rereads.filter((one) => one.workspace === workspace && one.source === source)
      const sum = (of: (one: (typeof rereads)[number]) => number) =>
        its.reduce((all, one) => all + of(one), 0)
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
  rereads: (() => readonly One[]) | undefined,
  mask: Mask,
): readonly One[] {
  const safe = ({ code, message }: NonNullable<One['error']>) => ({ code, message: mask(message) })
  return (rereads?.() ?? []).map((one) => (one.error ? { ...one, error: safe(one.error) } : one))
}

export function rereadStatus(
  { backfills, replays }: Rereads,
  mask: Mask,
): Pick<StatusReport, 'backfills' | 'replays'> {
  return { backfills: safely(backfills, mask), replays: safely(replays, mask) }
}
