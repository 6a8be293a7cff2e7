// Judges a canary's round: what of it is lacking still, when it is whole and when it is missing. Tells that to who watches.
import type { Clock } from '../model/clock.ts'
import type { ConnectorError } from '../model/errors.ts'
import type { Log } from '../model/log.ts'
import type { CanaryTrace, CanaryWatch, SourceWatch } from '../model/watch.ts'
import { type Destination, undelivered } from './reached.ts'
import { alarmOf, nameOf } from './failing.ts'
import type { CanaryMemory, Round } from './round.ts'
import { stageOf, stagesOf } from './stages.ts'
import type { TraceSource } from './traces.ts'

export interface JudgeOptions {
  /** what has not come so long after its prompt is missing */
  readonly boundMs: number
  /** those that are on */
  readonly sources: readonly TraceSource[]
  /** those that get a trace, each with the source whose trace it is held to */
  readonly sinks: readonly Destination[]
  readonly watch: SourceWatch
  readonly canary: CanaryWatch
  readonly log: Log
  readonly clock: Clock
}

export class Judge {
  readonly #options: JudgeOptions
  /** told of the last round that lacked something */
  #alarmed: ConnectorError | undefined

  constructor(options: JudgeOptions) {
    this.#options = options
  }

  /** What a former process told, to who watches this one: of the sinks that are still there. */
  remember(memory: CanaryMemory): void {
    const { round, wholeAt, missed } = memory
    const { canary, sinks, watch } = this.#options
    if (wholeAt > 0) canary.whole(wholeAt)
    if (!round) return
    const readAt = round.answered ? round.sentAt + round.answered.tookMs : wholeAt
    if (readAt > 0) watch.recalled({ readAt, caughtUpAt: wholeAt, gapAt: 0 })
    for (const [source, { at }] of Object.entries(round.traces))
      this.seen({ stage: stageOf[source as TraceSource] }, round, at)
    for (const { name: sink } of sinks) {
      const at = round.delivered[sink]
      if (at !== undefined) this.seen({ stage: 'delivered', sink }, round, at)
    }
    if (round.answered) this.seen({ stage: 'request' }, round, round.sentAt + round.answered.tookMs)
    if (!missed) return
    const lacking = this.#lacking(missed)
    if (lacking.length > 0) this.#alarm(missed, lacking)
    // What it lacked is looked for no more.
    else memory.missed = undefined
  }

  seen(trace: CanaryTrace, { sentAt }: Round, at: number): void {
    this.#options.canary.seen(trace, Math.max(0, at - sentAt))
  }

  /** A prompt was answered. What a former one lacked stays told until one comes back whole. */
  asked({ missed }: CanaryMemory): void {
    const { watch } = this.#options
    if (missed) watch.state('failing', this.#alarmed)
    else {
      watch.success()
      watch.caughtUp()
    }
  }

  /** Notes in the memory when the round is over. */
  judge(memory: CanaryMemory, round: Round): void {
    const { clock, watch, log, boundMs } = this.#options
    const now = clock.now()
    const lacking = this.#lacking(round)
    watch.state('idle')
    if (lacking.length === 0) this.#whole(memory, round, now)
    else if (Math.abs(now - round.sentAt) >= boundMs) {
      round.over = true
      memory.missed = round
      log.warn('The canary did not come back: a prompt of our own left no trace where it should', {
        missing: lacking.map(nameOf).join(', '),
        error: this.#alarm(round, lacking).message,
      })
    }
  }

  #whole(memory: CanaryMemory, round: Round, now: number): void {
    const { canary, watch, log } = this.#options
    if (memory.missed) log.info('The canary came back whole again')
    round.over = true
    memory.missed = undefined
    memory.wholeAt = now
    canary.missing([])
    canary.whole(now)
    watch.success()
    watch.caughtUp()
  }

  #alarm(round: Round, lacking: readonly CanaryTrace[]): ConnectorError {
    const { canary, watch, boundMs } = this.#options
    canary.missing(lacking)
    const error = alarmOf(round, lacking, boundMs)
    watch.state('failing', error)
    return (this.#alarmed = error)
  }

  #lacking(round: Round): readonly CanaryTrace[] {
    const { sources, sinks } = this.#options
    const left = sources.filter((source) => !round.traces[source])
    return stagesOf(left, undelivered(round, sinks))
  }
}
