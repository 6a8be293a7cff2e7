// The journal's entry point: its modules under the names of the contract. Synchronous inside,
// promises outside. `open.ts` opens it.
import type { Database } from 'better-sqlite3'
import type { DayRange } from '../../contracts/accounts.ts'
import type { Entries } from '../../contracts/entries.ts'
import type {
  Append,
  Batch,
  ConfiguredWorkspace,
  InFlight,
  Journal,
  JournalStats,
  LoneLimits,
  ReplayQuery,
  Resend,
  State,
  Acknowledgement,
  TakeLimits,
  TakeWhere,
  TooLarge,
} from '../../contracts/journal.ts'
import type { DeadLetterQuery, FindingRecord, QuarantineQuery } from '../../contracts/records.ts'
import type { Appended, Stream } from '../../contracts/source.ts'
import type { Seq } from '../../core/sequence.ts'
import type { Log } from '../../core/log.ts'
import { append, prepareAppend } from './append.ts'
import type { Core } from './core.ts'
import { Presence, closeDatabase, corrupt } from './database.ts'
import type { Handover } from './database.ts'
import { DeadLetters, ack } from './dead-letters.ts'
import { preparePrune, prune } from './prune.ts'
import type { Quarantine } from './quarantine.ts'
import { prepareReplay, replay, resend } from './replay.ts'
import { Arrivals } from '../rules/arrivals.ts'
import { ScopedState } from '../rules/state.ts'
import { reportWorkspaces } from './streams.ts'
import type { Streams } from './streams.ts'

function prepare(db: Database) {
  return {
    append: prepareAppend(db),
    prune: preparePrune(db),
    replay: prepareReplay(db),
    cursor: db.prepare<[number], string | null>('SELECT cursor FROM sources WHERE id = ?').pluck(),
  }
}

interface Surroundings {
  /** as configured: possibly a link */
  readonly path: string
  readonly log: Log
  readonly handover?: Handover | undefined
  /** an error of the start, which nothing retries */
  readonly startError: (error: unknown) => unknown
}

export class SqliteJournal implements Journal {
  readonly state: State
  readonly #core: Core
  readonly #surroundings: Surroundings
  readonly #statements: ReturnType<typeof prepare>
  readonly #deadLetters: DeadLetters
  readonly #arrivals = new Arrivals()
  readonly #totals: Totals
  readonly #presence: Presence
  #closed = false

  constructor(core: Core, surroundings: Surroundings) {
    this.state = new ScopedState(core.state)
    this.#core = core
    this.#surroundings = surroundings
    this.#statements = prepare(core.db)
    this.#deadLetters = new DeadLetters(core)
    this.#presence = new Presence(core.path, surroundings.path)
    this.#totals = new Totals(core)
  }

  async registerSinks(sinks: readonly string[], workspaces?: readonly ConfiguredWorkspace[]) {
    const { accounts, clock, db, keepKeysMs, pending, quarantine, state, transactions } = this.#core
    const { log, startError } = this.#surroundings
    const land = () => {
      const registered = pending.writeRegistered(sinks, log)
      if (workspaces) reportWorkspaces(db, state, workspaces, log)
      for (const [sink, { acknowledged }] of registered.sinks)
        if (!accounts.isCounted(sink)) accounts.begin(sink, acknowledged)
      quarantine.writeForgotten(clock.now() - keepKeysMs)
      return registered
    }
    try {
      pending.applyRegistered(transactions.write(land))
    } catch (error) {
      throw startError(error)
    }
    for (const { sink, position } of pending.positions()) this.#arrivals.reported(sink, position)
  }

  async cursor(stream: Stream) {
    const { streams, transactions } = this.#core
    const id = streams.find(stream)
    if (id === undefined) return undefined
    return transactions.read(() => this.#statements.cursor.get(id)) ?? undefined
  }

  async append(part: Append) {
    const appended = append(this.#core, this.#statements.append, part)
    this.#totals.add(part, appended)
    if (appended.added + appended.late > 0) this.#arrivals.wake()
    return appended
  }

  async known(stream: Stream, entries: Entries) {
    const { dedupIndex, streams, transactions } = this.#core
    const id = streams.find(stream)
    return id === undefined
      ? new Uint8Array(entries.count)
      : transactions.read(() => dedupIndex.known(id, stream.source, entries))
  }

  async take(sink: string, lone: LoneLimits, where?: TakeWhere): Promise<Batch | TooLarge | undefined>
  async take(sink: string, limits: TakeLimits, where?: TakeWhere): Promise<Batch | undefined>
  async take(sink: string, limits: TakeLimits, where?: TakeWhere) {
    const { pending, chunkStore, transactions } = this.#core
    const { first, last } = pending.next(sink, where, pending.lastSeq)
    return transactions.read(() => chunkStore.slice(first, last, limits))
  }

  async range(first: Seq, last: Seq): Promise<Batch> {
    const { path, chunkStore, transactions } = this.#core
    return transactions.read(() => {
      const batch = chunkStore.slice(first, last, { maxEntries: Infinity, maxBytes: Infinity })
      if (batch?.last !== last) throw corrupt(path, `entries ${first} to ${last} are not all in it`)
      return batch
    })
  }

  async inFlightBatches(sink: string) {
    const { pending, transactions } = this.#core
    return transactions.read(() => pending.inFlightBatches(sink))
  }

  async recordInFlight(sink: string, inFlight: InFlight) {
    const { pending, transactions } = this.#core
    transactions.write(() => pending.writeInFlight(sink, inFlight))
  }

  async ack(sink: string, acknowledgement: Acknowledgement) {
    ack(this.#core, this.#deadLetters, sink, acknowledgement)
  }

  async arrival(sink: string, signal: AbortSignal) {
    await this.#arrivals.wait(sink, () => this.#core.pending.lastSeq, signal)
  }

  async deadLetters(query: DeadLetterQuery) {
    return this.#core.transactions.read(() => this.#deadLetters.list(query))
  }

  async deadLetterRaw(id: number) {
    return this.#core.transactions.read(() => this.#deadLetters.raw(id))
  }

  async retryDeadLetters(query: DeadLetterQuery) {
    const retried = this.#core.transactions.write(() => this.#deadLetters.writeRetried(query))
    this.#deadLetters.applyRetried(retried)
    if (retried.rows.length > 0) this.#arrivals.wake()
    return retried.rows.length
  }

  async dropDeadLetters(query: DeadLetterQuery) {
    const dropped = this.#core.transactions.write(() => this.#deadLetters.writeDropped(query))
    this.#deadLetters.applyDropped(dropped)
    return dropped.length
  }

  async replay(query: ReplayQuery) {
    const replayed = replay(this.#core, this.#statements.replay, query)
    if (!query.dryRun && replayed.entries > 0) this.#arrivals.wake()
    return replayed
  }

  async resend(again: Resend) {
    resend(this.#core, again)
    if (again.entries.count > 0) this.#arrivals.wake()
  }

  async quarantined(query: QuarantineQuery) {
    const { quarantine, transactions } = this.#core
    return transactions.read(() => quarantine.list(query))
  }

  async quarantinedRaw(id: number) {
    const { quarantine, transactions } = this.#core
    return transactions.read(() => quarantine.raw(id))
  }

  async dropQuarantined(query: QuarantineQuery) {
    const { clock, quarantine, transactions } = this.#core
    const dropped = transactions.write(() => quarantine.writeDropped(query, clock.now()))
    quarantine.applyDropped(dropped)
    return dropped.count
  }

  async counts(range: DayRange) {
    const { accounts, transactions } = this.#core
    return transactions.read(() => ({ kept: accounts.kept(range), delivered: accounts.delivered(range) }))
  }

  async pending(sink: string, after: Seq | undefined) {
    const { accounts, pending, transactions } = this.#core
    const { acknowledged } = pending.sink(sink)
    return transactions.read(() => accounts.pending(sink, acknowledged, after ?? acknowledged.position))
  }

  async storedDays(after: Seq | undefined) {
    const { accounts, transactions } = this.#core
    return transactions.read(() => accounts.storedDays(after ?? 0))
  }

  pressure() {
    const { pending, maxBytes } = this.#core
    return { bytes: pending.bytes, capacityBytes: maxBytes, full: pending.bytes >= maxBytes }
  }

  stats() {
    const { pending, transactions } = this.#core
    return {
      ...this.pressure(),
      entries: pending.lastSeq - pending.ackedTo,
      sinks: transactions.read(() => pending.positions()),
      unconfigured: pending.unconfigured,
      ...this.#totals.stats,
    }
  }

  async lost() {
    return this.#presence.lost
  }

  async prune() {
    return prune(this.#core, this.#statements.prune)
  }

  /** After an I/O error nothing more is written: the next start finds out what is on disk. */
  async close() {
    if (this.#closed) return
    this.#closed = true
    const { db, path, transactions } = this.#core
    if (transactions.failed) return
    // Checked while its log still exists: the file closed below may not be the file of that name
    // any more.
    const isThere = this.#presence.lost === undefined
    closeDatabase(db, (error) => transactions.judge(error))
    if (isThere && !transactions.metFault) this.#surroundings.handover?.closed(path)
  }
}

// Totals for operators since the journal began, and the last findings: read from the disk once, so
// that reading the stats costs no query.

/** This many are returned with the totals; all of them stay stored. */
const LAST_FINDINGS = 10

type Stats = Pick<JournalStats, 'quarantined' | 'gaps' | 'findings' | 'lastFindings'>
type Sums = Pick<Stats, 'gaps' | 'findings'>

class Totals {
  readonly #lastOnDisk: () => readonly FindingRecord[]
  readonly #quarantine: Quarantine
  #sums: Sums
  #last: readonly FindingRecord[]

  constructor(core: Core) {
    this.#quarantine = core.quarantine
    const last = core.db.prepare<[number], FindingRow>(
      'SELECT source, kind, entry_id AS entryId, at AS entryUs, found_at AS foundAt FROM findings ORDER BY id DESC LIMIT ?',
    )
    this.#lastOnDisk = () =>
      core.transactions.read(() => last.all(LAST_FINDINGS).map((row) => findingOf(core.streams, row)))
    const sums = core.db.prepare<[], Sums>(
      'SELECT (SELECT total(gaps) FROM sources) AS gaps, (SELECT count(*) FROM findings) AS findings',
    )
    this.#sums = { gaps: 0, findings: 0, ...sums.get() }
    this.#last = this.#lastOnDisk()
  }

  add({ gaps }: Append, appended: Appended): void {
    const sums = this.#sums
    this.#sums = { gaps: sums.gaps + gaps, findings: sums.findings + appended.findings }
    if (appended.findings > 0) this.#last = this.#lastOnDisk()
  }

  get stats(): Stats {
    return { quarantined: this.#quarantine.stored.count, ...this.#sums, lastFindings: this.#last }
  }
}

type FindingRow = Pick<FindingRecord, 'kind' | 'foundAt'> & {
  source: number
  entryId: Buffer
  entryUs: number | null
}

function findingOf(streams: Streams, { source, entryId, entryUs, ...row }: FindingRow): FindingRecord {
  const stream = streams.stream(source)
  return { ...row, stream, entryId: entryId.toString(), entryUs: entryUs ?? undefined }
}
