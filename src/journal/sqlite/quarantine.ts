// Quarantine: malformed bytes that the source sent, kept for an operator until they are dropped.
import type { Database } from 'better-sqlite3'
import type { Amount, QuarantineQuery, QuarantineRecord } from '../../contracts/records.ts'
import type { Quarantined } from '../../contracts/source.ts'
import type { Origins } from './streams.ts'

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
  ids?: string
  after: number
  limit: number
}

/**
 * Quarantined elements and their sums, which are updated after the disk: `apply` the result of a
 * transaction once it has landed.
 */
export class Quarantine {
  readonly #origins: Origins
  readonly #statements: ReturnType<typeof prepareQuarantine>
  #held: Amount

  /**
   * Call inside a transaction. Elements dropped before `forgetBefore` (epoch ms) are no longer
   * known here.
   */
  constructor(db: Database, origins: Origins, forgetBefore: number) {
    this.#origins = origins
    this.#statements = prepareQuarantine(db)
    this.#statements.forget.run(-forgetBefore)
    this.#held = { count: 0, bytes: 0, ...this.#statements.held.get() }
  }

  /** What is kept now. */
  get held(): Amount {
    return this.#held
  }

  list({ ids, limit = -1, after = 0 }: QuarantineQuery): QuarantineRecord[] {
    const { list, listOf } = this.#statements
    const rows =
      ids === undefined ? list.all({ after, limit }) : listOf.all({ after, limit, ids: JSON.stringify(ids) })
    return rows.map((row) => ({
      id: row.id,
      stream: this.#origins.stream(row.source),
      reason: row.reason,
      totalBytes: row.total_bytes,
      keptBytes: row.kept_bytes,
      sha256: row.sha256,
      keptAt: row.kept_at,
    }))
  }

  raw(id: number): Buffer | undefined {
    return this.#statements.raw.get(id)
  }

  /**
   * Call inside a transaction. Elements that are already there, or were dropped, are not stored
   * again.
   */
  writeKept(source: number, elements: readonly Quarantined[], now: number): Amount {
    const insert = this.#statements.insert
    let count = 0
    let size = 0
    for (const { reason, totalBytes, sha256, bytes } of elements) {
      if (insert.run(source, reason, totalBytes, sha256, now, bytes).changes === 0) continue
      count++
      size += bytes.length
    }
    return { count, bytes: size }
  }

  applyKept({ count, bytes }: Amount): void {
    this.#held = { count: this.#held.count + count, bytes: this.#held.bytes + bytes }
  }

  /**
   * Call inside a transaction. Deletes the bytes but keeps a record of the element, or the next
   * re-read would bring it back.
   */
  writeDropped(query: QuarantineQuery, now: number): Amount {
    const found = this.list(query)
    for (const { id } of found) this.#statements.drop.run(-Math.max(1, now), id)
    return { count: found.length, bytes: found.reduce((sum, { keptBytes }) => sum + keptBytes, 0) }
  }

  applyDropped({ count, bytes }: Amount): void {
    this.applyKept({ count: -count, bytes: -bytes })
  }
}

const listed = (ids: string) =>
  `SELECT id, source, reason, total_bytes, length(bytes) AS kept_bytes, sha256, kept_at FROM quarantine
   WHERE id > :after AND kept_at >= 0 ${ids} ORDER BY id LIMIT :limit`

export function prepareQuarantine(db: Database) {
  return {
    insert: db.prepare(
      'INSERT OR IGNORE INTO quarantine (source, reason, total_bytes, sha256, kept_at, bytes) VALUES (?, ?, ?, ?, ?, ?)',
    ),
    list: db.prepare<[Chosen], QuarantineRow>(listed('')),
    listOf: db.prepare<[Chosen], QuarantineRow>(listed('AND id IN (SELECT value FROM json_each(:ids))')),
    raw: db.prepare<[number], Buffer>('SELECT bytes FROM quarantine WHERE id = ? AND kept_at >= 0').pluck(),
    held: db.prepare<[], Amount>(
      'SELECT count(*) AS count, total(length(bytes)) AS bytes FROM quarantine WHERE kept_at >= 0',
    ),
    drop: db.prepare("UPDATE quarantine SET kept_at = ?, bytes = x'' WHERE id = ?"),
    forget: db.prepare('DELETE FROM quarantine WHERE kept_at < 0 AND kept_at > ?'),
  }
}
