// What a source was told to have read so far, and how far behind that is. Pure.

export const nothingRead = {
  lastSuccessAt: 0,
  caughtUpAt: 0,
  caughtUp: false,
  headUs: 0,
  cursorUs: 0,
  /** where the backlog that is worked through began */
  backlogUs: 0,
  newEntries: 0,
  filteredEntries: 0,
  gaps: 0,
  lastGapAt: 0,
  findings: 0,
  /** since when an answer waits for memory, epoch ms; 0: none does */
  memoryAwaitedAt: 0,
  /** since when an answer comes, epoch ms; 0: none does */
  answerSince: 0,
  /** of one that rests until a known time, epoch ms; 0: nobody knows */
  dueAt: 0,
}

export type ReadSoFar = typeof nothingRead & {
  /** of the clock that only runs: set right, the other would tell of a silence that was none */
  aliveAt: number
}

export function lagSeconds({ caughtUp, headUs, cursorUs }: ReadSoFar): number {
  if (caughtUp || headUs === 0 || cursorUs === 0) return 0
  return Math.max(0, (headUs - cursorUs) / 1e6)
}

/** While reading is paused nobody asks for the head: at the worst it has gone on since all was read, and from when the next read was due that counts. */
export function pausedLagSeconds(soFar: ReadSoFar, intervalMs: number, now: number): number {
  const { caughtUp, caughtUpAt, cursorUs } = soFar
  const readToMs = Math.max(caughtUpAt, cursorUs / 1000)
  if (readToMs === 0 || (caughtUp && now < readToMs + intervalMs)) return 0
  return Math.max(lagSeconds(soFar), (now - readToMs) / 1000)
}

/** By the entries' own times: of what lies between, nobody knows how much there is. */
export function backlogRatioOf(soFar: ReadSoFar): number | null {
  const { backlogUs, cursorUs, headUs } = soFar
  if (lagSeconds(soFar) === 0 || headUs <= backlogUs) return null
  return Math.min(1, Math.max(0, (cursorUs - backlogUs) / (headUs - backlogUs)))
}
