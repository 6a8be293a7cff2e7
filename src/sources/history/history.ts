// The usage or query history as a source: decides from when it is read, and which task comes next.
import type { Cursor, Stream, Plan, Source } from '../../contracts/source.ts'
import { DAY_MS, dayStart, MINUTE_MS, secondText } from '../../core/time.ts'
import type { HistoryCursor } from './cursor.ts'
import { freshHistoryCursor, openHistoryCursor, restartAt } from './cursor.ts'
import { beginLive, isCaughtUp, nextDue, nextOnce, planOf, taskOf } from './due.ts'
import type { HistoryOptions, Step, Parts, Task } from './step.ts'
import { lastChunk } from './step.ts'
import { readTask } from './task.ts'
import { adoptBoundary, boundaryOf } from './version.ts'

export type { HistoryKind, HistoryOptions } from './step.ts'

const YEAR_MS = 365 * DAY_MS
/** A normal difference between two clocks; a larger one means that a clock is wrong. */
const FUTURE_START_MS = MINUTE_MS

/** State of the run of this process with `once`: not begun, reading, everything read. */
type SingleRun = 'new' | 'under_way' | 'over'

export class HistorySource implements Source {
  readonly stream: Stream
  readonly #options: HistoryOptions
  #singleRun: SingleRun = 'new'
  /** the position was reported, including what the previous process read */
  #positionReported = false

  constructor(options: HistoryOptions) {
    this.#options = options
    this.stream = options.stream
  }

  plan(text: Cursor | undefined): Plan {
    const { clock, once } = this.#options
    if (once) return { dueAt: clock.now(), priority: 'live', caughtUp: this.#singleRun === 'over' }
    const cursor = this.#open(text)
    if (!this.#positionReported) this.#reportPosition(cursor)
    // A changed configuration takes effect now, not at the next poll.
    if (cursor.boundaryAt !== boundaryOf(this.#options))
      return { dueAt: clock.now(), priority: 'live', caughtUp: false }
    return planOf(this.#options, cursor)
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): Parts {
    const cursor = this.#open(text)
    if (text !== undefined) this.#correctStart(cursor)
    adoptBoundary(cursor, this.#options)
    const step: Step = { options: this.#options, cursor, signal }
    // Saves the start at the first try, however long tries fail.
    if (text === undefined) yield lastChunk(step, { underWay: true })
    const task = this.#task(cursor)
    if (task) yield* readTask(step, task)
    else yield lastChunk(step)
    this.#reportPosition(cursor)
    if (this.#options.once && nextOnce(this.#options, cursor) === undefined) this.#singleRun = 'over'
  }

  #open(text: Cursor | undefined): HistoryCursor {
    const { clock, stream } = this.#options
    if (text !== undefined) return openHistoryCursor(text, stream.workspace, stream.source)
    const now = clock.now()
    return freshHistoryCursor(now, startMs(this.#options, now), boundaryOf(this.#options))
  }

  /** A start in the future came from a clock that was ahead: nothing would ever be delivered. */
  #correctStart(cursor: HistoryCursor): void {
    const options = this.#options
    const now = options.clock.now() - cursor.serverBehindMs
    const correctMs = startMs(options, now)
    // The first event proves the start, whatever the clock; a configured one may be in the future.
    if (
      cursor.headUs > 0 ||
      cursor.startUs <= (now + FUTURE_START_MS) * 1000 ||
      correctMs * 1000 >= cursor.startUs
    )
      return
    options.log.warn(
      'The start of the history was in the future, because the clock of this machine was ahead when it was set. It has been corrected. Check the clock of this machine',
      { was: secondText(cursor.startUs / 1000), is: secondText(correctMs) },
    )
    restartAt(cursor, now, correctMs)
  }

  #task(cursor: HistoryCursor): Task | undefined {
    const options = this.#options
    if (!options.once) return taskOf(options, cursor, nextDue(options, cursor)[0])
    if (this.#singleRun === 'new') this.#beginSingleRun(cursor)
    const kind = nextOnce(options, cursor)
    return kind && taskOf(options, cursor, kind)
  }

  /** Each single run reads the open day up to now, and retries unreadable spans once. */
  #beginSingleRun(cursor: HistoryCursor): void {
    const now = this.#options.clock.now()
    this.#singleRun = 'under_way'
    cursor.live = beginLive(cursor, now)
    for (const trouble of cursor.troubles) trouble.dueAt = now
  }

  /** Reports the position: the oldest instant still to be read, or the end of live reading. */
  #reportPosition(cursor: HistoryCursor): void {
    const { reporter } = this.#options
    const { headUs, polledTo, todo } = cursor
    this.#positionReported = true
    const first = todo[0]?.at ?? (isCaughtUp(cursor) ? Infinity : (polledTo ?? cursor.openDay))
    const cursorUs = Math.min(headUs, first * 1000)
    if (cursorUs > 0) reporter.cursor(cursorUs)
    if (headUs > 0) reporter.head(headUs)
  }
}

/** The specification names no earliest event: as far back as the audit log (spec §4.1). */
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
