// State entries of other modules, by name: kept beside the entries so that they land in the same
// transaction.
import type { Database } from 'better-sqlite3'
import type { Note, NoteChange } from '../../contracts/records.ts'

/** The greatest code point: sorts after every name with the prefix. */
const LAST = '\u{10ffff}'

export type NoteStatements = ReturnType<typeof prepareNotes>

export function prepareNotes(db: Database) {
  return {
    get: db.prepare<[string], string>('SELECT value FROM notes WHERE name = ?').pluck(),
    list: db.prepare<[string, string, number], Note>(
      'SELECT name, value FROM notes WHERE name >= ? AND name < ? ORDER BY name LIMIT ?',
    ),
    put: db.prepare('INSERT OR REPLACE INTO notes VALUES (?, ?)'),
    drop: db.prepare('DELETE FROM notes WHERE name = ?'),
  }
}

export function listNotes({ list }: NoteStatements, prefix: string, limit: number): Note[] {
  return list.all(prefix, `${prefix}${LAST}`, limit)
}

/** Call inside a transaction. */
export function writeNotes({ put, drop }: NoteStatements, change: Partial<NoteChange>): void {
  for (const name of change.drop ?? []) drop.run(name)
  for (const { name, value } of change.put ?? []) put.run(name, value)
}
