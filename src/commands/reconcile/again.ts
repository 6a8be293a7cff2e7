// Which days of the history live reading is sure to read again by itself, so that nobody is sent to fetch what comes anyway.
import { DAY_MS, dayStart } from '../../model/time.ts'
import { REREAD_MAX_MS } from '../../source/history/due.ts'
import type { Start } from '../../source/shared/start.ts'

interface Workspace {
  readonly name: string
  readonly history?: { readonly reread: number; readonly start: Start } | undefined
}

/** By workspace, epoch ms: from this day on; none where no day that is over is. */
export function againFrom(
  { workspaces }: { readonly workspaces: readonly Workspace[] },
  nowMs: number,
): ReadonlyMap<string, number> {
  const found = workspaces.flatMap(({ name, history }) => {
    if (!history || history.reread === 0) return []
    // The oldest of the span was perhaps read a moment ago, and is out of it before the next time.
    const spanFrom = dayStart(nowMs - history.reread + REREAD_MAX_MS)
    const from = Math.max(spanFrom, firstWholeDay(startedBy(history.start, nowMs)))
    return from + DAY_MS > nowMs ? [] : [[name, from] as const]
  })
  return new Map(found)
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

const firstWholeDay = (atMs: number) => Math.ceil(atMs / DAY_MS) * DAY_MS
