// A journal of each older version opens with nothing
// lost, also if the process died within a migration step.
import { copyFileSync, existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Sqlite, { type Database } from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openRegistered } from '../../../fakes/registered.ts'
import { migrate } from '../../../../src/journal/sqlite/schema.ts'
import { accountReport } from '../../../../src/contracts/accounts.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { epochDay } from '../../../../src/core/time.ts'
import {
  audit,
  idsOf,
  logOf,
  part,
  plenty,
  rawsOf,
  spec,
  START_US,
  TestClock,
  usage,
} from '../../../contract/journal-parts.ts'

let folder: string
let opened: Journal[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'auditferry-migration-'))
  opened = []
})
afterEach(async () => {
  for (const journal of opened) await journal.close()
  await rm(folder, { recursive: true, force: true })
})

async function open(path: string): Promise<Journal> {
  const journal = await openRegistered({
    ...{ path, maxBytes: 2 ** 30, keepKeysMs: 1e12, keepDeliveredBytes: 2 ** 20, sinks: ['a', 'b'] },
    ...{ clock: new TestClock(), log: logOf(), ballastBytes: 0 },
  })
  opened.push(journal)
  return journal
}

/** How many of these were accepted: audit entries and history events. */
function delivered(first: number, through: number, audits: number, usages = 0) {
  const day = epochDay(START_US)
  const sums = { day, filtered: 0, replayed: 0 }
  const accounts = [
    { ...sums, stream: audit, accepted: audits },
    { ...sums, stream: usage, accepted: usages },
  ].filter(({ accepted }) => accepted > 0)
  return { first, through, rejected: [], accounts }
}

const finding = { index: 0, kind: 'foreign_fetch' as const }
const malformed = { reason: 'no_id' as const, totalBytes: 3, sha256: 'ab', bytes: Buffer.from('{x}') }

/**
 * Something in every table: pending, acknowledged out of
 * order, in flight, dead letters, quarantine, findings, state.
 */
async function fill(path: string): Promise<void> {
  const journal = await open(path)
  await journal.append(
    part(
      [1, 2, 3, 4].map((n) => spec(n)),
      {
        ...{ cursor: 'here', gaps: 1, headUs: START_US, quarantined: [malformed], findings: [finding] },
      },
    ),
  )
  await journal.append(part([spec(5), spec(6)], { stream: usage, cursor: 'there' }))
  const rejected = [{ seq: 2, code: 'refused', reason: 'no' }]
  await journal.ack('a', { ...delivered(1, 2, 1), rejected })
  await journal.ack('a', delivered(4, 4, 1))
  await journal.ack('b', delivered(1, 6, 4, 2))
  await journal.recordInFlight('a', { first: 3, last: 3, shape: 'shape', detail: 'detail' })
  await journal.state.put('instance', '123')
  await journal.close()
}

/** Runs the first `steps` steps, then calls `died` with the database as a killed process would leave it. */
function migrateTo(steps: number, path: string, died: (db: Database) => void = () => undefined): void {
  const db = new Sqlite(path)
  db.pragma('journal_mode = WAL')
  let left = steps
  const dying = new Proxy(db, {
    get(target, name) {
      if (name !== 'exec') {
        const member: unknown = Reflect.get(target, name)
        return typeof member === 'function' ? (member.bind(target) as unknown) : member
      }
      return (sql: string) => {
        target.exec(sql)
        if (left-- > 0) return
        died(target)
        throw new Error('died')
      }
    },
  })
  try {
    expect(() => migrate(dying, path)).toThrow('died')
  } finally {
    db.close()
  }
}

const columnsOf = (db: Database, table: string) =>
  db.prepare<[string], string>(`SELECT name FROM pragma_table_info(?)`).pluck().all(table)

/** What tables and columns of schema 5 are called, or contain, today. */
const todays: Readonly<Record<string, string>> = {
  ...{ ahead: 'acknowledged_ranges', intents: 'in_flight', notes: 'state', deliveries: 'accounts' },
  ...{ told: 'reported', parked: 'dead_lettered', attempt: '7' },
}

/** Copies today's journal into a file of an older version, as far as that version has the columns. */
function copyInto(path: string, from: string): void {
  const db = new Sqlite(path)
  db.prepare('ATTACH ? AS today').run(from)
  const tables = db
    .prepare<[], string>(`SELECT name FROM main.sqlite_master WHERE type = 'table'`)
    .pluck()
    .all()
  for (const table of tables.filter((name) => !name.startsWith('sqlite_'))) {
    const columns = columnsOf(db, table)
    const values = columns.map((column) => todays[column] ?? column).join(', ')
    db.exec(
      `INSERT INTO main.${table} (${columns.join(', ')}) SELECT ${values} FROM today.${todays[table] ?? table}`,
    )
  }
  db.close()
}

async function older(steps: number): Promise<string> {
  const [today, path] = [join(folder, 'today.db'), join(folder, `v${steps}.db`)]
  await fill(today)
  migrateTo(steps, path)
  copyInto(path, today)
  return path
}

const seqs = (letters: readonly { seq: number }[]) => letters.map(({ seq }) => seq)

async function expectWhole(path: string): Promise<void> {
  const journal = await open(path)
  expect([await journal.cursor(audit), await journal.cursor(usage)]).toEqual(['here', 'there'])
  expect(await journal.state.get('instance')).toBe('123')
  expect(journal.stats()).toMatchObject({ gaps: 1, findings: 1, quarantined: 1 })
  expect(await journal.quarantined({})).toMatchObject([{ sha256: 'ab', keptBytes: 3 }])
  expect(journal.stats().lastFindings).toMatchObject([{ kind: 'foreign_fetch', entryId: spec(1).id }])
  expect(await journal.inFlightBatches('a')).toEqual([
    { first: 3, last: 3, shape: 'shape', detail: 'detail' },
  ])
  expect(seqs(await journal.deadLetters({ sink: 'a' }))).toEqual([2])
  const known = await journal.append(part([spec(1), spec(7)]))
  expect(known).toMatchObject({ added: 1, known: 1 })
  expect(idsOf(await journal.range(3, 3))).toEqual([spec(3).id])
  await journal.ack('a', delivered(3, 3, 1))
  const rest = await journal.take('a', plenty)
  expect(idsOf(rest)).toEqual([5, 6, 7].map((n) => spec(n).id))
  expect(rawsOf(rest)[0]).toContain(spec(5).id)
  await journal.ack('a', delivered(5, 7, 1, 2))
  expect(await journal.retryDeadLetters({ sink: 'a' })).toBe(1)
  expect(idsOf(await journal.take('a', plenty))).toEqual([spec(2).id])
  await journal.ack('a', delivered(8, 8, 1))
  expect(await journal.take('a', plenty)).toBeUndefined()
  expect(idsOf(await journal.take('b', plenty))).toEqual([spec(7).id, spec(2).id])
  const { rows } = await accountReport(journal, { fromDay: 0, toDay: 1e6 }, ['a', 'b'])
  expect(rows.map(({ missing }) => missing)).toEqual(rows.map(() => 0))
}

describe.each([1, 2, 3, 4, 5])('a journal of version %i', (steps) => {
  it('opens with everything in it, and delivers it', async () => {
    await expectWhole(await older(steps))
  })

  it('opens after a migration step that failed or was killed midway', async () => {
    const path = await older(steps)
    const killed = join(folder, 'killed.db')
    migrateTo(0, path, () => {
      for (const end of ['', '-wal']) if (existsSync(path + end)) copyFileSync(path + end, killed + end)
    })
    await expectWhole(killed)
    await expectWhole(path)
  })
})
