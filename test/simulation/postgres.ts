// The journal of a seed in PostgreSQL: a shard of one real server, and the line of each replica to it.
import { join } from 'node:path'
import type { Journal } from '../../src/contracts/journal.ts'
import type { Clock } from '../../src/core/clock.ts'
import { PostgresStore } from '../../src/journal/postgres/open.ts'
import { migrate } from '../../src/journal/postgres/schema.ts'
import type { JournalOptions } from '../../src/journal/sqlite/open.ts'
import { startProxy } from '../postgres/proxy.ts'
import type { Proxy } from '../postgres/proxy.ts'
import { startPostgres } from '../postgres/server.ts'
import type { PostgresServer } from '../postgres/server.ts'
import type { Life, LifeJournal } from './process.ts'
import { settled } from './virtual-clock.ts'

const SCHEMA = 'journal'
/** Long, so that renewals are few. It ends in the database when the simulation says so. */
export const LEASE_MS = 300_000
/** Of all waits of a lease, only that for the outcome of a COMMIT is shorter. */
const SHORT_MS = 1_000
/** A client takes some turns from an answer to its next statement. */
const QUIET_TURNS = 4

/** One server for all seeds of a run. */
export class Database {
  readonly #server: PostgresServer
  #shards = 0

  private constructor(server: PostgresServer) {
    this.#server = server
  }

  static async start(): Promise<Database> {
    const server = await startPostgres()
    await migrate({ settings: { url: server.url() }, schema: SCHEMA })
    return new Database(server)
  }

  shard(clock: Clock): Shard {
    return new Shard(this.#server, ++this.#shards, clock)
  }

  stop(): Promise<void> {
    return this.#server.stop()
  }
}

export class Shard {
  readonly number: number
  readonly #server: PostgresServer
  readonly #clock: Clock
  readonly #lines = new Set<Line>()
  #hasMoved = false
  #wake: () => void = () => undefined
  #isLost = false

  constructor(server: PostgresServer, number: number, clock: Clock) {
    this.#server = server
    this.number = number
    this.#clock = clock
  }

  /** Of a new replica. */
  async line(): Promise<Line> {
    const { folder, port } = this.#server
    const moved = () => this.#moved()
    const proxy = await startProxy(join(folder, `.s.PGSQL.${port}`), 'owner', moved)
    const line = new Line(this.number, proxy, this.#clock, moved)
    this.#lines.add(line)
    line.lose(this.#isLost)
    return line
  }

  /** As if the time of its lease had passed. */
  async expire(): Promise<void> {
    await this.#server.query(`UPDATE ${SCHEMA}.shards SET expires_at = now() WHERE id = $1`, [this.number])
  }

  /** The database, for all replicas. */
  lose(isLost: boolean): void {
    this.#isLost = isLost
    for (const line of this.#lines) line.lose(isLost)
  }

  /** Resolves when no replica waits for the database: virtual time may pass. */
  async quiet(): Promise<void> {
    let needed = 0
    for (let still = 0; still <= needed; still++) {
      await settled()
      const isBusy = [...this.#lines].some((line) => line.isBusy)
      if (isBusy && !this.#hasMoved) await new Promise<void>((resolve) => (this.#wake = resolve))
      if (!isBusy && !this.#hasMoved) continue
      this.#hasMoved = false
      needed = QUIET_TURNS
      still = -1
    }
  }

  /** Something passed on a line, or a call ended. */
  #moved(): void {
    this.#hasMoved = true
    this.#wake()
  }

  async close(): Promise<void> {
    for (const line of this.#lines) await line.end()
  }
}

/** What one replica has of the database: its store, through a proxy of its own. */
export class Line implements LifeJournal {
  /** what it did against the rules */
  readonly faults: string[] = []
  readonly #shard: number
  readonly #proxy: Proxy
  readonly #clock: Clock
  readonly #moved: () => void
  #calls = 0
  /** waits for the outcome of a COMMIT, which takes virtual time */
  #waits = 0
  #isCut = false
  #isLost = false
  #isOver = false

  constructor(shard: number, proxy: Proxy, clock: Clock, moved: () => void) {
    this.#moved = moved
    this.#shard = shard
    this.#proxy = proxy
    this.#clock = clock
  }

  get isBusy(): boolean {
    return !this.#isOver && ((this.#calls > 0 && this.#waits === 0) || this.#proxy.isBusy())
  }

  async open(options: JournalOptions, life: Life): Promise<Journal> {
    const store = new PostgresStore({
      settings: { url: this.#proxy.url },
      schema: SCHEMA,
      holder: `replica-${this.#shard}-${Math.random().toString(36).slice(2)}`,
      termMs: LEASE_MS,
      clock: this.#leaseClock(life),
      log: options.log,
    })
    const journal = await this.counted(() => store.acquire(this.#shard, options))
    if (!journal) throw new Error('the shard is held by another replica')
    return journal
  }

  #leaseClock(life: Life): Clock {
    const clock = this.#clock
    return {
      now: () => clock.now(),
      elapsed: () => clock.elapsed(),
      sleep: async (ms, signal) => {
        const waits = ms < SHORT_MS ? 1 : 0
        this.#waits += waits
        if (waits > 0) this.#moved()
        await clock.sleep(ms, signal)
        this.#waits -= waits
        await life.step()
      },
    }
  }

  counted<T>(work: () => Promise<T>): Promise<T> {
    this.#calls++
    return work().finally(() => {
      this.#calls--
      this.#moved()
    })
  }

  changed(_: Life, call: string): void {
    this.faults.push(`a replica wrote to a shard that another one had taken: ${call}`)
  }

  /** This one alone loses the database. */
  cut(isCut: boolean): void {
    this.#isCut = isCut
    this.#apply()
  }

  lose(isLost: boolean): void {
    this.#isLost = isLost
    this.#apply()
  }

  /** At the next COMMIT. */
  fail(kind: 'before' | 'after' | 'late'): void {
    this.#proxy.fail(kind)
  }

  #apply(): void {
    if (this.#isCut || this.#isLost || this.#isOver) this.#proxy.refuse()
    else this.#proxy.heal()
  }

  async end(): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    this.#moved()
    this.#apply()
    await this.#proxy.close()
  }
}
