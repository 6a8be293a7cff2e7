// Quarantine: malformed bytes that the source sent, kept for an operator until they are dropped.
import type { Database } from 'better-sqlite3'
import type { Amount, QuarantineQuery, QuarantineRecord } from '../../contracts/records.ts'
import type { Quarantined } from '../../contracts/source.ts'
import type { Streams } from './streams.ts'

type QuarantineRow = Omit<QuarantineRecord, 'stream'> & { source: number }

interface Chosen {
  ids?: string
  after: number
  limit: number
}

/** Sums are updated after the disk: `apply` a transaction's result once it has landed. */
export class Quarantine {
  readonly #streams: Streams
  readonly #statements: ReturnType<typeof prepareQuarantine>
  /** what is stored now */
  stored: Amount

  constructor(db: Database, streams: Streams) {
    this.#streams = streams
    this.#statements = prepareQuarantine(db)
    this.stored = { count: 0, bytes: 0, ...this.#statements.stored.get() }
  }

  /** Call inside a transaction. Elements dropped before `before` (epoch ms) become unknown. */
  writeForgotten(before: number): void {
    this.#statements.forget.run(-before)
  }

  list({ ids, limit = -1, after = 0 }: QuarantineQuery): QuarantineRecord[] {
    const { list, listOf } = this.#statements
    const rows =
      ids === undefined ? list.all({ after, limit }) : listOf.all({ after, limit, ids: JSON.stringify(ids) })
    return rows.map(({ source, ...row }) => ({ ...row, stream: this.#streams.stream(source) }))
  }

  raw(id: number): Buffer | undefined {
    return this.#statements.raw.get(id)
  }

  /** Call inside a transaction. Does not store elements again, even if they were dropped. */
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
    this.stored = { count: this.stored.count + count, bytes: this.stored.bytes + bytes }
  }

  /** Call inside a transaction. Keeps a record of each, or the next read would store it again. */
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
  `SELECT id, source, reason, total_bytes AS totalBytes, length(bytes) AS keptBytes, sha256, kept_at AS keptAt FROM quarantine
   WHERE id > :after AND kept_at >= 0 ${ids} ORDER BY id LIMIT :limit`

export function prepareQuarantine(db: Database) {
  return {
    insert: db.prepare(
      'INSERT OR IGNORE INTO quarantine (source, reason, total_bytes, sha256, kept_at, bytes) VALUES (?, ?, ?, ?, ?, ?)',
    ),
    list: db.prepare<[Chosen], QuarantineRow>(listed('')),
    listOf: db.prepare<[Chosen], QuarantineRow>(listed('AND id IN (SELECT value FROM json_each(:ids))')),
    raw: db.prepare<[number], Buffer>('SELECT bytes FROM quarantine WHERE id = ? AND kept_at >= 0').pluck(),
    stored: db.prepare<[], Amount>(
      'SELECT count(*) AS count, total(length(bytes)) AS bytes FROM quarantine WHERE kept_at >= 0',
    ),
    drop: db.prepare("UPDATE quarantine SET kept_at = ?, bytes = x'' WHERE id = ?"),
    forget: db.prepare('DELETE FROM quarantine WHERE kept_at < 0 AND kept_at > ?'),
  }
}
