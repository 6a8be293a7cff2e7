// Reading what was quarantined: the bytes that the source sent malformed, kept for a person to look at.
import type { Database } from 'better-sqlite3'
import type { QuarantineQuery, QuarantineRecord } from '../model/set-aside.ts'
import type { Core } from './core.ts'

interface QuarantineRow {
  id: number
  source: number
  reason: QuarantineRecord['reason']
  total_bytes: number
  kept_bytes: number
  sha256: string
  kept_at: number
}

interface Chosen {
  ids: string | null
  after: number
  limit: number
}

export function prepareQuarantine(db: Database) {
  return {
    list: db.prepare<[Chosen], QuarantineRow>(
      `SELECT id, source, reason, total_bytes, length(bytes) AS kept_bytes, sha256, kept_at FROM quarantine
       WHERE id > :after AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids))) ORDER BY id LIMIT :limit`,
    ),
    raw: db.prepare<[number], Buffer>('SELECT bytes FROM quarantine WHERE id = ?').pluck(),
  }
}

export function list(
  { origins }: Core,
  statements: ReturnType<typeof prepareQuarantine>,
  { ids, limit, after }: QuarantineQuery,
): QuarantineRecord[] {
  const chosen = {
    ids: ids === undefined ? null : JSON.stringify(ids),
    after: after ?? 0,
    limit: limit ?? -1,
  }
  return statements.list.all(chosen).map((row) => ({
    id: row.id,
    origin: origins.origin(row.source),
    reason: row.reason,
    totalBytes: row.total_bytes,
    keptBytes: row.kept_bytes,
    sha256: row.sha256,
    keptAt: row.kept_at,
  }))
}
