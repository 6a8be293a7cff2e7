// The replicas of a seed on PostgreSQL, one after the other and side by side: what the database and
// its lines do to them, and what each must do once another one has its shard.
import { ConnectorError } from '../../src/core/errors.ts'
import type { Clock } from '../../src/core/clock.ts'
import type { DatabaseScenario, Takeover } from './database.ts'
import { LEASE_MS } from './postgres.ts'
import type { Line, Shard } from './postgres.ts'
import type { Process } from './process.ts'

/** A stop takes 8 s at most. */
const STOP_MS = 10_000

interface Replica {
  readonly process: Process
  readonly line: Line
  stopping: boolean
}

interface Event {
  readonly at: number
  act(): void
}

export class Replicas {
  readonly shard: Shard
  readonly faults: string[] = []
  /** how often another replica took the shard from one that lived */
  takeovers = 0
  readonly #clock: Clock
  readonly #events: Event[] = []
  readonly #others = new Set<Replica>()
  #current: Replica | undefined
  #calmed = false
  /** spans of time without the database */
  #lost: { from: number; until: number }[] = []
  readonly #lines: Line[] = []

  constructor(shard: Shard, clock: Clock, { takeovers, outages, cuts }: DatabaseScenario) {
    this.shard = shard
    this.#clock = clock
    for (const takeover of takeovers)
      this.#plan(takeover.at, () => this.#unlessCalm(() => this.#take(takeover)))
    for (const outage of outages) {
      this.#plan(outage.from, () => this.#unlessCalm(() => this.#lose(outage)))
      this.#plan(outage.until, () => shard.lose(false))
    }
    for (const { at, kind } of cuts)
      this.#plan(at, () => this.#unlessCalm(() => this.#current?.line.fail(kind)))
  }

  /** The instant of what comes next. */
  get next(): number {
    return this.#events[0]?.at ?? Infinity
  }

  act(): void {
    this.#events.shift()?.act()
  }

  async line(): Promise<Line> {
    const line = await this.shard.line()
    this.#lines.push(line)
    return line
  }

  get lineFaults(): readonly string[] {
    return this.#lines.flatMap(({ faults }) => faults)
  }

  /** The one that has the shard from now on. */
  started(process: Process, line: Line): void {
    this.#current = { process, line, stopping: false }
  }

  died(): void {
    this.#current = undefined
  }

  /** A lease was acquired: no other replica may write. */
  acquired(): void {
    for (const { process } of this.#others) process.life.superseded = true
  }

  /** True while the current replica has the shard and works; else the shard is free for the next one. */
  tend(): boolean {
    for (const other of this.#others)
      if (other.process.life.dead) {
        void other.line.end()
        this.#others.delete(other)
      } else if (other.process.failed() !== undefined) this.#stop(other)
    const current = this.#current
    if (current?.process.failed() === undefined) return current !== undefined
    this.#judgeLoss(current.process.failed())
    this.#leave(current)
    this.#stop(current)
    return false
  }

  /** All faults are over. */
  calm(): void {
    this.#calmed = true
    this.shard.lose(false)
    for (const { process, line } of this.#others) {
      line.cut(false)
      process.life.thaw()
    }
  }

  /** What is left at the end. */
  judge(): readonly string[] {
    const left = this.#others.size > 0 ? [`${this.#others.size} replicas never stopped`] : []
    return [...this.faults, ...this.lineFaults, ...left]
  }

  #unlessCalm(act: () => void): void {
    if (!this.#calmed) act()
  }

  #plan(at: number, act: () => void): void {
    const behind = this.#events.findIndex((other) => other.at > at)
    this.#events.splice(behind < 0 ? this.#events.length : behind, 0, { at, act })
  }

  #lose(outage: { from: number; until: number }): void {
    this.#lost.push(outage)
    this.shard.lose(true)
  }

  #take({ kind, forMs, steps }: Takeover): void {
    const current = this.#current
    if (!current || current.process.life.dead) return
    const now = this.#clock.now()
    if (kind === 'cut') {
      current.line.cut(true)
      this.#lost.push({ from: now, until: now + forMs })
      this.#plan(now + forMs, () => current.line.cut(false))
      return
    }
    current.process.life.freeze(steps, () => this.#paused(current, forMs))
  }

  #paused(replica: Replica, forMs: number): void {
    const { life } = replica.process
    if (this.#current !== replica || this.#calmed) {
      life.thaw()
      return
    }
    this.#leave(replica)
    this.#in(forMs, () => {
      life.thaw()
      this.#in(LEASE_MS, () => this.#in(STOP_MS, () => this.#mustHaveFailed(replica)))
    })
  }

  #leave(replica: Replica): void {
    this.takeovers++
    this.#others.add(replica)
    this.#current = undefined
  }

  #mustHaveFailed(replica: Replica): void {
    const { life, failed } = replica.process
    if (!life.dead && failed() === undefined && this.#others.has(replica))
      this.faults.push('a replica works on although another one has its shard')
  }

  #stop(replica: Replica): void {
    if (replica.stopping) return
    replica.stopping = true
    const { process, line } = replica
    const error = process.failed()
    if (!(error instanceof ConnectorError) || error.code !== 'lease_lost')
      this.faults.push(`a replica ended with ${String(error)}`)
    process.app.stop().then(
      () => {
        this.#others.delete(replica)
        process.life.dead = true
        void line.end()
      },
      (failure: unknown) => this.faults.push(`a replica cannot stop: ${String(failure)}`),
    )
    // With nothing else to come, time jumps to the first instant: the last turns of a stop come then.
    this.#in(STOP_MS, () => this.#in(STOP_MS, () => this.#mustHaveStopped(replica)))
  }

  #mustHaveStopped(replica: Replica): void {
    if (this.#others.has(replica) && !replica.process.life.dead) this.faults.push('a replica does not stop')
  }

  #in(ms: number, act: () => void): void {
    this.#plan(this.#clock.now() + ms, act)
  }

  /** Nobody else has the shard: then only a lost database is a reason to lose the lease. */
  #judgeLoss(error: unknown): void {
    const now = this.#clock.now()
    const wasLost = this.#lost.some(({ from, until }) => from < now && until > now - LEASE_MS)
    const isLate = error instanceof ConnectorError && /did not answer in time/.test(error.message)
    if (!isLate || !wasLost) this.faults.push(`the holder of the shard lost it: ${String(error)}`)
  }
}
