// The walk of `reconcile` over one source: step after step, so that whoever holds the journal does its own work in between.
import { backoffMs } from '../../core/backoff.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { summed } from '../../contracts/jobs.ts'
import type { PastSpan, SurveyDay, Surveyed, Surveys, Unread } from '../../contracts/jobs.ts'
import type { Origin } from '../../contracts/source.ts'
import { countText } from '../../observability/words.ts'
import { printable } from '../../core/printable.ts'
import { percentText, troubleText } from '../shared/follow.ts'
import type { World } from '../shared/world.ts'

export interface Walked {
  readonly origin: Origin
  readonly days: readonly SurveyDay[]
  /** of the unknown, the first ones */
  readonly unknown: readonly { readonly id: string; readonly day: number }[]
  /** places at which the API could not be read whole */
  readonly gaps: number
  /** which these are, as far as the source can tell */
  readonly unread: readonly Unread[]
  /** where live reading began, µs: nothing before was to be read; undefined: with the first entry there is, or nobody knows */
  readonly startUs?: number | undefined
  /** who the key is to the audit log, as far as the walk could tell */
  readonly user: string | undefined
}

interface Walking {
  readonly surveys: Pick<Surveys, 'survey'>
  readonly origin: Origin
  readonly span: PastSpan
  /** tells this walk from another one */
  readonly walk: string
  readonly clock: Clock
  readonly world: Pick<World, 'stderr' | 'signal'>
  /** is told what was walked where it does not come to the end */
  readonly cutOff?: (walked: Walked) => void
}

const LINE_MS = 10_000
/** So many failures in a row end it: 8 where the API does not answer at all, 32 where it answers badly, since a window is halved some ten times. */
const PATIENCE = { silent: 8, bad: 32 } as const
const RETRY = { silent: { baseMs: 1_000, capMs: 30_000 }, bad: { baseMs: 1_000, capMs: 5_000 } } as const
const NAMED = 20

/** Undefined: the signal came first. Throws ConnectorError where the API cannot be read. */
export async function surveyAll(walking: Walking): Promise<Walked | undefined> {
  const sum = new Sum()
  let isWhole = false
  try {
    isWhole = await walk(walking, sum)
  } finally {
    if (!isWhole) walking.cutOff?.({ origin: walking.origin, ...sum.walked() })
  }
  return isWhole ? { origin: walking.origin, ...sum.walked() } : undefined
}

/** False: the signal came first. */
async function walk(walking: Walking, sum: Sum): Promise<boolean> {
  const { surveys, origin, span, clock, world } = walking
  let place: string | undefined
  let failures = 0
  let atUs: number | undefined
  let toldAt = clock.elapsed()
  while (!world.signal.aborted) {
    const step = await surveys.survey({ origin, ...span, place, walk: walking.walk }).catch(retryable)
    const fault = step instanceof ConnectorError ? step : step.fault
    if (!(step instanceof ConnectorError)) {
      sum.add(step)
      atUs = step.anew ? step.atUs : (step.atUs ?? atUs)
      place = step.place
      if (step.done) return true
    }
    failures = fault ? failures + 1 : isMove(step) ? 0 : failures
    const kind = step instanceof ConnectorError ? 'silent' : 'bad'
    if (fault && failures >= PATIENCE[kind])
      throw new ConnectorError(
        fault.code,
        `${origin.workspace} ${origin.source} could not be walked to the end: ${fault.message}`,
      )
    if (clock.elapsed() - toldAt >= LINE_MS) {
      toldAt = clock.elapsed()
      const how = step instanceof ConnectorError ? { error: step } : { ...step, error: fault }
      world.stderr(`${lineText(walking, atUs, sum.fetched)}${troubleText(how)}\n`)
    }
    const waitMs = fault ? backoffMs(failures, RETRY[kind], () => 0.5) : (step as Surveyed).waitMs
    if (waitMs > 0) await clock.sleep(waitMs, world.signal)
  }
  return false
}

/** Days that are still to come are not walked. */
function lineText({ origin, span, clock }: Walking, atUs: number | undefined, fetched: number): string {
  const toUs = Math.max(span.fromUs + 1, Math.min(span.toUs, clock.now() * 1000))
  const part = atUs === undefined ? 0 : (atUs - span.fromUs) / (toUs - span.fromUs)
  const name = printable(`${origin.workspace} ${origin.source}`)
  return `${name}: ${percentText(Math.min(1, Math.max(0, part)))}, ${countText(fetched, 'entries')} fetched`
}

const isMove = (step: Surveyed | ConnectorError) => !(step instanceof ConnectorError) && step.waitMs === 0

/** What waiting may cure; the rest ends the walk with its own words. */
function retryable(error: unknown): ConnectorError {
  if (!(error instanceof ConnectorError)) throw error
  if (error.code === 'aborted')
    throw new ConnectorError(
      'aborted',
      'The daemon stopped or took a new configuration while it walked; nothing was changed, begin again',
      { cause: error },
    )
  if (error.action === 'retry') return error
  throw error
}

class Sum {
  readonly #days = new Map<number, SurveyDay>()
  #unknown: { readonly id: string; readonly day: number }[] = []
  #gaps = 0
  #unread: readonly Unread[] = []
  #user: string | undefined
  #startUs: number | undefined

  get fetched(): number {
    return [...this.#days.values()].reduce((sum, { fetched }) => sum + fetched, 0)
  }

  add({ days, unknown, gaps, user, unread, anew, startUs }: Surveyed): void {
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

  walked(): Omit<Walked, 'origin'> {
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
