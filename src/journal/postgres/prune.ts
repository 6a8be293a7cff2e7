// Pruning: deletes delivered chunks and old dedup keys, oldest first, in bounded steps.
import { ConnectorError } from '../../core/errors.ts'
import { HOUR_MS } from '../../core/time.ts'
import { droppable, keyCutoffUs } from '../rules/pruning.ts'
import type { ChunkSize } from '../rules/pruning.ts'
import type { Core } from './core.ts'
import type { Transaction } from './transactions.ts'

/** Bounds of a step. */
const STEP_CHUNKS = 256
const STEP_KEYS = 20_000
/** A partition without keys that takes more than this is emptied. */
const EMPTY_BYTES = 128 * 1024
const EMPTY_EVERY_MS = HOUR_MS
const EMPTY_WAIT_MS = 100

export class Pruning {
  readonly #core: Core
  /** by stream, µs: no key before it is left, and deleted ones need not be looked at again */
  readonly #keysFrom = new Map<number, number>()
  #emptiedAt = -Infinity

  constructor(core: Core) {
    this.#core = core
  }

  /** True if more is left. */
  async step(): Promise<boolean> {
    const moreChunks = await this.#dropChunks()
    const moreKeys = await this.#dropKeys()
    if (!moreKeys) await this.#emptyPartitions()
    return moreChunks || moreKeys
  }

  async #dropChunks(): Promise<boolean> {
    const { shard, schema, pending, chunks, keepDeliveredBytes, transactions } = this.#core
    if (pending.storedBytes - pending.bytes <= keepDeliveredBytes) return false
    return transactions.write(async (transaction) => {
      const excess = pending.storedBytes - pending.bytes - keepDeliveredBytes
      const oldest = await transaction.query<ChunkSize>(
        `SELECT first, last, payload FROM ${schema}.chunks WHERE shard = $1 ORDER BY first LIMIT ${STEP_CHUNKS}`,
        [shard],
      )
      const dropped = droppable(oldest, pending.ackedTo, excess)
      const last = dropped.chunks.at(-1)
      if (last)
        await transaction.query(`DELETE FROM ${schema}.chunks WHERE shard = $1 AND first <= $2`, [
          shard,
          last.first,
        ])
      transaction.afterCommit(() => {
        for (const { first } of dropped.chunks) chunks.forget(first)
        pending.storedBytes -= dropped.bytes
      })
      return dropped.bytes > 0 && dropped.bytes < excess
    })
  }

  async #dropKeys(): Promise<boolean> {
    for (const { stream, from, cutoff } of await this.#oldKeys())
      if (await this.#dropKeysOf(stream, from, cutoff)) return true
    return false
  }

  /** What has come of age since the last step: usually nothing, and then nothing is written. */
  async #oldKeys(): Promise<
    readonly { readonly stream: number; readonly from: number; readonly cutoff: number }[]
  > {
    const { shard, schema, clock, keepKeysMs, transactions } = this.#core
    const lows = await transactions.read(({ query }) =>
      query<{
        stream: number
        newestUs: number | null
        lowUs: number | null
        lowBeforeUs: number | null
      }>(
        `SELECT id AS stream, max(newest_us) OVER () AS "newestUs", low_us AS "lowUs", low_before_us AS "lowBeforeUs"
         FROM ${schema}.streams WHERE shard = $1 ORDER BY id`,
        [shard],
      ),
    )
    return lows.flatMap(({ stream, ...low }) => {
      const cutoff = keyCutoffUs({ nowMs: clock.now(), keepKeysMs, ...low })
      if (cutoff === undefined) return []
      const from = this.#keysFrom.get(stream) ?? Number.MIN_SAFE_INTEGER
      // Older entries are being read, whose keys will have to go later.
      if (from > cutoff) this.#keysFrom.delete(stream)
      return from < cutoff ? [{ stream, from, cutoff }] : []
    })
  }

  /** One step; true if it was not the last. */
  #dropKeysOf(stream: number, from: number, cutoff: number): Promise<boolean> {
    const { shard, schema, transactions } = this.#core
    return transactions.write(async ({ query, afterCommit }) => {
      const [behind] = await query<{ at: number }>(
        `SELECT at FROM ${schema}.dedup_keys WHERE shard = $1 AND stream = $2 AND at >= $3 AND at < $4
         ORDER BY at OFFSET ${STEP_KEYS} LIMIT 1`,
        [shard, stream, from, cutoff],
      )
      // More than a step has keys of one instant only if the step is that instant.
      const to = behind === undefined ? cutoff : Math.max(behind.at, from + 1)
      await query(
        `DELETE FROM ${schema}.dedup_keys WHERE shard = $1 AND stream = $2 AND at >= $3 AND at < $4`,
        [shard, stream, from, to],
      )
      afterCommit(() => this.#keysFrom.set(stream, to))
      return to < cutoff
    })
  }

  /**
   * Partitions of the dedup keys that are empty give their space back at once, which deleting alone
   * does not. Skipped while one is in use.
   */
  async #emptyPartitions(): Promise<void> {
    const { schema, clock, transactions } = this.#core
    if (clock.now() < this.#emptiedAt + EMPTY_EVERY_MS) return
    this.#emptiedAt = clock.now()
    const parts = await transactions.read(({ query }) =>
      query<{ name: string }>(
        `SELECT inhrelid::regclass::text AS name FROM pg_inherits
         WHERE inhparent = $1::regclass AND pg_total_relation_size(inhrelid) > ${EMPTY_BYTES}`,
        [`${schema}.dedup_keys`],
      ),
    )
    for (const { name } of parts)
      await transactions.write((transaction) => emptyPartition(transaction, name)).catch(ignoreWaits)
  }
}

async function emptyPartition({ query }: Transaction, name: string): Promise<void> {
  const isEmpty = async () =>
    (await query<{ found: number }>(`SELECT 1 AS found FROM ${name} LIMIT 1`)).length === 0
  if (!(await isEmpty())) return
  await query(`SET LOCAL lock_timeout = ${EMPTY_WAIT_MS}`)
  await query(`LOCK TABLE ${name} IN ACCESS EXCLUSIVE MODE`)
  if (await isEmpty()) await query(`TRUNCATE ${name}`)
}

function ignoreWaits(error: unknown): void {
  if (!(error instanceof ConnectorError) || error.code !== 'store_unavailable') throw error
}
