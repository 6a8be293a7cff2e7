// What becomes of a window that cannot be read: asked for again, asked for narrower, at last passed as a possible gap and tried again later. The feed never stalls in silence.
import type { ConnectorError } from '../../core/errors.ts'
import type { Part } from '../../contracts/source.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, secondText } from '../../core/time.ts'
import { toldAs } from '../http/reply.ts'
import type { HistoryCursor, Trouble, Walk } from './cursor.ts'
import { isBeforeStart, sightingsOf, stepTo } from './cursor.ts'
import { endWalk, troubleDelayMs } from './due.ts'
import type { Step, Parts, Task } from './step.ts'
import { lastPart } from './step.ts'
import { readInUnits } from './unit.ts'
import { type Cause, forgetFailures, isSurelyNoChance, noteAnswer, noteFailure } from './width.ts'
import type { Fault, Reading, Window } from './window.ts'
import { headUsOf, windowOver } from './window.ts'

/** Troubles that are remembered; of more, neighbours become one. */
const MOST_TROUBLES = 64
/** What stays unreadable for so long is left: it was reported as a gap, and keys are not kept for ever. */
const GIVEN_UP_MS = 14 * DAY_MS

/*
 * A window that does not count as read (`Fault`, window.ts). Chance is judged by how many answers came lately (width.ts).
 *
 *   in doubt                     → the same window again; after nine answers at most it is malformed or unsteady
 *   unsteady                     → passed: what came is quarantined, and a possible gap is reported
 *   else, while it may be chance → the same window again
 *   more than chance explains    → a narrower one. Once that is read, the width that failed is tried again at once: after
 *                                  chance all is as before, else it is left for eight answers
 *   nothing narrower there is    → between its tries a window elsewhere is read:
 *     it fails too                 the API is at fault: nothing is passed, and no width was the cause
 *     it is read, again and again  the window is at fault: passed, and kept as a trouble; the walk continues behind it
 *
 * Passing a window reports a possible gap, unless malformed elements are all that it ever showed, or it ends before the
 * start. A 400 of the past narrows what is longer than a day, and passes a day: the API may not reach so far back.
 * The complete entries of a failed answer are kept each time. A trouble is read again after 15 minutes, then less and less
 * often, at least every 6 hours, for 14 days.
 */
export function isInDoubt({ failures, proofs }: Walk): boolean {
  return failures > (proofs > 0 ? 0 : 1)
}

type Faulty = Reading & { readonly fault: Fault }

/** One failure of `window`. */
export async function* failed(step: Step, task: Task, window: Window, reading: Faulty): Parts {
  const { pending, fault } = reading
  const { kind, error, elements } = fault
  const headUs = headUsOf(task.kind, step.cursor)
  if (kind === 'in_doubt') {
    const next = 'the window is requested again to check whether the same elements come back'
    yield lastPart(step, { ...pending, headUs, fault: toldAs(error, next) })
  } else if (task.kind !== 'trouble') {
    yield kind === 'unsteady' ? passed(step, task, window, reading) : failedAhead(step, task, window, reading)
  } else if (kind === 'no_events') {
    // Minutes later it holds the same: that is all there is.
    for (const element of elements) sightingsOf(step.cursor).noteMalformed(window, element)
    overcome(step, task, window)
    yield lastPart(step, { ...pending, quarantined: elements })
  } else {
    const still = stillTrouble(step, task, window, error)
    yield lastPart(step, { ...pending, quarantined: allQuarantined(reading), fault: still })
  }
}

function failedAhead(step: Step, task: Task, window: Window, reading: Faulty): Part {
  const { pending, fault, seenMs } = reading
  const { walk, width } = task
  let next = 'the same window is requested again'
  if (window.divisible) {
    if (noteFailure(width, window, causeOf(reading), seenMs))
      next = `${spanText(width.ms)} are requested instead of ${spanText(window.to - window.from)}`
  } else if (isSurelyNoChance(width, walk.proofs + 1)) return passed(step, task, window, reading)
  else walk.failures++
  const headUs = headUsOf(task.kind, step.cursor)
  return lastPart(step, { ...pending, headUs, fault: toldAs(fault.error, `${nameOf(window)}: ${next}`) })
}

/** What is quarantined where the window is passed. */
const allQuarantined = ({ pending, fault }: Faulty): Part['quarantined'] => [
  ...(pending?.quarantined ?? []),
  ...fault.elements.filter(() => fault.kind !== 'unread'),
]

function causeOf({ fault: { error }, answered }: Faulty): Cause {
  if (error.code === 'too_large') return 'over_bound'
  return error.code === 'timeout' && answered ? 'slow' : 'unknown'
}

/** A 400 on a window of the past, while the open day is read: it lies too far back, or is too long for this server. */
export async function* refused(step: Step, task: Task, window: Window, error: ConnectorError): Parts {
  if (task.kind === 'trouble') {
    yield lastPart(step, { fault: stillTrouble(step, task, window, error) })
    return
  }
  if (isTooLong(task, window)) {
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

/** Of a window that was refused with a 400: narrower ones are asked for from now on. */
export function isTooLong({ width }: Task, window: Window): boolean {
  if (window.to - window.from <= DAY_MS) return false
  noteFailure(width, window, 'over_bound', 0)
  return true
}

/** Reads a window elsewhere, each time further away: what fails everywhere says nothing about one window. */
export async function* prove(step: Step, task: Task, window: Window): Parts {
  const { walk, width } = task
  const { cursor } = step
  const [away, span] = window.isDay ? [DAY_MS, DAY_MS] : [HOUR_MS, MINUTE_MS]
  const from = Math.max(0, window.from - ++walk.elsewhere * away)
  const elsewhere = windowOver(cursor, from, from + span)
  walk.failures = 0
  const { pending, fault } = yield* readInUnits(step, elsewhere, task.lane, undefined)
  if (fault?.kind === 'unread' || fault?.kind === 'no_events') {
    width.lost++
    forgetFailures(width)
    const next = `and so is ${nameOf(window)}: the API is at fault, nothing is passed`
    yield lastPart(step, {
      ...pending,
      fault: toldAs(fault.error, `${nameOf(elsewhere)} is unreadable ${next}`),
    })
    return
  }
  noteAnswer(width, 0)
  walk.proofs++
  yield lastPart(step, pending)
}

function whyPassed(kind: Fault['kind']): string {
  switch (kind) {
    case 'no_events':
      return 'A history window holds only malformed elements while others are read: they are quarantined, and the window is retried later'
    case 'unsteady':
      return 'Each answer about a history window has other elements that are not events: they are quarantined, its events are kept, and the rest is a possible gap; it is retried later'
    default:
      return 'A history window stays unreadable while others are read: its complete events are kept, the rest is a possible gap; it is retried later'
  }
}

/** The window is at fault, and not the API. */
function passed(step: Step, task: Task, window: Window, reading: Faulty): Part {
  const { cursor, options } = step
  const { pending, fault } = reading
  if (!isBeforeStart(cursor, window))
    options.log.error(whyPassed(fault.kind), { from: secondText(window.from), to: secondText(window.to) })
  const gaps = pass(step, task, window)
  return lastPart(step, {
    ...pending,
    quarantined: allQuarantined(reading),
    gaps: fault.kind === 'no_events' ? 0 : gaps,
  })
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
  return toldAs(error, `${nameOf(window)} stays unreadable: it is tried again, ever more rarely, for 14 days`)
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
