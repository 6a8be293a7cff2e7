// A status registry with a day behind it, served by the real listener: for browser tests and screenshots. The same at each run.
import type { Clock } from '../../src/core/clock.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import type { JournalStats } from '../../src/contracts/journal.ts'
import { openStatusRegistry } from '../../src/observability/status-registry.ts'
import { openHttp } from '../../src/observability/listener.ts'
import { openMetrics } from '../../src/observability/metrics.ts'

const startAt = Date.parse('2026-11-20T08:12:00Z')
const MIB = 2 ** 20

/** A sequence that looks random and is not. */
function chance(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const config = `workspaces:
  - name: acme
    base_url: https://api.example.com
    api_key: "***"
    audit:
      activity: high
      interval: 30s
sinks:
  - name: siem
    type: splunk_hec
    url: https://splunk.example.com:8088
    token: "***"
`

const sources = ['audit', 'history.usage', 'vault.projects'] as const
const none = { known: 0, late: 0, filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }

function steppedClock(): Clock & { pass(ms: number): void } {
  let passed = 0
  return {
    now: () => startAt + passed,
    elapsed: () => passed,
    sleep: () => Promise.reject(new Error('nothing sleeps here')),
    pass: (ms) => void (passed += ms),
  }
}

export async function openSetup() {
  const clock = steppedClock()
  const metrics = openMetrics({ version: '1.0.0', processMetrics: false })
  const pending = { siem: 0, archive: 0 }
  const more: Partial<JournalStats> = {}
  const position = (sink: 'siem' | 'archive') => ({
    ...{ sink, position: 1, pendingEntries: pending[sink], deadLetters: 0 },
    oldestPendingAt: pending[sink] > 0 ? clock.now() - pending[sink] * 400 : undefined,
  })
  const journalStats = (): JournalStats => ({
    entries: Math.max(pending.siem, pending.archive),
    bytes: 3 * MIB + Math.max(pending.siem, pending.archive) * 40_000,
    ...{ capacityBytes: 256 * MIB, full: false, unconfigured: [], quarantined: 0, gaps: 0, findings: 0 },
    lastFindings: [],
    sinks: [position('siem'), position('archive')],
    ...more,
  })
  const rateLimiter = () => [
    { area: 'audit', used: 6, limit: 60 },
    { area: 'history', used: 2, limit: 60 },
    { area: 'vault', used: 1, limit: 10 },
  ]
  const registry = openStatusRegistry({ clock, metrics, journalStats, version: '1.0.0', rateLimiter })
  const readers = sources.map((source) => registry.source({ workspace: 'acme', source }))
  const siem = registry.sink('siem', 'splunk_hec', () => 'stored')
  const archive = registry.sink('archive', 'file', () => 'stored')
  const random = chance(7)

  /** Half a minute of an ordinary day: read, then delivered, the SIEM a little later. */
  const live = (minute: number) => {
    clock.pass(15_000)
    const wave = 1 + Math.sin(minute / 9) * 0.5
    const added = Math.round(180 * wave * (0.5 + random()))
    for (const reader of readers) {
      reader.success()
      reader.head(clock.now() * 1000)
      reader.cursor(clock.now() * 1000)
      reader.caughtUp()
      reader.state('idle')
    }
    readers[0]?.appended({ added, ...none })
    const late = Math.round(added * random() * 0.4)
    siem.acknowledged({ accepted: added + pending.siem - late, deadLettered: 0, filtered: 0 })
    archive.acknowledged({ accepted: added, deadLettered: 0, filtered: 0 })
    pending.siem = late
    clock.pass(15_000)
    for (const sink of [siem, archive]) {
      sink.success()
      sink.state('idle')
    }
  }
  const hour = () => {
    for (let i = 0; i < 130; i++) live(i / 2)
    pending.siem = 0
    clock.pass(14_000)
  }
  // Every request renders: a test changes the registry between two of them.
  let renders = 0
  const rendering = { elapsed: () => (renders += 1000) }
  const http = await openHttp({
    ...{ hosts: () => [], clock: rendering },
    ...{ listen: '127.0.0.1:0', registry, metrics, config: () => config },
    ...{ live: () => true, ready: () => true },
  })
  const url = `http://127.0.0.1:${http.address.port}/`
  return { url, clock, registry, readers, siem, archive, pending, more, hour, close: () => http.close() }
}

export type Setup = Awaited<ReturnType<typeof openSetup>>

/** A night with failures: each part of the page has something to show. */
export function trouble({ siem, readers, more, pending, clock }: Setup, words = ''): void {
  const [audit, usage] = readers
  siem.state(
    'failing',
    new ConnectorError('unreachable', `splunk.example.com:8088 refused the connection ${words}`),
  )
  usage?.state(
    'blocked',
    new ConnectorError('unauthorized', 'the API answered 401: put a valid key into the file'),
  )
  audit?.head((clock.now() + 7_200_000) * 1000)
  audit?.cursor((clock.now() + 1_800_000) * 1000)
  pending.siem = 4200
  Object.assign(more, { quarantined: 1, gaps: 2, findings: 3, unconfigured: ['old-siem'] })
}
