// The tables and their migrations, which run as the owner of the schema. The daemon's own role may
// read and write rows, and empty a partition of the dedup keys, but not change a table.
import { ConnectorError } from '../../core/errors.ts'
import { plainName } from './address.ts'
import { Connection } from './connection.ts'
import type { PostgresSettings, Queries } from './connection.ts'

/** Each step runs once. `$s` stands for the schema. */
const migrations: readonly string[] = [
  `
  -- One row a shard. Every transaction updates it, so its pages keep free space for that.
  -- holder: null if free. epoch: grows with each change of holder, and is never reset.
  -- commits: writing transactions so far. incarnation: of the current holder's time; each chunk
  -- keeps the one it was stored in, since sequence numbers may repeat after a failover.
  CREATE TABLE $s.shards (
    id integer PRIMARY KEY, holder text, epoch bigint NOT NULL, expires_at timestamptz NOT NULL,
    held_since timestamptz NOT NULL, incarnation text NOT NULL,
    commits bigint NOT NULL DEFAULT 0, last_seq bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);

  -- One row a source of a workspace. Its small number represents it in every other table.
  -- newest_us: newest entry time that was read. low_us, low_before_us: oldest entry time that was
  -- read on the day low_day, and on the reading day before it.
  CREATE TABLE $s.streams (
    shard integer NOT NULL, id integer NOT NULL, workspace text NOT NULL, source text NOT NULL,
    cursor text, gaps bigint NOT NULL DEFAULT 0, newest_us bigint, low_us bigint, low_before_us bigint, low_day integer,
    PRIMARY KEY (shard, id)) WITH (fillfactor = 50);

  -- Appended at the end, deleted from the start, never updated. The bytes are stored as they are:
  -- compressing them would cost more time than writing them.
  CREATE TABLE $s.chunks (
    shard integer NOT NULL, first bigint NOT NULL, last bigint NOT NULL, stream integer NOT NULL,
    payload bigint NOT NULL, appended_at bigint NOT NULL, checksum bigint NOT NULL, only_sink text,
    replay boolean NOT NULL, incarnation text NOT NULL,
    types text NOT NULL, times bytea NOT NULL, columns bytea NOT NULL, slab bytea NOT NULL,
    PRIMARY KEY (shard, first))
    WITH (autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05);
  ALTER TABLE $s.chunks
    ALTER times SET STORAGE EXTERNAL, ALTER columns SET STORAGE EXTERNAL, ALTER slab SET STORAGE EXTERNAL;

  -- Dedup keys, in partitions by the entries' own time (µs): inserts stay in the few newest ones, and
  -- an old one is emptied at once when its last key is gone.
  -- content: of entries that may change, the hashes of their contents.
  CREATE TABLE $s.dedup_keys (
    shard integer NOT NULL, stream integer NOT NULL, at bigint NOT NULL, id bytea NOT NULL, content bytea,
    PRIMARY KEY (shard, stream, at, id)) PARTITION BY RANGE (at);
  CREATE TABLE $s.dedup_keys_other PARTITION OF $s.dedup_keys DEFAULT;

  -- reported: the operator knows that this sink left the configuration. counted: its delivery
  -- accounts have begun.
  CREATE TABLE $s.sinks (
    shard integer NOT NULL, name text NOT NULL, position bigint NOT NULL,
    reported boolean NOT NULL DEFAULT false, counted boolean NOT NULL DEFAULT false,
    PRIMARY KEY (shard, name)) WITH (fillfactor = 50);

  -- Sequence ranges above a sink's position that it has acknowledged.
  CREATE TABLE $s.acknowledged_ranges (
    shard integer NOT NULL, sink text NOT NULL, first bigint NOT NULL, last bigint NOT NULL,
    PRIMARY KEY (shard, sink, first)) WITH (fillfactor = 50);

  CREATE TABLE $s.in_flight (
    shard integer NOT NULL, sink text NOT NULL, first bigint NOT NULL, last bigint NOT NULL,
    fingerprint text NOT NULL, detail text NOT NULL,
    PRIMARY KEY (shard, sink, first)) WITH (fillfactor = 50);

  -- type, reason: as JSON strings, since PostgreSQL's text cannot hold every character.
  CREATE TABLE $s.dead_letters (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard integer NOT NULL, sink text NOT NULL,
    seq bigint NOT NULL, stream integer NOT NULL, entry_id bytea NOT NULL, time bytea NOT NULL,
    at bigint NOT NULL, type text NOT NULL, version bigint NOT NULL, code text NOT NULL, reason text NOT NULL,
    dead_lettered_at bigint NOT NULL, replay boolean NOT NULL, raw bytea NOT NULL,
    UNIQUE (shard, sink, seq));

  -- The same malformed bytes come again with every re-read of their span, and are kept once.
  -- dropped_at: an operator dropped the bytes; the row stays as long as a dedup key does.
  CREATE TABLE $s.quarantine (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard integer NOT NULL, stream integer NOT NULL,
    reason text NOT NULL, total_bytes bigint NOT NULL, sha256 text NOT NULL, kept_at bigint NOT NULL,
    dropped_at bigint, bytes bytea NOT NULL,
    UNIQUE (shard, stream, sha256, reason));

  CREATE TABLE $s.findings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard integer NOT NULL, stream integer NOT NULL,
    kind text NOT NULL, entry_id bytea NOT NULL, at bigint NOT NULL, found_at bigint NOT NULL);
  CREATE INDEX ON $s.findings (shard, stream, at);

  -- By the entries' own UTC day (days since 1970; quarantined: the day they were read). Kept for good.
  CREATE TABLE $s.counts (
    shard integer NOT NULL, stream integer NOT NULL, day integer NOT NULL, new bigint NOT NULL,
    late bigint NOT NULL, known bigint NOT NULL, filtered bigint NOT NULL, quarantined bigint NOT NULL,
    PRIMARY KEY (shard, stream, day)) WITH (fillfactor = 50);

  -- Delivery accounts, kept for good. before: stored when the counting of this sink began, and not
  -- pending for it then.
  CREATE TABLE $s.accounts (
    shard integer NOT NULL, sink text NOT NULL, stream integer NOT NULL, day integer NOT NULL,
    before bigint NOT NULL DEFAULT 0, accepted bigint NOT NULL DEFAULT 0, filtered bigint NOT NULL DEFAULT 0,
    dead_lettered bigint NOT NULL DEFAULT 0, dropped bigint NOT NULL DEFAULT 0, replayed bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (shard, sink, stream, day)) WITH (fillfactor = 50);

  CREATE TABLE $s.state (
    shard integer NOT NULL, name text COLLATE "C" NOT NULL, value text NOT NULL,
    PRIMARY KEY (shard, name)) WITH (fillfactor = 50);
  `,
  `
  -- takeovers: how often a lease ended without being released, and another holder came.
  ALTER TABLE $s.shards ADD COLUMN takeovers bigint NOT NULL DEFAULT 0;

  -- Replicas that live: each reports several times within the time of a lease.
  CREATE TABLE $s.replicas (holder text PRIMARY KEY, seen_at timestamptz NOT NULL) WITH (fillfactor = 50);

  -- The shard of a workspace, for good.
  CREATE TABLE $s.assignments (workspace text PRIMARY KEY, shard integer NOT NULL);

  -- The status of each shard as its holder sees it, as JSON.
  CREATE TABLE $s.shard_reports (
    shard integer PRIMARY KEY, holder text NOT NULL, epoch bigint NOT NULL, at timestamptz NOT NULL,
    report text NOT NULL) WITH (fillfactor = 50);

  -- Questions of commands that reached a replica which does not hold the shard.
  -- taken_by: the holder that answers; none answers a question twice. status, answer: as over HTTP.
  CREATE TABLE $s.requests (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard integer NOT NULL, question text NOT NULL,
    body text NOT NULL, asked_at timestamptz NOT NULL, taken_by text, status integer, answer bytea);
  `,
]

export const SCHEMA_VERSION = migrations.length

/** Partitions of the dedup keys are made for these months; other times go to dedup_keys_other. */
const MONTHS_AHEAD = 120
const MONTHS_BEHIND = 3

/** Months that dedup_keys_other already holds keys of stay there. */
const partitions = (schema: string) => `
  DO $$
  DECLARE begins timestamp; from_us bigint; to_us bigint;
  BEGIN
    FOR i IN -${MONTHS_BEHIND}..${MONTHS_AHEAD} LOOP
      begins := date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => i);
      from_us := extract(epoch FROM begins)::bigint * 1000000;
      to_us := extract(epoch FROM begins + interval '1 month')::bigint * 1000000;
      CONTINUE WHEN to_regclass('${schema}.dedup_keys_' || to_char(begins, 'YYYY_MM')) IS NOT NULL;
      CONTINUE WHEN EXISTS (SELECT FROM ${schema}.dedup_keys_other WHERE at >= from_us AND at < to_us);
      EXECUTE format('CREATE TABLE ${schema}.dedup_keys_%s PARTITION OF ${schema}.dedup_keys FOR VALUES FROM (%s) TO (%s)',
        to_char(begins, 'YYYY_MM'), from_us, to_us);
    END LOOP;
  END $$`

const grants = (schema: string, role: string) => `
  GRANT USAGE ON SCHEMA ${schema} TO ${role};
  GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role};
  REVOKE INSERT, UPDATE, DELETE ON ${schema}.schema_version FROM ${role};
  DO $$
  DECLARE part regclass;
  BEGIN
    FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = '${schema}.dedup_keys'::regclass LOOP
      EXECUTE format('GRANT TRUNCATE ON %s TO ${role}', part);
    END LOOP;
  END $$`

/** Throws ConnectorError `config_invalid`. */
export function assertPlainName(name: string, what: string): void {
  if (plainName.test(name)) return
  throw new ConnectorError(
    'config_invalid',
    `The name of the ${what} must consist of a to z, digits and _, and begin with no digit`,
  )
}

export interface MigrateOptions {
  /** of the owner */
  readonly settings: PostgresSettings
  readonly schema: string
  /** the daemon's role: may work with the tables, but not change them; absent: the owner's own */
  readonly runtimeRole?: string | undefined
}

/**
 * Brings the schema to this version in one transaction, and makes partitions of the dedup keys for
 * the next ten years. Returns the steps that were done. Run it at least every few years.
 */
export async function migrate({ settings, schema, runtimeRole }: MigrateOptions): Promise<number> {
  assertPlainName(schema, 'schema')
  if (runtimeRole !== undefined) assertPlainName(runtimeRole, 'role')
  const connection = new Connection(settings)
  try {
    return await connection.use(async (client) => {
      await assertOwner(client, schema, runtimeRole)
      await client.query('BEGIN')
      const [there] = await client.query('SELECT FROM pg_namespace WHERE nspname = $1', [schema])
      if (there === undefined) await client.query(`CREATE SCHEMA ${schema}`)
      await client.query(`CREATE TABLE IF NOT EXISTS ${schema}.schema_version (version integer NOT NULL)`)
      await client.query(`LOCK TABLE ${schema}.schema_version IN ACCESS EXCLUSIVE MODE`)
      const before = (await versionOf(client, schema)) ?? 0
      if (before > migrations.length) throw newer(schema, before)
      for (const step of migrations.slice(before)) await client.query(step.replaceAll('$s', schema))
      await client.query(`DELETE FROM ${schema}.schema_version`)
      await client.query(`INSERT INTO ${schema}.schema_version VALUES ($1)`, [migrations.length])
      await client.query(partitions(schema))
      if (runtimeRole !== undefined) await client.query(grants(schema, runtimeRole))
      await client.query('COMMIT')
      return migrations.length - before
    })
  } finally {
    await connection.end()
  }
}

/** Throws ConnectorError `config_invalid`: else PostgreSQL would refuse a statement in the middle. */
async function assertOwner(queries: Queries, schema: string, runtimeRole?: string): Promise<void> {
  const [found] = await queries.query<{
    role: string
    database: string
    mayCreate: boolean
    isThere: boolean
  }>(
    `SELECT current_user AS role, current_database() AS database,
       coalesce((SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = $1),
         has_database_privilege(current_database(), 'CREATE')) AS "mayCreate",
       $2::text IS NULL OR EXISTS (SELECT FROM pg_roles WHERE rolname = $2) AS "isThere"`,
    [schema, runtimeRole ?? null],
  )
  const { role = '', database = '', mayCreate = false, isThere = false } = found ?? {}
  if (!mayCreate)
    throw new ConnectorError(
      'config_invalid',
      `The PostgreSQL role ${role} may not create or change the schema ${schema} in the database ${database}: run "auditferry journal migrate" with the URL of its owner (--owner-url-file)`,
    )
  if (!isThere)
    throw new ConnectorError(
      'config_invalid',
      `There is no PostgreSQL role ${runtimeRole ?? ''}: create it (CREATE ROLE … LOGIN), then run this again`,
    )
}

/** Throws ConnectorError `config_invalid` if this version cannot work with the schema. */
export async function assertSchema(queries: Queries, schema: string): Promise<void> {
  const [there] = await queries.query<{ found: boolean }>(
    "SELECT to_regclass($1 || '.schema_version') IS NOT NULL AS found",
    [schema],
  )
  const version = there?.found === true ? await versionOf(queries, schema) : undefined
  if (version === migrations.length) return
  if (version !== undefined && version > migrations.length) throw newer(schema, version)
  const is =
    version === undefined
      ? 'has no tables of this program'
      : `is of version ${version}, and this program needs version ${migrations.length}`
  throw new ConnectorError(
    'config_invalid',
    `The PostgreSQL schema ${schema} ${is}: run "auditferry journal migrate" with this configuration (as the owner of the tables: --owner-url-file)`,
  )
}

const newer = (schema: string, version: number) =>
  new ConnectorError(
    'config_invalid',
    `The PostgreSQL schema ${schema} is of version ${version}, which a newer version of this program made; this one knows version ${migrations.length}: install the newer version`,
  )

async function versionOf(queries: Queries, schema: string): Promise<number | undefined> {
  const [row] = await queries.query<{ version: number }>(`SELECT version FROM ${schema}.schema_version`)
  return row?.version
}
