// What the replicas of one schema share beside the journals: which live, which holds a shard, the
// shard of each workspace, the reports of the shards, and questions for a shard of another replica.
import { within } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { newAssignments } from './assignment.ts'
import type { ShardsByWorkspace } from './assignment.ts'
import { Connection, beginning, unavailable } from './connection.ts'
import type { PostgresSettings, Session } from './connection.ts'
import type { LeaseOptions } from './lease.ts'
import { assertPlainName, assertSchema } from './schema.ts'

export interface ReplicasOptions extends Omit<LeaseOptions, 'connection' | 'log'> {
  readonly settings: PostgresSettings
}

interface ShardRow {
  readonly shard: number
  /** undefined: it is free */
  readonly holder: string | undefined
  /** free, because the lease of its last holder ended without being released */
  readonly lapsed: boolean
  readonly epoch: number
  /** epoch ms, by the clock of the database: start of the last lease */
  readonly since: number
  readonly takeovers: number
}

export interface ReplicaView {
  readonly live: readonly string[]
  /** each shard that was ever held */
  readonly shards: readonly ShardRow[]
}

export interface ShardReport {
  readonly shard: number
  readonly ageMs: number
  readonly report: string
}

export interface Question {
  /** such as `POST /dead-letters` */
  readonly question: string
  /** JSON */
  readonly body: string
}

/** As over HTTP. */
export interface ShardAnswer {
  readonly status: number
  readonly bytes: Uint8Array
}

/** Rows of replicas, and of questions, are deleted after this time. */
const KEEP_MS = 3_600_000
/** A holder does not begin to answer later: the asker has given up then. */
const ANSWERABLE_MS = 20_000
/** The asker waits this long: less than a command waits for the replica that it reached. */
const WAIT_MS = 25_000
const POLL_MS = 250
/** Longer than that, and not longer than a lease, no statement here waits for the database. */
const ANSWER_MS = 10_000

export class Replicas {
  readonly #options: ReplicasOptions
  readonly #connection: Connection
  readonly #left = new AbortController()

  /** Throws ConnectorError `config_invalid`. Connects to nothing. */
  constructor(options: ReplicasOptions) {
    assertPlainName(options.schema, 'schema')
    this.#options = options
    this.#connection = new Connection(options.settings)
  }

  get holder(): string {
    return this.#options.holder
  }

  /**
   * Reports that this replica lives, until it leaves; not while `isWell` says no. Errors are
   * retried: `view` reports them.
   */
  async live(isWell: () => boolean = () => true): Promise<void> {
    const { clock, holder, schema, termMs } = this.#options
    const { signal } = this.#left
    while (!signal.aborted) {
      await this.#use(async (session) => {
        if (!isWell()) return
        await session.query(
          `INSERT INTO ${schema}.replicas VALUES ($1, clock_timestamp())
           ON CONFLICT (holder) DO UPDATE SET seen_at = excluded.seen_at`,
          [holder],
        )
        await this.#tidy(session)
      }).catch(ignoreKnown)
      await clock.sleep(termMs / 3, signal)
    }
  }

  /** Call before the shards are released: the others then take them without waiting for this one. */
  async leave(): Promise<void> {
    this.#left.abort()
    const { holder, schema } = this.#options
    await this.#query(`DELETE FROM ${schema}.replicas WHERE holder = $1`, [holder]).catch(ignoreKnown)
  }

  async close(): Promise<void> {
    this.#left.abort()
    this.#connection.drop()
    await this.#connection.end()
  }

  /**
   * The shard of each workspace, also of one that left the configuration; those that have none get
   * one. `groups`: names of workspaces, those with the same key together. Throws ConnectorError `config_invalid` if workspaces with the same
   * key are in two shards, or the schema is of another version.
   */
  async assign(groups: readonly (readonly string[])[], shards: number): Promise<ShardsByWorkspace> {
    const { schema, termMs } = this.#options
    return this.#use(async (session) => {
      await assertSchema(session, schema)
      // A replica that is frozen here must not keep the others from starting.
      await session.query(beginning(termMs / 2))
      try {
        // Of two replicas that start, the second sees what the first has assigned.
        await session.query(`LOCK TABLE ${schema}.assignments IN SHARE ROW EXCLUSIVE MODE`)
        const rows = await session.query<{ workspace: string; shard: number }>(
          `SELECT workspace, shard FROM ${schema}.assignments`,
        )
        const assigned = new Map(rows.map(({ workspace, shard }) => [workspace, shard]))
        const added = newAssignments(groups, assigned, shards)
        if (added.size > 0)
          await session.query(
            `INSERT INTO ${schema}.assignments SELECT * FROM unnest($1::text[], $2::integer[])`,
            [[...added.keys()], [...added.values()]],
          )
        await session.query('COMMIT')
        return new Map([...assigned, ...added])
      } catch (error) {
        if (session.isOpen) await session.query('ROLLBACK')
        throw error
      }
    })
  }

  /** The instance ids of all shards: each names its own requests in the audit log of a workspace. */
  async instances(): Promise<readonly string[]> {
    const { schema } = this.#options
    const rows = await this.#query<{ value: string }>(
      `SELECT DISTINCT value FROM ${schema}.state WHERE name = 'instance' ORDER BY value`,
    )
    return rows.map(({ value }) => value)
  }

  async view(): Promise<ReplicaView> {
    const { schema, termMs } = this.#options
    return this.#use(async (session) => {
      const live = await session.query<{ holder: string }>(
        `SELECT holder FROM ${schema}.replicas WHERE seen_at > clock_timestamp() - $1 * interval '1 millisecond'`,
        [termMs],
      )
      const rows = await session.query<Omit<ShardRow, 'holder'> & { holder: string | null }>(
        `SELECT id AS shard, CASE WHEN expires_at > clock_timestamp() THEN holder END AS holder,
           holder IS NOT NULL AND expires_at <= clock_timestamp() AS lapsed, epoch,
           (extract(epoch FROM held_since) * 1000)::bigint AS since, takeovers
         FROM ${schema}.shards`,
      )
      const shards = rows.map((row) => ({ ...row, holder: row.holder ?? undefined }))
      return { live: live.map(({ holder }) => holder), shards }
    })
  }

  /** Only of a shard that this replica holds: the report of its successor stays. */
  async report(shard: number, report: string): Promise<void> {
    const { holder, schema } = this.#options
    await this.#query(
      `INSERT INTO ${schema}.shard_reports
         SELECT id, holder, epoch, clock_timestamp(), $3 FROM ${schema}.shards WHERE id = $1 AND holder = $2
         ON CONFLICT (shard) DO UPDATE
           SET holder = excluded.holder, epoch = excluded.epoch, at = excluded.at, report = excluded.report`,
      [shard, holder, report],
    )
  }

  reports(shards: readonly number[]): Promise<readonly ShardReport[]> {
    const { schema } = this.#options
    return this.#query<ShardReport>(
      `SELECT shard, (extract(epoch FROM clock_timestamp() - at) * 1000)::bigint AS "ageMs", report
         FROM ${schema}.shard_reports WHERE shard = ANY ($1::integer[])`,
      [shards],
    )
  }

  /** The answer of the replica that holds the shard. Throws ConnectorError `unreachable` without one. */
  async ask(shard: number, { question, body }: Question): Promise<ShardAnswer> {
    const { clock, schema } = this.#options
    const [row] = await this.#query<{ id: number }>(
      `INSERT INTO ${schema}.requests (shard, question, body, asked_at)
         VALUES ($1, $2, $3, clock_timestamp()) RETURNING id`,
      [shard, question, body],
    )
    const giveUpAt = clock.elapsed() + WAIT_MS
    while (clock.elapsed() < giveUpAt) {
      await clock.sleep(POLL_MS)
      const [answer] = await this.#query<ShardAnswer>(
        `DELETE FROM ${schema}.requests WHERE id = $1 AND status IS NOT NULL RETURNING status, answer AS bytes`,
        [row?.id],
      )
      if (answer) return answer
    }
    const holder = (await this.view()).shards.find((each) => each.shard === shard)?.holder
    throw new ConnectorError(
      'unreachable',
      holder === undefined
        ? `No replica holds shard ${shard} now: try again in a moment`
        : `Replica ${holder} holds shard ${shard} and did not answer within ${WAIT_MS / 1000} s: try again, or look at its log`,
    )
  }

  /** Takes the open questions for these shards, which the caller answers. */
  questions(shards: readonly number[]): Promise<readonly (Question & { id: number; shard: number })[]> {
    const { holder, schema } = this.#options
    return this.#query<Question & { id: number; shard: number }>(
      `UPDATE ${schema}.requests SET taken_by = $1
         WHERE taken_by IS NULL AND shard = ANY ($2::integer[])
           AND asked_at > clock_timestamp() - $3 * interval '1 millisecond'
         RETURNING id, shard, question, body`,
      [holder, shards, ANSWERABLE_MS],
    )
  }

  async answer(id: number, { status, bytes }: ShardAnswer): Promise<void> {
    const { schema } = this.#options
    await this.#query(`UPDATE ${schema}.requests SET status = $2, answer = $3 WHERE id = $1`, [
      ...[id, status, Buffer.from(bytes)],
    ])
  }

  async #tidy(session: Session): Promise<void> {
    const { schema } = this.#options
    const old = `clock_timestamp() - ${KEEP_MS} * interval '1 millisecond'`
    await session.query(`DELETE FROM ${schema}.replicas WHERE seen_at < ${old}`)
    await session.query(`DELETE FROM ${schema}.requests WHERE asked_at < ${old}`)
  }

  #query<Row>(text: string, values?: readonly unknown[]): Promise<Row[]> {
    return this.#use((session) => session.query<Row>(text, values))
  }

  async #use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const { clock, termMs } = this.#options
    const done = await within(
      Math.min(termMs, ANSWER_MS),
      clock,
      this.#connection.use(work).then((value) => ({ value })),
    )
    if (done) return done.value
    this.#connection.drop()
    throw unavailable(this.#connection.where, 'it did not answer in time')
  }
}

function ignoreKnown(error: unknown): void {
  if (!(error instanceof ConnectorError)) throw error
}
