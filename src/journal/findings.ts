// Reading findings: audit fetches under our user that none of our instances made.
import type { Database } from 'better-sqlite3'
import type { FindingRecord } from '../model/set-aside.ts'
import type { Core } from './core.ts'

interface FindingRow {
  source: number
  kind: FindingRecord['kind']
  entry_id: Buffer
  at: number | null
  found_at: number
}

export type FindingStatement = ReturnType<typeof prepareFindings>

export function prepareFindings(db: Database) {
  return db.prepare<[number], FindingRow>(
    'SELECT source, kind, entry_id, at, found_at FROM findings ORDER BY id DESC LIMIT ?',
  )
}

/** The newest first. */
export function list({ origins }: Core, statement: FindingStatement, limit: number): FindingRecord[] {
  return statement.all(limit).map(({ source, kind, entry_id, at, found_at }) => ({
    origin: origins.origin(source),
    kind,
    entryId: entry_id.toString(),
    entryUs: at ?? undefined,
    foundAt: found_at,
  }))
}
