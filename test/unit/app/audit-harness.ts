// The audit source with its real client, rate limiter and journal before the mock, on a clock that moves only on demand.
import { ingestOnce } from '../../../src/ingest/loop.ts'
import type { IngestOptions } from '../../../src/ingest/loop.ts'
import { openMock } from '../../../src/mock/mock.ts'
import type { Mock, MockOptions } from '../../../src/mock/mock.ts'
import type { RequestRecord } from '../../../src/mock/router.ts'
import { globFilter } from '../../../src/core/globs.ts'
import type { Transport } from '../../../src/contracts/platform.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import { MemoryBudget } from '../../../src/core/memory-budget.ts'
import { Secret } from '../../../src/core/secret.ts'
import type { Cursor } from '../../../src/contracts/source.ts'
import { AuditSource } from '../../../src/sources/audit/audit.ts'
import type { AuditCursor } from '../../../src/sources/audit/cursor.ts'
import type { AuditOptions } from '../../../src/sources/audit/step.ts'
import { RateLimiter } from '../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../src/sources/http/client.ts'
import { idsOf, rawsOf } from '../../contract/journal-parts.ts'
import { journalOfTest } from '../../fakes/journal.ts'
import { LogLines } from '../../fakes/sink-deps.ts'
import { SourceNotes } from '../../fakes/reporters.ts'
import { VirtualClock, settled } from '../../simulation/virtual-clock.ts'

/** A Tuesday, ten in the morning. */
export const START = Date.UTC(2026, 10, 17, 10)
export const SECOND = 1_000
export const MINUTE = 60_000
export const HOUR = 3_600_000
export const DAY = 86_400_000
export const INSTANCE = 'instance-of-the-test'
export const AGENT = `auditferry/0.0.0 (instance ${INSTANCE})`
export const stream = { workspace: 'acme', source: 'audit' } as const

/** Lets virtual time pass until `promise` settles. */
export async function driven<T>(clock: VirtualClock, promise: Promise<T>, until = Infinity): Promise<T> {
  const state = { over: false }
  const watched = promise.finally(() => {
    state.over = true
  })
  watched.catch(() => undefined)
  for (let turn = 0; ; turn++) {
    await settled()
    if (state.over) return watched
    if (turn > 500_000) throw new Error('this goes in circles')
    clock.advance(until)
  }
}

export interface HarnessOptions extends Partial<Omit<MockOptions, 'clock'>> {
  readonly source?: Partial<AuditOptions>
  readonly types?: readonly string[]
  readonly limit?: number
  /** between the client and the mock */
  readonly wrap?: (transport: Transport) => Transport
}

export interface Harness {
  readonly clock: VirtualClock
  readonly mock: Mock
  readonly journal: Journal
  readonly source: AuditSource
  /** of `source` */
  readonly options: AuditOptions
  readonly rateLimiter: RateLimiter
  readonly reporter: SourceNotes
  readonly log: LogLines
  readonly collector: IngestOptions
  cursor: Cursor | undefined
  /** what the cursor says, parsed */
  state(): AuditCursor
  /** One step of reading; an error of ours is thrown, the cursor kept. */
  step(): Promise<void>
  /** The same, but what goes wrong is returned; `next` is the source after a restart. */
  try(next?: AuditSource): Promise<Error | undefined>
  /** Steps until a drain is done. */
  drain(steps?: number): Promise<void>
  /** Lets the source do whatever is due up to `until`. */
  live(until: number): Promise<void>
  /** Ids in the journal, in its order. */
  ids(): Promise<string[]>
  raws(): Promise<string[]>
  /** Requests since the last call. */
  asked(): RequestRecord[]
  /** `count` entries, one a second, the last at `lastAt` (default now). */
  add(count: number, lastAt?: number): string[]
}

export async function openHarness(options: HarnessOptions = {}): Promise<Harness> {
  const {
    source: more = {},
    types = ['*'],
    limit = 10_000,
    wrap = (transport: Transport): Transport => transport,
    ...mocked
  } = options
  const clock = new VirtualClock(START)
  const mock = openMock({
    clock,
    traffic: { entriesPerHour: 0 },
    limits: { audit: 0 },
    ...mocked,
    switches: { self_audit: 'off', ...mocked.switches },
  })
  const log = new LogLines()
  const journal = await journalOfTest({ clock, log })
  const reporter = new SourceNotes()
  const store = {
    load: () => journal.state.get('budget'),
    save: (state: string) => journal.state.put('budget', state),
  }
  const rateLimiter = new RateLimiter({ limit: () => limit, clock, random: () => 0.5, store })
  const client = new Client({
    baseUrl: 'https://api.test',
    apiKey: new Secret('acme-key'),
    transport: wrap(mock.transport),
    clock,
    rateLimiter,
    memory: new MemoryBudget(32 * 2 ** 20),
    reporter,
    userAgent: AGENT,
  })
  const audit: AuditOptions = {
    stream,
    client,
    clock,
    reporter,
    log,
    activity: 'high',
    intervalMs: 5 * MINUTE,
    start: { kind: 'earliest' },
    lookbackMs: 0,
    keepKeysMs: 35 * DAY,
    once: false,
    instance: INSTANCE,
    expectedUserAgent: () => false,
    sentTimes: { sent: [] },
    maxEntryBytes: 16 * 2 ** 20,
    maxDepth: 512,
    ...more,
  }
  const source = new AuditSource(audit)
  const collector: IngestOptions = {
    source,
    journal,
    reporter,
    log,
    clock,
    random: () => 0.5,
    wanted: globFilter(types),
    once: more.once ?? false,
  }
  return new HarnessAtWork({
    clock,
    mock,
    journal,
    source,
    options: audit,
    rateLimiter,
    reporter,
    log,
    collector,
  })
}

type Parts = Omit<
  Harness,
  'cursor' | 'state' | 'step' | 'try' | 'drain' | 'live' | 'ids' | 'raws' | 'asked' | 'add'
>

class HarnessAtWork implements Harness {
  readonly clock: VirtualClock
  readonly mock: Mock
  readonly journal: Journal
  readonly source: AuditSource
  readonly options: AuditOptions
  readonly rateLimiter: RateLimiter
  readonly reporter: SourceNotes
  readonly log: LogLines
  readonly collector: IngestOptions
  cursor: Cursor | undefined
  #asked = 0

  constructor(parts: Parts) {
    this.clock = parts.clock
    this.mock = parts.mock
    this.journal = parts.journal
    this.source = parts.source
    this.options = parts.options
    this.rateLimiter = parts.rateLimiter
    this.reporter = parts.reporter
    this.log = parts.log
    this.collector = parts.collector
  }

  state(): AuditCursor {
    return JSON.parse(this.cursor ?? '{}') as AuditCursor
  }

  async step(): Promise<void> {
    const error = await this.try()
    if (error) throw error
  }

  async try(source = this.source): Promise<Error | undefined> {
    const { clock, journal } = this
    const collector = { ...this.collector, source }
    try {
      const read = ingestOnce(collector, this.cursor, new AbortController().signal)
      return (await driven(clock, read)).fault
    } catch (error) {
      return error as Error
    } finally {
      // What landed counts, whatever was thrown.
      this.cursor = await journal.cursor(stream)
    }
  }

  async drain(steps = 400): Promise<void> {
    for (let i = 0; i < steps; i++) {
      await this.try()
      if (this.state().caughtUp && this.state().drain === null) return
    }
    throw new Error(`not at rest after ${steps} steps: ${this.cursor ?? ''}`)
  }

  async live(until: number): Promise<void> {
    const { clock, source } = this
    for (let i = 0; i < 5000; i++) {
      const { dueAt } = source.plan(this.cursor)
      if (dueAt > until) {
        while (clock.advance(until));
        return
      }
      if (dueAt > clock.now()) await driven(clock, clock.sleep(dueAt - clock.now()))
      const error = await this.try()
      if (error) await driven(clock, clock.sleep(1_000))
    }
    throw new Error('this goes in circles')
  }

  async ids(): Promise<string[]> {
    return idsOf(await this.journal.take('archive', { maxEntries: 1e6, maxBytes: 2 ** 30 }))
  }

  async raws(): Promise<string[]> {
    return rawsOf(await this.journal.take('archive', { maxEntries: 1e6, maxBytes: 2 ** 30 }))
  }

  asked(): RequestRecord[] {
    const fresh = this.mock.requests.slice(this.#asked)
    this.#asked = this.mock.requests.length
    return fresh
  }

  add(count: number, lastAt = this.clock.now()): string[] {
    return Array.from(
      { length: count },
      (_, i) => this.mock.add({ at: lastAt - (count - 1 - i) * SECOND, visibleAt: 0 }).id,
    )
  }
}

export const endpoints = (records: readonly RequestRecord[]) => records.map(({ endpoint }) => endpoint)

export function takesOf(records: readonly RequestRecord[]): number[] {
  return records
    .filter(({ endpoint }) => endpoint === 'page')
    .map(({ target }) => Number(new URL(target, 'http://x').searchParams.get('take')))
}
