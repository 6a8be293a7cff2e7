// Runs the journal contract against SQLite.
import { copyFileSync, mkdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { afterAll, beforeAll } from 'vitest'
import { openRegistered } from '../fakes/registered.ts'
import { logOf, TestClock } from './journal-parts.ts'
import { journalContract } from './journal.contract.ts'

/** The sequence does not start at 1, as after years of use: the sinks have acknowledged this many. */
const BEGIN = 41

const bounds = { maxBytes: 2 ** 30, keepKeysMs: 1e9, keepDeliveredBytes: 0, ballastBytes: 0 }

/** How many commits from now one fails; 0: none. */
let failing = 0
const prepare = Object.getOwnPropertyDescriptor(Sqlite.prototype, 'prepare')
  ?.value as Sqlite.Database['prepare']
let template: string

beforeAll(async () => {
  template = join(await mkdtemp(join(tmpdir(), 'auditferry-journal-')), 'template.db')
  const sinks = ['a', 'b', 'c']
  const options = { ...bounds, clock: new TestClock(), log: logOf() }
  await (await openRegistered({ path: template, sinks, ...options })).close()
  const db = new Sqlite(template)
  db.prepare('UPDATE sinks SET position = ?, counted = 0').run(BEGIN)
  db.prepare("DELETE FROM sinks WHERE name = 'c'").run()
  db.close()
  Sqlite.prototype.prepare = function (this: Sqlite.Database, source: string) {
    const statement = prepare.call(this, source)
    if (source !== 'COMMIT') return statement
    const run = statement.run.bind(statement) as () => Sqlite.RunResult
    statement.run = () => {
      if (failing > 0 && --failing === 0) throw new Error('The commit failed')
      return run()
    }
    return statement
  } as typeof prepare
})
afterAll(async () => {
  Sqlite.prototype.prepare = prepare
  await rm(join(template, '..'), { recursive: true, force: true })
})

journalContract('sqlite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'auditferry-journal-'))
  const path = join(folder, 'state', 'journal.db')
  mkdirSync(join(folder, 'state'))
  copyFileSync(template, path)
  const open: typeof openRegistered = (settings) => openRegistered({ ...settings, path, ballastBytes: 0 })
  return {
    open: (settings) => open({ ...bounds, path, ...settings }),
    failCommit: (nth) => void (failing = nth),
    // SQLite locks the file until close: another process can open it only after that.
    succeed: async (journal, settings) => {
      await journal.close()
      return open({ ...bounds, path, ...settings })
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  }
})
