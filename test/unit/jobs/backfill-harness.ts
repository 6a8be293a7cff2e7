// Backfills beside live reading: the real journal, one client
// and rate limiter for both, the mock, and a manual clock.
import { expect } from 'vitest'
import { runIngest } from '../../../src/ingest/loop.ts'
import { globFilter } from '../../../src/core/globs.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import type { ComparedStream, JobSpan } from '../../../src/contracts/jobs.ts'
import { MemoryBudget } from '../../../src/core/memory-budget.ts'
import { Secret } from '../../../src/core/secret.ts'
import { Comparisons } from '../../../src/jobs/compare.ts'
import { StreamJobs } from '../../../src/jobs/jobs.ts'
import type { RangeReader } from '../../../src/jobs/range.ts'
import { AuditRange } from '../../../src/sources/audit/range.ts'
import { Client } from '../../../src/sources/http/client.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import {
  AGENT,
  DAY,
  driven,
  HOUR,
  INSTANCE,
  openHarness,
  stream,
  SECOND,
  START,
} from '../app/audit-harness.ts'
import type { Harness, HarnessOptions } from '../app/audit-harness.ts'

/** The three whole UTC days before the day on which the harness starts. */
export const TODAY = START - 10 * HOUR
export const SPAN: JobSpan = { fromUs: (TODAY - 3 * DAY) * 1000, toUs: TODAY * 1000 }

/** The audit log's past. `types` is the `types` setting of the source. */
export function rangeOn(
  { clock, mock, rateLimiter, reporter, log, options }: Harness,
  types = ['*'],
): RangeReader {
  return {
    ...{ stream, reporter, log, wanted: globFilter(types) },
    open: (span, quiet) => {
      const client = new Client({
        ...{ baseUrl: 'https://api.test', apiKey: new Secret('acme-key'), transport: mock.transport },
        ...{ clock, rateLimiter, memory: new MemoryBudget(32 * 2 ** 20), reporter: quiet, userAgent: AGENT },
      })
      const limits = { maxEntryBytes: 2 ** 24, maxDepth: 512 }
      const common = {
        stream,
        clock,
        log,
        instance: INSTANCE,
        expectedUserAgent: () => false,
        sentTimes: options.sentTimes,
      }
      return new AuditRange({ ...common, ...limits, ...span, client, reporter: quiet })
    },
    startUs: () => undefined,
    rateWait: () => ({ isLimited: rateLimiter.limitedUntil !== undefined, reason: 'the limiter says so' }),
    unread: () => undefined,
  }
}

export function pastOf(harness: Harness, types = ['*'], journal: Journal = harness.journal): StreamJobs {
  const { clock, log } = harness
  const parts = { ranges: [rangeOn(harness, types)], sinks: [], journal, clock, log }
  return new StreamJobs({ ...parts, random: () => 0.5, readTo: async () => undefined })
}

export function comparingOn(harness: Harness): Comparisons {
  const { clock, journal } = harness
  return new Comparisons({ ranges: [rangeOn(harness)], journal, clock, random: () => 0.5 })
}

/** Entries evenly spread over the four days up to now. */
export function fillPast(harness: Harness, count: number): void {
  const from = TODAY - 3 * DAY - 12 * HOUR
  const step = (START - from) / count
  for (let i = 0; i < count; i++) harness.mock.add({ at: Math.floor(from + i * step), visibleAt: 0 })
}

export function idsIn(harness: Harness, { fromUs, toUs }: JobSpan): string[] {
  const within = harness.mock.entries().filter(({ atUs }) => atUs >= fromUs && atUs < toUs)
  return within.map(({ id }) => id).sort()
}

/** A harness whose live reading starts now, so that nothing of the past is known. */
export async function openLateHarness(options: HarnessOptions, entries: number): Promise<Harness> {
  const harness = await openHarness({ ...options, source: { start: { kind: 'latest' }, ...options.source } })
  fillPast(harness, entries)
  return harness
}

interface Reading<Reported> {
  run(signal: AbortSignal): Promise<void>
  list(): readonly Reported[]
}

/** Runs until `seen`, or until virtual time is up. Rejects with the error that stopped it. */
export async function runUntil<Reported>(
  harness: Pick<Harness, 'clock' | 'collector'>,
  past: Reading<Reported>,
  seen: (reported: readonly Reported[]) => boolean,
  withLive = false,
): Promise<void> {
  const stop = new AbortController()
  const state = { failed: false }
  const loops = Promise.all([
    past.run(stop.signal),
    ...(withLive ? [runIngest(harness.collector, stop.signal)] : []),
  ])
  loops.catch(() => (state.failed = true))
  for (let turn = 0; !state.failed && !seen(past.list()); turn++) {
    if (turn > 20_000) throw new Error(`waited in vain: ${JSON.stringify(past.list())}`)
    await settled()
    if (!seen(past.list())) harness.clock.advance(harness.clock.now() + SECOND)
  }
  stop.abort()
  await driven(harness.clock, loops)
}

export const isDone = (reported: readonly { readonly endedAt: number | undefined }[]) =>
  reported.length > 0 && reported.every(({ endedAt }) => endedAt)

/** Compares the only stream from start to end. */
export async function compareAll(
  harness: Pick<Harness, 'clock'>,
  comparing: Comparisons,
  span = SPAN,
): Promise<ComparedStream> {
  for (let turns = 0; ; turns++) {
    if (turns > 5_000) throw new Error('no end')
    const asked = comparing.compare({ job: 'this', ...span })
    const { isDone, error, streams } = await driven(harness.clock, asked)
    if (!isDone) continue
    if (error) throw new Error(error.message)
    await comparing.endCompare('this')
    return streams[0] ?? expect.fail('no stream')
  }
}
