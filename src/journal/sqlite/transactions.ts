// The one way to run a transaction: what it throws is made sense of, a full disk gets the ballast's room, and a failed one ends all.
import type { Database } from 'better-sqlite3'
import { ConnectorError, errnoOf } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import type { Ballast, LimitReached, Space } from './space.ts'
import { translate } from './database.ts'
import { diskFull } from './space.ts'

interface TransactionsOptions {
  readonly path: string
  readonly db: Database
  readonly ballast: Ballast
  readonly space: Space
  readonly log: Log
  readonly limitReached?: LimitReached | undefined
}

/** Runs all access to the file: maps faults, frees the ballast on a full disk, and refuses everything once the disk has failed. */
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
  #metFault = false

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

  /** True once an I/O error left open what the disk holds: pages may count as clean that never arrived. */
  get failed(): boolean {
    return this.#failed !== undefined
  }

  /** True once anything went wrong with the file, also what it went on after. At its own bound it only refuses. */
  get metFault(): boolean {
    return this.#metFault
  }

  /**
   * Lands whole or not at all. Work that gives room (all but taking in) is tried again on the ballast's room, and then on the
   * log's own: one that cannot grow on a full disk must not stop delivering and pruning. Throws as `judge` says.
   */
  write<T>(work: () => T): T {
    const onBallast = () =>
      this.#again(
        () => this.#once(work),
        (error) => this.#freeBallast(error),
      )
    return this.#again(onBallast, (error) => !this.#isAtBound(error) && this.#fold())
  }

  /** Taking in, up to `mostBytes`: never on the ballast's room, which belongs to giving out. Throws `disk_full` before it runs out. */
  writeNew<T>(work: () => T, mostBytes: number): T {
    if (!this.makeSpaceFor(mostBytes)) throw diskFull(this.#path, this.#space.lack)
    try {
      return this.#once(work)
    } catch (error) {
      if (isFull(error)) this.#freeBallast(error)
      throw error
    }
  }

  /**
   * Without room for the ballast, free pages of the file take in what comes, or a journal that once filled its volume would
   * pause for ever. Giving out loses nothing by it: the file does not grow, so the log can be folded again without a new
   * block and has its whole room then, and as many pages as the ballast stay free.
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

  /** Begins the running transaction again from its start. */
  restart(): void {
    this.#rollback.run()
    this.#begin.run()
  }

  #again<T>(work: () => T, makesRoom: (error: ConnectorError) => boolean): T {
    try {
      return work()
    } catch (error) {
      if (!isFull(error) || !makesRoom(error)) throw error
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
      // SQLite has rolled back by itself on most disk faults.
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
    if (!(judged instanceof ConnectorError && judged.code === 'journal_full')) this.#metFault = true
    if (judged instanceof ConnectorError && judged.code === 'disk_failed') this.#failed = judged
    return judged
  }

  get fileBytes(): Space['fileBytes'] {
    return this.#space.fileBytes
  }

  /**
   * SQLite says the same of its own bound: with room for all that the file may still grow by it was that one, and deleting
   * works there without. A quota shows in no free bytes, and what SQLite says of it is another thing.
   */
  #isAtBound({ cause }: ConnectorError): boolean {
    return errnoOf(cause) === 'SQLITE_FULL' && this.#ballast.hasSpace(this.fileBytes.left)
  }

  #freeBallast(error: ConnectorError): boolean {
    // How large a file may become has nothing to do with another one.
    if (this.#isAtBound(error) || errnoOf(error.cause) === 'EFBIG' || !this.#ballast.free()) return false
    this.#log.warn('The disk is full: the journal gave up its ballast file to go on delivering', {
      path: this.#path,
    })
    return true
  }

  /** False where what the log holds would make the file grow, and the disk has no room for that. */
  #fold(): boolean {
    try {
      this.#space.fold()
      return true
    } catch (error) {
      const judged = this.judge(error)
      if (isFull(judged)) return false
      throw judged
    }
  }
}

function isFull(error: unknown): error is ConnectorError {
  return error instanceof ConnectorError && error.code === 'disk_full'
}
