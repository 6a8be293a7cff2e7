// State entries of other modules, by name: stored beside the entries so that they land in the same
// transaction.
import type { ConfiguredWorkspace, StateChange, StateEntry } from '../../contracts/journal.ts'
import type { Log } from '../../core/log.ts'
import type { StateCondition, StateStore } from '../rules/state.ts'
import { LEFT, MET, workspaceReport } from '../rules/streams.ts'
import type { Queries } from './connection.ts'
import type { Core } from './core.ts'
import type { Transaction } from './transactions.ts'

type Tables = Pick<Core, 'shard' | 'schema'>

export class StateTable implements StateStore {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  get(name: string) {
    return this.#core.transactions.read((queries) => valueOf(queries, this.#core, name))
  }

  list(prefix: string, limit: number) {
    const { shard, schema, transactions } = this.#core
    return transactions.read(({ query }) =>
      query<StateEntry>(
        `SELECT name, value FROM ${schema}.state WHERE shard = $1 AND starts_with(name, $2) AND name >= $2
         ORDER BY name LIMIT $3`,
        [shard, prefix, limit],
      ),
    )
  }

  change(change: StateChange, only?: StateCondition) {
    return this.#core.transactions.write(async (transaction) => {
      if (only && (await valueOf(transaction, this.#core, only.name)) !== only.value) return false
      await writeState(transaction, this.#core, change)
      return true
    })
  }
}

async function valueOf(
  { query }: Queries,
  { shard, schema }: Tables,
  name: string,
): Promise<string | undefined> {
  const [row] = await query<StateEntry>(`SELECT value FROM ${schema}.state WHERE shard = $1 AND name = $2`, [
    ...[shard, name],
  ])
  return row?.value
}

/** Drops, then puts. */
export async function writeState(
  { query }: Transaction,
  { shard, schema }: Tables,
  { drop = [], put = [] }: Partial<StateChange>,
): Promise<void> {
  if (drop.length > 0)
    await query(`DELETE FROM ${schema}.state WHERE shard = $1 AND name = ANY ($2::text[])`, [shard, drop])
  if (put.length === 0) return
  // Of two values for one name, the last one is stored.
  const values = new Map(put.map(({ name, value }) => [name, value]))
  await query(
    `INSERT INTO ${schema}.state SELECT $1, * FROM unnest($2::text[], $3::text[])
     ON CONFLICT (shard, name) DO UPDATE SET value = excluded.value`,
    [shard, [...values.keys()], [...values.values()]],
  )
}

export async function reportWorkspaces(
  transaction: Transaction,
  { shard, schema }: Tables,
  configured: readonly ConfiguredWorkspace[],
  log: Log,
): Promise<void> {
  const { query } = transaction
  const known = await query<{ workspace: string }>(
    `SELECT DISTINCT workspace FROM ${schema}.streams WHERE shard = $1 ORDER BY workspace`,
    [shard],
  )
  const noted = await query<{ name: string }>(
    `SELECT name FROM ${schema}.state WHERE shard = $1 AND (starts_with(name, $2) OR starts_with(name, $3))`,
    [shard, LEFT, MET],
  )
  const { change, report } = workspaceReport(
    configured,
    known.map(({ workspace }) => workspace),
    noted.map(({ name }) => name),
  )
  await writeState(transaction, { shard, schema }, change)
  transaction.afterCommit(() => report(log))
}
