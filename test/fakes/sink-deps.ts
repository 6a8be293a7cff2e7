// The environment of a sink under test: every part can be identified and replaced.
import { gzip } from '../../src/platform/gzip/gzip.ts'
import type { Clock } from '../../src/core/clock.ts'
import type { Log, LogFields } from '../../src/core/log.ts'
import type { SinkDeps } from '../../src/contracts/sink-kind.ts'
import { FakeDisk } from './disk.ts'

/** Every line that was logged, as one text: to look for what must not be there. */
export class LogLines implements Log {
  readonly lines: string[] = []
  debug = (sentence: string, fields?: LogFields): void => this.#put(sentence, fields)
  info = (sentence: string, fields?: LogFields): void => this.#put(sentence, fields)
  warn = (sentence: string, fields?: LogFields): void => this.#put(sentence, fields)
  error = (sentence: string, fields?: LogFields): void => this.#put(sentence, fields)

  with(): Log {
    return this
  }

  #put(sentence: string, fields: LogFields = {}): void {
    this.lines.push(`${sentence} ${JSON.stringify(fields)}`)
  }
}

/** Time that passes only when something sleeps: each sleep ends at once, or when `hold` is on, when `pass` says so. */
export class StepClock implements Clock {
  #nowMs = Date.UTC(2026, 10, 21, 12)
  readonly slept: number[] = []
  #sleepers: { endsAt: number; wake: () => void }[] = []

  now(): number {
    return this.#nowMs
  }

  elapsed(): number {
    return this.#nowMs
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.slept.push(ms)
    if (signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const sleeper = { endsAt: this.#nowMs + ms, wake: resolve }
      this.#sleepers.push(sleeper)
      const leave = () => {
        this.#sleepers = this.#sleepers.filter((each) => each !== sleeper)
        resolve()
      }
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  get sleeping(): number {
    return this.#sleepers.length
  }

  /** On to the first sleeper; false, and no time passes, when nothing sleeps. */
  advance(): boolean {
    if (this.#sleepers.length === 0) return false
    this.pass(Math.max(0, Math.min(...this.#sleepers.map(({ endsAt }) => endsAt)) - this.#nowMs))
    return true
  }

  pass(ms: number): void {
    this.#nowMs += ms
    const due = this.#sleepers.filter(({ endsAt }) => endsAt <= this.#nowMs)
    this.#sleepers = this.#sleepers.filter(({ endsAt }) => endsAt > this.#nowMs)
    for (const { wake } of due) wake()
  }
}

export interface TestDeps extends SinkDeps {
  readonly clock: StepClock
  readonly disk: FakeDisk
  readonly log: LogLines
}

/** Parts that a test does not bring fail loudly when they are used. */
export function sinkDeps(parts: Partial<SinkDeps> = {}): TestDeps {
  return {
    clock: new StepClock(),
    random: () => 0.25,
    log: new LogLines(),
    disk: new FakeDisk(),
    transport: () => () => Promise.reject(new Error('no transport was given')),
    connect: () => Promise.reject(new Error('no connect was given')),
    datagrams: () => Promise.reject(new Error('no datagrams were given')),
    print: () => Promise.reject(new Error('no print was given')),
    gzip,
    hostOf: (workspace) => `${workspace}.example.com`,
    spoolFolder: '/spool',
    ...parts,
  } as TestDeps
}
