// The journal's tables and migrations: numbered steps; the lowest byte of the file's `user_version`
// is the number of steps done.
import { randomInt } from 'node:crypto'
import type { Database } from 'better-sqlite3'
import { ConnectorError } from '../../core/errors.ts'
import { APPLICATION_ID, newerFault, schemaIn, stamped, withSchema } from './files.ts'

const migrations: readonly string[] = [
  `
  -- One row a source of a workspace. Its small id stands in every other table.
  -- low_at, low_before: oldest entry time (µs) that was read on the day low_day, and on the day of reading before it.
  CREATE TABLE sources (
    id INTEGER PRIMARY KEY, workspace TEXT NOT NULL, source TEXT NOT NULL, cursor TEXT,
    gaps INTEGER NOT NULL DEFAULT 0, low_at INTEGER, low_before INTEGER, low_day INTEGER,
    UNIQUE (workspace, source));
  -- Time first: inserts stay at the right edge, pruning cuts the left one.
  -- content: where an entry may change, 16 bytes of its hash and its version (32 bits, little-endian); else null.
  CREATE TABLE keys (
    source INTEGER NOT NULL, at INTEGER NOT NULL, id BLOB NOT NULL, content BLOB,
    PRIMARY KEY (source, at, id)) WITHOUT ROWID;
  -- The blobs stand last, so that reading the small columns never touches them.
  CREATE TABLE chunks (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, source INTEGER NOT NULL, payload INTEGER NOT NULL,
    appended_at INTEGER NOT NULL, crc INTEGER NOT NULL, only_sink TEXT, replay INTEGER NOT NULL,
    types TEXT NOT NULL, times BLOB NOT NULL, columns BLOB NOT NULL, slab BLOB NOT NULL);
  -- told: the operator knows that this sink left the configuration.
  CREATE TABLE sinks (name TEXT PRIMARY KEY, position INTEGER NOT NULL, told INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
  -- Stretches above a sink's position that are settled already.
  CREATE TABLE ahead (sink TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (sink, first)) WITHOUT ROWID;
  CREATE TABLE intents (
    sink TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, attempt INTEGER NOT NULL,
    shape TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (sink, first)) WITHOUT ROWID;
  CREATE TABLE dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sink TEXT NOT NULL, seq INTEGER NOT NULL, source INTEGER NOT NULL,
    entry_id BLOB NOT NULL, time BLOB NOT NULL, at INTEGER NOT NULL, type TEXT NOT NULL, version INTEGER NOT NULL,
    code TEXT NOT NULL, reason TEXT NOT NULL, dead_lettered_at INTEGER NOT NULL, bytes INTEGER NOT NULL, raw BLOB NOT NULL,
    UNIQUE (sink, seq));
  -- The same malformed bytes come again with every re-read of their span: kept once. A kept_at below 0: a person let the
  -- bytes go at that instant, and the row stays without them for as long as a key does.
  CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL, reason TEXT NOT NULL, total_bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL, kept_at INTEGER NOT NULL, bytes BLOB NOT NULL,
    UNIQUE (source, sha256, reason));
  CREATE TABLE findings (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL, kind TEXT NOT NULL, entry_id BLOB NOT NULL, found_at INTEGER NOT NULL);
  -- By the entries' own UTC day (days since 1970; quarantined: the day they were met). Kept for good.
  CREATE TABLE counts (
    source INTEGER NOT NULL, day INTEGER NOT NULL, new INTEGER NOT NULL, late INTEGER NOT NULL, known INTEGER NOT NULL,
    filtered INTEGER NOT NULL, quarantined INTEGER NOT NULL, PRIMARY KEY (source, day)) WITHOUT ROWID;
  CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  `,
  `
  -- By the entries' own UTC day, kept for good. before: what was kept when this sink's counting began, and not owed to it.
  CREATE TABLE deliveries (
    sink TEXT NOT NULL, source INTEGER NOT NULL, day INTEGER NOT NULL, before INTEGER NOT NULL DEFAULT 0,
    accepted INTEGER NOT NULL DEFAULT 0, filtered INTEGER NOT NULL DEFAULT 0, parked INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0, replayed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (sink, source, day)) WITHOUT ROWID;
  ALTER TABLE sinks ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE dead_letters ADD COLUMN replay INTEGER NOT NULL DEFAULT 0;
  `,
  `
  -- The entry's own time, µs; null: found before it was kept.
  ALTER TABLE findings ADD COLUMN at INTEGER;
  `,
  `
  -- Of an entry that is not wanted the finding itself is looked up, at each look at a page. By time, as the keys are.
  CREATE INDEX findings_by_time ON findings (source, at);
  `,
  `
  PRAGMA application_id = ${APPLICATION_ID};
  `,
  `
  -- The words of the contract. reported: the log has said that this sink left the configuration.
  ALTER TABLE sinks RENAME COLUMN told TO reported;
  ALTER TABLE ahead RENAME TO acknowledged_ranges;
  ALTER TABLE intents RENAME TO in_flight;
  ALTER TABLE in_flight DROP COLUMN attempt;
  ALTER TABLE notes RENAME TO state;
  ALTER TABLE deliveries RENAME TO accounts;
  ALTER TABLE accounts RENAME COLUMN parked TO dead_lettered;
  `,
]

const versionOf = (db: Database) => db.pragma('user_version', { simple: true }) as number

export function refuseNewer(db: Database, path: string): void {
  const fault = newerFault(versionOf(db))
  if (fault !== undefined) throw new ConnectorError('config_invalid', `The journal ${path} ${fault}`)
}

/** Migrates the file to the current schema; each step lands with its number or not at all. */
export function migrate(db: Database, path: string): void {
  refuseNewer(db, path)
  const version = versionOf(db)
  for (let step = schemaIn(version); step < migrations.length; step++) {
    db.transaction(() => {
      db.exec(migrations[step] ?? '')
      db.pragma(`user_version = ${withSchema(version, step + 1)}`)
    })()
  }
}

/** Also writes the first page, so that it is in the log: `files.ts` looks for the stamp there. */
export function stamp(db: Database): void {
  db.pragma(`user_version = ${stamped(versionOf(db), randomInt)}`)
}
