// The journal in SQLite: everything that must survive, in one file of one process. Synchronous inside, promises outside. `open.ts` opens it.
import type { Database } from 'better-sqlite3'
import type { DayRange, OwedStep } from '../model/balance.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Batch, Intent, Journal, NoteChange, Seq, Settlement } from '../model/journal.ts'
import type { ReplayQuery, Resend } from '../model/replay.ts'
import type { DeadLetterQuery, FindingRecord, QuarantineQuery } from '../model/set-aside.ts'
import type { Origin } from '../model/source.ts'
import { append, prepareAppend } from './append.ts'
import { Arrivals } from './arrivals.ts'
import type { Core } from './core.ts'
import { corrupt, translate } from './faults.ts'
import * as letters from './letters.ts'
import { listNotes, prepareNotes, writeNotes } from './notes.ts'
import { preparePrune, prune } from './prune.ts'
import { prepareReplay, replay, resend } from './replay.ts'
import * as quarantine from './quarantine.ts'

/** So many are told with the totals; all of them stay. */
const LAST_FINDINGS = 10

interface Totals {
  quarantined: number
  gaps: number
  findings: number
}

function prepare(db: Database) {
  return {
    append: prepareAppend(db),
    letters: letters.prepareLetters(db),
    quarantine: quarantine.prepareQuarantine(db),
    prune: preparePrune(db),
    replay: prepareReplay(db),
    cursor: db.prepare<[number], string | null>('SELECT cursor FROM sources WHERE id = ?').pluck(),
    findings: db.prepare<
      [number],
      { source: number; kind: 'foreign_fetch'; entry_id: Buffer; at: number | null; found_at: number }
    >('SELECT source, kind, entry_id, at, found_at FROM findings ORDER BY id DESC LIMIT ?'),
    notes: prepareNotes(db),
    totals: db.prepare<[], Totals>(
      `SELECT (SELECT count(*) FROM quarantine) AS quarantined, (SELECT total(gaps) FROM sources) AS gaps,
       (SELECT count(*) FROM findings) AS findings`,
    ),
  }
}

export class SqliteJournal implements Journal {
  readonly #core: Core
  readonly #statements: ReturnType<typeof prepare>
  readonly #arrivals: Arrivals
  readonly #totals: Totals
  #lastFindings: readonly FindingRecord[]
  #closed = false

  constructor(core: Core) {
    this.#core = core
    this.#statements = prepare(core.db)
    this.#arrivals = new Arrivals(core.ledger.positions().map(({ sink, position }) => [sink, position]))
    this.#totals = { quarantined: 0, gaps: 0, findings: 0, ...this.#statements.totals.get() }
    this.#lastFindings = this.#findings(LAST_FINDINGS)
  }

  async cursor(origin: Origin) {
    const { origins, transactions } = this.#core
    const id = origins.find(origin)
    return id === undefined
      ? undefined
      : (transactions.read(() => this.#statements.cursor.get(id)) ?? undefined)
  }

  async append(part: Parameters<Journal['append']>[0]) {
    const appended = append(this.#core, this.#statements.append, part)
    this.#totals.quarantined += appended.quarantined
    this.#totals.findings += appended.findings
    this.#totals.gaps += part.gaps
    if (appended.findings > 0) this.#lastFindings = this.#findings(LAST_FINDINGS)
    if (appended.added + appended.late > 0) this.#arrivals.wake()
    return appended
  }

  async known(...[origin, entries]: Parameters<Journal['known']>) {
    const { keys, origins, transactions } = this.#core
    const id = origins.find(origin)
    return id === undefined
      ? new Uint8Array(entries.count)
      : transactions.read(() => keys.known(id, origin.source, entries))
  }

  async take(...[sink, limits, after, busy]: Parameters<Journal['take']>) {
    const { ledger, shelf, transactions } = this.#core
    const { first, last } = ledger.next(sink, after, busy)
    return transactions.read(() => shelf.slice(first, last, limits))
  }

  async range(first: number, last: number): Promise<Batch> {
    const { path, shelf, transactions } = this.#core
    const batch = transactions.read(() =>
      shelf.slice(first, last, { maxEntries: Infinity, maxBytes: Infinity }),
    )
    if (batch?.last !== last) throw corrupt(path, `entries ${first} to ${last} are not all in it`)
    return batch
  }

  async intents(sink: string) {
    const { ledger, transactions } = this.#core
    return transactions.read(() => ledger.intents(sink))
  }

  async intend(sink: string, intent: Intent) {
    const { ledger, transactions } = this.#core
    transactions.write(() => ledger.writeIntent(sink, intent))
  }

  async settle(sink: string, { first, through, parked, tally, next, notes }: Settlement) {
    const { deliveries, ledger, shelf, transactions } = this.#core
    if (parked.some(({ seq }) => seq < first || seq > through))
      throw new Error(`Sink ${sink} parked an entry outside of what it settled`)
    let copied = 0
    const progress = transactions.write(() => {
      copied = 0
      for (const each of parked) if (letters.park(this.#core, this.#statements.letters, sink, each)) copied++
      const settled = ledger.writeSettled(sink, { first, last: through })
      if (tally) deliveries.add(sink, tally)
      if (next) ledger.writeIntent(sink, next)
      if (notes) writeNotes(this.#statements.notes, { put: notes })
      return settled
    })
    ledger.applySettled(sink, progress, copied)
    shelf.release(ledger.settledTo)
  }

  async arrival(sink: string, signal: AbortSignal) {
    await this.#arrivals.wait(sink, () => this.#core.ledger.lastSeq, signal)
  }

  async deadLetters(query: DeadLetterQuery) {
    return this.#core.transactions.read(() => letters.list(this.#core, this.#statements.letters, query))
  }

  async deadLetterRaw(id: number) {
    return this.#core.transactions.read(() => this.#statements.letters.raw.get(id))
  }

  async retryDeadLetters(query: DeadLetterQuery) {
    const count = letters.retry(this.#core, this.#statements.letters, query)
    if (count > 0) this.#arrivals.wake()
    return count
  }

  async dropDeadLetters(query: DeadLetterQuery) {
    return letters.drop(this.#core, this.#statements.letters, query)
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
    return this.#core.transactions.read(() => quarantine.list(this.#core, this.#statements.quarantine, query))
  }

  async quarantinedRaw(id: number) {
    return this.#core.transactions.read(() => this.#statements.quarantine.raw.get(id))
  }

  async findings(limit: number) {
    return this.#findings(limit)
  }

  #findings(limit: number): readonly FindingRecord[] {
    const { origins, transactions } = this.#core
    return transactions.read(() =>
      this.#statements.findings.all(limit).map(({ source, kind, entry_id, at, found_at }) => ({
        origin: origins.origin(source),
        kind,
        entryId: entry_id.toString(),
        entryUs: at ?? undefined,
        foundAt: found_at,
      })),
    )
  }

  async counts(range: DayRange) {
    const { deliveries, transactions } = this.#core
    return transactions.read(() => ({ kept: deliveries.kept(range), delivered: deliveries.delivered(range) }))
  }

  async owed(sink: string, after: Seq | undefined) {
    const { deliveries, ledger, transactions } = this.#core
    const progress = ledger.progress(sink)
    return this.#named(transactions.read(() => deliveries.owed(sink, progress, after ?? progress.position)))
  }

  async shelved(after: Seq | undefined) {
    const { deliveries, transactions } = this.#core
    return this.#named(transactions.read(() => deliveries.shelved(after ?? 0)))
  }

  #named(step: ReturnType<Core['deliveries']['owed']>): OwedStep {
    const { origins } = this.#core
    const rows = step.rows.map(({ source, ...rest }) => ({ origin: origins.origin(source), ...rest }))
    return { ...step, rows }
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
      entries: ledger.lastSeq - ledger.settledTo,
      bytes: ledger.owedBytes,
      capacityBytes: maxBytes,
      full: ledger.owedBytes >= maxBytes,
      sinks: transactions.read(() => ledger.positions()),
      strangers: ledger.strangers,
      ...this.#totals,
      lastFindings: this.#lastFindings,
    }
  }

  async prune() {
    return prune(this.#core, this.#statements.prune)
  }

  /** After an I/O error nothing is written any more: what the disk holds is for the next start to find out. */
  async close() {
    if (this.#closed) return
    this.#closed = true
    const { db, path, transactions } = this.#core
    if (transactions.failed) return
    try {
      db.pragma('wal_checkpoint(TRUNCATE)')
    } catch (error) {
      const judged = translate(error, path)
      // On a full disk all stays in the log beside the file, where the next start finds it.
      if (!(judged instanceof ConnectorError && judged.code === 'disk_full')) throw judged
    } finally {
      db.close()
    }
  }
}
