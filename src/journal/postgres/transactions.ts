// The transactions of a shard, one after another, each fenced: only the holder of the lease can
// commit, and what memory mirrors is known to be what the database has.
import { orAborted } from '../../core/abort.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Seq } from '../../core/sequence.ts'
import { beginning, unavailable } from './connection.ts'
import type { Connection, Queries, Session } from './connection.ts'
import { TAKEN } from './lease.ts'
import type { Lease } from './lease.ts'

export interface TransactionsOptions {
  readonly connection: Connection
  readonly schema: string
  readonly lease: Lease
  /** the server ends a transaction that waits so long for us: a frozen holder blocks no successor */
  readonly idleMs: number
}

/** A writing transaction: its statements, and what memory does once it has landed. */
export interface Transaction extends Queries {
  /** of the next entry that this transaction stores */
  readonly nextSeq: Seq
  /** So many entries were stored from `nextSeq` on. */
  readonly stored: (entries: number) => void
  /** Memory is updated after the database, never before. */
  readonly afterCommit: (apply: () => void) => void
}

const LOST_TAIL =
  'the database has lost transactions that it had confirmed, as after a failover to a standby that lagged behind'
/** Between two looks at a database that does not answer, after a COMMIT of unknown outcome. */
const AGAIN_MS = 250

export class Transactions {
  /** the last entry's sequence number, 0 in an empty journal */
  lastSeq: Seq
  readonly #connection: Connection
  readonly #lease: Lease
  readonly #schema: string
  readonly #begin: string
  #commits: number

  constructor({ connection, schema, lease, idleMs }: TransactionsOptions) {
    this.#connection = connection
    this.#schema = schema
    this.#lease = lease
    this.#begin = beginning(idleMs)
    this.#commits = lease.row.commits
    this.lastSeq = lease.row.lastSeq
    lease.signal.addEventListener('abort', () => connection.drop(), { once: true })
  }

  /** In call order with all others. Each query sees what the transactions before it have stored. */
  read<T>(work: (queries: Queries) => Promise<T>): Promise<T> {
    return this.#connection.inTurn(() =>
      this.#judged(() =>
        work({ query: async (text, values) => (await this.#session()).query(text, values) }),
      ),
    )
  }

  /** Lands whole or not at all. Throws `store_unavailable` if nothing was stored, or `lease_lost`. */
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#connection.inTurn(() => this.#judged(() => this.#write(work)))
  }

  async end(): Promise<void> {
    await this.#connection.end()
  }

  async #write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const session = await this.#session()
    const applies: (() => void)[] = []
    let added = 0
    const firstSeq = this.lastSeq + 1
    const transaction: Transaction = {
      get nextSeq() {
        return firstSeq + added
      },
      stored: (entries) => void (added += entries),
      afterCommit: (apply) => void applies.push(apply),
      query: (text, values) => session.query(text, values),
    }
    let result: T
    try {
      await session.query(this.#begin)
      result = await work(transaction)
      await this.#fence(session, added)
    } catch (error) {
      await undo(session)
      throw error
    }
    await this.#commit(session)
    this.#commits++
    this.lastSeq += added
    for (const apply of applies) apply()
    return result
  }

  /**
   * The last statement before COMMIT: until then a successor can take the row. Its lock is held to
   * the end of the COMMIT, so that a takeover, or a look at the outcome, waits for that. A COMMIT
   * has no timeout.
   */
  async #fence(session: Session, added: number): Promise<void> {
    const { shard, holder, row } = this.#lease
    const [found] = await session.query<{ commits: number; lastSeq: number }>(
      `UPDATE ${this.#schema}.shards SET commits = commits + 1, last_seq = last_seq + $4
       WHERE id = $1 AND epoch = $2 AND holder = $3
       RETURNING commits, last_seq AS "lastSeq", set_config('statement_timeout', '0', true)`,
      [shard, row.epoch, holder, added],
    )
    if (found === undefined) throw this.#lease.lose(TAKEN)
    if (found.commits !== this.#commits + 1 || found.lastSeq !== this.lastSeq + added)
      throw this.#lease.lose(LOST_TAIL)
  }

  /** Returns once the transaction has landed. Whatever the COMMIT answers but success is looked up. */
  async #commit(session: Session): Promise<void> {
    try {
      if (await session.commit()) return
    } catch {
      // Unknown.
    }
    if (await this.#hasLanded()) return
    throw unavailable(this.#connection.where, 'the connection ended before a transaction was stored')
  }

  /** Asks until the database answers or the lease ends. */
  async #hasLanded(): Promise<boolean> {
    for (;;) {
      this.#lease.assertHeld()
      this.#connection.drop()
      try {
        let commits = NaN
        await this.#connection.session(async (session) => void (commits = await this.#commitsIn(session)))
        if (commits === this.#commits) return false
        if (commits === this.#commits + 1) return true
        throw this.#lease.lose(LOST_TAIL)
      } catch (error) {
        if (!(error instanceof ConnectorError) || error.code !== 'store_unavailable') throw error
        await this.#lease.pause(AGAIN_MS)
      }
    }
  }

  /** A new session is used only if the database is where memory believes it to be. */
  #session(): Promise<Session> {
    return this.#connection.session(async (session) => {
      if ((await this.#commitsIn(session)) !== this.#commits) throw this.#lease.lose(LOST_TAIL)
    })
  }

  /** Waits for the end of a transaction of ours that still runs on an earlier connection. */
  async #commitsIn(session: Session): Promise<number> {
    const { shard, holder, row } = this.#lease
    await session.query(this.#begin)
    const [found] = await session.query<{ holder: string | null; epoch: number; commits: number }>(
      `SELECT holder, epoch, commits FROM ${this.#schema}.shards WHERE id = $1 FOR UPDATE`,
      [shard],
    )
    await session.query('ROLLBACK')
    if (found?.holder !== holder || found.epoch !== row.epoch) throw this.#lease.lose(TAKEN)
    return found.commits
  }

  /**
   * Ends with the lease, whatever the work still waits for; and if the lease has ended, that is the
   * reason for whatever failed.
   */
  async #judged<T>(work: () => Promise<T>): Promise<T> {
    this.#lease.assertHeld()
    try {
      return await orAborted(work(), this.#lease.signal)
    } catch (error) {
      this.#lease.assertHeld()
      throw error
    }
  }
}

async function undo(session: Session): Promise<void> {
  if (!session.isOpen) return
  try {
    await session.query('ROLLBACK')
  } catch {
    session.close()
  }
}
