// All jobs, each in a state entry: running, ended within a day, or waiting for the configuration.
import { jobKinds, missingText } from '../contracts/jobs.ts'
import type { Missing } from '../contracts/jobs.ts'
import type { State, StateEntry } from '../contracts/journal.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError, isRetried } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { DAY_MS } from '../core/time.ts'
import { entryOf, nameOf, readEntry } from './record.ts'
import type { JobRecord, JobState } from './record.ts'

/** An ended job stays in the list for a day. */
const LISTED_MS = DAY_MS
/** If a new job took its name, for a minute: a command that follows it sees how it ended. */
const REPLACED_MS = 60_000
const MOST_ENTRIES = 10_000
const TRY_AGAIN_MS = 5_000

interface TableOptions {
  readonly state: State
  readonly clock: Pick<Clock, 'now' | 'sleep'>
  readonly log: Log
  /** What the configuration lacks for it to run. */
  readonly lacks: (record: JobRecord) => Missing | undefined
}

const isOpen = ({ record, lacks }: JobState) => record.endedAt === undefined && !lacks
const cancelledOf = ({ record }: JobState) =>
  new ConnectorError('aborted', `The ${record.kind} was cancelled`)

export class JobTable {
  readonly #options: TableOptions
  /** By name, one each: running, waiting for the configuration, or ended. */
  readonly #jobs = new Map<string, JobState>()
  /** Ended jobs whose names others took. If such a job is cancelled, the last one is back. */
  #replaced: readonly JobState[] = []
  #loaded: Promise<void> | undefined
  #wake: (() => void)[] = []

  constructor(options: TableOptions) {
    this.#options = options
  }

  /** Call first. */
  load(): Promise<void> {
    this.#loaded ??= this.#read().catch((error: unknown) => {
      this.#loaded = undefined
      throw error
    })
    return this.#loaded
  }

  /** The jobs that run now. */
  open(): readonly JobState[] {
    return [...this.#jobs.values()].filter(isOpen)
  }

  /** Jobs that wait for the configuration. */
  lacking(): readonly JobState[] {
    return [...this.#jobs.values()].filter(({ lacks }) => lacks)
  }

  /** Running jobs, and those that ended within a day. */
  listed(): readonly JobState[] {
    return [...this.#jobs.values()].filter((job) => isOpen(job) || this.#hasEnded(job, LISTED_MS))
  }

  /** In addition, waiting jobs and those that were just replaced: a command may follow one. */
  all(): readonly JobState[] {
    const replaced = this.#replaced.filter((job) => this.#hasEnded(job, REPLACED_MS))
    return [...replaced, ...this.listed(), ...this.lacking()]
  }

  /** Or as far in the future: a clock that was set back since shows it like that. */
  #hasEnded({ record: { endedAt } }: JobState, withinMs: number): boolean {
    return endedAt !== undefined && Math.abs(this.#options.clock.now() - endedAt) <= withinMs
  }

  /** The first that `choose` finds, as soon as there is one; undefined once `signal` aborts. */
  async next(
    choose: (open: readonly JobState[]) => JobState | undefined,
    signal: AbortSignal,
  ): Promise<JobState | undefined> {
    const stopped = () => signal.aborted
    while (!stopped()) {
      const job = choose(this.open())
      if (job) return job
      await this.#woken(signal)
    }
    return undefined
  }

  /** All or none: what cannot be stored has not started. `drop`: stale state entries. */
  async start(jobs: readonly JobState[], drop: readonly string[] = []): Promise<void> {
    if (jobs.length === 0) return
    const before = new Map(jobs.map((job) => [job, this.#jobs.get(nameOf(job.record))]))
    for (const job of jobs) this.#jobs.set(nameOf(job.record), job)
    try {
      await this.#options.state.change({ drop, put: jobs.map((job) => entryOf(job, job.record)) })
    } catch (error) {
      for (const job of jobs) {
        job.cancelled.abort(
          new ConnectorError(
            'aborted',
            `The ${job.record.kind} could not be stored in the journal, and did not start`,
          ),
        )
        if (this.isCurrent(job)) this.#put(nameOf(job.record), before.get(job))
      }
      throw error
    }
    const ended = [...before.values()].filter((job) => job?.record.endedAt !== undefined)
    const all = [...this.#replaced, ...(ended as JobState[])]
    const isLast = (job: JobState, i: number) =>
      !all.slice(i + 1).some(({ record }) => nameOf(record) === nameOf(job.record))
    this.#replaced = all.filter((job, i) => isLast(job, i) || this.#hasEnded(job, REPLACED_MS))
    for (const wake of this.#wake.splice(0)) wake()
  }

  /** False: it was not running any more. `drop`: other state entries of the job. */
  async cancel(job: JobState, drop: readonly string[] = []): Promise<boolean> {
    if (job.record.endedAt !== undefined || !this.isCurrent(job)) return false
    const name = nameOf(job.record)
    const replaced = this.#replaced
    const before = replaced.findLast(({ record }) => nameOf(record) === name)
    this.#put(name, before)
    this.#replaced = replaced.filter((one) => one !== before)
    const change = before
      ? { drop, put: [entryOf(before, before.record)] }
      : { drop: [name, ...drop], put: [] }
    try {
      await this.#options.state.change(change)
    } catch (error) {
      // The next process would find it in the journal, so it keeps running here too.
      this.#jobs.set(name, job)
      this.#replaced = replaced
      throw error
    }
    job.cancelled.abort(cancelledOf(job))
    return true
  }

  #put(name: string, job: JobState | undefined): void {
    if (job) this.#jobs.set(name, job)
    else this.#jobs.delete(name)
  }

  /** Stores `record` and makes it the job's. False: `signal` came first, and nothing was stored. */
  async keep(job: JobState, record: JobRecord, signal: AbortSignal): Promise<boolean> {
    const save = async () => {
      for (const { name, value } of this.entriesOf(job, record)) await this.#options.state.put(name, value)
    }
    const isKept = await keepUnlessStopped(save, job, this.#options.clock, signal)
    if (isKept) job.record = record
    return isKept
  }

  /** For the transaction that makes `record` true; none for a job that was cancelled. */
  entriesOf(job: JobState, record: JobRecord): readonly StateEntry[] {
    return this.isCurrent(job) ? [entryOf(job, record)] : []
  }

  isCurrent(job: JobState): boolean {
    return this.#jobs.get(nameOf(job.record)) === job
  }

  /** Throws ConnectorError `aborted` if it was cancelled meanwhile. */
  assertCurrent(job: JobState): void {
    if (!this.isCurrent(job)) throw cancelledOf(job)
  }

  async #read(): Promise<void> {
    const { state } = this.#options
    for (const kind of jobKinds)
      for (const { name, value } of await state.list(`${kind}:`, MOST_ENTRIES)) {
        const job = readEntry(value)
        if (!job) {
          this.#options.log.warn(
            `A ${kind} in the journal cannot be read: its entry is damaged, or of a newer version. It does not run; start it again if it is still needed`,
            { name },
          )
          continue
        }
        job.lacks = this.#options.lacks(job.record)
        if (job.lacks && job.record.endedAt !== undefined) continue
        if (job.lacks) this.#waitFor(job, job.lacks)
        this.#jobs.set(nameOf(job.record), job)
      }
  }

  #waitFor(job: JobState, lacking: Missing): void {
    const { kind, stream, sink } = job.record
    job.waitsFor = lacking
    this.#options.log.warn(
      `A ${kind} waits in the journal: ${missingText[lacking]}. It resumes once that is back; ${kind} --cancel ends it`,
      { ...stream, ...(sink !== undefined && { sink }) },
    )
  }

  #woken(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const over = () => {
        signal.removeEventListener('abort', over)
        resolve()
      }
      signal.addEventListener('abort', over, { once: true })
      this.#wake.push(over)
    })
  }
}

/** Retries, even on a full disk. False: `signal` aborted first. Rejects with what ends the loops. */
export async function keepUnlessStopped(
  work: () => Promise<void>,
  progress: Pick<JobState, 'error'>,
  clock: Pick<Clock, 'sleep'>,
  signal: AbortSignal,
): Promise<boolean> {
  const stopped = () => signal.aborted
  while (!stopped()) {
    try {
      await work()
      progress.error = undefined
      return true
    } catch (error) {
      if (!isRetried(error)) throw error
      progress.error = error
      await clock.sleep(TRY_AGAIN_MS, signal)
    }
  }
  return false
}
