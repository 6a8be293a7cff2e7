// The only way to run a transaction: maps its errors, frees the ballast on a full disk, and ends
// everything after a disk failure.
import type { Database } from 'better-sqlite3'
import { ConnectorError, errnoOf } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { translate } from './database.ts'
import { diskFull } from './space.ts'
import type { Ballast, LimitReached, Space } from './space.ts'

interface TransactionsOptions {
  readonly path: string
  readonly db: Database
  readonly ballast: Ballast
  readonly space: Space
  readonly log: Log
  readonly limitReached?: LimitReached | undefined
}

export class Transactions {
  readonly #path: string
  readonly #db: Database
  readonly #ballast: Ballast
  readonly #space: Space
  readonly #log: Log
  readonly #limitReached: LimitReached | undefined
  readonly #begin
  readonly #commit
  readonly #rollback
  #failed: unknown
  /** true once the file had any error, even if work continued; reaching its own bound is none */
  metFault = false

  constructor({ path, db, ballast, space, log, limitReached }: TransactionsOptions) {
    this.#path = path
    this.#db = db
    this.#ballast = ballast
    this.#space = space
    this.#log = log
    this.#limitReached = limitReached
    this.#begin = db.prepare('BEGIN IMMEDIATE')
    this.#commit = db.prepare('COMMIT')
    this.#rollback = db.prepare('ROLLBACK')
  }

  /** True after an I/O error: pages may count as clean that were never written. */
  get failed(): boolean {
    return this.#failed !== undefined
  }

  /**
   * Lands whole or not at all. Work that frees space (all except append) is retried with the
   * ballast's space, and then with the log's own: a log that cannot grow on a full disk must not
   * stop delivery and pruning. Throws as described at `judge`.
   */
  write<T>(work: () => T): T {
    const onBallast = () =>
      this.#again(
        () => this.#once(work),
        (error) => this.#freeBallast(error),
      )
    return this.#again(onBallast, (error) => !this.#isAtBound(error) && this.#fold())
  }

  /**
   * Append, up to `mostBytes`: never uses the ballast's space, which is reserved for delivery.
   * Throws `disk_full` before space runs out.
   */
  writeNew<T>(work: () => T, mostBytes: number): T {
    if (!this.makeSpaceFor(mostBytes)) throw diskFull(this.#path, this.#space.lack)
    try {
      return this.#once(work)
    } catch (error) {
      if (isDiskFull(error)) this.#freeBallast(error)
      throw error
    }
  }

  /**
   * Without space for the ballast, new entries go to free pages of the file, or a journal that once
   * filled its volume would pause for ever. Delivery is not affected: the file does not grow, so a
   * checkpoint needs no new block, the log has all of its space then, and as many pages as the
   * ballast stay free.
   */
  makeSpaceFor(mostBytes: number): boolean {
    return this.read(() => {
      if (this.#ballast.present) return true
      const inside = this.#space.hasPagesFor(mostBytes) && this.#fold() && this.#space.hasLogFor(mostBytes)
      return this.#ballast.ensure(inside) || inside
    })
  }

  read<T>(work: () => T): T {
    this.#assertUsable()
    try {
      return work()
    } catch (error) {
      throw this.judge(error)
    }
  }

  /** Restarts the running transaction. */
  restart(): void {
    this.#rollback.run()
    this.#begin.run()
  }

  #again<T>(work: () => T, makesRoom: (error: ConnectorError) => boolean): T {
    try {
      return work()
    } catch (error) {
      if (!isDiskFull(error) || !makesRoom(error)) throw error
      return work()
    }
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
      // SQLite has already rolled back on most disk errors.
      if (this.#db.inTransaction) this.#undo()
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
    const judged = translate(error, this.#path, this.#limitReached)
    if (!(judged instanceof ConnectorError && judged.code === 'journal_full')) this.metFault = true
    if (judged instanceof ConnectorError && judged.code === 'disk_failed') this.#failed = judged
    return judged
  }

  get fileBytes(): Space['fileBytes'] {
    return this.#space.fileBytes
  }

  /**
   * SQLite reports its own bound the same way: if the disk has space for all that the file may
   * still grow, it was the bound, and deleting works there without the ballast. A quota does not
   * show in free bytes, and SQLite reports it differently.
   */
  #isAtBound({ cause }: ConnectorError): boolean {
    return errnoOf(cause) === 'SQLITE_FULL' && this.#ballast.hasSpace(this.fileBytes.left)
  }

  #freeBallast(error: ConnectorError): boolean {
    // The maximum size of a file is independent of other files.
    if (this.#isAtBound(error) || errnoOf(error.cause) === 'EFBIG' || !this.#ballast.free()) return false
    this.#log.warn(
      'The disk is full: the journal removed its reserve (ballast file), so that delivery continues. Free space on this disk',
      { path: this.#path },
    )
    return true
  }

  /** False if a checkpoint of the log would grow the file, and the disk has no space for that. */
  #fold(): boolean {
    try {
      this.#space.fold()
      return true
    } catch (error) {
      const judged = this.judge(error)
      if (isDiskFull(judged)) return false
      throw judged
    }
  }
}

function isDiskFull(error: unknown): error is ConnectorError {
  return error instanceof ConnectorError && error.code === 'disk_full'
}
