// The lease of a shard: who may write to it. The database's clock alone decides when it ends. The
// holder trusts itself for a little less than that, by its own monotonic clock.
import { within } from '../../core/clock.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { beginning } from './connection.ts'
import type { Connection, Session } from './connection.ts'

export interface LeaseOptions {
  /** for the leases of all shards of this process: a long transaction of a shard delays no renewal */
  readonly connection: Connection
  readonly schema: string
  /** names this process, and no other one before or after it */
  readonly holder: string
  /** within it a shard of a process that died is free again */
  readonly termMs: number
  /** of the processes' time, not the entries' */
  readonly clock: Clock
  readonly log: Log
}

/** What the row said when the lease began. */
export interface LeaseRow {
  readonly epoch: number
  readonly incarnation: string
  readonly commits: number
  readonly lastSeq: number
}

export const TAKEN = 'another process has taken it over'

/**
 * Undefined: another process holds the shard. The epoch grows with each acquisition, also of one
 * that was released, so that no earlier holder of any kind can write.
 */
export async function acquireLease(
  options: LeaseOptions,
  shard: number,
  incarnation: string,
): Promise<Lease | undefined> {
  const { clock, holder, schema, termMs } = options
  const beganAt = clock.elapsed()
  const [row] = await change<LeaseRow>(
    options,
    `INSERT INTO ${schema}.shards AS shard (id, holder, epoch, expires_at, held_since, incarnation)
     VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 millisecond', clock_timestamp(), $4)
     ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, epoch = shard.epoch + 1,
       expires_at = excluded.expires_at, held_since = excluded.held_since, incarnation = excluded.incarnation,
       takeovers = shard.takeovers + CASE WHEN shard.holder IS NULL THEN 0 ELSE 1 END
     WHERE shard.holder IS NULL OR shard.expires_at <= clock_timestamp()
     RETURNING epoch, incarnation, commits, last_seq AS "lastSeq"`,
    [shard, holder, termMs, incarnation],
  )
  return row && new Lease(options, shard, row, beganAt)
}

export class Lease {
  readonly row: LeaseRow
  readonly shard: number
  readonly #options: LeaseOptions
  readonly #ended = new AbortController()
  #trustedUntil: number
  #lost: ConnectorError | undefined

  constructor(options: LeaseOptions, shard: number, row: LeaseRow, beganAt: number) {
    this.#options = options
    this.shard = shard
    this.row = row
    this.#trustedUntil = this.#trustFrom(beganAt)
    void this.#keep()
  }

  get holder(): string {
    return this.#options.holder
  }

  /** Aborted when the lease is lost or released; the reason is the error of later calls. */
  get signal(): AbortSignal {
    return this.#ended.signal
  }

  /** Throws ConnectorError `lease_lost`, without asking the database. */
  assertHeld(): void {
    if (!this.signal.aborted && this.#options.clock.elapsed() >= this.#trustedUntil) this.lose(LATE)
    if (this.#lost) throw this.#lost
  }

  /** The journal of this lease is stale from now on. Returns the error for its callers. */
  lose(why: string): ConnectorError {
    if (this.#lost === undefined)
      this.#options.log.warn('The lease of a shard is lost: this process stops working on it', {
        ...{ shard: this.shard, why },
      })
    return this.#end(why)
  }

  /** Frees the shard for the next process at once; the epoch stays. */
  async release(): Promise<void> {
    if (this.signal.aborted) return
    this.#end('it was released')
    const { clock, log, holder, schema, termMs } = this.#options
    const released = change(
      this.#options,
      `UPDATE ${schema}.shards SET holder = NULL WHERE id = $1 AND epoch = $2 AND holder = $3`,
      [this.shard, this.row.epoch, holder],
    )
    try {
      if ((await within(termMs / 2, clock, released)) !== undefined) return
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
    }
    log.warn('The lease of a shard could not be released, and ends in its own time', { shard: this.shard })
  }

  #end(why: string): ConnectorError {
    this.#lost ??= new ConnectorError(
      'lease_lost',
      `This process no longer holds shard ${this.shard}: ${why}`,
    )
    this.#ended.abort(this.#lost)
    return this.#lost
  }

  /** Ends early with the lease. */
  pause(ms: number): Promise<void> {
    return this.#options.clock.sleep(ms, this.signal)
  }

  #trustFrom(beganAt: number): number {
    const { termMs } = this.#options
    return beganAt + termMs - termMs / 10
  }

  async #keep(): Promise<void> {
    const { clock, connection, termMs } = this.#options
    let waitMs = termMs / 3
    for (;;) {
      await clock.sleep(Math.min(waitMs, this.#trustedUntil - clock.elapsed()), this.signal)
      if (this.signal.aborted) return
      const beganAt = clock.elapsed()
      const leftMs = this.#trustedUntil - beganAt
      if (leftMs <= 0) return void this.lose(LATE)
      const renewed = await within(leftMs, clock, this.#renewed())
      if (renewed === undefined) connection.drop()
      if (renewed === false) return void this.lose(TAKEN)
      if (renewed === true) this.#trustedUntil = this.#trustFrom(beganAt)
      waitMs = renewed === true ? termMs / 3 : termMs / 10
    }
  }

  /** False: another process has the shard, or may have had it. */
  async #renewed(): Promise<boolean | 'failed'> {
    const { holder, schema, termMs } = this.#options
    try {
      const rows = await change(
        this.#options,
        `UPDATE ${schema}.shards SET expires_at = clock_timestamp() + $4 * interval '1 millisecond'
         WHERE id = $1 AND epoch = $2 AND holder = $3 AND expires_at > clock_timestamp() RETURNING id`,
        [this.shard, this.row.epoch, holder, termMs],
      )
      return rows.length > 0
    } catch {
      // Retried until the lease ends, which is reported.
      return 'failed'
    }
  }
}

const LATE = 'the database did not answer in time to renew the lease'

/** The row is locked while a transaction of the shard commits: then the change is tried again. */
function change<Row>(
  { connection, termMs }: LeaseOptions,
  text: string,
  values: readonly unknown[],
): Promise<Row[]> {
  return connection.use(async (session) => {
    try {
      await session.query(beginning(termMs / 10))
      const rows = await session.query<Row>(text, values)
      await commit(session)
      return rows
    } catch (error) {
      session.close()
      throw error
    }
  })
}

async function commit(session: Session): Promise<void> {
  if (!(await session.commit())) throw new ConnectorError('store_unavailable', 'The lease was not written')
}
