// The status of one source: what its reader reported, as metrics and as an element of /status.
import { sourceStates } from '../contracts/reporter.ts'
import type { SourceState, StreamReporter } from '../contracts/reporter.ts'
import type { Stream } from '../contracts/source.ts'
import type { Clock } from '../core/clock.ts'
import { isoFromUs } from '../core/time.ts'
import { Condition, tryAt } from './condition.ts'
import { codeLabel, expectedCodes, sourceOutcomes } from './metrics.ts'
import type { SourceMetrics } from './metrics.ts'
import type { Recent } from './recent.ts'
import type { SourceStatus } from './status.ts'
import { spanText } from './words.ts'

/** Added to two whole intervals: a reader that is silent for longer is dead. */
const STALL_SLACK_MS = 60_000

export interface RegistryStream {
  readonly stream: Stream
  readonly reporter: StreamReporter
  status(): SourceStatus
  /**
   * How far it is read, µs: the last entry read. Before the first entry: when it last knew that
   * everything was read. Undefined: neither is known.
   */
  readTo(): number | undefined
  state(): SourceState
  /** Updates the gauges that follow from the clock. */
  refresh(): void
}

export const iso = (at: number): string => new Date(at).toISOString()
export const isoOrNull = (at: number): string | null => (at === 0 ? null : iso(at))

function prepareSeries(metrics: SourceMetrics, own: Own): void {
  for (const gauge of [metrics.lastSuccess, metrics.caughtUp, metrics.head, metrics.cursor, metrics.lag])
    gauge.set(own, 0)
  for (const counter of [metrics.waited, metrics.gaps, metrics.ownFetches]) counter.inc(own, 0)
  for (const outcome of sourceOutcomes) metrics.entries.inc({ ...own, outcome }, 0)
  metrics.findings.inc({ ...own, kind: 'foreign_fetch' }, 0)
  for (const code of expectedCodes) metrics.requests.inc({ ...own, code }, 0)
  metrics.requestDuration.zero(own)
  metrics.ownFetchLateness.zero(own)
}

/**
 * A loop that died silently is reported like a failure. A loop that waits for memory of other
 * answers is alive, but does not read either.
 */
function stalled(soFar: ReadSoFar, intervalMs: number | undefined, clock: Clock): SourceStatus['error'] {
  const silentMs = clock.elapsed() - soFar.aliveAt
  if (intervalMs === undefined || silentMs <= 2 * intervalMs + STALL_SLACK_MS) return null
  const silence = spanText(silentMs / 1000)
  const due = spanText(intervalMs / 1000)
  const why =
    soFar.memoryAwaitedAt === 0
      ? `although a read is due every ${due}: restart the daemon and report it`
      : `because its answer waits for memory that other answers use: it continues when one of those ends`
  return {
    code: 'timeout',
    message: `nothing was read for ${silence} ${why}`,
    since: iso(clock.now() - silentMs),
  }
}

type Own = Readonly<Record<'workspace' | 'source', string>>
type Counting = Pick<StreamReporter, 'request' | 'waited' | 'appended' | 'gap' | 'ownFetch'>
type PositionReports = Pick<StreamReporter, 'success' | 'caughtUp' | 'recalled' | 'head' | 'cursor'>

/** Counts entries. `now`: the time, recorded as a sign of life or not. */
function counting(soFar: ReadSoFar, metrics: SourceMetrics, own: Own, now: () => number): Counting {
  return {
    request(code, durationMs) {
      now()
      metrics.requests.inc({ ...own, code: codeLabel(code) })
      metrics.requestDuration.observe(own, durationMs / 1000)
    },
    waited: (durationMs) => metrics.waited.inc(own, Math.max(0, durationMs) / 1000),
    appended({ added, known, late, quarantined, filtered, findings }) {
      now()
      const counts = { new: added, known, late, quarantined, filtered }
      for (const outcome of sourceOutcomes)
        if (counts[outcome] > 0) metrics.entries.inc({ ...own, outcome }, counts[outcome])
      if (findings > 0) metrics.findings.inc({ ...own, kind: 'foreign_fetch' }, findings)
      soFar.findings += findings
      soFar.newEntries += added + late
      soFar.filteredEntries += filtered
    },
    gap(count) {
      soFar.gaps += count
      soFar.lastGapAt = now()
      metrics.gaps.inc(own, count)
    },
    ownFetch(latenessMs) {
      metrics.ownFetches.inc(own)
      metrics.ownFetchLateness.observe(own, Math.max(0, latenessMs) / 1000)
    },
  }
}

/** Tracks positions. */
function positionReports(
  soFar: ReadSoFar,
  metrics: SourceMetrics,
  own: Own,
  alive: () => number,
): PositionReports {
  const updateLag = () => metrics.lag.set(own, lagSeconds(soFar))
  return {
    success() {
      soFar.lastSuccessAt = alive()
      metrics.lastSuccess.set(own, soFar.lastSuccessAt / 1000)
    },
    caughtUp() {
      soFar.caughtUpAt = alive()
      soFar.caughtUp = true
      soFar.backlogUs = soFar.cursorUs
      metrics.caughtUp.set(own, soFar.caughtUpAt / 1000)
      updateLag()
    },
    recalled({ readAt, caughtUpAt, gapAt }) {
      soFar.lastGapAt ||= gapAt
      soFar.lastSuccessAt ||= readAt
      soFar.caughtUpAt ||= caughtUpAt
      metrics.lastSuccess.set(own, soFar.lastSuccessAt / 1000)
      metrics.caughtUp.set(own, soFar.caughtUpAt / 1000)
    },
    head(atUs) {
      if (!(atUs > soFar.headUs)) return
      soFar.headUs = atUs
      // Newer than everything known: it may no longer be caught up.
      if (atUs > soFar.cursorUs) soFar.caughtUp = false
      metrics.head.set(own, atUs / 1e6)
      updateLag()
    },
    cursor(atUs) {
      if (!(atUs > 0)) return
      soFar.cursorUs = atUs
      if (soFar.backlogUs === 0) soFar.backlogUs = atUs
      metrics.cursor.set(own, atUs / 1e6)
      updateLag()
    },
  }
}

function reporterOf(
  soFar: ReadSoFar,
  condition: Condition<SourceStatus['state']>,
  own: Own,
  { metrics, clock, recent }: SourceParts,
): StreamReporter {
  const alive = () => {
    soFar.aliveAt = clock.elapsed()
    return clock.now()
  }
  const positions = positionReports(soFar, metrics, own, alive)
  const counts = counting(soFar, metrics, own, alive)
  return {
    ...counts,
    aside: counting(soFar, metrics, own, () => clock.now()),
    ...positions,
    state(state, error, tryInMs) {
      const at = tryAt(clock, tryInMs)
      const shown = error && recent.errors.record(`${own.workspace} ${own.source}`, error)
      condition.become(state, shown, alive(), at)
      soFar.dueAt = state === 'idle' ? (at ?? 0) : 0
    },
    appended(what) {
      counts.appended(what)
      recent.lastHour.arrived(what.added + what.late)
      // The journal has stored it, so there is room.
      if (condition.state === 'paused') condition.succeed()
    },
    waitsForMemory() {
      soFar.memoryAwaitedAt = alive()
      return () => {
        alive()
        soFar.memoryAwaitedAt = 0
      }
    },
    readsAnswer() {
      soFar.answerSince = clock.now()
      return { came: () => void alive(), over: () => void (soFar.answerSince = 0) }
    },
    success() {
      positions.success()
      condition.succeed()
    },
  }
}

interface SourceParts {
  readonly metrics: SourceMetrics
  readonly clock: Clock
  readonly recent: Recent
}

export function openRegistryStream(
  stream: Stream,
  intervalMs: number | undefined,
  parts: SourceParts,
): RegistryStream {
  const { metrics, clock } = parts
  const own = { workspace: stream.workspace, source: stream.source }
  const condition = new Condition<SourceStatus['state']>('starting', ['paused'])
  const soFar: ReadSoFar = { ...nothingRead, aliveAt: clock.elapsed() }
  prepareSeries(metrics, own)
  metrics.interval.set(own, (intervalMs ?? 0) / 1000)
  const current = (): Pick<SourceStatus, 'state' | 'error'> => {
    const { state, error } = condition
    const steady = state === 'idle' || state === 'reading' || state === 'starting'
    const stall = steady ? stalled(soFar, intervalMs, clock) : null
    return stall ? { state: 'failing', error: stall } : { state, error }
  }
  const lag = () =>
    condition.state === 'paused' ? pausedLagSeconds(soFar, intervalMs ?? 0, clock.now()) : lagSeconds(soFar)
  return {
    stream,
    reporter: reporterOf(soFar, condition, own, parts),
    refresh() {
      metrics.lag.set(own, lag())
      const { state: now } = current()
      for (const state of sourceStates) metrics.state.set({ ...own, state }, state === now ? 1 : 0)
    },
    readTo: () => soFar.cursorUs || soFar.caughtUpAt * 1000 || undefined,
    state: () => current().state,
    status() {
      const { state, error } = current()
      return {
        name: stream.source,
        state,
        last_success_at: isoOrNull(soFar.lastSuccessAt),
        caught_up_at: isoOrNull(soFar.caughtUpAt),
        head_at: soFar.headUs === 0 ? null : isoFromUs(soFar.headUs),
        cursor_at: soFar.cursorUs === 0 ? null : isoFromUs(soFar.cursorUs),
        ...(intervalMs !== undefined && { interval_seconds: intervalMs / 1000 }),
        ...(soFar.memoryAwaitedAt !== 0 && { waits_for_memory_since: iso(soFar.memoryAwaitedAt) }),
        ...(soFar.answerSince !== 0 && { answer_comes_since: iso(soFar.answerSince) }),
        ...(soFar.dueAt !== 0 && { due_at: iso(soFar.dueAt) }),
        lag_seconds: lag(),
        progress: backlogRatioOf(soFar),
        new_entries: soFar.newEntries,
        filtered_entries: soFar.filteredEntries,
        gaps: soFar.gaps,
        last_gap_at: isoOrNull(soFar.lastGapAt),
        findings: soFar.findings,
        error,
      }
    },
  }
}

// How far a source has read, by its reports, and how far behind it is. Pure.

const nothingRead = {
  lastSuccessAt: 0,
  caughtUpAt: 0,
  caughtUp: false,
  headUs: 0,
  cursorUs: 0,
  /** start of the current backlog */
  backlogUs: 0,
  newEntries: 0,
  filteredEntries: 0,
  gaps: 0,
  lastGapAt: 0,
  findings: 0,
  /** since when an answer waits for memory, epoch ms; 0: none */
  memoryAwaitedAt: 0,
  /** since when an answer is being received, epoch ms; 0: none */
  answerSince: 0,
  /** end of a known pause, epoch ms; 0: unknown */
  dueAt: 0,
}

type ReadSoFar = typeof nothingRead & {
  /** monotonic ms: the wall clock would show a silence after it was set */
  aliveAt: number
}

function lagSeconds({ caughtUp, headUs, cursorUs }: ReadSoFar): number {
  if (caughtUp || headUs === 0 || cursorUs === 0) return 0
  return Math.max(0, (headUs - cursorUs) / 1e6)
}

/**
 * While reading is paused the head is not read. At worst it moved since all was read, so the lag
 * counts from when the next read was due.
 */
function pausedLagSeconds(soFar: ReadSoFar, intervalMs: number, now: number): number {
  const { caughtUp, caughtUpAt, cursorUs } = soFar
  const readToMs = Math.max(caughtUpAt, cursorUs / 1000)
  if (readToMs === 0 || (caughtUp && now < readToMs + intervalMs)) return 0
  return Math.max(lagSeconds(soFar), (now - readToMs) / 1000)
}

/** By the entries' own times: the number of entries in between is unknown. */
function backlogRatioOf(soFar: ReadSoFar): number | null {
  const { backlogUs, cursorUs, headUs } = soFar
  if (lagSeconds(soFar) === 0 || headUs <= backlogUs) return null
  return Math.min(1, Math.max(0, (cursorUs - backlogUs) / (headUs - backlogUs)))
}
