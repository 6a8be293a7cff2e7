// Evaluates a canary's round: which traces are missing, and when it is complete or overdue. Reports
// that to the status registry.
import type { CanaryTrace, CanaryReporter, StreamReporter } from '../contracts/reporter.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { stageOf, stagesOf, undelivered } from './round.ts'
import type { CanaryMemory, Destination, Round } from './round.ts'
import type { TraceSource } from './traces.ts'

export interface JudgeOptions {
  /** a trace that has not arrived this long after its prompt is missing */
  readonly boundMs: number
  /** the enabled sources */
  readonly sources: readonly TraceSource[]
  /** the sinks that receive a trace, each with the source of the trace it must receive */
  readonly sinks: readonly Destination[]
  readonly reporter: StreamReporter
  readonly canary: CanaryReporter
  readonly log: Log
  readonly clock: Clock
}

export class Judge {
  readonly #options: JudgeOptions
  /** report of the last round with missing traces */
  #alarmed: ConnectorError | undefined

  constructor(options: JudgeOptions) {
    this.#options = options
  }

  /** Repeats the report of an earlier process, for the sinks that still exist. */
  remember(memory: CanaryMemory): void {
    const { round, wholeAt, missed } = memory
    const { canary, sinks, reporter } = this.#options
    if (wholeAt > 0) canary.complete(wholeAt)
    if (!round) return
    const readAt = round.answered ? round.sentAt + round.answered.tookMs : wholeAt
    if (readAt > 0) reporter.recalled({ readAt, caughtUpAt: wholeAt, gapAt: 0 })
    for (const [source, { at }] of Object.entries(round.traces))
      this.seen({ stage: stageOf[source as TraceSource] }, round, at)
    for (const { name: sink } of sinks) {
      const at = round.delivered[sink]
      if (at !== undefined) this.seen({ stage: 'delivered', sink }, round, at)
    }
    if (round.answered) this.seen({ stage: 'request' }, round, round.sentAt + round.answered.tookMs)
    if (!missed) return
    const missing = this.#missing(missed)
    if (missing.length > 0) this.#alarm(missed, missing)
    // Its missing traces are no longer looked for.
    else memory.missed = undefined
  }

  seen(trace: CanaryTrace, { sentAt }: Round, at: number): void {
    this.#options.canary.seen(trace, Math.max(0, at - sentAt))
  }

  /** A prompt was answered. Missing traces of earlier ones stay reported until a complete round. */
  promptAnswered({ missed }: CanaryMemory): void {
    const { reporter } = this.#options
    if (missed) reporter.state('failing', this.#alarmed)
    else {
      reporter.success()
      reporter.caughtUp()
    }
  }

  /** Records when the round is over. */
  judge(memory: CanaryMemory, round: Round): void {
    const { clock, reporter, log, boundMs } = this.#options
    const now = clock.now()
    const missing = this.#missing(round)
    reporter.state('idle')
    if (missing.length === 0) this.#complete(memory, round, now)
    else if (Math.abs(now - round.sentAt) >= boundMs) {
      round.over = true
      memory.missed = round
      log.warn(
        'The canary prompt did not arrive everywhere in time: docs/operations/canary.md says what to check',
        {
          missing: missing.map(nameOf).join(', '),
          error: this.#alarm(round, missing).message,
        },
      )
    }
  }

  #complete(memory: CanaryMemory, round: Round, now: number): void {
    const { canary, reporter, log } = this.#options
    if (memory.missed) log.info('The canary is complete again')
    round.over = true
    memory.missed = undefined
    memory.wholeAt = now
    canary.missing([])
    canary.complete(now)
    reporter.success()
    reporter.caughtUp()
  }

  #alarm(round: Round, missing: readonly CanaryTrace[]): ConnectorError {
    const { canary, reporter, boundMs } = this.#options
    canary.missing(missing)
    const error = alarmOf(round, missing, boundMs)
    reporter.state('failing', error)
    return (this.#alarmed = error)
  }

  #missing(round: Round): readonly CanaryTrace[] {
    const { sources, sinks } = this.#options
    const unseen = sources.filter((source) => !round.traces[source])
    return stagesOf(unseen, undelivered(round, sinks))
  }
}

const nameOf = ({ stage, sink }: CanaryTrace): string => (sink === undefined ? stage : `${stage} ${sink}`)

function alarmOf({ sentAt }: Round, missing: readonly CanaryTrace[], boundMs: number): ConnectorError {
  const minutes = Math.round(boundMs / 60_000)
  return new ConnectorError(
    'timeout',
    `The canary prompt of ${new Date(sentAt).toISOString()} did not arrive everywhere within ${minutes} min: missing ${missing.map(nameOf).join(', ')}. docs/operations/canary.md says what to check for each`,
  )
}
