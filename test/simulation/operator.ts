// What the operator of some seeds does: starts jobs over the past, for every sink and for one alone, and sees the daemon die over them.
import type { App } from '../../src/app/app.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import type { Job, JobSpan } from '../../src/contracts/jobs.ts'
import { dice } from './random.ts'

const SHARE = 0.15
const HOUR_US = 3_600_000_000

export interface OperatorScenario {
  /** share of the faulty time that is over when it acts; a finished job is shown for a day, and so until the seed is judged */
  readonly after: number
  readonly backfills: boolean
  readonly replays: boolean
  /** Of so many state entries of jobs that land, each life that follows sees the one that takes them first. */
  readonly fatalNotes: readonly number[]
}

/** Drawn apart, so that the rest of a seed stays the same. Undefined: no job. */
export function operatorOf(seed: number): OperatorScenario | undefined {
  const roll = dice(seed + 900_001)
  if (!roll.chance(SHARE)) return undefined
  const which = roll()
  return {
    after: 0.4 + roll() * 0.5,
    backfills: which < 0.7,
    replays: which >= 0.3,
    fatalNotes: Array.from({ length: roll.pick([1, 2, 3, 4]) }, () => 1 + roll.below(roll.pick([3, 9]))),
  }
}

/** The requested jobs, and what the daemon accepted. */
export class Orders {
  span: JobSpan = { fromUs: 0, toUs: 0 }
  readonly backfills: Job[] = []
  readonly replays: Job[] = []
  readonly faults: string[] = []

  /** All of the past up to an hour ago, including what is before the configured start. Waits for nothing: the daemon may die over it. */
  give(app: App, { backfills, replays }: OperatorScenario, firstMs: number, now: number): void {
    this.span = { fromUs: firstMs * 1000 - HOUR_US, toUs: now * 1000 - HOUR_US }
    const reads = [{ stream: { workspace: 'acme', source: 'audit' as const }, spans: [this.span] }]
    if (backfills) this.#note(app.jobs.backfill({}, this.span), (begun) => this.backfills.push(...begun))
    if (replays)
      this.#note(app.jobs.replay({ sink: 'splunk', startedAt: now, reads }), (begun) =>
        this.replays.push(...begun),
      )
  }

  #note<T>(asked: Promise<T>, taken: (begun: T) => void): void {
    asked.then(taken, (error: unknown) => {
      // Refused, and so not started: a disk or a journal that is full just then.
      if (!(error instanceof ConnectorError)) this.faults.push(`a job failed to start: ${String(error)}`)
    })
  }
}
