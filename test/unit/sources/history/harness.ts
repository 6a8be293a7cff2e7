// The history source with its real client, rate limiter and journal before a history API of the test's own, on a clock that moves only on demand.
import { onTestFinished } from 'vitest'
import { ingestOnce } from '../../../../src/ingest/loop.ts'
import type { IngestOptions } from '../../../../src/ingest/loop.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { globFilter } from '../../../../src/core/globs.ts'
import type { Transport } from '../../../../src/contracts/platform.ts'
import type { Batch, Journal } from '../../../../src/contracts/journal.ts'
import { MemoryBudget } from '../../../../src/core/memory-budget.ts'
import { Secret } from '../../../../src/core/secret.ts'
import type { Cursor } from '../../../../src/contracts/source.ts'
import type { RangeReader } from '../../../../src/jobs/range.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../../src/sources/http/client.ts'
import type { HistoryCursor } from '../../../../src/sources/history/cursor.ts'
import { HistoryRange, openRangeCursor, unreadOf } from '../../../../src/sources/history/range.ts'
import { HistorySource } from '../../../../src/sources/history/history.ts'
import type { HistoryOptions } from '../../../../src/sources/history/history.ts'
import { HistoryServer } from '../../../fakes/history-server.ts'
import type { HistoryEvent, HistoryRequest, HistoryServerOptions } from '../../../fakes/history-server.ts'
import { openTestJournal } from '../../../fakes/journal.ts'
import { LogLines } from '../../../fakes/sink-deps.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { AGENT, DAY, driven, START } from '../../app/audit-harness.ts'

const stream = { workspace: 'acme', source: 'history.usage' } as const

export interface HistoryHarnessOptions extends Partial<Omit<HistoryServerOptions, 'clock'>> {
  readonly source?: Partial<HistoryOptions>
  readonly startAt?: number
  readonly limit?: number
  readonly maxBytes?: number
  readonly folder?: string
  readonly keepOpen?: boolean
}

export class HistoryHarness {
  readonly clock: VirtualClock
  readonly server: HistoryServer
  readonly journal: Journal
  readonly reporter = new SourceNotes()
  readonly log = new LogLines()
  readonly #client: Client
  #transport: Transport | undefined
  source: HistorySource
  cursor: Cursor | undefined
  #asked = 0

  constructor(clock: VirtualClock, server: HistoryServer, journal: Journal, options: HistoryHarnessOptions) {
    this.clock = clock
    this.server = server
    this.journal = journal
    const store = {
      load: () => journal.state.get('budget'),
      save: (state: string) => journal.state.put('budget', state),
    }
    this.#client = new Client({
      baseUrl: 'https://api.test',
      apiKey: new Secret('acme-key'),
      transport: (request, signal) => (this.#transport ?? server.transport)(request, signal),
      clock,
      rateLimiter: new RateLimiter({ limit: () => options.limit ?? 10_000, clock, random: () => 0.5, store }),
      memory: new MemoryBudget(32 * 2 ** 20),
      reporter: this.reporter,
      userAgent: AGENT,
    })
    this.source = this.open(options.source)
  }

  /** A source of this harness, as a restart under other options opens it. */
  open(more: Partial<HistoryOptions> = {}): HistorySource {
    this.source = new HistorySource({
      stream,
      client: this.#client,
      clock: this.clock,
      reporter: this.reporter,
      log: this.log,
      kind: 'usage',
      version: 'v2',
      v1Until: undefined,
      intervalMs: 15 * 60_000,
      start: { kind: 'span', ms: 7 * DAY },
      lookbackMs: 3 * DAY,
      keepKeysMs: 35 * DAY,
      once: false,
      maxEntryBytes: 16 * 2 ** 20,
      maxDepth: 512,
      ...more,
    })
    return this.source
  }

  /** A span of its past, as backfills and read-only jobs open it. */
  range(more: Partial<Pick<HistoryOptions, 'version' | 'v1Until'>> = {}): RangeReader {
    const { clock, journal, log, reporter } = this
    const note = 'versions:acme:history.usage'
    const common = {
      ...({ kind: 'usage', version: 'v2' } as const),
      ...{ stream, client: this.#client, clock, log, v1Until: undefined },
      ...{ maxEntryBytes: 16 * 2 ** 20, maxDepth: 512, live: () => journal.cursor(stream) },
      versions: {
        load: () => journal.state.get(note),
        save: (read: string) => journal.state.put(note, read),
      },
    }
    return {
      ...{ stream, reporter, log, wanted: () => true },
      open: (span, quiet, use) =>
        new HistoryRange({ ...common, ...more, fromUs: span.fromUs, toUs: span.toUs, reporter: quiet, use }),
      startUs: () => undefined,
      rateWait: () => ({ isLimited: false, reason: 'the limiter says so' }),
      unread: (place) => unreadOf(openRangeCursor(place, stream)),
    }
  }

  /** Another API in place of the test's own. */
  through(transport: Transport): void {
    this.#transport = transport
  }

  get collector(): IngestOptions {
    const { source, journal, reporter, log, clock } = this
    return {
      source,
      journal,
      reporter,
      log,
      clock,
      random: () => 0.5,
      wanted: globFilter(['*']),
      once: false,
    }
  }

  state(): HistoryCursor {
    return JSON.parse(this.cursor ?? '{}') as HistoryCursor
  }

  /** What the API did wrong; a failure of the reader itself is thrown. */
  async try(): Promise<Error | undefined> {
    try {
      const read = ingestOnce(this.collector, this.cursor, new AbortController().signal)
      return connectorErrorOf((await driven(this.clock, read)).fault)
    } catch (error) {
      return connectorErrorOf(error as Error)
    } finally {
      this.cursor = await this.journal.cursor(stream)
    }
  }

  async step(): Promise<void> {
    const error = await this.try()
    if (error) throw error
  }

  /** Lets the source do whatever is due up to `until`. */
  async live(until: number): Promise<void> {
    for (let i = 0; i < 20_000; i++) {
      const { dueAt } = this.source.plan(this.cursor)
      if (dueAt > until) {
        while (this.clock.advance(until));
        return
      }
      if (dueAt > this.clock.now()) await driven(this.clock, this.clock.sleep(dueAt - this.clock.now()))
      if (await this.try()) await driven(this.clock, this.clock.sleep(20_000))
    }
    throw new Error('this goes in circles')
  }

  /** Steps until all is read once; returns how many steps that took. */
  async once(steps = 5_000): Promise<number> {
    for (let i = 0; i < steps; i++) {
      if (this.source.plan(this.cursor).caughtUp) return i
      if (await this.try()) await driven(this.clock, this.clock.sleep(1_000))
    }
    throw new Error(`not read after ${steps} steps: ${this.cursor ?? ''}`)
  }

  asked(): HistoryRequest[] {
    const fresh = this.server.requests.slice(this.#asked)
    this.#asked = this.server.requests.length
    return fresh
  }

  async batch(): Promise<Batch | undefined> {
    return this.journal.take('archive', { maxEntries: 1e7, maxBytes: 2 ** 31 })
  }

  async raws(): Promise<string[]> {
    return eachEntry(await this.batch(), (entries, i) => Buffer.from(entries.raw(i)).toString())
  }

  async times(): Promise<number[]> {
    return eachEntry(await this.batch(), (entries, i) => entries.at(i))
  }

  async ids(): Promise<string[]> {
    return eachEntry(await this.batch(), (entries, i) => entries.id(i))
  }
}

function connectorErrorOf(error: Error | undefined): ConnectorError | undefined {
  if (error === undefined || error instanceof ConnectorError) return error
  throw error
}

export function eachEntry<T>(
  batch: Batch | undefined,
  of: (entries: Batch['slices'][number]['entries'], index: number) => T,
): T[] {
  return (batch?.slices ?? []).flatMap(({ entries }) =>
    Array.from({ length: entries.count }, (_, i) => of(entries, i)),
  )
}

export async function openHistoryHarness(
  options: HistoryHarnessOptions = {},
): Promise<HistoryHarness & { close(): Promise<void> }> {
  const clock = new VirtualClock(options.startAt ?? START)
  const { journal, close } = await openTestJournal(
    { clock, log: new LogLines(), maxBytes: options.maxBytes ?? 2 ** 31 },
    options.folder,
  )
  if (options.keepOpen !== true) onTestFinished(close)
  const harness = new HistoryHarness(clock, new HistoryServer({ ...options, clock }), journal, options)
  return Object.assign(harness, { close })
}

/** `count` events, evenly from `from` on, `stepMs` apart. */
export function eventsFrom(
  make: (at: number) => HistoryEvent,
  from: number,
  count: number,
  stepMs: number,
): HistoryEvent[] {
  return Array.from({ length: count }, (_, i) => make(from + i * stepMs))
}
