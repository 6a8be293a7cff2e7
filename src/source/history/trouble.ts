// What becomes of a window that cannot be read: asked again, asked in halves, at last passed as a possible gap and tried again later. It never stalls the feed in silence.
import type { ConnectorError } from '../../model/errors.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, secondText } from '../../model/time.ts'
import { toldAs } from '../answer/errors.ts'
import type { HistoryCursor, Trouble, Walk } from './cursor.ts'
import { isBeforeStart, stepTo } from './cursor.ts'
import { endWalk, troubleDelayMs } from './due.ts'
import type { Step, Parts, Task } from './step.ts'
import { lastPart } from './step.ts'
import { readInUnits } from './unit.ts'
import { narrow } from './width.ts'
import type { Reading, Window } from './window.ts'
import { headUsOf, windowOver } from './window.ts'

/** What may be chance is asked for once more before the window is halved. */
const CHANCE_TRIES = 2
/** The smallest window is asked for so often before it is looked whether the API tells anything at all. */
const STUCK_TRIES = 3
/** Troubles that are remembered; of more, neighbours become one. */
const MOST_TROUBLES = 64
/** What stays unreadable for so long is left: it was told as a gap, and keys are not kept for ever. */
const GIVEN_UP_MS = 14 * DAY_MS

/*
 * The window at the head of a walk, and what one failure about it does:
 *
 *   divisible    too large, too slow       → halved at once
 *                else, the first in a row  → the same again: it may be chance
 *                else, the second and on   → halved
 *   indivisible  the first two             → the same again (a minute; of v1 rows without a time a UTC day)
 *                the third                 → in doubt: the next step reads a window elsewhere
 *   in doubt     the other one is read     → passed: a possible gap, told, kept as a trouble; the walk goes on behind it
 *                                           (in silence where it ends before the start: nothing of it is wanted)
 *                it fails too              → in doubt still: the API is at fault, nothing is passed
 *   refused      longer than a day         → halved
 *   (400)        a day or less             → passed: the past may be further back than the API reaches
 *
 * What was whole of a failed answer is kept each time. A trouble is read again after 15 minutes, then ever more rarely, up
 * to every 6 hours, for 14 days.
 */
export function isInDoubt({ stuck }: Walk): boolean {
  return stuck >= STUCK_TRIES
}

/** One failure of `window`; `reading.error` says which. */
export async function* failed(step: Step, task: Task, window: Window, reading: Reading): Parts {
  const { pending, error, answered } = reading as Reading & { error: ConnectorError }
  const headUs = headUsOf(task.kind, step.cursor)
  if (task.kind === 'trouble') {
    yield lastPart(step, { ...pending, fault: stillTrouble(step, task, window, error) })
    return
  }
  const { walk, width } = task
  walk.failures++
  const tooMuch = error.code === 'too_large' || (error.code === 'timeout' && answered)
  let next = 'the same window is asked for again'
  if (!window.divisible) walk.stuck++
  else if (tooMuch || walk.failures >= CHANCE_TRIES) {
    narrow(width, window.to - window.from)
    next = `${spanText(width.ms)} are asked for instead of ${spanText(window.to - window.from)}`
  }
  yield lastPart(step, { ...pending, headUs, fault: toldAs(error, `${nameOf(window)}: ${next}`) })
}

/** A 400 on a window of the past, while the open day is read: it lies too far back, or is too long for this server. */
export async function* refused(step: Step, task: Task, window: Window, error: ConnectorError): Parts {
  if (task.kind === 'trouble') {
    yield lastPart(step, { fault: stillTrouble(step, task, window, error) })
    return
  }
  if (window.to - window.from > DAY_MS) {
    narrow(task.width, window.to - window.from)
    yield lastPart(step)
    return
  }
  const gaps = pass(step, task, window)
  // A whole past out of reach is one gap, and no reason to wait a minute a day of it.
  const fault = toldAs(
    error,
    `${nameOf(window)} and what follows are passed: the API may not reach so far back; set a later history.start for a new journal`,
  )
  yield lastPart(step, gaps === 0 ? {} : { gaps, fault })
}

/** Reads a window elsewhere, each time further away: what fails everywhere says nothing about one window. */
export async function* prove(step: Step, task: Task, window: Window): Parts {
  const { walk } = task
  const { cursor } = step
  const [away, span] = window.isDay ? [DAY_MS, DAY_MS] : [HOUR_MS, MINUTE_MS]
  const from = Math.max(0, window.from - ++walk.doubts * away)
  const elsewhere = windowOver(cursor, from, from + span)
  const { pending, error } = yield* readInUnits(step, elsewhere, task.lane, undefined)
  if (error) {
    const next = `and so is ${nameOf(window)}: the API is at fault, nothing is passed`
    yield lastPart(step, { ...pending, fault: toldAs(error, `${nameOf(elsewhere)} is unreadable ${next}`) })
    return
  }
  if (walk.doubts > 1) {
    // The API had failed everywhere and is back: the window may be readable now.
    stepTo(walk, walk.at)
    yield lastPart(step, pending)
    return
  }
  if (!isBeforeStart(cursor, window)) tellPassed(step, window)
  yield lastPart(step, { ...pending, gaps: pass(step, task, window) })
}

function tellPassed({ options }: Step, window: Window): void {
  options.log.error(
    'A window of the history stays unreadable while others are read: what was whole of it is kept, the rest is a possible gap; it is tried again later',
    { from: secondText(window.from), to: secondText(window.to) },
  )
}

/** What was unreadable is asked for once more too before it is believed that there is nothing: `walk` is made anew each time. */
export function isTroubleToProve({ troubles }: HistoryCursor, { walk }: Task): boolean {
  const trouble = troubles.find(({ from }) => from === walk.from)
  if (!trouble || trouble.emptyAt === trouble.from) return false
  trouble.emptyAt = trouble.from
  return true
}

/** A trouble is read after all, as far as `window` goes: a UTC day may end before the trouble does. */
export function overcome({ cursor, options }: Step, { walk }: Task, window: Window): void {
  const trouble = cursor.troubles.find(({ from }) => from === walk.from)
  if (!trouble) return
  const to = Math.min(walk.to, window.to)
  options.log.info('A window of the history that was unreadable is read after all', {
    from: secondText(walk.from),
    to: secondText(to),
  })
  if (to < trouble.to) trouble.from = to
  else cursor.troubles = cursor.troubles.filter((other) => other !== trouble)
}

/** Goes on behind the window. Returns the gaps to be counted: none where it follows on what was passed before, or ends before the start. */
function pass({ cursor, options }: Step, task: Task, window: Window): number {
  const { from, to } = window
  const now = options.clock.now()
  const unwanted = isBeforeStart(cursor, window)
  const known = cursor.troubles.some((other) => other.from <= from && other.to >= from)
  if (!unwanted) addTrouble(cursor, { from, to, sinceAt: now, tries: 0, dueAt: now + troubleDelayMs(0) })
  stepTo(task.walk, to)
  if (to >= task.walk.to) endWalk(options, cursor, task)
  return known || unwanted ? 0 : 1
}

/** Neighbours become one; where there are too many, the two that are nearest do. */
function addTrouble(cursor: HistoryCursor, trouble: Trouble): void {
  const all = [...cursor.troubles, trouble].sort((a, b) => a.from - b.from)
  const joined: Trouble[] = []
  for (const one of all) {
    const before = joined.at(-1)
    if (before && one.from <= before.to) joined.splice(-1, 1, joint(before, one))
    else joined.push(one)
  }
  while (joined.length > MOST_TROUBLES) {
    const distances = joined.slice(1).map(({ from }, i) => from - (joined[i]?.to ?? 0))
    const at = distances.indexOf(Math.min(...distances))
    const [left, right] = joined.slice(at, at + 2) as [Trouble, Trouble]
    joined.splice(at, 2, joint(left, right))
  }
  cursor.troubles = joined
}

/** Tried for as long as the younger one by itself, and as soon as the one that comes first. */
function joint(left: Trouble, right: Trouble): Trouble {
  return {
    ...left,
    to: Math.max(left.to, right.to),
    sinceAt: Math.max(left.sinceAt, right.sinceAt),
    tries: Math.min(left.tries, right.tries),
    dueAt: Math.min(left.dueAt, right.dueAt),
  }
}

/** Tried again in vain: later once more, in halves where it is long. */
function stillTrouble(
  { cursor, options }: Step,
  { walk }: Task,
  window: Window,
  error: ConnectorError,
): ConnectorError {
  const now = options.clock.now()
  const trouble = cursor.troubles.find(({ from }) => from === walk.from)
  if (trouble) {
    const others = cursor.troubles.filter((other) => other !== trouble)
    trouble.tries++
    trouble.dueAt = now + troubleDelayMs(trouble.tries)
    cursor.troubles = [...others, ...halves(trouble, window, error.code !== 'bad_request', others.length)]
    if (now - trouble.sinceAt > GIVEN_UP_MS) {
      cursor.troubles = others
      options.log.error('A window of the history stayed unreadable for 14 days and is given up', {
        from: secondText(trouble.from),
        to: secondText(trouble.to),
      })
    }
  }
  return toldAs(error, `${nameOf(window)} stays unreadable: it was told as a possible gap and is tried again`)
}

function halves(trouble: Trouble, { isDay }: Window, worthIt: boolean, others: number): Trouble[] {
  const { from, to } = trouble
  const unit = isDay ? DAY_MS : MINUTE_MS
  const middle = from + Math.ceil((to - from) / 2 / unit) * unit
  if (!worthIt || middle >= to || others + 2 > MOST_TROUBLES) return [trouble]
  return [
    { ...trouble, to: middle },
    { ...trouble, from: middle },
  ]
}

function nameOf({ from, to }: Window): string {
  return `the history from ${secondText(from)} to ${secondText(to)}`
}

const spanText = (ms: number): string => `${Math.round(ms / 60_000)} min`
