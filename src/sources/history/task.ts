// Reads one window of a task, and decides from the answer what is read next.
import type { PageChunk } from '../../contracts/source.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { assertEndPassed, isRefused, passedAt, readInUnits, switchesUnit } from './unit.ts'
import { isToProveEmpty, stepTo } from './cursor.ts'
import { endRangeRead } from './due.ts'
import type { Step, Parts, Task } from './step.ts'
import { lastChunk } from './step.ts'
import { failed, needsOtherWindow, isTroubleToProve, overcome, prove, refused } from './trouble.ts'
import { widen } from './width.ts'
import type { Reading, Window } from './window.ts'
import { headUsOf, windowOf } from './window.ts'

/** Reads the next window of the task. Throws errors that are not about this window. */
export async function* readTask(step: Step, task: Task): Parts {
  const { cursor } = step
  const { kind, rangeRead, priority } = task
  const isPast = kind === 'todo' || kind === 'trouble'
  const window = windowOf(cursor, task)
  if (window === undefined) {
    endRangeRead(step.options, cursor, task)
    yield lastChunk(step)
    return
  }
  if (needsOtherWindow(rangeRead)) {
    yield* prove(step, task, window)
    return
  }
  const headUs = headUsOf(kind, cursor)
  const startedAt = step.options.clock.elapsed()
  let reading: Reading
  try {
    reading = yield* readInUnits(step, window, priority, headUs)
    rangeRead.spentMs = (rangeRead.spentMs ?? 0) + step.options.clock.elapsed() - startedAt
  } catch (error) {
    if (!isRefused(error)) throw error
    if (isPast) {
      assertEndPassed(step, window, error)
      yield* refused(step, task, window, error)
      return
    }
    const sooner = endedByNow(step, task)
    if (!sooner) throw error
    yield* readTask(step, sooner)
    return
  }
  const { pending, fault } = reading
  if (fault) yield* failed(step, task, window, { ...reading, fault })
  else if (reading.omitted > 0) yield readInDays(step, pending)
  else if ((await nextOf(step, task, window, reading)) !== 'continue') yield lastChunk(step)
  else yield lastChunk(step, { ...pending, headUs })
}

/**
 * The result of an answer without a fault. `repeat`: it was empty, so it is requested again;
 * `restart`: the API uses another unit than assumed.
 */
export async function nextOf(
  step: Step,
  task: Task,
  window: Window,
  reading: Reading,
): Promise<'continue' | 'repeat' | 'restart'> {
  if (reading.elements === 0) {
    // In this order the other unit is tried only for windows believed to be empty, once per window.
    if (isToProve(step, task)) return 'repeat'
    const isLast = task.kind === 'todo' || step.options.once
    if (await switchesUnit(step, window, task.priority, isLast)) return 'restart'
  }
  if (task.kind === 'trouble') overcome(step, task, window)
  else advance(step, task, window, reading)
  return 'continue'
}

/**
 * Live reading ends where the server's clock is, because the server may reject a future end;
 * undefined if it ends there already.
 */
function endedByNow({ cursor, options }: Step, task: Task): Task | undefined {
  const to = passedAt(cursor, options.clock.now()).find((one) => one < task.rangeRead.to)
  if (task.kind !== 'live' || to === undefined) return undefined
  cursor.live = { ...task.rangeRead, to }
  return { ...task, rangeRead: cursor.live }
}

/** The open day and lookback are read again later; the past and a single run are not. */
function isToProve({ cursor, options }: Step, task: Task): boolean {
  if (task.kind === 'trouble') return isTroubleToProve(cursor, task)
  return (task.kind === 'todo' || (task.kind === 'live' && options.once)) && isToProveEmpty(task.rangeRead)
}

/** The window is completely read: continue after it. */
function advance({ options, cursor }: Step, task: Task, window: Window, { light }: Reading): void {
  const { rangeRead, width } = task
  stepTo(rangeRead, window.to)
  widen(width, window.to - window.from, light)
  if (rangeRead.at >= rangeRead.to) endRangeRead(options, cursor, task)
}

/**
 * Rows without a time in a window that is no day: none is delivered, and all reads continue in
 * whole days (invariant 8).
 */
export function readInDays(step: Step, pending: Group | undefined): PageChunk {
  const { cursor, options } = step
  options.log.info('Rows of version 1 without a readable time: the history is read in windows of a UTC day')
  cursor.timeless = true
  return lastChunk(step, pending)
}
