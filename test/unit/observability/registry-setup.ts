// A status registry with one source and one sink, on a clock that moves only on demand, and a scripted journal.
import type { Clock } from '../../../src/core/clock.ts'
import type { JournalStats } from '../../../src/contracts/journal.ts'
import { openStatusRegistry } from '../../../src/observability/status-registry.ts'
import { Taps } from '../../../src/observability/taps.ts'
import { openMetrics } from '../../../src/observability/metrics.ts'

export const startAt = Date.parse('2026-11-21T10:00:00Z')

export function testClock(): Clock & { pass(ms: number): void } {
  let at = startAt
  return {
    now: () => at,
    elapsed: () => at,
    sleep: async (ms) => void (at += ms),
    pass: (ms) => void (at += ms),
  }
}

export const fakeStats: JournalStats = {
  entries: 0,
  bytes: 0,
  capacityBytes: 2 ** 31,
  full: false,
  sinks: [],
  unconfigured: [],
  quarantined: 0,
  gaps: 0,
  findings: 0,
  lastFindings: [],
}

/** One workspace with an audit source read every 30 s, and one file sink. */
export function openRegistrySetup(journalPath?: string) {
  const clock = testClock()
  const journal = { stats: fakeStats }
  const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
  const registry = openStatusRegistry({
    clock,
    metrics,
    journalStats: () => journal.stats,
    journalPath,
    version: '1.2.3',
  })
  const source = registry.source({ workspace: 'acme', source: 'audit' }, 30_000)
  const sink = registry.sink('archive', 'file', () => 'stored')
  const owe = (entries: number, sinceAt: number, more: Partial<JournalStats> = {}) => {
    const pending = {
      sink: 'archive',
      position: 1,
      pendingEntries: entries,
      oldestPendingAt: sinceAt,
      deadLetters: 0,
    }
    journal.stats = { ...fakeStats, entries, bytes: entries * 100, sinks: [pending], ...more }
  }
  return { clock, journal, metrics, registry, taps: new Taps(clock), source, sink, owe }
}

/** Everything is healthy: read, caught up and delivered. */
export function ack({ source, sink }: ReturnType<typeof openRegistrySetup>): void {
  source.success()
  source.head(startAt * 1000)
  source.cursor(startAt * 1000)
  source.caughtUp()
  source.state('idle')
  sink.success()
  sink.state('idle')
}
