// The journal's entry point: its modules under the names of the contract. Synchronous inside,
// promises outside. `open.ts` opens it.
import type { Database } from 'better-sqlite3'
import type { DayRange } from '../../contracts/accounts.ts'
import type { Entries } from '../../contracts/entries.ts'
import type {
  Append,
  Batch,
  InFlight,
  Journal,
  LoneLimits,
  ReplayQuery,
  Resend,
  Acknowledgement,
  TakeLimits,
  TakeWhere,
  TooLarge,
} from '../../contracts/journal.ts'
import type { DeadLetterQuery, NoteChange, QuarantineQuery } from '../../contracts/records.ts'
import type { Stream } from '../../contracts/source.ts'
import type { Seq } from '../../core/sequence.ts'
import { append, prepareAppend } from './append.ts'
import type { Core } from './core.ts'
import { Presence, closeDatabase, corrupt } from './database.ts'
import type { Handover } from './database.ts'
import { DeadLetters, ack } from './dead-letters.ts'
import { preparePrune, prune } from './prune.ts'
import { prepareReplay, replay, resend } from './replay.ts'
import { listNotes, prepareNotes, writeNotes } from './state.ts'
import * as findings from './totals.ts'
import { Totals } from './totals.ts'

function prepare(db: Database) {
  const notes = prepareNotes(db)
  return {
    append: prepareAppend(db, notes),
    prune: preparePrune(db),
    replay: prepareReplay(db),
    cursor: db.prepare<[number], string | null>('SELECT cursor FROM sources WHERE id = ?').pluck(),
    findings: findings.prepareFindings(db),
    notes,
  }
}

export class SqliteJournal implements Journal {
  readonly #core: Core
  readonly #statements: ReturnType<typeof prepare>
  readonly #letters: DeadLetters
  readonly #arrivals: Arrivals
  readonly #totals: Totals
  readonly #presence: Presence
  readonly #handover: Handover | undefined
  #closed = false

  constructor(
    core: Core,
    { path, handover }: { readonly path: string; readonly handover?: Handover | undefined },
  ) {
    this.#core = core
    this.#handover = handover
    this.#statements = prepare(core.db)
    this.#letters = new DeadLetters(core)
    this.#arrivals = new Arrivals(core.ledger.positions().map(({ sink, position }) => [sink, position]))
    this.#presence = new Presence(core.path, path)
    this.#totals = new Totals(core, this.#statements.findings)
  }

  async cursor(stream: Stream) {
    const { origins, transactions } = this.#core
    const id = origins.find(stream)
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
    const { keys, origins, transactions } = this.#core
    const id = origins.find(stream)
    return id === undefined
      ? new Uint8Array(entries.count)
      : transactions.read(() => keys.known(id, stream.source, entries))
  }

  async take(sink: string, lone: LoneLimits, where?: TakeWhere): Promise<Batch | TooLarge | undefined>
  async take(sink: string, limits: TakeLimits, where?: TakeWhere): Promise<Batch | undefined>
  async take(sink: string, limits: TakeLimits, where?: TakeWhere) {
    const { ledger, chunkStore, transactions } = this.#core
    const { first, last } = ledger.nextPending(sink, where)
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
    const { ledger, transactions } = this.#core
    return transactions.read(() => ledger.inFlightBatches(sink))
  }

  async recordInFlight(sink: string, inFlight: InFlight) {
    const { ledger, transactions } = this.#core
    transactions.write(() => ledger.writeInFlight(sink, inFlight))
  }

  async ack(sink: string, acknowledgement: Acknowledgement) {
    ack(this.#core, this.#letters, this.#statements.notes, sink, acknowledgement)
  }

  async arrival(sink: string, signal: AbortSignal) {
    await this.#arrivals.wait(sink, () => this.#core.ledger.lastSeq, signal)
  }

  async deadLetters(query: DeadLetterQuery) {
    return this.#core.transactions.read(() => this.#letters.list(query))
  }

  async deadLetterRaw(id: number) {
    return this.#core.transactions.read(() => this.#letters.raw(id))
  }

  async retryDeadLetters(query: DeadLetterQuery) {
    const retried = this.#core.transactions.write(() => this.#letters.writeRetried(query))
    this.#letters.applyRetried(retried)
    if (retried.rows.length > 0) this.#arrivals.wake()
    return retried.rows.length
  }

  async dropDeadLetters(query: DeadLetterQuery) {
    const dropped = this.#core.transactions.write(() => this.#letters.writeDropped(query))
    this.#letters.applyDropped(dropped)
    return dropped.length
  }

  async replay(query: ReplayQuery) {
    const replayed = replay(this.#core, this.#statements.replay, query)
    if (!query.dryRun && replayed.entries > 0) this.#arrivals.wake()
    return replayed
  }

  async resend(again: Resend) {
    resend(this.#core, this.#statements.notes, again)
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

  async findings(limit: number) {
    return this.#core.transactions.read(() => findings.list(this.#core, this.#statements.findings, limit))
  }

  async counts(range: DayRange) {
    const { deliveries, transactions } = this.#core
    return transactions.read(() => ({ kept: deliveries.kept(range), delivered: deliveries.delivered(range) }))
  }

  async pending(sink: string, after: Seq | undefined) {
    const { deliveries, ledger, transactions } = this.#core
    const settled = ledger.settled(sink)
    return transactions.read(() => deliveries.pending(sink, settled, after ?? settled.position))
  }

  async storedDays(after: Seq | undefined) {
    const { deliveries, transactions } = this.#core
    return transactions.read(() => deliveries.storedDays(after ?? 0))
  }

  async note(name: string) {
    return this.#core.transactions.read(() => this.#statements.notes.get.get(name))
  }

  async putNote(name: string, value: string) {
    await this.changeNotes({ drop: [], put: [{ name, value }] })
  }

  async notes(prefix: string, limit: number) {
    return this.#core.transactions.read(() => listNotes(this.#statements.notes, prefix, limit))
  }

  async changeNotes(change: NoteChange) {
    this.#core.transactions.write(() => {
      writeNotes(this.#statements.notes, change)
    })
  }

  stats() {
    const { ledger, maxBytes, transactions } = this.#core
    return {
      entries: ledger.lastSeq - ledger.ackedTo,
      bytes: ledger.pendingBytes,
      capacityBytes: maxBytes,
      full: ledger.pendingBytes >= maxBytes,
      sinks: transactions.read(() => ledger.positions()),
      unconfigured: ledger.unconfigured,
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
    if (isThere && !transactions.metFault) this.#handover?.closed(path)
  }
}

// Lets a delivery loop wait for new entries without polling.

class Arrivals {
  /** the last sequence number reported to each sink */
  readonly #told = new Map<string, Seq>()
  readonly #waiting = new Set<() => void>()

  constructor(positions: Iterable<readonly [string, Seq]>) {
    for (const [sink, position] of positions) this.#told.set(sink, position)
  }

  /** `lastSeq` is called at each wake-up. */
  async wait(sink: string, lastSeq: () => Seq, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && lastSeq() <= (this.#told.get(sink) ?? 0)) await this.#next(signal)
    this.#told.set(sink, lastSeq())
  }

  wake(): void {
    for (const waiter of [...this.#waiting]) waiter()
  }

  #next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#waiting.delete(done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      this.#waiting.add(done)
      signal.addEventListener('abort', done, { once: true })
    })
  }
}
