// What every part of the journal shares: the open file, its prepared rooms, and the one way to run a transaction.
import type { Database } from 'better-sqlite3'
import type { Clock } from '../model/clock.ts'
import { ConnectorError, errnoOf } from '../model/errors.ts'
import type { Log } from '../model/log.ts'
import type { Ballast } from './ballast.ts'
import { diskFull, translate } from './faults.ts'
import type { Deliveries } from './deliveries.ts'
import type { Keys } from './keys.ts'
import type { Ledger } from './ledger.ts'
import type { Origins } from './origins.ts'
import type { Quarantine } from './quarantine.ts'
import type { QuotaReached } from './quota.ts'
import type { Shelf } from './shelf.ts'

export interface Core {
  readonly path: string
  readonly db: Database
  readonly clock: Clock
  readonly maxBytes: number
  readonly keepKeysMs: number
  readonly keepSettledBytes: number
  readonly origins: Origins
  readonly keys: Keys
  readonly shelf: Shelf
  readonly ledger: Ledger
  readonly deliveries: Deliveries
  readonly quarantine: Quarantine
  readonly transactions: Transactions
}

interface TransactionsOptions {
  readonly path: string
  readonly db: Database
  readonly ballast: Ballast
  readonly log: Log
  readonly quotaReached?: QuotaReached | undefined
}

/** Runs all access to the file: maps faults, frees the ballast on a full disk, and refuses everything once the disk has failed. */
export class Transactions {
  readonly #path: string
  readonly #db: Database
  readonly #ballast: Ballast
  readonly #log: Log
  readonly #quotaReached: QuotaReached | undefined
  readonly #begin
  readonly #commit
  readonly #rollback
  #failed: unknown
  #metFault = false

  constructor({ path, db, ballast, log, quotaReached }: TransactionsOptions) {
    this.#path = path
    this.#db = db
    this.#ballast = ballast
    this.#log = log
    this.#quotaReached = quotaReached
    this.#begin = db.prepare('BEGIN IMMEDIATE')
    this.#commit = db.prepare('COMMIT')
    this.#rollback = db.prepare('ROLLBACK')
  }

  /** True once an I/O error left open what the disk holds: pages may count as clean that never arrived. */
  get failed(): boolean {
    return this.#failed !== undefined
  }

  /** True once anything went wrong with the file, also what it went on after. At its own bound it only refuses. */
  get metFault(): boolean {
    return this.#metFault
  }

  /** Lands whole or not at all. Work that gives room (all but taking in) gets a second try on the ballast's room. */
  write<T>(work: () => T): T {
    try {
      return this.#once(work)
    } catch (error) {
      if (!isFull(error) || !this.#freeBallast(error)) throw error
      return this.#once(work)
    }
  }

  /** Taking in: never on the ballast's room, which belongs to giving out. */
  writeNew<T>(work: () => T): T {
    if (!this.#ballast.ensure()) throw diskFull(this.#path, 'the disk is too full to take in more')
    try {
      return this.#once(work)
    } catch (error) {
      if (isFull(error)) this.#freeBallast(error)
      throw error
    }
  }

  read<T>(work: () => T): T {
    this.#assertUsable()
    try {
      return work()
    } catch (error) {
      throw this.judge(error)
    }
  }

  /** Begins the running transaction again from its start. */
  restart(): void {
    this.#rollback.run()
    this.#begin.run()
  }

  #once<T>(work: () => T): T {
    this.#assertUsable()
    try {
      this.#begin.run()
      const result = work()
      this.#commit.run()
      return result
    } catch (error) {
      const judged = this.judge(error)
      // SQLite has rolled back by itself on most disk faults.
      if (this.#db.open && this.#db.inTransaction) this.#undo()
      throw judged
    }
  }

  #undo(): void {
    try {
      this.#rollback.run()
    } catch (error) {
      this.#failed ??= translate(error, this.#path)
    }
  }

  #assertUsable(): void {
    if (this.#failed !== undefined) throw this.#failed as Error
  }

  /** As `translate`; after an I/O error everything is refused. */
  judge(error: unknown): unknown {
    const judged = translate(error, this.#path, this.#quotaReached)
    if (!(judged instanceof ConnectorError && judged.code === 'journal_full')) this.#metFault = true
    if (judged instanceof ConnectorError && judged.code === 'disk_failed') this.#failed = judged
    return judged
  }

  /** The file's own bound, and how far it may grow until there. */
  get fileBytes(): { readonly bound: number; readonly left: number } {
    const number = (name: string) => this.#db.pragma(name, { simple: true }) as number
    const pageBytes = number('page_size')
    const bound = number('max_page_count')
    return { bound: bound * pageBytes, left: (bound - number('page_count')) * pageBytes }
  }

  #freeBallast({ cause }: ConnectorError): boolean {
    // SQLite says the same of its own bound: with room for all that the file may still grow by it was that one, and deleting
    // works there without. A quota shows in no free bytes, and what SQLite says of it is another thing.
    const bound = errnoOf(cause) === 'SQLITE_FULL' && this.#ballast.hasRoom(this.fileBytes.left)
    if (bound || !this.#ballast.free()) return false
    this.#log.warn('The disk is full: the journal gave up its ballast file to go on delivering', {
      path: this.#path,
    })
    return true
  }
}

function isFull(error: unknown): error is ConnectorError {
  return error instanceof ConnectorError && error.code === 'disk_full'
}
