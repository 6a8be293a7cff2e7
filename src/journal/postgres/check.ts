// Whether the daemon can work with its database: for `validate`, which changes nothing.
import { ConnectorError } from '../../core/errors.ts'
import { Connection } from './connection.ts'
import type { PostgresSettings, Queries } from './connection.ts'
import { assertSchema } from './schema.ts'

/**
 * Connects, and changes nothing. Returns the role. Throws ConnectorError `store_unavailable` (also of
 * a server that accepts no writes), or `config_invalid`.
 */
export async function checkDatabase(settings: PostgresSettings, schema: string): Promise<string> {
  const connection = new Connection(settings)
  try {
    return await connection.use(async (session) => {
      const [found] = await session.query<{ role: string; mayUse: boolean }>(
        `SELECT current_user AS role, coalesce(
           (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1), true) AS "mayUse"`,
        [schema],
      )
      const { role = '', mayUse = false } = found ?? {}
      if (!mayUse) throw mayNot(role, schema, 'use')
      await assertSchema(session, schema)
      if (!(await mayWrite(session, schema))) throw mayNot(role, schema, 'write to all tables of')
      return role
    })
  } finally {
    await connection.end()
  }
}

const mayNot = (role: string, schema: string, what: string) =>
  new ConnectorError(
    'config_invalid',
    `The PostgreSQL role ${role} may not ${what} the schema ${schema}: run "auditferry journal migrate --runtime-role ${role}" with the URL of its owner (--owner-url-file)`,
  )

/** The migration grants all of these at once; partitions are emptied, not only deleted from. */
async function mayWrite(queries: Queries, schema: string): Promise<boolean> {
  const [row] = await queries.query<{ all: boolean }>(
    `SELECT bool_and(has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
       AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')
       AND (NOT relispartition OR has_table_privilege(oid, 'TRUNCATE'))) AS all
     FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p') AND relname <> 'schema_version'`,
    [schema],
  )
  return row?.all === true
}
