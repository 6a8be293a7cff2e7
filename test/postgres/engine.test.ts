// What the journal in PostgreSQL must do beyond the contract: leases and fences, lost connections,
// roles, servers that it refuses, and tables that stay flat.
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Journal } from '../../src/contracts/journal.ts'
import type { ConnectorError } from '../../src/core/errors.ts'
import { PostgresStore } from '../../src/journal/postgres/open.ts'
import { SCHEMA_VERSION, migrate } from '../../src/journal/postgres/schema.ts'
import { systemClock } from '../../src/platform/clock.ts'
import {
  DAY_MS,
  START_US,
  TestClock,
  acknowledgement,
  audit,
  entriesOf,
  idsOf,
  logOf,
  part,
  plenty,
  spec,
  usage,
  uuid,
} from '../contract/journal-parts.ts'
import { certificate } from '../fakes/certificates.ts'
import { startProxy } from './proxy.ts'
import type { Proxy } from './proxy.ts'
import { noPostgres, startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

const why = noPostgres()
const given = why === undefined ? describe : describe.skip
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)

let server: PostgresServer
let clock: TestClock
let shards = 0
let sentences: string[]
const ends: (() => Promise<void>)[] = []

interface StoreSettings {
  readonly url?: string
  readonly schema?: string
  readonly holder?: string
  readonly termMs?: number
}

function storeOf({
  url = server.url(),
  schema = 'journal',
  holder = 'one',
  termMs = 60_000,
}: StoreSettings = {}) {
  const store = new PostgresStore({
    settings: { url },
    schema,
    holder,
    termMs,
    clock: systemClock,
    log: logOf(sentences),
  })
  ends.push(() => store.close())
  return store
}

const bounds = { maxBytes: 2 ** 30, keepKeysMs: 35 * DAY_MS, keepDeliveredBytes: 2 ** 30 }

async function opened(settings: StoreSettings = {}, shard = ++shards): Promise<Journal> {
  const journal = await storeOf(settings).acquire(shard, { ...bounds, clock, log: logOf(sentences) })
  if (journal === undefined) throw new Error('the shard is held')
  ends.push(() => journal.close())
  await journal.registerSinks(['a'])
  return journal
}

/** As if its time had passed. */
const expire = (shard = shards) =>
  server.query('UPDATE journal.shards SET expires_at = now() WHERE id = $1', [shard])

const count = async (text: string, shard = shards): Promise<number> =>
  Number(
    (await server.query<{ n: string }>(`SELECT count(*) AS n FROM ${text} WHERE shard = $1`, [shard]))[0]?.n,
  )

const commitsOf = async (shard = shards) =>
  Number(
    (await server.query<{ commits: string }>('SELECT commits FROM journal.shards WHERE id = $1', [shard]))[0]
      ?.commits,
  )

beforeAll(async () => {
  if (why !== undefined) return
  server = await startPostgres()
  await migrate({ settings: { url: server.url() }, schema: 'journal' })
})
afterAll(async () => {
  if (why === undefined) await server.stop()
})
beforeEach(() => {
  clock = new TestClock()
  sentences = []
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

given('the lease of a shard', () => {
  it('is held by one process, and grows its epoch with each holder, also after a release', async () => {
    const first = await opened()
    const other = storeOf({ holder: 'two' })
    const options = { ...bounds, clock, log: logOf() }
    const epoch = async () =>
      (
        await server.query<{ epoch: string; holder: string | null }>(
          'SELECT epoch, holder FROM journal.shards WHERE id = $1',
          [shards],
        )
      )[0]
    expect(await other.acquire(shards, options)).toBeUndefined()
    expect(await epoch()).toEqual({ epoch: '1', holder: 'one' })
    await first.close()
    expect(await epoch()).toEqual({ epoch: '1', holder: null })
    const second = await other.acquire(shards, options)
    expect(await epoch()).toEqual({ epoch: '2', holder: 'two' })
    await second?.close()
    const again = await storeOf({ holder: 'two' }).acquire(shards, options)
    expect(await epoch()).toEqual({ epoch: '3', holder: 'two' })
    await again?.close()
  })

  it('is renewed as long as its holder lives, and shards of one store are held side by side', async () => {
    const store = storeOf({ termMs: 1_500 })
    const options = { ...bounds, clock, log: logOf(sentences) }
    const [one, two] = [++shards, ++shards]
    const journals = [await store.acquire(one, options), await store.acquire(two, options)]
    await sleep(3_000)
    for (const journal of journals) await journal?.state.put('x', '1')
    expect(await storeOf({ holder: 'two' }).acquire(one, options)).toBeUndefined()
    for (const journal of journals) await journal?.close()
    expect(sentences).toEqual([])
  })

  it('that cannot be renewed ends before the database says so, and every method refuses without asking', async () => {
    const proxy = await startProxy(join(server.folder, `.s.PGSQL.${server.port}`), 'owner')
    ends.push(() => proxy.close())
    const journal = await opened({ url: proxy.url, termMs: 2_000 })
    const waiting = journal.arrival('a', new AbortController().signal)
    const rejected = expect(waiting).rejects.toMatchObject({ code: 'lease_lost' })
    proxy.refuse()
    const began = performance.now()
    await rejected
    expect(performance.now() - began).toBeLessThan(2_000)
    const [row] = await server.query<{ held: boolean }>(
      'SELECT expires_at > clock_timestamp() AS held FROM journal.shards WHERE id = $1',
      [shards],
    )
    expect(row?.held).toBe(true)
    proxy.heal()
    for (const method of methodsOf(journal))
      await expect(method(), String(method)).rejects.toMatchObject({ code: 'lease_lost' })
    expect(sentences.filter((sentence) => sentence.includes('lease'))).toHaveLength(1)
  })

  it('an earlier holder of any kind changes nothing: each method that writes is refused, and then each other one', async () => {
    const writing = methodsOf(await opened()).length
    for (let i = 0; i < writing; i++) {
      const stale = await opened()
      await stale.append(part([spec(1), spec(2)], { cursor: 'c1', quarantined: [element] }))
      await stale.ack('a', {
        ...acknowledgement(1, 1),
        rejected: [{ seq: 1, code: 'refused', reason: 'no' }],
      })
      await expire()
      const next = await opened({ holder: 'two' }, shards)
      const before = await commitsOf()
      const method = methodsOf(stale)[i]
      const refused = await method?.().then(
        () => undefined,
        (error: unknown) => error,
      )
      // One that only reads may still answer, until the first write is refused.
      if (refused !== undefined) expect(refused).toMatchObject({ code: 'lease_lost' })
      else
        expect(String(method)).toMatch(
          /cursor|known|take|range|inFlightBatches|deadLetters\(|Raw|quarantined\(|counts|pending|storedDays|get|list|dryRun: true/,
        )
      expect(await commitsOf()).toBe(before)
      await expect(stale.state.put('x', '1')).rejects.toMatchObject({ code: 'lease_lost' })
      for (const each of methodsOf(stale)) await expect(each()).rejects.toMatchObject({ code: 'lease_lost' })
      expect(await next.cursor(audit)).toBe('c1')
      for (const end of ends.splice(0).reverse()) await end()
    }
  })

  it('a holder that freezes inside a transaction blocks no successor, and nothing of the transaction is stored', async () => {
    const stale = await opened({ termMs: 1_000 })
    await stale.append(part([spec(1)]))
    // The function of a part is called inside its transaction. It blocks this thread, as SIGSTOP does.
    const state = () => {
      execFileSync('sleep', ['2'])
      return []
    }
    const frozen = stale.append(part([spec(2)], { cursor: 'c2', state }))
    await expect(frozen).rejects.toMatchObject({ code: 'lease_lost' })
    const next = await opened({ holder: 'two' }, shards)
    expect(await next.append(part([spec(2)]))).toMatchObject({ added: 1 })
    expect(await next.cursor(audit)).toBeUndefined()
    await expect(stale.state.put('x', '1')).rejects.toMatchObject({ code: 'lease_lost' })
    expect(await count('journal.chunks')).toBe(2)
  })

  it('is taken over while its holder is stuck before a COMMIT: the server ends that, and nothing of it is stored', async () => {
    const proxy = await startProxy(join(server.folder, `.s.PGSQL.${server.port}`), 'owner')
    ends.push(() => proxy.close())
    const stale = await opened({ url: proxy.url, termMs: 2_000 })
    await stale.append(part([spec(1)], { cursor: 'c1' }))
    proxy.fail('stuck')
    const stuck = stale.append(part([spec(2)], { cursor: 'c2' })).catch((error: unknown) => error)
    await sleep(200)
    await expire()
    const store = storeOf({ holder: 'two' })
    const acquired = () => store.acquire(shards, { ...bounds, clock, log: logOf() }).catch(() => undefined)
    let next: Journal | undefined
    await expect.poll(async () => (next ??= await acquired()) !== undefined).toBe(true)
    await next?.registerSinks(['a'])
    expect(await next?.cursor(audit)).toBe('c1')
    expect(await next?.append(part([spec(2)]))).toMatchObject({ added: 1, last: 2 })
    // By what came first, when it looked: the end of its transaction, or the next holder.
    expect(['store_unavailable', 'lease_lost']).toContain(((await stuck) as ConnectorError).code)
    await expect(stale.state.put('x', '1')).rejects.toMatchObject({ code: 'lease_lost' })
    await next?.close()
  })
})

given('a connection that is lost', () => {
  let proxy: Proxy
  let journal: Journal

  beforeEach(async () => {
    proxy = await startProxy(join(server.folder, `.s.PGSQL.${server.port}`), 'owner')
    ends.push(() => proxy.close())
    journal = await opened({ url: proxy.url })
    await journal.append(part([spec(1)], { cursor: 'c1' }))
  })

  it('before the COMMIT has stored nothing, and the next try goes on', async () => {
    proxy.refuse()
    await expect(journal.append(part([spec(2)], { cursor: 'c2' }))).rejects.toMatchObject({
      code: 'store_unavailable',
    })
    await expect(journal.take('a', { maxEntries: 1, maxBytes: 1 }, { after: 0 })).resolves.toMatchObject({
      first: 1,
    })
    await expect(journal.cursor(audit)).rejects.toMatchObject({ code: 'store_unavailable' })
    proxy.heal()
    expect(await journal.cursor(audit)).toBe('c1')
    expect(journal.stats()).toMatchObject({ entries: 1 })
    expect(await journal.append(part([spec(2)], { cursor: 'c2' }))).toMatchObject({ added: 1, last: 2 })
  })

  it('inside a transaction has stored nothing', async () => {
    const state = () => {
      proxy.refuse()
      return [{ name: 'x', value: '1' }]
    }
    await expect(journal.append(part([spec(2)], { cursor: 'c2', state }))).rejects.toMatchObject({
      code: 'store_unavailable',
    })
    proxy.heal()
    expect(await journal.state.get('x')).toBeUndefined()
    expect(await journal.append(part([spec(2)]))).toMatchObject({ added: 1 })
  })

  it('during the COMMIT, which did not reach the server: nothing is stored, and the call says so', async () => {
    const before = await commitsOf()
    proxy.fail('before')
    await expect(journal.append(part([spec(2)], { cursor: 'c2' }))).rejects.toMatchObject({
      code: 'store_unavailable',
    })
    expect(await commitsOf()).toBe(before)
    expect(journal.stats()).toMatchObject({ entries: 1 })
    expect(await journal.append(part([spec(2)], { cursor: 'c2' }))).toMatchObject({ added: 1, last: 2 })
  })

  it('during the COMMIT, which landed: the call succeeds, and nothing is stored twice', async () => {
    const before = await commitsOf()
    proxy.fail('after')
    expect(await journal.append(part([spec(2)], { cursor: 'c2' }))).toMatchObject({ added: 1, last: 2 })
    expect(await commitsOf()).toBe(before + 1)
    proxy.fail('after')
    await journal.ack('a', acknowledgement(1, 1))
    expect(journal.stats()).toMatchObject({ entries: 1 })
    expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(2)])
    expect(await journal.append(part([spec(2), spec(3)]))).toMatchObject({ added: 1, known: 1, last: 3 })
  })

  it('during the COMMIT, which reaches the server only then: the call waits for it', async () => {
    const before = await commitsOf()
    proxy.fail('late')
    expect(await journal.append(part([spec(2)], { cursor: 'c2' }))).toMatchObject({ added: 1, last: 2 })
    expect(await commitsOf()).toBe(before + 1)
    expect(await journal.append(part([spec(2)]))).toMatchObject({ known: 1 })
  })

  it('during no COMMIT that waits for a standby: the call waits as well', async () => {
    const standbys = async (names: string) => {
      await server.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`)
      await server.query('SELECT pg_reload_conf()')
    }
    await standbys('absent')
    const probe = new Client(server.url())
    await probe.connect()
    const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    try {
      // Its processes learn of the setting one after the other.
      for (let i = 0; (await server.query(waiting)).length === 0; i++) {
        void probe.query(`CREATE TABLE public.probe_${i} ()`)
        await sleep(50)
      }
      let isDone = false
      const appending = journal.append(part([spec(2)])).finally(() => (isDone = true))
      await expect.poll(() => server.query(waiting)).toHaveLength(2)
      await sleep(500)
      expect(isDone).toBe(false)
      expect(journal.stats()).toMatchObject({ entries: 1 })
      await standbys('')
      expect(await appending).toMatchObject({ added: 1 })
    } finally {
      await standbys('')
      await probe.end()
    }
  })

  it('during the COMMIT, with a server that is gone for a while: the call waits for the answer', async () => {
    proxy.fail('after')
    const appending = journal.append(part([spec(2)]))
    const healed = sleep(50)
      .then(() => proxy.refuse())
      .then(() => sleep(700))
      .then(() => proxy.heal())
    expect(await appending).toMatchObject({ added: 1 })
    await healed
    expect(await journal.append(part([spec(2)]))).toMatchObject({ known: 1 })
  })

  it('a COMMIT without an answer is waited for as long as the lease is trusted, and never cancelled', async () => {
    await journal.close()
    const short = await opened({ url: proxy.url, termMs: 2_000 }, shards)
    const before = await commitsOf()
    const began = performance.now()
    proxy.fail('mute')
    const appending = expect(short.append(part([spec(2)]))).rejects.toMatchObject({ code: 'lease_lost' })
    await expect.poll(() => commitsOf()).toBe(before + 1)
    await appending
    expect(performance.now() - began).toBeGreaterThan(1_000)
    expect(performance.now() - began).toBeLessThan(5_000)
  })

  it('after a failover that lost the tail all of it is lost together: what was read is read again, in a new incarnation', async () => {
    const standby = await server.copy()
    ends.unshift(() => standby.stop())
    await journal.append(part([spec(2), spec(3)], { cursor: 'c3' }))
    const chunks = 'SELECT first, incarnation FROM journal.chunks WHERE shard = $1 ORDER BY first'
    const lost = await server.query<{ incarnation: string }>(chunks, [shards])
    proxy.turn(join(standby.folder, `.s.PGSQL.${standby.port}`))
    const failure = () => journal.append(part([spec(4)], { cursor: 'c4' })).catch((error: unknown) => error)
    await expect.poll(failure).toMatchObject({
      code: 'lease_lost',
      message: expect.stringContaining('failover') as string,
    })
    await standby.query('UPDATE journal.shards SET expires_at = now() WHERE id = $1', [shards])
    const next = await opened({ url: proxy.url, holder: 'two' }, shards)
    expect(await next.cursor(audit)).toBe('c1')
    expect(await next.append(part([spec(2), spec(3), spec(4)], { cursor: 'c4' }))).toMatchObject({
      added: 3,
      last: 4,
    })
    expect(idsOf(await next.take('a', plenty))).toEqual([1, 2, 3, 4].map(uuid))
    const kept = await standby.query<{ incarnation: string }>(chunks, [shards])
    expect(kept[0]).toEqual(lost[0])
    expect(kept[1]?.incarnation).not.toBe(lost[1]?.incarnation)
  })

  it('transactions that the database confirmed and lost: the journal is stale, and says why', async () => {
    await server.query('UPDATE journal.shards SET commits = commits - 1 WHERE id = $1', [shards])
    await expect(journal.state.put('x', '1')).rejects.toMatchObject({
      code: 'lease_lost',
      message: expect.stringContaining('lost transactions that it had confirmed') as string,
    })
    expect(await server.query('SELECT 1 FROM journal.state WHERE shard = $1', [shards])).toEqual([])
    await expect(journal.cursor(audit)).rejects.toMatchObject({ code: 'lease_lost' })
  })

  it('transactions lost while the connection was down are noticed when it is back, before anything is read', async () => {
    proxy.refuse()
    await server.query('UPDATE journal.shards SET commits = commits - 1 WHERE id = $1', [shards])
    proxy.heal()
    const failure = () => journal.cursor(audit).catch((error: unknown) => error)
    await expect.poll(failure).toMatchObject({ code: 'lease_lost' })
  })
})

given('three replicas behind bad networks', () => {
  it('share a shard: what was confirmed is stored once, what was refused is not, and the sequence has no hole', async () => {
    const shard = ++shards
    const start = Date.now()
    const confirmed = new Set<number>()
    const refused = new Set<number>()
    let entries = 0
    let lives = 0
    // Faults come at random: it goes on for twelve seconds, and then until enough of each kind happened.
    const enough = () => confirmed.size > 20 && refused.size > 5 && lives > 5
    const over = () => Date.now() > start + (enough() ? 12_000 : 60_000)
    const spoil = async (proxy: Proxy) => {
      while (!over()) {
        await sleep(Math.random() * 250)
        const chance = Math.random()
        const fault = (['before', 'after', 'late'] as const)[Math.floor(chance * 8)]
        if (fault) proxy.fail(fault)
        else if (chance < 0.45) proxy.fail('stuck')
        else if (chance < 0.5) await expire(shard)
        else if (chance < 0.6) {
          proxy.refuse()
          await sleep(Math.random() * 1_500)
          proxy.heal()
        }
      }
    }
    const codeOf = (error: unknown) => (error as Partial<ConnectorError>).code ?? String(error)
    const live = async (journal: Journal) => {
      for (let code: string | undefined; code !== 'lease_lost' && !over();) {
        const n = ++entries
        code = await journal.append(part([spec(n)], { cursor: `${n}` })).then(() => undefined, codeOf)
        if (code === undefined) confirmed.add(n)
        else if (code === 'store_unavailable') refused.add(n)
        else expect(code).toBe('lease_lost')
      }
      await journal.close()
    }
    const replica = async (name: string) => {
      const proxy = await startProxy(join(server.folder, `.s.PGSQL.${server.port}`), 'owner')
      const spoiling = spoil(proxy)
      while (!over()) {
        const store = storeOf({ url: proxy.url, holder: `${name} ${++lives}`, termMs: 1_500 })
        const acquired = store.acquire(shard, { ...bounds, clock, log: logOf() })
        const journal = await acquired.catch((error: unknown) => codeOf(error))
        if (typeof journal === 'string') expect(['store_unavailable', 'lease_lost']).toContain(journal)
        else if (journal) await live(journal)
        await store.close()
        await sleep(50)
      }
      await spoiling
      await proxy.close()
    }
    await Promise.all(['one', 'two', 'three'].map(replica))
    const keys = 'SELECT right(encode(id, $2), 12) AS id FROM journal.dedup_keys WHERE shard = $1'
    const ids = (await server.query<{ id: string }>(keys, [shard, 'hex'])).map(({ id }) => Number(`0x${id}`))
    expect([...confirmed].filter((n) => !ids.includes(n))).toEqual([])
    expect([...refused].filter((n) => ids.includes(n))).toEqual([])
    const chunks = 'SELECT first FROM journal.chunks WHERE shard = $1 ORDER BY first'
    const firsts = (await server.query<{ first: string }>(chunks, [shard])).map(({ first }) => Number(first))
    expect(firsts).toEqual(ids.map((_, i) => i + 1))
    expect(enough()).toBe(true)
  })
})

given('servers and schemas', () => {
  it('a server that accepts no writes is refused, and used again once it does', async () => {
    await server.query('CREATE ROLE reader LOGIN SUPERUSER')
    await server.query('ALTER ROLE reader SET default_transaction_read_only = on')
    const store = storeOf({ url: server.url('reader') })
    const acquire = () => store.acquire(++shards, { ...bounds, clock, log: logOf() })
    await expect(acquire()).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringContaining('accepts no writes') as string,
    })
    await server.query('ALTER ROLE reader RESET default_transaction_read_only')
    await (await acquire())?.close()
  })

  it('a standby is refused, and used once it was promoted', async () => {
    const standby = await startPostgres({ standby: true })
    ends.push(() => standby.stop())
    const store = storeOf({ url: standby.url() })
    const acquire = () => store.acquire(1, { ...bounds, clock, log: logOf() })
    await expect(acquire()).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringContaining('standby') as string,
    })
    await standby.query('SELECT pg_promote()')
    await migrate({ settings: { url: standby.url() }, schema: 'journal' })
    const journal = await acquire()
    expect(await journal?.cursor(audit)).toBeUndefined()
    await journal?.close()
  })

  it('the password is asked for at each connection, and the certificate and its name are verified', async () => {
    const authority = certificate('ours')
    const secure = await startPostgres({
      withPassword: ['changing'],
      tls: certificate('localhost', authority),
    })
    ends.push(() => secure.stop())
    await secure.query("CREATE ROLE changing LOGIN SUPERUSER PASSWORD 'first'")
    let password = 'first'
    let asked = 0
    const settings = {
      get url() {
        asked++
        return secure.url(`changing:${password}`)
      },
    }
    await migrate({ settings, schema: 'journal' })
    const options = { schema: 'journal', holder: 'one', termMs: 60_000, clock: systemClock, log: logOf() }
    const store = new PostgresStore({ settings, ...options })
    ends.push(() => store.close())
    const journal = await store.acquire(1, { ...bounds, clock, log: logOf() })
    ends.push(async () => journal?.close())
    await secure.query("ALTER ROLE changing PASSWORD 'second'")
    await secure.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'changing'")
    const put = () =>
      journal?.state.put('x', '1').then(
        () => 'put',
        (error: unknown) => error,
      )
    await expect
      .poll(put)
      .toMatchObject({ code: 'store_unavailable', message: expect.stringContaining('28P01') as string })
    password = 'second'
    expect(await put()).toBe('put')
    expect(asked).toBeGreaterThan(3)

    const url = (host: string) => `postgres://owner@${host}:${secure.port}/postgres`
    const migrated = (host: string, ca: string) =>
      migrate({ settings: { url: url(host), tls: async () => ({ ca }) }, schema: 'journal' }).catch(
        (error: unknown) => error,
      )
    expect(await migrated('localhost', authority.cert)).toBe(0)
    expect(await migrated('localhost', certificate('theirs').cert)).toMatchObject({
      code: 'store_unavailable',
    })
    expect(await migrated('127.0.0.1', authority.cert)).toMatchObject({ code: 'store_unavailable' })
  })

  it('a server that is not there is unavailable, and no bug', async () => {
    const store = storeOf({ url: 'postgres://owner@localhost:1/postgres' })
    await expect(store.acquire(1, { ...bounds, clock, log: logOf() })).rejects.toMatchObject({
      code: 'store_unavailable',
    })
  })

  it('settings of the role do not weaken a commit or its isolation, and it has no timeout', async () => {
    await server.query('CREATE ROLE careless LOGIN SUPERUSER')
    await server.query('ALTER ROLE careless SET synchronous_commit = off')
    await server.query("ALTER ROLE careless SET statement_timeout = '10s'")
    await server.query("ALTER ROLE careless SET default_transaction_isolation = 'serializable'")
    const journal = await opened({ url: server.url('careless'), termMs: 1_500 })
    await sleep(1_000)
    await journal.append(part([spec(1)]))
    const seen = await insideTransaction(journal)
    expect(seen).toEqual({ commit: 'on', isolation: 'read committed', timeout: '0' })
  })

  it('the daemon works with a role that may change no table, and empties partitions all the same', async () => {
    await server.query('CREATE ROLE migrator LOGIN')
    await server.query('CREATE ROLE daemon LOGIN')
    await server.query('CREATE DATABASE roles OWNER migrator')
    const settings = { url: server.url('migrator', 'roles') }
    expect(await migrate({ settings, schema: 'journal', runtimeRole: 'daemon' })).toBe(SCHEMA_VERSION)
    expect(await migrate({ settings, schema: 'journal', runtimeRole: 'daemon' })).toBe(0)
    const journal = await opened({ url: server.url('daemon', 'roles') })
    await journal.append(part([spec(1)]))
    await journal.ack('a', acknowledgement(1, 1))
    while (await journal.prune()) continue
    const daemon = new Client({ host: server.folder, port: server.port, user: 'daemon', database: 'roles' })
    await daemon.connect()
    await expect(daemon.query('CREATE TABLE journal.x (y integer)')).rejects.toThrow('permission denied')
    await expect(daemon.query('DROP TABLE journal.dedup_keys')).rejects.toThrow('must be owner')
    await expect(daemon.query('UPDATE journal.schema_version SET version = 9')).rejects.toThrow(
      'permission denied',
    )
    await daemon.query('TRUNCATE journal.dedup_keys_other')
    await daemon.end()
  })

  it('a schema without tables, of an older version and of a newer one are refused with what to do', async () => {
    const refusal = async (schema: string) =>
      storeOf({ schema })
        .acquire(1, { ...bounds, clock, log: logOf() })
        .catch((error: unknown) => error)
    expect(await refusal('nowhere')).toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining('auditferry journal migrate') as string,
    })
    await migrate({ settings: { url: server.url() }, schema: 'other' })
    await server.query('UPDATE other.schema_version SET version = 0')
    expect(await refusal('other')).toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining('version 0') as string,
    })
    await server.query('UPDATE other.schema_version SET version = 99')
    expect(await refusal('other')).toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining('newer version') as string,
    })
    await expect(migrate({ settings: { url: server.url() }, schema: 'other' })).rejects.toMatchObject({
      code: 'config_invalid',
    })
    expect(() => storeOf({ schema: 'x; DROP SCHEMA journal' })).toThrow('a to z')
  })
})

given('the tables', () => {
  it('partitions of the dedup keys are emptied when their last key is gone, and not before', async () => {
    const journal = await opened()
    const other = await opened({ holder: 'two' })
    const pages = (from: number, at: number) =>
      part(Array.from({ length: 1000 }, (_, i) => spec(from + i, { at: at + i })))
    for (let page = 0; page < 4; page++) await journal.append(pages(page * 1000, START_US))
    await other.append(pages(0, START_US))
    const sizes = async () =>
      Object.fromEntries(
        (
          await server.query<{ name: string; size: string }>(
            `SELECT relname AS name, pg_total_relation_size(c.oid) AS size FROM pg_class c JOIN pg_inherits ON inhrelid = c.oid
             WHERE inhparent = 'journal.dedup_keys'::regclass`,
          )
        ).map(({ name, size }) => [name, Number(size)]),
      )
    const full = (await sizes())['dedup_keys_other'] ?? 0
    expect(full).toBeGreaterThan(400_000)
    const later = async (each: Journal) => {
      for (const day of [60, 61]) {
        clock.nowMs = START_US / 1000 + day * DAY_MS
        await each.append(part([{ id: uuid(day), at: clock.nowMs * 1000 }]))
      }
    }
    await later(journal)
    while (await journal.prune()) continue
    expect((await sizes())['dedup_keys_other']).toBeGreaterThan(400_000)
    clock.nowMs = START_US / 1000
    await later(other)
    clock.nowMs += DAY_MS
    while (await other.prune()) continue
    expect(
      await journal.append(part([{ id: uuid(61), at: (START_US / 1000 + 61 * DAY_MS) * 1000 }])),
    ).toMatchObject({ known: 1 })
    await server.query('DELETE FROM journal.dedup_keys')
    clock.nowMs += DAY_MS
    while (await other.prune()) continue
    expect((await sizes())['dedup_keys_other']).toBeLessThan(50_000)
  })

  it('stay as large as they are, however many days come and go', async () => {
    const days = 40
    const begin = Date.now() - days * DAY_MS
    const churn = { ...bounds, keepKeysMs: 3 * DAY_MS, keepDeliveredBytes: 2 ** 20 }
    const journal = await storeOf().acquire(++shards, { ...churn, clock, log: logOf() })
    if (journal === undefined) throw new Error('the shard is held')
    ends.push(() => journal.close())
    await journal.registerSinks(['a'])
    const sizes: number[] = []
    for (let day = 0; day < days; day++) {
      clock.nowMs = begin + day * DAY_MS
      for (let page = 0; page < 3; page++) {
        const specs = Array.from({ length: 1000 }, (_, i) =>
          spec(day * 10_000 + page * 1000 + i, {
            at: (clock.nowMs + page) * 1000 + i,
            body: 'x'.repeat(200),
          }),
        )
        await journal.append(part(specs, { cursor: `${day}` }))
        const batch = await journal.take('a', { maxEntries: 1000, maxBytes: 2 ** 20 })
        if (!batch) throw new Error('nothing to take')
        await journal.recordInFlight('a', { first: batch.first, last: batch.last, shape: 's', detail: '{}' })
        await journal.ack('a', acknowledgement(batch.first, batch.last))
      }
      while (await journal.prune()) continue
      // As autovacuum does, when it comes round.
      for (const table of [
        'shards',
        'streams',
        'chunks',
        'dedup_keys',
        'sinks',
        'in_flight',
        'accounts',
        'counts',
      ])
        await server.query(`VACUUM journal.${table}`)
      const [size] = await server.query<{ bytes: string }>(
        `SELECT sum(pg_total_relation_size(oid)) AS bytes FROM pg_class
         WHERE relnamespace = 'journal'::regnamespace AND relkind = 'r'`,
      )
      sizes.push(Number(size?.bytes))
    }
    const [early, late] = [Math.max(...sizes.slice(5, 15)), Math.max(...sizes.slice(-10))]
    expect(late / early).toBeLessThan(1.1)
    expect(await count('journal.dedup_keys')).toBeLessThan(6 * 3000)
  })

  it('a chunk whose bytes rotted is not delivered: it is named', async () => {
    const journal = await opened()
    await journal.append(part([spec(1)]))
    await journal.close()
    await server.query('UPDATE journal.chunks SET slab = set_byte(slab, 3, 1) WHERE shard = $1', [shards])
    const again = await opened({}, shards)
    await expect(again.take('a', plenty)).rejects.toMatchObject({
      code: 'journal_corrupt',
      message: expect.stringContaining('entries 1 to 1') as string,
    })
  })

  it('texts that PostgreSQL cannot hold come out as they went in', async () => {
    const journal = await opened()
    const type = 'a\u0000b'
    await journal.append(part([spec(1, { type })]))
    await journal.ack('a', {
      ...acknowledgement(1, 1),
      rejected: [{ seq: 1, code: 'refused', reason: 'no\u0000' }],
    })
    expect(await journal.deadLetters({})).toMatchObject([{ type, reason: 'no\u0000' }])
    await journal.retryDeadLetters({})
    expect((await journal.take('a', plenty))?.slices[0]?.entries.type(0)).toBe(type)
  })
})

given('through pgbouncer, with a connection for each transaction', () => {
  const bouncer = process.env['AUDITFERRY_PGBOUNCER'] ?? '/usr/sbin/pgbouncer'
  if (!existsSync(bouncer)) {
    process.stderr.write(`\nSKIPPED: the journal through pgbouncer: there is no ${bouncer}\n\n`)
    it.skip(`skipped: pgbouncer is not installed (${bouncer})`, () => undefined)
    return
  }

  it('transactions, leases and fences work', async () => {
    const port = 6543
    const ini = join(server.folder, 'pgbouncer.ini')
    writeFileSync(join(server.folder, 'users.txt'), '"owner" ""\n')
    writeFileSync(
      ini,
      `[databases]\npostgres = host=${server.folder} port=${server.port} pool_size=2\n[pgbouncer]\nlisten_addr =\nlisten_port = ${port}\n` +
        `unix_socket_dir = ${server.folder}\nauth_type = trust\nauth_file = ${join(server.folder, 'users.txt')}\npool_mode = transaction\nserver_reset_query_always = 1\n`,
    )
    chmodSync(ini, 0o644)
    const process_ = spawn(bouncer, [ini], { ...server.as, stdio: 'ignore' })
    ends.push(async () => void process_.kill('SIGINT'))
    const socket = join(server.folder, `.s.PGSQL.${port}`)
    for (let i = 0; i < 100 && !existsSync(socket); i++) await sleep(50)
    const url = `postgres://owner@localhost:${port}/postgres?host=${server.folder}`
    const journals = await Promise.all(
      [1, 2, 3].map((n) => opened({ url, holder: `through ${n}`, termMs: 2_000 }, ++shards)),
    )
    const last = shards
    await Promise.all(
      journals.map(async (journal) => {
        for (let n = 0; n < 40; n++) {
          await journal.append(part([spec(n), spec(n + 1)], { cursor: `${n}` }))
          const batch = await journal.take('a', plenty)
          if (batch) await journal.ack('a', acknowledgement(batch.first, batch.last))
          await sleep(50)
        }
        expect(journal.stats().sinks[0]).toMatchObject({ position: 41, pendingEntries: 0 })
      }),
    )
    await expire(last)
    await opened({ url, holder: 'through 4' }, last)
    await expect(journals[2]?.state.put('x', '1')).rejects.toMatchObject({ code: 'lease_lost' })
  })
})

const element = { reason: 'no_id', bytes: Buffer.from('{'), totalBytes: 1, sha256: 'ab'.repeat(32) } as const

/** A call of each method that returns a promise, except `close` and `lost`. */
function methodsOf(journal: Journal): readonly (() => Promise<unknown>)[] {
  const inFlight = { first: 2, last: 2, shape: 's', detail: '{}' }
  const replay = {
    sink: 'a',
    fromUs: 0,
    toUs: Infinity,
    sources: ['audit'] as const,
    runAt: 1,
    after: 0,
    until: undefined,
  }
  const { state } = journal
  return [
    () => journal.append(part([spec(9)], { cursor: 'c9' })),
    () => journal.append(part([], { stream: usage, cursor: 'c9' })),
    () => journal.registerSinks(['a', 'b']),
    () => journal.ack('a', acknowledgement(2, 2)),
    () => journal.recordInFlight('a', inFlight),
    () => journal.retryDeadLetters({}),
    () => journal.dropDeadLetters({}),
    () => journal.dropQuarantined({}),
    () => journal.replay({ ...replay, dryRun: false }),
    () => journal.replay({ ...replay, dryRun: true }),
    () =>
      journal.resend({
        sink: 'a',
        stream: audit,
        entries: entriesOf([spec(1)]),
        runAt: 1,
        state: { drop: [], put: [] },
      }),
    () => journal.prune(),
    () => state.put('x', '1'),
    () => state.change({ drop: ['x'], put: [] }),
    () => state.putIfAbsent('x', '1'),
    () => state.compareAndSet('x', undefined, '1'),
    () => state.get('x'),
    () => state.list('', 9),
    () => journal.cursor(audit),
    () => journal.known(audit, entriesOf([spec(1)])),
    () => journal.take('a', plenty),
    () => journal.range(1, 1),
    () => journal.inFlightBatches('a'),
    () => journal.deadLetters({}),
    () => journal.deadLetterRaw(1),
    () => journal.quarantined({}),
    () => journal.quarantinedRaw(1),
    () => journal.counts({ fromDay: 0, toDay: 1 }),
    () => journal.pending('a', undefined),
    () => journal.storedDays(undefined),
  ]
}

/** The settings that a transaction of the journal runs with, as its last statement left them. */
async function insideTransaction(journal: Journal): Promise<unknown> {
  const query = Object.getOwnPropertyDescriptor(Client.prototype, 'query')?.value as (
    this: Client,
    ...args: unknown[]
  ) => Promise<{ rows: unknown[] }>
  let seen: unknown
  const looking = async function (this: Client, ...args: unknown[]) {
    if (args[0] === 'COMMIT')
      seen = (
        await query.call(
          this,
          "SELECT current_setting('synchronous_commit') AS commit, current_setting('statement_timeout') AS timeout, current_setting('transaction_isolation') AS isolation",
        )
      ).rows[0]
    return query.apply(this, args)
  }
  Object.assign(Client.prototype, { query: looking })
  try {
    await journal.state.put('x', '1')
    return seen
  } finally {
    Object.assign(Client.prototype, { query })
  }
}
