// Handles a window that cannot be read: requests it again, then narrower, then skips it as a
// possible gap and retries it later. Reading never stops silently.
import type { ConnectorError } from '../../core/errors.ts'
import type { PageChunk } from '../../contracts/source.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, secondText } from '../../core/time.ts'
import { withNextStep } from '../http/reply.ts'
import type { HistoryCursor, Trouble, RangeRead } from './cursor.ts'
import { isBeforeStart, sightingsOf, stepTo } from './cursor.ts'
import { endRangeRead, troubleDelayMs } from './due.ts'
import type { Step, Parts, Task } from './step.ts'
import { lastChunk } from './step.ts'
import { readInUnits } from './unit.ts'
import { type Cause, forgetFailures, isSurelyNoChance, recordAnswer, recordFailure } from './width.ts'
import type { Fault, Reading, Window } from './window.ts'
import { headUsOf, windowOver } from './window.ts'

/** Most troubles kept; beyond that neighbours are joined. */
const MAX_TROUBLES = 64
/** A span unreadable for this long is given up: it was reported as a gap, and dedup keys expire. */
const GIVEN_UP_MS = 14 * DAY_MS

/*
 * State machine for a window that is not completely read (`Fault`, window.ts). Chance is judged by recent answers (width.ts).
 *
 *   undecided                    → requests the same window again; after at most nine answers it is malformed or unsteady
 *   unsteady                     → skipped: its elements are quarantined, and a possible gap is reported
 *   otherwise, may be chance     → requests the same window again
 *   not chance                   → requests a narrower one. If that is read, the failed width is tried again at once: if it
 *                                  works, it was chance; otherwise that width is avoided for eight answers
 *   no narrower one is possible  → reads a window elsewhere between tries:
 *     that fails too               the API is at fault: nothing is skipped, and no width was the cause
 *     that is read, repeatedly     the window is at fault: skipped and stored as a trouble; reading continues after it
 *
 * A skipped window is reported as a possible gap, unless it only ever showed malformed elements, or it ends before the start.
 * A 400 in the past narrows a window longer than a day, and skips a day: the API may not reach so far back.
 * The complete entries of a failed answer are kept each time. A trouble is retried after 15 minutes, then less and less
 * often, at least every 6 hours, for 14 days.
 */
export function needsOtherWindow({ failures, proofs }: RangeRead): boolean {
  return failures > (proofs > 0 ? 0 : 1)
}

type Faulty = Reading & { readonly fault: Fault }

/** One failure of `window`. */
export async function* failed(step: Step, task: Task, window: Window, reading: Faulty): Parts {
  const { pending, fault } = reading
  const { kind, error, elements } = fault
  const headUs = headUsOf(task.kind, step.cursor)
  if (kind === 'undecided') {
    const next = 'the window is requested again to check whether the same elements come back'
    yield lastChunk(step, { ...pending, headUs, fault: withNextStep(error, next) })
  } else if (task.kind !== 'trouble') {
    yield kind === 'unsteady'
      ? skipped(step, task, window, reading)
      : failedInOrder(step, task, window, reading)
  } else if (kind === 'no_events') {
    // Minutes later it has the same elements: the answer is complete.
    for (const element of elements) sightingsOf(step.cursor).recordMalformed(window, element)
    overcome(step, task, window)
    yield lastChunk(step, { ...pending, quarantined: elements })
  } else {
    const still = stillTrouble(step, task, window, error)
    yield lastChunk(step, { ...pending, quarantined: allQuarantined(reading), fault: still })
  }
}

function failedInOrder(step: Step, task: Task, window: Window, reading: Faulty): PageChunk {
  const { pending, fault, seenMs } = reading
  const { rangeRead, width } = task
  let next = 'the same window is requested again'
  if (window.divisible) {
    if (recordFailure(width, window, causeOf(reading), seenMs))
      next = `the next request covers ${spanText(width.ms)} instead of ${spanText(window.to - window.from)}, in case the answer was too large`
  } else if (isSurelyNoChance(width, rangeRead.proofs + 1)) return skipped(step, task, window, reading)
  else rangeRead.failures++
  const headUs = headUsOf(task.kind, step.cursor)
  return lastChunk(step, {
    ...pending,
    headUs,
    fault: withNextStep(fault.error, `${nameOf(window)} is not read yet. Nothing is skipped: ${next}`),
  })
}

/** The elements to quarantine if the window is skipped. */
const allQuarantined = ({ pending, fault }: Faulty): PageChunk['quarantined'] => [
  ...(pending?.quarantined ?? []),
  ...fault.elements.filter(() => fault.kind !== 'unread'),
]

function causeOf({ fault: { error }, answered }: Faulty): Cause {
  if (error.code === 'too_large') return 'over_bound'
  return error.code === 'timeout' && answered ? 'slow' : 'unknown'
}

/** A 400 on a past window while the open day is readable: too far back, or too long. */
export async function* refused(step: Step, task: Task, window: Window, error: ConnectorError): Parts {
  if (task.kind === 'trouble') {
    yield lastChunk(step, { fault: stillTrouble(step, task, window, error) })
    return
  }
  if (isTooLong(task, window)) {
    yield lastChunk(step)
    return
  }
  const gaps = skip(step, task, window)
  // A past that is entirely out of reach is one gap, without a wait of a minute per day.
  const fault = withNextStep(
    error,
    `${nameOf(window)} and what follows are skipped: the API may not reach so far back; set a later history.start for a new journal`,
  )
  yield lastChunk(step, gaps === 0 ? {} : { gaps, fault })
}

/** A window was rejected with a 400: requests narrower ones from now on. */
export function isTooLong({ width }: Task, window: Window): boolean {
  if (window.to - window.from <= DAY_MS) return false
  recordFailure(width, window, 'over_bound', 0)
  return true
}

/** Reads a window elsewhere, farther away each time: if all fail, no single window is at fault. */
export async function* prove(step: Step, task: Task, window: Window): Parts {
  const { rangeRead, width } = task
  const { cursor } = step
  const [away, span] = window.isDay ? [DAY_MS, DAY_MS] : [HOUR_MS, MINUTE_MS]
  const from = Math.max(0, window.from - ++rangeRead.elsewhere * away)
  const elsewhere = windowOver(cursor, from, from + span)
  rangeRead.failures = 0
  const { pending, fault } = yield* readInUnits(step, elsewhere, task.priority, undefined)
  if (fault?.kind === 'unread' || fault?.kind === 'no_events') {
    width.lost++
    forgetFailures(width)
    const next = `and so is ${nameOf(window)}: the API is at fault, nothing is skipped`
    yield lastChunk(step, {
      ...pending,
      fault: withNextStep(fault.error, `${nameOf(elsewhere)} is unreadable ${next}`),
    })
    return
  }
  recordAnswer(width, 0)
  rangeRead.proofs++
  yield lastChunk(step, pending)
}

function skipMessage(kind: Fault['kind']): string {
  switch (kind) {
    case 'no_events':
      return 'A history window contains only malformed elements while other windows are readable: they are quarantined, and the window is retried later'
    case 'unsteady':
      return 'Each answer for a history window contains different elements that are not events: they are quarantined, its events are stored, and the rest is a possible gap; it is retried later'
    default:
      return 'A history window stays unreadable while others are readable: its complete events are kept, the rest is a possible gap; it is retried later'
  }
}

/** The window is at fault, not the API. */
function skipped(step: Step, task: Task, window: Window, reading: Faulty): PageChunk {
  const { cursor, options } = step
  const { pending, fault } = reading
  if (!isBeforeStart(cursor, window))
    options.log.error(skipMessage(fault.kind), { from: secondText(window.from), to: secondText(window.to) })
  const gaps = skip(step, task, window)
  return lastChunk(step, {
    ...pending,
    quarantined: allQuarantined(reading),
    gaps: fault.kind === 'no_events' ? 0 : gaps,
  })
}

/** Unreadable spans too are requested twice before an empty answer is believed. */
export function isTroubleToProve({ troubles }: HistoryCursor, { rangeRead }: Task): boolean {
  const trouble = troubles.find(({ from }) => from === rangeRead.from)
  if (!trouble || trouble.emptyAt === trouble.from) return false
  trouble.emptyAt = trouble.from
  return true
}

/** A trouble is readable now, as far as `window` goes: a UTC day may end before the trouble. */
export function overcome({ cursor, options }: Step, { rangeRead }: Task, window: Window): void {
  const trouble = cursor.troubles.find(({ from }) => from === rangeRead.from)
  if (!trouble) return
  const to = Math.min(rangeRead.to, window.to)
  options.log.info('A history window that was unreadable is readable now', {
    from: secondText(rangeRead.from),
    to: secondText(to),
  })
  if (to < trouble.to) trouble.from = to
  else cursor.troubles = cursor.troubles.filter((other) => other !== trouble)
}

/**
 * Continues after the window. Returns the number of new gaps: 0 if it adjoins the last skipped one,
 * or ends before the start.
 */
function skip({ cursor, options }: Step, task: Task, window: Window): number {
  const { from, to } = window
  const now = options.clock.now()
  const unwanted = isBeforeStart(cursor, window)
  const known = cursor.troubles.some((other) => other.from <= from && other.to >= from)
  if (!unwanted) addTrouble(cursor, { from, to, sinceAt: now, tries: 0, dueAt: now + troubleDelayMs(0) })
  stepTo(task.rangeRead, to)
  if (to >= task.rangeRead.to) endRangeRead(options, cursor, task)
  return known || unwanted ? 0 : 1
}

/** Joins neighbours; if there are too many, joins the two that are closest. */
function addTrouble(cursor: HistoryCursor, trouble: Trouble): void {
  const all = [...cursor.troubles, trouble].sort((a, b) => a.from - b.from)
  const joined: Trouble[] = []
  for (const one of all) {
    const before = joined.at(-1)
    if (before && one.from <= before.to) joined.splice(-1, 1, joint(before, one))
    else joined.push(one)
  }
  while (joined.length > MAX_TROUBLES) {
    const distances = joined.slice(1).map(({ from }, i) => from - (joined[i]?.to ?? 0))
    const at = distances.indexOf(Math.min(...distances))
    const [left, right] = joined.slice(at, at + 2) as [Trouble, Trouble]
    joined.splice(at, 2, joint(left, right))
  }
  cursor.troubles = joined
}

/** Retried as long as the younger one would be, and as soon as the earlier one. */
function joint(left: Trouble, right: Trouble): Trouble {
  return {
    ...left,
    to: Math.max(left.to, right.to),
    sinceAt: Math.max(left.sinceAt, right.sinceAt),
    tries: Math.min(left.tries, right.tries),
    dueAt: Math.min(left.dueAt, right.dueAt),
  }
}

/** A retry failed: tries again later, in halves if the span is long. */
function stillTrouble(
  { cursor, options }: Step,
  { rangeRead }: Task,
  window: Window,
  error: ConnectorError,
): ConnectorError {
  const now = options.clock.now()
  const trouble = cursor.troubles.find(({ from }) => from === rangeRead.from)
  if (trouble) {
    const others = cursor.troubles.filter((other) => other !== trouble)
    trouble.tries++
    trouble.dueAt = now + troubleDelayMs(trouble.tries)
    cursor.troubles = [...others, ...halves(trouble, window, error.code !== 'bad_request', others.length)]
    if (now - trouble.sinceAt > GIVEN_UP_MS) {
      cursor.troubles = others
      options.log.error(
        'A span of the history was unreadable for 14 days and is no longer retried: its events may be missing. Once the API can read it: auditferry backfill',
        { from: secondText(trouble.from), to: secondText(trouble.to) },
      )
    }
  }
  return withNextStep(
    error,
    `${nameOf(window)} stays unreadable: it is retried less and less often, for 14 days`,
  )
}

function halves(trouble: Trouble, { isDay }: Window, worthIt: boolean, others: number): Trouble[] {
  const { from, to } = trouble
  const unit = isDay ? DAY_MS : MINUTE_MS
  const middle = from + Math.ceil((to - from) / 2 / unit) * unit
  if (!worthIt || middle >= to || others + 2 > MAX_TROUBLES) return [trouble]
  return [
    { ...trouble, to: middle },
    { ...trouble, from: middle },
  ]
}

function nameOf({ from, to }: Window): string {
  return `the history from ${secondText(from)} to ${secondText(to)}`
}

const spanText = (ms: number): string => `${Math.round(ms / 60_000)} min`
