// Which days of the history live reading is sure to read again by itself, so that nobody is sent to fetch what comes anyway.
import { DAY_MS, dayStart } from '../../model/time.ts'
import { REREAD_MAX_MS } from '../../source/history/due.ts'
import type { Start } from '../../source/shared/start.ts'

interface Workspace {
  readonly name: string
  readonly history?: { readonly reread: number; readonly start: Start } | undefined
}

/** What the configuration says of it, epoch ms. */
export interface Reread {
  /** whole days from here on are within `reread` */
  readonly fromMs: number
  /** live reading began then or earlier */
  readonly startMs: number
}

/** By workspace. */
export function rereadOf(
  { workspaces }: { readonly workspaces: readonly Workspace[] },
  nowMs: number,
): ReadonlyMap<string, Reread> {
  const found = workspaces.flatMap(({ name, history }) => {
    if (!history || history.reread === 0) return []
    // The oldest of the span was perhaps read a moment ago, and is out of it before the next time.
    const fromMs = dayStart(nowMs - history.reread + REREAD_MAX_MS)
    return [[name, { fromMs, startMs: startedBy(history.start, nowMs) }] as const]
  })
  return new Map(found)
}

/**
 * From this day on, epoch ms; undefined: none of these days is over. Not before the day that reading began on, which is asked for
 * from its midnight on each time. `startUs`: when it began, as the journal has it, since what is configured later has no effect.
 */
export function rereadFrom(
  reread: Reread | undefined,
  startUs: number | undefined,
  nowMs: number,
): number | undefined {
  if (!reread) return undefined
  const from = Math.max(reread.fromMs, dayStart(startUs === undefined ? reread.startMs : startUs / 1000))
  return from + DAY_MS > nowMs ? undefined : from
}

/** Reading began then or earlier, however long ago it began. */
function startedBy(start: Start, nowMs: number): number {
  switch (start.kind) {
    case 'earliest':
      return 0
    case 'latest':
      return nowMs
    case 'span':
      return nowMs - start.ms
    case 'time':
      return start.atUs / 1000
  }
}
