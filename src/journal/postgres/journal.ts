// The journal of a shard under the names of the contract. `open.ts` opens it.
import type { DayRange } from '../../contracts/accounts.ts'
import type { Entries } from '../../contracts/entries.ts'
import type {
  Acknowledgement,
  Append,
  Batch,
  ConfiguredWorkspace,
  InFlight,
  Journal,
  LoneLimits,
  ReplayQuery,
  Resend,
  State,
  TakeLimits,
  TakeWhere,
  TooLarge,
} from '../../contracts/journal.ts'
import type { DeadLetterQuery, QuarantineQuery } from '../../contracts/records.ts'
import type { Stream } from '../../contracts/source.ts'
import type { Seq } from '../../core/sequence.ts'
import { Arrivals } from '../rules/arrivals.ts'
import { ScopedState } from '../rules/state.ts'
import { addAccounts, counts, pendingOf, storedDays } from './accounts.ts'
import { append } from './append.ts'
import { corrupt } from './chunks.ts'
import type { Core } from './core.ts'
import { knownKeys } from './dedup-index.ts'
import type { Lease } from './lease.ts'
import { inFlightOf, registerSinks, writeAck, writeInFlight } from './pending.ts'
import { Pruning } from './prune.ts'
import { replay, resend } from './redelivery.ts'
import {
  deadLetterRaw,
  deadLetters,
  dropDeadLetters,
  dropQuarantined,
  forgetQuarantined,
  quarantined,
  quarantinedRaw,
  retryDeadLetters,
  writeDeadLetters,
} from './records.ts'
import { StateTable, reportWorkspaces, writeState } from './state.ts'

export class PostgresJournal implements Journal {
  readonly state: State
  readonly leaseEnd: AbortSignal
  readonly #core: Core
  readonly #lease: Lease
  readonly #arrivals = new Arrivals()
  readonly #pruning: Pruning

  constructor(core: Core, lease: Lease) {
    this.state = new ScopedState(new StateTable(core))
    this.#core = core
    this.#lease = lease
    this.#pruning = new Pruning(core)
    this.leaseEnd = lease.signal
    lease.signal.addEventListener('abort', () => this.#arrivals.wake(), { once: true })
  }

  async registerSinks(sinks: readonly string[], workspaces?: readonly ConfiguredWorkspace[]) {
    const core = this.#core
    const { clock, keepKeysMs, log, pending, transactions } = core
    await transactions.write(async (transaction) => {
      await registerSinks(transaction, core, sinks, log)
      if (workspaces) await reportWorkspaces(transaction, core, workspaces, log)
      await forgetQuarantined(transaction, core, clock.now() - keepKeysMs)
    })
    for (const { sink, position } of pending.positions(transactions.lastSeq))
      this.#arrivals.reported(sink, position)
  }

  cursor(stream: Stream) {
    const { shard, schema, streams, transactions } = this.#core
    return transactions.read(async ({ query }) => {
      const [row] = await query<{ cursor: string | null }>(
        `SELECT cursor FROM ${schema}.streams WHERE shard = $1 AND id = $2`,
        [shard, streams.find(stream) ?? null],
      )
      return row?.cursor ?? undefined
    })
  }

  async append(part: Append) {
    const appended = await this.#write((transaction) => append(transaction, this.#core, part))
    if (appended.added + appended.late > 0) this.#arrivals.wake()
    return appended
  }

  known(stream: Stream, entries: Entries) {
    const { streams, transactions } = this.#core
    return transactions.read(async (queries) => {
      const source = streams.find(stream)
      if (source === undefined) return new Uint8Array(entries.count)
      return knownKeys(queries, this.#core, { source, name: stream.source }, entries)
    })
  }

  take(sink: string, lone: LoneLimits, where?: TakeWhere): Promise<Batch | TooLarge | undefined>
  take(sink: string, limits: TakeLimits, where?: TakeWhere): Promise<Batch | undefined>
  take(sink: string, limits: TakeLimits, where?: TakeWhere) {
    const { pending, chunks, transactions } = this.#core
    return transactions.read((queries) => {
      const { first, last } = pending.next(sink, where, transactions.lastSeq)
      return chunks.slice(queries, first, last, limits)
    })
  }

  range(first: Seq, last: Seq): Promise<Batch> {
    const { chunks, transactions, where } = this.#core
    return transactions.read(async (queries) => {
      const batch = await chunks.slice(queries, first, last, { maxEntries: Infinity, maxBytes: Infinity })
      if (batch?.last !== last) throw corrupt(where, `entries ${first} to ${last} are not all in it`)
      return batch
    })
  }

  inFlightBatches(sink: string) {
    return this.#read((queries) => inFlightOf(queries, this.#core, sink))
  }

  recordInFlight(sink: string, inFlight: InFlight) {
    return this.#write((transaction) => writeInFlight(transaction, this.#core, sink, inFlight))
  }

  /**
   * Refused entries become dead letters, the others are counted, the position moves, in one
   * transaction (invariant 3). Repeating an acknowledgement adds no second dead letter.
   */
  ack(sink: string, { first, through, rejected, accounts = [], next, state }: Acknowledgement) {
    const core = this.#core
    return this.#write(async (transaction) => {
      if (rejected.some(({ seq }) => seq < first || seq > through))
        throw new Error(`Sink ${sink} rejected an entry outside of what it acknowledged`)
      await writeDeadLetters(transaction, core, sink, rejected)
      await writeAck(transaction, core, sink, { first, last: through })
      const changes = accounts.map(({ stream, ...account }) => {
        const source = core.streams.find(stream)
        if (source === undefined)
          throw new Error('The stream of an acknowledged entry is unknown to the journal')
        return { ...account, sink, source }
      })
      await addAccounts(transaction, core, changes)
      if (next) await writeInFlight(transaction, core, sink, next)
      if (state) await writeState(transaction, core, { put: state })
    })
  }

  async arrival(sink: string, signal: AbortSignal) {
    const lastSeq = () => {
      this.#lease.assertHeld()
      return this.#core.transactions.lastSeq
    }
    await this.#arrivals.wait(sink, lastSeq, signal)
  }

  deadLetters(query: DeadLetterQuery) {
    return this.#read((queries) => deadLetters(queries, this.#core, query))
  }

  deadLetterRaw(id: number) {
    return this.#read((queries) => deadLetterRaw(queries, this.#core, id))
  }

  async retryDeadLetters(query: DeadLetterQuery) {
    const count = await this.#write((transaction) => retryDeadLetters(transaction, this.#core, query))
    if (count > 0) this.#arrivals.wake()
    return count
  }

  dropDeadLetters(query: DeadLetterQuery) {
    return this.#write((transaction) => dropDeadLetters(transaction, this.#core, query))
  }

  async replay(query: ReplayQuery) {
    const replayed = await replay(this.#core, query)
    if (!query.dryRun && replayed.entries > 0) this.#arrivals.wake()
    return replayed
  }

  async resend(again: Resend) {
    await this.#write((transaction) => resend(transaction, this.#core, again))
    if (again.entries.count > 0) this.#arrivals.wake()
  }

  quarantined(query: QuarantineQuery) {
    return this.#read((queries) => quarantined(queries, this.#core, query))
  }

  quarantinedRaw(id: number) {
    return this.#read((queries) => quarantinedRaw(queries, this.#core, id))
  }

  dropQuarantined(query: QuarantineQuery) {
    return this.#write((transaction) => dropQuarantined(transaction, this.#core, query))
  }

  counts(range: DayRange) {
    return this.#read((queries) => counts(queries, this.#core, range))
  }

  pending(sink: string, after: Seq | undefined) {
    return this.#read((queries) => {
      const { acknowledged } = this.#core.pending.sink(sink)
      return pendingOf(queries, this.#core, sink, acknowledged, after ?? acknowledged.position)
    })
  }

  storedDays(after: Seq | undefined) {
    return this.#read((queries) => storedDays(queries, this.#core, after ?? 0))
  }

  pressure() {
    const { pending, maxBytes } = this.#core
    return { bytes: pending.bytes, capacityBytes: maxBytes, full: pending.bytes >= maxBytes }
  }

  stats() {
    const { pending, totals, transactions } = this.#core
    return {
      ...this.pressure(),
      entries: transactions.lastSeq - pending.ackedTo,
      sinks: pending.positions(transactions.lastSeq),
      unconfigured: pending.unconfigured,
      ...totals.stats,
    }
  }

  /** A database cannot be moved away unnoticed. */
  async lost() {
    return undefined
  }

  prune() {
    return this.#pruning.step()
  }

  /** What was called before lands; then the shard is free for the next process. */
  async close() {
    await this.#core.transactions.end()
    await this.#lease.release()
  }

  get #read() {
    const { transactions } = this.#core
    return transactions.read.bind(transactions)
  }

  get #write() {
    const { transactions } = this.#core
    return transactions.write.bind(transactions)
  }
}
