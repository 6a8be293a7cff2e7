// Copying a journal between SQLite and PostgreSQL: everything moves, and a copy that is not complete
// is never used.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runProgram } from '../../src/cli/program.ts'
import type { Journal } from '../../src/contracts/journal.ts'
import type { Stream } from '../../src/contracts/source.ts'
import { copyJournal } from '../../src/journal/copy/copy.ts'
import type { Counted } from '../../src/journal/copy/copy.ts'
import { openPostgresSource, openPostgresTarget } from '../../src/journal/copy/postgres.ts'
import { openSqliteSource, openSqliteTarget } from '../../src/journal/copy/sqlite.ts'
import { PostgresStore } from '../../src/journal/postgres/open.ts'
import { migrate } from '../../src/journal/postgres/schema.ts'
import { openJournal } from '../../src/journal/sqlite/open.ts'
import { systemClock } from '../../src/platform/clock.ts'
import {
  DAY_MS,
  TestClock,
  acknowledgement,
  audit,
  entriesOf,
  idsOf,
  logOf,
  part,
  spec,
  uuid,
} from '../contract/journal-parts.ts'
import { openContext } from '../unit/cli/context.ts'
import { noPostgres, startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

const why = noPostgres()
const given = why === undefined ? describe : describe.skip
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)

const SHARDS = 4
const beta: Stream = { workspace: 'beta', source: 'audit' }
const usage: Stream = { workspace: 'beta', source: 'history.usage' }
const sinks = ['a', 'b']

let server: PostgresServer
let folder: string
let clock: TestClock
let schemas = 0
const ends: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  if (why === undefined) server = await startPostgres()
})
afterAll(async () => {
  if (why === undefined) await server.stop()
})
beforeEach(() => {
  clock = new TestClock()
  folder = mkdtempSync(join(tmpdir(), 'auditferry-copy-'))
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  rmSync(folder, { recursive: true, force: true })
})

// The journals.

const bounds = { maxBytes: 2 ** 30, keepKeysMs: 35 * DAY_MS, keepDeliveredBytes: 0 }

async function sqliteJournal(name = 'old.db', registered: readonly string[] = sinks): Promise<Journal> {
  const journal = await openJournal({
    ...{ path: join(folder, name), ...bounds, ballastBytes: 0 },
    ...{ clock, log: logOf() },
  })
  ends.push(() => journal.close())
  await journal.registerSinks(registered)
  return journal
}

async function newSchema(): Promise<string> {
  const schema = `copy_${++schemas}`
  await migrate({ settings: { url: server.url() }, schema })
  return schema
}

/** The journal of a shard. */
async function postgresJournal(schema: string, shard: number): Promise<Journal> {
  const store = new PostgresStore({
    ...{ settings: { url: server.url() }, schema, holder: `test-${shard}-${ends.length}`, termMs: 60_000 },
    ...{ clock: systemClock, log: logOf() },
  })
  ends.push(() => store.close())
  const journal = await store.acquire(shard, { ...bounds, clock, log: logOf() })
  if (journal === undefined) throw new Error('the shard is held')
  ends.push(() => journal.close())
  await journal.registerSinks(sinks)
  return journal
}

const assignments = async (schema: string) =>
  Object.fromEntries(
    (
      await server.query<{ workspace: string; shard: number }>(
        `SELECT workspace, shard FROM ${schema}.assignments`,
      )
    ).map(({ workspace, shard }) => [workspace, shard]),
  )

/** By workspace. */
async function journalsOf(schema: string): Promise<Map<string, Journal>> {
  const journals = new Map<string, Journal>()
  const opened = new Map<number, Journal>()
  for (const [workspace, shard] of Object.entries(await assignments(schema))) {
    const journal = opened.get(shard) ?? (await postgresJournal(schema, shard))
    opened.set(shard, journal)
    journals.set(workspace, journal)
  }
  return journals
}

// The copies.

interface CopySettings {
  readonly groups?: readonly (readonly string[])[]
  readonly shards?: number
  readonly leaveUnlisted?: boolean
  readonly onTable?: (counted: Counted) => unknown
  readonly signal?: AbortSignal
  readonly url?: string
}

const settings = (given: CopySettings) => ({
  ...{ groups: [['acme'], ['beta']], shards: SHARDS, leaveUnlisted: false },
  ...{ signal: new AbortController().signal, onTable: () => undefined },
  ...{ manifestJournal: (shard: number) => `chain ${shard}`, ...given },
})

const postgres = (schema: string, { url = server.url() }: CopySettings) => ({
  ...{ settings: { url }, schema, clock: systemClock, log: logOf() },
})
const sqlite = (name: string) => ({ path: join(folder, name), clock, log: logOf() })

async function toPostgres(name: string, schema: string, given: CopySettings = {}): Promise<void> {
  const source = await openSqliteSource(sqlite(name))
  try {
    const target = await openPostgresTarget(postgres(schema, given), given.shards ?? SHARDS)
    try {
      await copyJournal({ source, target, ...settings(given) })
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

async function toSqlite(schema: string, name: string, given: CopySettings = {}): Promise<void> {
  const source = await openPostgresSource(postgres(schema, given))
  try {
    const target = await openSqliteTarget(sqlite(name))
    try {
      await copyJournal({ source, target, ...settings({ shards: 1, ...given }) })
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

// What a journal answers about a workspace, without the numbers and ids that a copy changes.

async function answersOf(journal: Journal, streams: readonly Stream[]) {
  const isOurs = (stream: Stream) => streams.some(({ workspace }) => workspace === stream.workspace)
  const all = { fromDay: 0, toDay: 100_000 }
  const { kept, delivered } = await journal.counts(all)
  const state = await journal.state.list('', 1_000)
  const { lastFindings } = journal.stats()
  return {
    cursors: await Promise.all(streams.map((stream) => journal.cursor(stream))),
    known: await knownOf(journal, streams, 'second'),
    changed: await knownOf(journal, streams, 'third'),
    pending: await Promise.all(sinks.map((sink) => pendingOf(journal, sink, isOurs))),
    inFlight: await Promise.all(sinks.map((sink) => inFlightOf(journal, sink, isOurs))),
    deadLetters: await Promise.all(
      (await journal.deadLetters({}))
        .filter(({ stream }) => isOurs(stream))
        .map(async ({ id, ...letter }) => ({
          ...letter,
          seq: undefined,
          raw: text(await journal.deadLetterRaw(id)),
        })),
    ),
    quarantined: await Promise.all(
      (await journal.quarantined({}))
        .filter(({ stream }) => isOurs(stream))
        .map(async ({ id, ...element }) => ({ ...element, raw: text(await journal.quarantinedRaw(id)) })),
    ),
    findings: lastFindings.filter(({ stream }) => isOurs(stream)),
    kept: kept.filter(({ stream }) => isOurs(stream)),
    delivered: delivered.filter(({ stream }) => isOurs(stream)).sort(byText),
    unconfigured: journal.stats().unconfigured,
    state: state.filter(({ name }) => streams.some(({ workspace }) => name.includes(workspace))),
    instance: await journal.state.get('instance'),
  }
}

const knownOf = (journal: Journal, streams: readonly Stream[], body: string) =>
  Promise.all(
    streams.map(async (stream) => [
      ...(await journal.known(stream, entriesOf(specs.map((n) => spec(n, { body }))))),
    ]),
  )

const text = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString()
const byText = (a: unknown, b: unknown) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)

async function pendingOf(journal: Journal, sink: string, isOurs: (stream: Stream) => boolean) {
  const found: unknown[] = []
  for (let after: number | undefined; ;) {
    const batch = await journal.take(sink, { maxEntries: 3, maxBytes: 2 ** 20 }, { after })
    if (batch === undefined) return found
    for (const { stream, entries, appendedAt, onlySink, replay } of batch.slices)
      for (let i = 0; i < entries.count; i++)
        if (isOurs(stream))
          found.push({
            stream,
            appendedAt,
            onlySink,
            replay,
            raw: text(entries.raw(i)),
            version: entries.version(i),
          })
    after = batch.last
  }
}

async function inFlightOf(journal: Journal, sink: string, isOurs: (stream: Stream) => boolean) {
  const found: unknown[] = []
  for (const { first, last, ...rest } of await journal.inFlightBatches(sink)) {
    const { slices } = await journal.range(first, last)
    if (slices.some(({ stream }) => isOurs(stream)))
      found.push({ ...rest, raws: slices.map(({ entries }) => text(entries.bytes)) })
  }
  return found
}

/** Ids of all entries of the tests. */
const specs = Array.from({ length: 60 }, (_, i) => i + 1)
const range = (first: number, last: number) => specs.slice(first - 1, last)

const element = (bytes: string) => ({
  ...{ reason: 'no_id' as const, bytes: Buffer.from(bytes), totalBytes: bytes.length, sha256: `of ${bytes}` },
})

/** Two workspaces whose entries take turns, and everything that a journal may hold. */
async function fill(journal: Journal): Promise<void> {
  const append = async (stream: Stream, ns: readonly number[], more: Parameters<typeof part>[1] = {}) => {
    clock.nowMs += 1_000
    return journal.append(
      part(
        ns.map((n) => spec(n, { body: (more as { body?: string }).body ?? '' })),
        { stream, headUs: 0, ...more },
      ),
    )
  }
  await append(audit, range(1, 4), { cursor: 'c1', gaps: 2 })
  await append(beta, range(1, 3))
  await journal.ack('a', {
    ...acknowledgement(1, 7),
    rejected: [
      { seq: 2, code: 'refused', reason: 'no \0' },
      { seq: 6, code: 'refused', reason: 'pruned' },
    ],
    accounts: [{ stream: audit, day: 20_484, accepted: 3, filtered: 0, replayed: 0 }],
  })
  for (const sink of ['b', 'gone']) await journal.ack(sink, acknowledgement(1, 7))
  await journal.prune()
  expect((await journal.storedDays(undefined)).rows).toEqual([])
  await append(audit, range(11, 15), {
    ...{ cursor: 'c2', quarantined: [element('x'), element('y')] },
    findings: [{ kind: 'foreign_fetch', index: 1 }],
  })
  await append(beta, range(11, 16), { cursor: 'd2', quarantined: [element('x')] })
  await append(usage, range(11, 13), {
    entries: entriesOf(range(11, 13).map((n) => spec(n, { body: 'first' }))),
  })
  await append(usage, range(11, 12), {
    entries: entriesOf(range(11, 12).map((n) => spec(n, { body: 'second' }))),
  })
  await append(audit, range(21, 24))
  await append(beta, range(21, 24), { findings: [{ kind: 'foreign_fetch', index: 0 }] })
  await journal.dropQuarantined({ ids: [1] })
  // Of both workspaces: 8 to 12, 13 to 18, 19 to 23, 24 to 27, 28 to 31.
  await journal.ack('a', {
    ...acknowledgement(15, 20),
    rejected: [{ seq: 16, code: 'refused', reason: 'later' }],
  })
  await journal.ack('a', acknowledgement(26, 29))
  await journal.ack('b', { ...acknowledgement(8, 14), rejected: [{ seq: 9, code: 'refused', reason: 'no' }] })
  await journal.recordInFlight('a', { first: 9, last: 11, shape: 's', detail: '{"id":7}' })
  await journal.retryDeadLetters({ sink: 'a', ids: [1] })
  await journal.resend({
    ...{ sink: 'b', stream: beta, entries: entriesOf([spec(2)]), runAt: 7 },
    state: { drop: [], put: [] },
  })
  const { state } = journal
  for (const name of ['read:acme:audit', 'asked-with:beta', 'replay:b:beta:audit', 'workspace_met:acme'])
    await state.put(name, `"${name}"`)
  await state.putIfAbsent('instance', '123')
}

/** The journal `old.db`, closed, with a sink that left the configuration. */
async function filled(name = 'old.db'): Promise<void> {
  const first = await sqliteJournal(name, ['a', 'b', 'gone'])
  await fill(first)
  await first.close()
}

given('a journal that is copied', () => {
  it('to PostgreSQL and back answers as before, and appending known entries stores nothing', async () => {
    await filled()
    const old = await sqliteJournal()
    const before = new Map([
      ['acme', await answersOf(old, [audit])],
      ['beta', await answersOf(old, [beta, usage])],
    ])
    await old.close()
    const schema = await newSchema()
    const counted: Counted[] = []
    await toPostgres('old.db', schema, { onTable: (table) => counted.push(table) })

    expect(new Set(Object.values(await assignments(schema))).size).toBe(2)
    const journals = await journalsOf(schema)
    for (const [workspace, streams] of [
      ['acme', [audit]],
      ['beta', [beta, usage]],
    ] as const) {
      const journal = journals.get(workspace)
      expect(journal && (await answersOf(journal, streams))).toEqual(before.get(workspace))
    }
    for (const journal of journals.values()) await journal.close()

    await toSqlite(schema, 'back.db', { onTable: (table) => counted.push(table) })
    const back = await sqliteJournal('back.db')
    expect(await answersOf(back, [audit])).toEqual(before.get('acme'))
    expect(await answersOf(back, [beta, usage])).toEqual(before.get('beta'))
    expect(await back.append(part(range(11, 15).map((n) => spec(n))))).toMatchObject({ added: 0, known: 5 })
    expect(counted).toContainEqual({ what: 'dead letters', count: 3 })
  })

  it('gives no new entry the number of an old dead letter, which would hide its own', async () => {
    await filled()
    const schema = await newSchema()
    await toPostgres('old.db', schema)
    await toSqlite(schema, 'back.db')
    const journals = [...(await journalsOf(schema)).values(), await sqliteJournal('back.db')]
    for (const journal of journals) {
      await journal.append(part([spec(50), spec(51)], { stream: { workspace: 'acme', source: 'audit' } }))
      const before = (await journal.deadLetters({})).length
      const batch = await journal.take('a', { maxEntries: 100, maxBytes: 2 ** 20 })
      const { first, last, count } = batch ?? { first: 0, last: 0, count: 0 }
      const rejected = Array.from({ length: count }, (_, i) => ({
        seq: first + i,
        code: 'refused',
        reason: '',
      }))
      await journal.ack('a', { first, through: last, rejected })
      expect((await journal.deadLetters({})).length).toBe(before + count)
      expect(count).toBeGreaterThan(0)
    }
  })

  it('into one shard has the same numbers, and continues chains of manifests and canaries', async () => {
    await filled()
    const old = await sqliteJournal()
    for (const name of numbered) await old.state.put(name, '{}')
    const before = await old.deadLetters({ sink: 'b' })
    const positions = old.stats().sinks
    await old.close()
    const schema = await newSchema()
    await toPostgres('old.db', schema, { shards: 1 })
    const journal = await postgresJournal(schema, 1)
    expect((await journal.deadLetters({ sink: 'b' })).map(({ seq }) => seq)).toEqual(
      before.map(({ seq }) => seq),
    )
    expect(journal.stats().sinks).toEqual(positions)
    const state = await journal.state.list('', 1_000)
    expect(state.map(({ name }) => name)).toEqual(expect.arrayContaining(numbered))
    expect(await journal.state.get('evidence:journal')).toBeUndefined()
  })

  it('into several shards begins a new chain of manifests in each, once all objects are listed', async () => {
    await filled()
    const old = await sqliteJournal()
    for (const name of numbered) await old.state.put(name, '{}')
    await old.close()
    const schema = await newSchema()
    await expect(toPostgres('old.db', schema)).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining('run --once') as string,
    })
    change(
      'old.db',
      "DELETE FROM state WHERE name LIKE '%:settled:%'; INSERT INTO in_flight VALUES ('b', 23, 25, 's', '')",
    )
    await expect(toPostgres('old.db', schema)).rejects.toMatchObject({ code: 'config_invalid' })
    await toPostgres('old.db', schema, { leaveUnlisted: true })
    const journals = [...(await journalsOf(schema)).values()]
    const chains = await Promise.all(journals.map(({ state }) => state.get('evidence:journal')))
    expect(new Set(chains).size).toBe(2)
    for (const { state } of journals)
      expect((await state.list('', 1_000)).filter(({ name }) => numbered.includes(name))).toEqual([])
  })

  it('has a batch without an acknowledgement in flight in each shard that gets some of it', async () => {
    await filled()
    const old = await sqliteJournal()
    await old.recordInFlight('b', { first: 23, last: 25, shape: 's', detail: '' })
    await old.close()
    const schema = await newSchema()
    await toPostgres('old.db', schema)
    const journals = await journalsOf(schema)
    const inFlight = async (workspace: string) => {
      const journal = journals.get(workspace)
      const [batch] = (await journal?.inFlightBatches('b')) ?? []
      return idsOf(batch && (await journal?.range(batch.first, batch.last)))
    }
    expect(await inFlight('acme')).toEqual([21, 22].map(uuid))
    expect(await inFlight('beta')).toEqual([12].map(uuid))
  })

  it('needs no right to change tables', async () => {
    await filled()
    await server.query('CREATE ROLE copier LOGIN')
    const schema = await newSchema()
    await migrate({ settings: { url: server.url() }, schema, runtimeRole: 'copier' })
    await toPostgres('old.db', schema, { url: server.url('copier') })
    await toSqlite(schema, 'back.db', { url: server.url('copier') })
    expect((await (await sqliteJournal('back.db')).deadLetters({})).length).toBe(3)
  })
})

/** State entries that contain sequence numbers. */
const numbered = ['canary:acme', 'evidence:b:chain', 'evidence:b:settled:0000000000000008']

given('a copy', () => {
  const refused = (code: string, message: string) => ({
    ...{ code, message: expect.stringContaining(message) as string },
  })

  it('is refused while the old journal is in use, or is not there', async () => {
    const schema = await newSchema()
    await expect(toPostgres('old.db', schema)).rejects.toMatchObject(
      refused('config_invalid', 'no journal at'),
    )
    await filled()
    const running = await sqliteJournal()
    await expect(toPostgres('old.db', schema)).rejects.toMatchObject({ code: 'journal_in_use' })
    await running.close()
    await toPostgres('old.db', schema)
    const replica = await postgresJournal(schema, 2)
    await expect(toSqlite(schema, 'back.db')).rejects.toMatchObject(refused('journal_in_use', 'Shard 2'))
    await replica.close()
    await toSqlite(schema, 'back.db')
  })

  it('is refused if the new journal holds anything', async () => {
    await filled()
    const schema = await newSchema()
    await (await postgresJournal(schema, 3)).close()
    await expect(toPostgres('old.db', schema)).rejects.toMatchObject(
      refused('config_invalid', 'an empty one'),
    )
    await expect(toSqlite(schema, 'old.db')).rejects.toMatchObject(
      refused('config_invalid', 'needs a new one'),
    )
  })

  it('is refused before it writes while an awaited acknowledgement is of entries of two shards', async () => {
    await filled()
    const old = await sqliteJournal()
    await old.recordInFlight('b', { first: 23, last: 25, shape: 's', detail: '{"id":7}' })
    await old.close()
    const schema = await newSchema()
    await expect(toPostgres('old.db', schema)).rejects.toMatchObject(
      refused('config_invalid', 'Sink b waits for the acknowledgement of a batch (entries 23 to 25)'),
    )
    await toPostgres('old.db', schema, { groups: [['acme', 'beta']] })
  })

  it('is refused if a chunk is damaged, or rows of it are missing', async () => {
    await filled()
    const schema = await newSchema()
    change('old.db', 'UPDATE chunks SET slab = zeroblob(length(slab)) WHERE first = 19')
    await expect(toPostgres('old.db', schema)).rejects.toMatchObject(
      refused('journal_corrupt', 'entries 19 to'),
    )
    await filled('holed.db')
    change('holed.db', 'DELETE FROM chunks WHERE first = 19')
    await expect(toPostgres('holed.db', await newSchema())).rejects.toMatchObject(
      refused('journal_corrupt', 'lacks entry 19'),
    )
  })

  it('that is interrupted is opened by nothing, until it is made again from the beginning', async () => {
    await filled()
    const schema = await newSchema()
    const interrupted = () => {
      const controller = new AbortController()
      const onTable = ({ what }: Counted) => what === 'dedup keys' && controller.abort()
      return { signal: controller.signal, onTable }
    }
    await expect(toPostgres('old.db', schema, interrupted())).rejects.toThrow()
    for (const shard of [1, 4])
      await expect(postgresJournal(schema, shard)).rejects.toMatchObject(
        refused('config_invalid', 'an unfinished copy'),
      )
    await expect(toPostgres('old.db', schema)).rejects.toMatchObject(
      refused('config_invalid', 'an unfinished copy'),
    )
    await server.query(`DROP SCHEMA ${schema} CASCADE`)
    await migrate({ settings: { url: server.url() }, schema })
    await toPostgres('old.db', schema)

    await expect(toSqlite(schema, 'back.db', interrupted())).rejects.toThrow()
    await expect(sqliteJournal('back.db')).rejects.toMatchObject(
      refused('config_invalid', 'an unfinished copy'),
    )
    await expect(toSqlite(schema, 'back.db')).rejects.toMatchObject(
      refused('config_invalid', 'an unfinished copy'),
    )
    rmSync(join(folder, 'back.db'))
    await toSqlite(schema, 'back.db')
    expect((await (await sqliteJournal('back.db')).deadLetters({})).length).toBe(3)
  })

  it('is not used if another process had a shard of the old journal meanwhile', async () => {
    await filled()
    const schema = await newSchema()
    await toPostgres('old.db', schema)
    const steal = ({ what }: Counted) =>
      what === 'streams' && void server.query(`UPDATE ${schema}.shards SET epoch = epoch + 1 WHERE id = 1`)
    await expect(toSqlite(schema, 'back.db', { onTable: steal })).rejects.toMatchObject({
      code: 'lease_lost',
    })
    await expect(sqliteJournal('back.db')).rejects.toMatchObject(
      refused('config_invalid', 'an unfinished copy'),
    )
  })
})

given('auditferry journal copy', () => {
  const configured = (name: string, journal: string) => {
    const file = join(folder, name)
    const workspace = (workspace: string, key: string) =>
      `{ name: ${workspace}, base_url: "https://a.example.com", api_key: "\${env:${key}}", audit: {} }`
    writeFileSync(
      file,
      `journal: ${journal}
workspaces: [${[workspace('acme', 'ONE'), workspace('beta', 'ONE'), workspace('other', 'TWO')].join(', ')}]
sinks: [{ name: a, type: syslog, address: "tls://a.example.com:6514" }]
server: { listen: 127.0.0.1:1 }
`,
    )
    return file
  }
  const run = async (...args: readonly string[]) => {
    const { context, heard } = openContext()
    const env = { ONE: 'one', TWO: 'two', URL: server.url() }
    const code = await runProgram(['journal', 'copy', ...args], { ...context, env })
    return { code, ...heard() }
  }

  it('copies there and back, prints what, and keeps workspaces of one key together', async () => {
    await filled()
    const schema = await newSchema()
    const old = configured('old.yaml', `{ path: ${join(folder, 'old.db')} }`)
    const next = configured('new.yaml', `{ postgres: { url: "\${env:URL}", schema: ${schema} } }`)
    const back = configured('back.yaml', `{ path: ${join(folder, 'back.db')} }`)
    const there = await run('--from', old, '--to', next)
    expect(there).toMatchObject({ code: 0, stderr: '' })
    expect(there.stdout).toContain('  dead letters: 3\n')
    expect(there.stdout).toContain(`Start with ${next} from now on`)
    const shards = await assignments(schema)
    expect(shards['acme']).toBe(shards['beta'])
    expect(shards['other']).not.toBe(shards['acme'])
    expect(await run('--from', next, '--to', back)).toMatchObject({ code: 0, stderr: '' })
    expect((await (await sqliteJournal('back.db')).deadLetters({})).length).toBe(3)
  })

  it('says what is wrong, in one line', async () => {
    const old = configured('old.yaml', `{ path: ${join(folder, 'old.db')} }`)
    const next = configured('new.yaml', `{ postgres: { url: "\${env:URL}", schema: ${await newSchema()} } }`)
    expect(await run('--from', old, '--to', old)).toMatchObject({
      ...{ code: 2, stderr: expect.stringMatching(/^error: --from and --to: exactly one .*\n$/) as string },
    })
    expect(await run('--from', old, '--to', next)).toMatchObject({
      ...{ code: 78, stderr: expect.stringMatching(/^auditferry: There is no journal at .*\n$/) as string },
    })
  })
})

/** As a fault of the disk. */
function change(name: string, text: string): void {
  const db = new Sqlite(join(folder, name))
  db.exec(text)
  db.close()
}
