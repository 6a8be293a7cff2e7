// Compares one stream step by step, so that the daemon can do its other work in between.
import { progressOf, summed } from '../../contracts/jobs.ts'
import type { Compared, ComparedDay, Comparing, JobSpan, Unread } from '../../contracts/jobs.ts'
import type { Stream } from '../../contracts/source.ts'
import { backoffMs } from '../../core/backoff.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { printable } from '../../core/printable.ts'
import { countText } from '../../observability/words.ts'
import { progressText, troubleText } from '../shared/jobs.ts'
import type { CommandContext } from '../shared/world.ts'

/** The counts of one stream. */
export interface StreamCounts {
  readonly stream: Stream
  readonly days: readonly ComparedDay[]
  /** the first unknown entries */
  readonly unknown: readonly { readonly id: string; readonly day: number }[]
  /** spans that could not be read completely */
  readonly gaps: number
  /** these spans, if the source knows them */
  readonly unread: readonly Unread[]
  /** where live reading began, µs: nothing before was to be read; undefined: with the first entry there is, or it is not known */
  readonly startUs?: number | undefined
  /** who the key is to the audit log, as far as it could be found */
  readonly user: string | undefined
}

export interface StreamJob {
  readonly comparing: Pick<Comparing, 'compare'>
  readonly stream: Stream
  readonly span: JobSpan
  /** identifies this reconcile */
  readonly job: string
  readonly clock: Clock
  readonly context: Pick<CommandContext, 'stderr' | 'signal'>
  /** gets the counts so far where it does not come to the end */
  readonly interrupted?: (counts: StreamCounts) => void
}

const LINE_MS = 10_000
/** So many failures in a row end it: 8 where the API does not answer at all, 32 where it answers badly, since a window is halved some ten times. */
const PATIENCE = { silent: 8, bad: 32 } as const
const RETRY = { silent: { baseMs: 1_000, capMs: 30_000 }, bad: { baseMs: 1_000, capMs: 5_000 } } as const
const NAMED = 20

/** Undefined: the signal came first. Throws ConnectorError where the API cannot be read. */
export async function compareStream(streamJob: StreamJob): Promise<StreamCounts | undefined> {
  const sum = new Sum()
  let isWhole = false
  try {
    isWhole = await compareAll(streamJob, sum)
  } finally {
    if (!isWhole) streamJob.interrupted?.({ stream: streamJob.stream, ...sum.counts() })
  }
  return isWhole ? { stream: streamJob.stream, ...sum.counts() } : undefined
}

/** False: the signal came first. */
async function compareAll(streamJob: StreamJob, sum: Sum): Promise<boolean> {
  const { comparing, stream, span, job, clock, context } = streamJob
  let place: string | undefined
  let failures = 0
  let atUs: number | undefined
  let printedAt = clock.elapsed()
  while (!context.signal.aborted) {
    const step = await comparing.compare({ stream, ...span, place, job }).catch(retryable)
    const isSilent = step instanceof ConnectorError
    const error = isSilent ? step : step.error
    if (!isSilent) {
      sum.add(step)
      atUs = step.anew ? step.atUs : (step.atUs ?? atUs)
      place = step.place
      if (step.done) return true
    }
    failures = error ? failures + 1 : !isSilent && step.waitMs === 0 ? 0 : failures
    const kind = isSilent ? 'silent' : 'bad'
    if (error && failures >= PATIENCE[kind])
      throw new ConnectorError(
        error.code,
        `${stream.workspace} ${stream.source} could not be read to the end: ${error.message}`,
      )
    if (clock.elapsed() - printedAt >= LINE_MS) {
      printedAt = clock.elapsed()
      const trouble = troubleText(isSilent ? { error: step } : step)
      context.stderr(`${lineText(streamJob, atUs, sum.fetched, trouble)}\n`)
    }
    const waitMs = isSilent || error ? backoffMs(failures, RETRY[kind], () => 0.5) : step.waitMs
    if (waitMs > 0) await clock.sleep(waitMs, context.signal)
  }
  return false
}

/** Days that are still to come are not read. */
function lineText(
  { stream, span: { fromUs, toUs }, clock }: StreamJob,
  atUs: number | undefined,
  fetched: number,
  trouble: string,
): string {
  const spans = [{ fromUs, toUs: Math.max(fromUs + 1, Math.min(toUs, clock.now() * 1000)) }]
  const ratio = progressOf({ spans, atUs, endedAt: undefined })
  const name = printable(`${stream.workspace} ${stream.source}`)
  return progressText(name, ratio, `${countText(fetched, 'entries')} fetched`, trouble)
}

/** Returns an error that waiting may cure, and throws any other. */
function retryable(error: unknown): ConnectorError {
  if (!(error instanceof ConnectorError)) throw error
  if (error.code === 'aborted')
    throw new ConnectorError(
      'aborted',
      'The daemon stopped or took a new configuration meanwhile; nothing was changed, start again',
      { cause: error },
    )
  if (error.action === 'retry') return error
  throw error
}

class Sum {
  readonly #days = new Map<number, ComparedDay>()
  #unknown: { readonly id: string; readonly day: number }[] = []
  #gaps = 0
  #unread: readonly Unread[] = []
  #user: string | undefined
  #startUs: number | undefined

  get fetched(): number {
    return [...this.#days.values()].reduce((sum, { fetched }) => sum + fetched, 0)
  }

  add({ days, unknown, gaps, user, unread, anew, startUs }: Compared): void {
    if (anew) this.#clear()
    for (const more of days) {
      const known = this.#days.get(more.day)
      this.#days.set(more.day, known ? summed(more, known) : more)
    }
    this.#unread = unread
    this.#unknown.push(...unknown.slice(0, Math.max(0, NAMED - this.#unknown.length)))
    this.#gaps += gaps
    this.#user = user ?? this.#user
    this.#startUs = startUs ?? this.#startUs
  }

  counts(): Omit<StreamCounts, 'stream'> {
    const days = [...this.#days.values()].toSorted((a, b) => a.day - b.day)
    const unread = this.#unread
    const known = { unknown: this.#unknown, user: this.#user, startUs: this.#startUs }
    return { days, gaps: this.#gaps + unread.length, unread, ...known }
  }

  #clear(): void {
    this.#days.clear()
    this.#unknown = []
    this.#gaps = 0
  }
}
