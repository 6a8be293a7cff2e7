// The usage or query history as a source: from when on it is read, and for which task next.
import type { Cursor, Origin, Plan, Source } from '../../contracts/source.ts'
import { DAY_MS, dayStart, MINUTE_MS, secondText } from '../../core/time.ts'
import type { HistoryCursor } from './cursor.ts'
import { freshHistoryCursor, openHistoryCursor, startAnew } from './cursor.ts'
import { beginLive, isCaughtUp, nextDue, nextOnce, planOf, taskOf } from './due.ts'
import type { HistoryOptions, Step, Parts, Task } from './step.ts'
import { lastPart } from './step.ts'
import { readTask } from './task.ts'
import { adoptBoundary, boundaryOf } from './version.ts'

export type { HistoryKind, HistoryOptions } from './step.ts'

const YEAR_MS = 365 * DAY_MS
/** Two clocks' difference, not one that is wrong. */
const FUTURE_START_MS = MINUTE_MS

/** How far the run of this process is, with `once`: not begun, reading, all read. */
type Run = 'new' | 'under_way' | 'over'

export class HistorySource implements Source {
  readonly origin: Origin
  readonly #options: HistoryOptions
  #run: Run = 'new'
  /** of what the process before this one read too */
  #placeTold = false

  constructor(options: HistoryOptions) {
    this.#options = options
    this.origin = options.origin
  }

  plan(text: Cursor | undefined): Plan {
    const { clock, once } = this.#options
    if (once) return { dueAt: clock.now(), lane: 'live', caughtUp: this.#run === 'over' }
    const cursor = this.#open(text)
    if (!this.#placeTold) this.#tellPlace(cursor)
    // What the configuration changed is looked at now, not at the next poll.
    if (cursor.boundaryAt !== boundaryOf(this.#options))
      return { dueAt: clock.now(), lane: 'live', caughtUp: false }
    return planOf(this.#options, cursor)
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): Parts {
    const cursor = this.#open(text)
    if (text !== undefined) this.#settleStart(cursor)
    adoptBoundary(cursor, this.#options)
    const step: Step = { options: this.#options, cursor, signal }
    // The start is counted from the first try on, however long that stays in vain.
    if (text === undefined) yield lastPart(step, { underWay: true })
    const task = this.#task(cursor)
    if (task) yield* readTask(step, task)
    else yield lastPart(step)
    this.#tellPlace(cursor)
    if (this.#options.once && nextOnce(this.#options, cursor) === undefined) this.#run = 'over'
  }

  #open(text: Cursor | undefined): HistoryCursor {
    const { clock, origin } = this.#options
    if (text !== undefined) return openHistoryCursor(text, origin.workspace, origin.source)
    const now = clock.now()
    return freshHistoryCursor(now, startMs(this.#options, now), boundaryOf(this.#options))
  }

  /** A start that has not come yet was settled by a clock that was ahead: nothing would ever be shipped. */
  #settleStart(cursor: HistoryCursor): void {
    const options = this.#options
    const now = options.clock.now() - cursor.serverBehindMs
    const wanted = startMs(options, now)
    // Once an event was read the start is proven, whatever the clock says now; and a start to come may be meant.
    if (
      cursor.headUs > 0 ||
      cursor.startUs <= (now + FUTURE_START_MS) * 1000 ||
      wanted * 1000 >= cursor.startUs
    )
      return
    options.log.warn(
      'The history was to be read from an instant that has not come yet, settled by a clock that was ahead: it is settled anew. Look after the clock of this machine',
      { was: secondText(cursor.startUs / 1000), is: secondText(wanted) },
    )
    startAnew(cursor, now, wanted)
  }

  #task(cursor: HistoryCursor): Task | undefined {
    const options = this.#options
    if (!options.once) return taskOf(options, cursor, nextDue(options, cursor)[0])
    if (this.#run === 'new') this.#beginRun(cursor)
    const kind = nextOnce(options, cursor)
    return kind && taskOf(options, cursor, kind)
  }

  /** Each single run reads the open day up to now, whatever one before it read, and tries once what was unreadable. */
  #beginRun(cursor: HistoryCursor): void {
    const now = this.#options.clock.now()
    this.#run = 'under_way'
    cursor.live = beginLive(cursor, now)
    for (const trouble of cursor.troubles) trouble.dueAt = now
  }

  /** How far it has come: to the oldest that is still to be read, else as far as live reading did. */
  #tellPlace(cursor: HistoryCursor): void {
    const { watch } = this.#options
    const { headUs, polledTo, todo } = cursor
    this.#placeTold = true
    const first = todo[0]?.at ?? (isCaughtUp(cursor) ? Infinity : (polledTo ?? cursor.openDay))
    const cursorUs = Math.min(headUs, first * 1000)
    if (cursorUs > 0) watch.cursor(cursorUs)
    if (headUs > 0) watch.head(headUs)
  }
}

/** The specification names no earliest event: as far back as the audit log can be searched (spec §4.1). */
function startMs({ start }: HistoryOptions, now: number): number {
  switch (start.kind) {
    case 'earliest':
      return dayStart(now - YEAR_MS) + DAY_MS
    case 'latest':
      return now
    case 'span':
      return now - start.ms
    case 'time':
      return start.atUs / 1000
  }
}
