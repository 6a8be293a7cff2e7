// Queries on the main thread find their rows by key, however many rows there are.
import Sqlite from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { prepareDeadLetters } from '../../../../src/journal/sqlite/dead-letters.ts'
import { prepareQuarantine } from '../../../../src/journal/sqlite/quarantine.ts'
import { prepareReplay } from '../../../../src/journal/sqlite/replay.ts'
import { migrate } from '../../../../src/journal/sqlite/schema.ts'

function openDatabase() {
  const db = new Sqlite(':memory:')
  onTestFinished(() => void db.close())
  migrate(db, 'plans')
  return db
}

const named = { ids: '[1]', sink: null, after: 0, limit: 1 }

test.each([
  [
    'dead letters by id',
    'dead_letters',
    (db: Sqlite.Database) => prepareDeadLetters(db).listOf.source,
    [named],
  ],
  [
    'quarantined elements by id',
    'quarantine',
    (db: Sqlite.Database) => prepareQuarantine(db).listOf.source,
    [named],
  ],
  ['the oldest kept chunks', 'chunks', (db: Sqlite.Database) => prepareReplay(db).keptSince.source, []],
])('%s are found by key, without a scan', (_, table, sourceOf, parameters) => {
  const db = openDatabase()
  const plan = db
    .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sourceOf(db)}`)
    .all(...parameters)
    .map(({ detail }) => detail)
  expect(plan.join()).toContain(`SEARCH ${table} USING INTEGER PRIMARY KEY (rowid=?)`)
  expect(plan.join()).not.toContain(`SCAN ${table}`)
})
