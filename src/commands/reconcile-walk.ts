// The walk of `reconcile` over one source: step after step, so that whoever holds the journal does its own work in between.
import { backoffMs } from '../model/backoff.ts'
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Past, PastSpan, SurveyDay, Surveyed } from '../model/past.ts'
import type { Origin } from '../model/source.ts'
import { countText } from '../ops/status.ts'
import { plain } from './columns.ts'
import type { World } from './world.ts'

export interface Walked {
  readonly origin: Origin
  readonly days: readonly SurveyDay[]
  /** of the unknown, the first ones */
  readonly unknown: readonly { readonly id: string; readonly day: number }[]
  /** places at which the API could not be read whole */
  readonly gaps: number
  /** who the key is to the audit log, as far as the walk could tell */
  readonly user: string | undefined
}

export interface Walking {
  readonly past: Pick<Past, 'survey'>
  readonly origin: Origin
  readonly span: PastSpan
  readonly clock: Clock
  readonly world: Pick<World, 'stderr' | 'signal'>
}

const LINE_MS = 10_000
/** So many failures in a row end it. */
const PATIENCE = 8
const RETRY = { baseMs: 1_000, capMs: 30_000 }
const NAMED = 20

/** Undefined: the signal came first. Throws ConnectorError where the API cannot be read. */
export async function walkOver(walking: Walking): Promise<Walked | undefined> {
  const { past, origin, span, clock, world } = walking
  const sum = new Sum()
  let place: string | undefined
  let failures = 0
  let toldAt = clock.elapsed()
  while (!world.signal.aborted) {
    const step = await past.survey({ origin, ...span, place }).catch(retryable)
    const fault = step instanceof ConnectorError ? step : step.fault
    if (!(step instanceof ConnectorError)) {
      sum.add(step)
      place = step.place
      if (step.done) return { origin, ...sum.told() }
    }
    failures = fault ? failures + 1 : isMove(step) ? 0 : failures
    if (fault && failures >= PATIENCE)
      throw new ConnectorError(
        fault.code,
        `${origin.workspace} ${origin.source} could not be walked to the end: ${fault.message}`,
      )
    if (clock.elapsed() - toldAt >= LINE_MS) {
      toldAt = clock.elapsed()
      world.stderr(
        `${plain(`${origin.workspace} ${origin.source}`)}: ${countText(sum.fetched, 'entries')} fetched\n`,
      )
    }
    const waitMs = fault ? backoffMs(failures, RETRY, () => 0.5) : (step as Surveyed).waitMs
    if (waitMs > 0) await clock.sleep(waitMs, world.signal)
  }
  return undefined
}

const isMove = (step: Surveyed | ConnectorError) => !(step instanceof ConnectorError) && step.waitMs === 0

/** What waiting may cure; the rest ends the walk with its own words. */
function retryable(error: unknown): ConnectorError {
  if (error instanceof ConnectorError && error.action === 'retry') return error
  throw error
}

class Sum {
  readonly #days = new Map<number, SurveyDay>()
  readonly #unknown: { readonly id: string; readonly day: number }[] = []
  #gaps = 0
  #user: string | undefined

  get fetched(): number {
    return [...this.#days.values()].reduce((sum, { fetched }) => sum + fetched, 0)
  }

  add({ days, unknown, gaps, user }: Surveyed): void {
    for (const more of days) {
      const { fetched, known, filtered, malformed, unknown: missing } = this.#days.get(more.day) ?? zero(more)
      this.#days.set(more.day, {
        day: more.day,
        fetched: fetched + more.fetched,
        known: known + more.known,
        filtered: filtered + more.filtered,
        malformed: malformed + more.malformed,
        unknown: missing + more.unknown,
      })
    }
    this.#unknown.push(...unknown.slice(0, Math.max(0, NAMED - this.#unknown.length)))
    this.#gaps += gaps
    this.#user = user ?? this.#user
  }

  told(): Omit<Walked, 'origin'> {
    const days = [...this.#days.values()].toSorted((a, b) => a.day - b.day)
    return { days, unknown: this.#unknown, gaps: this.#gaps, user: this.#user }
  }
}

function zero({ day }: SurveyDay): SurveyDay {
  return { day, fetched: 0, known: 0, filtered: 0, malformed: 0, unknown: 0 }
}
