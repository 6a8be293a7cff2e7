// The usage or query history as a source: which window it reads next, and what its answer means for what is read after it.
import type { Cursor, Origin, Part, Plan, Source } from '../model/source.ts'
import { DAY_MS, dayStart, MINUTE_MS, secondText } from '../model/time.ts'
import { passedAt } from './history-clock.ts'
import type { HistoryCursor } from './history-cursor.ts'
import { freshCursor, isToProveEmpty, openCursor, startAnew, stepTo } from './history-cursor.ts'
import { beginLive, endWalk, isCaughtUp, nextDue, planOf, taskOf, troubleDueAt } from './history-due.ts'
import type { HistoryOptions, Step, Steps, Task } from './history-step.ts'
import { lastPart } from './history-step.ts'
import { failed, isInDoubt, isTroubleToProve, overcome, prove, refused } from './history-trouble.ts'
import { isRefused, readInUnits, turnsUnit } from './history-unit.ts'
import { adoptBoundary, boundaryOf } from './history-version.ts'
import { widen, WIDEST_MS } from './history-width.ts'
import type { Reading, Window } from './history-window.ts'
import { headAtOf, nextWindow, windowOver } from './history-window.ts'
import type { Group } from './splitter.ts'

export type { HistoryKind, HistoryOptions } from './history-step.ts'

const YEAR_MS = 365 * DAY_MS
/** Two clocks' difference, not one that is wrong. */
const FUTURE_START_MS = MINUTE_MS

/** Of `once`, for this process: not begun, reading, all read. */
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

  async *read(text: Cursor | undefined, signal: AbortSignal): Steps {
    const cursor = this.#open(text)
    if (text !== undefined) this.#settleStart(cursor)
    adoptBoundary(cursor, this.#options)
    const step: Step = { options: this.#options, cursor, signal }
    // The start is counted from the first try on, however long that stays in vain.
    if (text === undefined) yield lastPart(step, undefined, { underWay: true })
    const task = this.#task(cursor)
    if (task) yield* readTask(step, task)
    else yield lastPart(step, undefined)
    this.#tellPlace(cursor)
    if (this.#options.once && this.#isOver(cursor)) this.#run = 'over'
  }

  #open(text: Cursor | undefined): HistoryCursor {
    const { clock, origin } = this.#options
    if (text !== undefined) return openCursor(text, origin.workspace, origin.source)
    const now = clock.now()
    return freshCursor(now, startMs(this.#options, now), boundaryOf(this.#options))
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
    if (cursor.todo.length > 0) return taskOf(options, cursor, 'backfill')
    return taskOf(options, cursor, cursor.live || cursor.polledTo === null ? 'live' : 'trouble')
  }

  /** A single run reads what was never read, oldest first, then the open day up to now, then what was unreadable before. */
  #beginRun(cursor: HistoryCursor): void {
    const now = this.#options.clock.now()
    this.#run = 'under_way'
    cursor.live = beginLive(cursor, now)
    for (const trouble of cursor.troubles) trouble.dueAt = now
  }

  #isOver(cursor: HistoryCursor): boolean {
    return isCaughtUp(cursor) && troubleDueAt(cursor, this.#options.clock.now()) > this.#options.clock.now()
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

async function* readTask(step: Step, task: Task): Steps {
  const { cursor } = step
  const { kind, walk, lane } = task
  const isPast = kind === 'backfill' || kind === 'trouble'
  const window = kind === 'trouble' ? windowOver(cursor, walk.from, walk.to) : nextWindow(cursor, task)
  if (window === undefined) {
    endWalk(step.options, cursor, task)
    yield lastPart(step, undefined)
    return
  }
  if (isInDoubt(walk)) {
    yield* prove(step, task, window)
    return
  }
  const headAt = headAtOf(kind, cursor)
  let reading: Reading
  try {
    reading = yield* readInUnits(step, window, lane, headAt)
  } catch (error) {
    if (!isRefused(error)) throw error
    if (isPast) {
      yield* refused(step, task, window, error)
      return
    }
    const sooner = endedByNow(step, task)
    if (!sooner) throw error
    yield* readTask(step, sooner)
    return
  }
  const { pending } = reading
  if (reading.error) yield* failed(step, task, window, reading)
  else if (reading.leftOut > 0) yield readInDays(step, pending)
  else if (reading.elements === 0 && isToProve(step, task)) yield lastPart(step, undefined)
  else if (reading.elements === 0 && (await turnsUnit(step, window, lane))) yield lastPart(step, undefined)
  else {
    if (kind === 'trouble') overcome(step, task, window)
    else advance(step, task, window, reading)
    yield lastPart(step, pending, { headAt })
  }
}

/** Live reading up to what has passed by the server's clock too, which may refuse an end still to come; undefined where it ends there already. */
function endedByNow({ cursor, options }: Step, task: Task): Task | undefined {
  const to = passedAt(cursor, options.clock.now()).find((one) => one < task.walk.to)
  if (task.kind !== 'live' || to === undefined) return undefined
  cursor.live = { ...task.walk, to }
  return { ...task, walk: cursor.live }
}

/** The open day and what is read again show again what they hold; the past does not, and to a single run there is no again. */
export function isToProve({ cursor, options }: Step, task: Task): boolean {
  if (task.kind === 'trouble') return isTroubleToProve(cursor, task)
  return (task.kind === 'backfill' || (task.kind === 'live' && options.once)) && isToProveEmpty(task.walk)
}

/** A window is read whole: on behind it. */
export function advance({ options, cursor }: Step, task: Task, window: Window, { light }: Reading): void {
  const { kind, walk, width } = task
  stepTo(walk, window.to)
  widen(width, light, kind === 'backfill' ? WIDEST_MS : DAY_MS)
  if (walk.at >= walk.to) endWalk(options, cursor, task)
}

/** Rows without a time were met where the window is no day: none of them is shipped, and all that is under way goes on in days (law 8). */
export function readInDays(step: Step, pending: Group | undefined): Part {
  const { cursor, options } = step
  const { live, sweep, todo } = cursor
  options.log.info('Rows of version 1 without a readable time: the history is read in windows of a UTC day')
  cursor.timeless = true
  for (const walk of [live, sweep, ...todo]) if (walk) stepTo(walk, dayStart(walk.at))
  return lastPart(step, pending)
}
