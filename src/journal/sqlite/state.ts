// Small facts of the other rooms, by name: kept beside the entries so that they can land in one transaction with them.
import type { Database } from 'better-sqlite3'
import type { Note, NoteChange } from '../../contracts/records.ts'

/** The greatest code point there is: behind every name that begins as asked. */
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

/** Inside a transaction. */
export function writeNotes({ put, drop }: NoteStatements, change: Partial<NoteChange>): void {
  for (const name of change.drop ?? []) drop.run(name)
  for (const { name, value } of change.put ?? []) put.run(name, value)
}
