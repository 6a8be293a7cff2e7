// A span of the history's past, window by window: read by `backfill`, `replay` and `reconcile`.
// It has its own cursor, and only reads the live one.
import { Entries } from '../../contracts/entries.ts'
import type { JobSpan, RangeUse, Unread } from '../../contracts/jobs.ts'
import type { Appended, Cursor, Stream, PageChunk, Plan, Source } from '../../contracts/source.ts'
import { DAY_MS, dayStart, secondText } from '../../core/time.ts'
import { areNumbers, isListOf } from '../shared.ts'
import { freshHistoryCursor, openHistoryCursor, stepTo, rangeReadOver, rangeReadOfTrouble } from './cursor.ts'
import type { HistoryCursor, RangeRead } from './cursor.ts'
import { endRangeRead } from './due.ts'
import { lastChunk } from './step.ts'
import type { HistoryOptions, Parts, Step, Task } from './step.ts'
import { nextOf, readInDays } from './task.ts'
import { failed, needsOtherWindow, isTooLong, prove, refused } from './trouble.ts'
import { assertEndPassed, isRefused, readInUnits } from './unit.ts'
import { boundaryOf, checkVersions, openVersions, withRead } from './version.ts'
import type { VersionStore } from './version.ts'
import { windowOf } from './window.ts'
import type { Reading, Window } from './window.ts'

interface HistoryRangeOptions extends Omit<
  HistoryOptions,
  'intervalMs' | 'start' | 'lookbackMs' | 'keepKeysMs' | 'once'
> {
  /** µs: inclusive, exclusive; not later than now */
  readonly fromUs: number
  readonly toUs: number
  /** the live cursor: what it learned about this API, and which days it read in which version */
  live(): Promise<Cursor | undefined>
  readonly versions: VersionStore
  /** If nothing is stored, each entry is passed on once, with its own window. */
  readonly use: RangeUse
}

interface RangeStep extends Step {
  readonly cursor: RangeCursor
}

/**
 * Windows are requested with one more second on both sides, and ends may be inclusive: those
 * entries belong to the neighbours.
 */
const EDGE_US = 2_000_000

/** `read` reads one window with the priority `job`; the cursor of its parts is only this read's. */
export class HistoryRange implements Source {
  readonly stream: Stream
  readonly #options: HistoryRangeOptions
  readonly #span: JobSpan

  constructor(options: HistoryRangeOptions) {
    this.#options = options
    this.stream = options.stream
    this.#span = { fromUs: options.fromUs, toUs: options.toUs }
  }

  plan(text: Cursor | undefined): Plan {
    const { clock, stream } = this.#options
    const cursor = openRangeCursor(text, stream)
    return { dueAt: clock.now(), priority: 'job', caughtUp: cursor !== undefined && isDone(cursor) }
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): Parts {
    const { clock, stream, reporter, versions, use } = this.#options
    const options: HistoryOptions = {
      ...this.#options,
      intervalMs: 0,
      lookbackMs: 0,
      keepKeysMs: 0,
      once: true,
      start: { kind: 'time', atUs: this.#span.fromUs },
    }
    const boundaryAt = boundaryOf(options)
    const live = await this.#live()
    let known = openVersions(await versions.load())
    checkVersions(stream, touchedDays(this.#span), boundaryAt, known, live)
    const opened = openRangeCursor(text, stream)
    const same = opened?.boundaryAt === boundaryAt ? opened : undefined
    const cursor = same ?? freshRangeCursor(this.#span, live, boundaryAt, clock.now())
    const step: RangeStep = { options, cursor, signal }
    const { parts, window } = this.#choose(step, opened !== undefined && same === undefined)
    try {
      for (let next = await parts.next(); !next.done;) {
        const part = this.#cut(next.value, window)
        const read = withRead(known, part.entries, boundaryAt)
        // Saved before any entry of these days is stored.
        if (use === 'keep' && read !== known) await versions.save(JSON.stringify(read))
        known = read
        // Before the append, because the state stored with it includes the position.
        if (part.cursor !== undefined)
          reporter.cursor(cursor.todo[0] ? cursor.todo[0].at * 1000 : this.#span.toUs)
        const appended: Appended = yield part
        next = await parts.next(appended)
      }
    } finally {
      // An answer that is no longer wanted returns its request.
      await parts.return(undefined)
    }
  }

  async #live(): Promise<HistoryCursor | undefined> {
    const { workspace, source } = this.stream
    const text = await this.#options.live()
    return text === undefined ? undefined : openHistoryCursor(text, workspace, source)
  }

  /** Chooses what this step does, and the window of its entries; undefined: none. */
  #choose(step: RangeStep, isOtherVersion: boolean): { parts: Parts; window: Window | undefined } {
    const { cursor, options } = step
    const task = taskOf(cursor, options.clock.now())
    const none = (more: Partial<PageChunk>) => ({ parts: nothing(step, more), window: undefined })
    if (isOtherVersion) return none({ void: 'walk' })
    if (!task) return none({})
    const window = windowOf(cursor, task)
    if (!window) {
      endRangeRead(options, cursor, task)
      return none({})
    }
    if (needsOtherWindow(task.rangeRead)) return { parts: prove(step, task, window), window: undefined }
    return { parts: this.#readWindow(step, task, window), window }
  }

  async *#readWindow(step: RangeStep, task: Task, window: Window): Parts {
    const { cursor, options } = step
    const restart = () => {
      cursor.todo = [readOfSpan(this.#span, options.clock.now())]
      cursor.troubles = []
      cursor.refused = []
    }
    let reading: Reading
    try {
      reading = yield* readInUnits(step, window, 'job', undefined)
    } catch (error) {
      if (!isRefused(error)) throw error
      assertEndPassed(step, window, error)
      if (task.kind === 'trouble') yield* refused(step, task, window, error)
      else yield skipRefused(step, task, window)
      return
    }
    const { pending, fault } = reading
    if (fault) {
      yield* failed(step, task, window, { ...reading, fault })
      return
    }
    if (reading.omitted > 0) {
      // From here on whole days are read, so parts come again; parts that were sent stay sent.
      if (this.#options.use === 'compare') restart()
      yield { ...readInDays(step, pending), void: 'walk' }
      return
    }
    const next = await nextOf(step, task, window, reading)
    if (next === 'restart') restart()
    yield next === 'continue' ? lastChunk(step, pending) : lastChunk(step)
  }

  /** Parts of a failed day may be sent, and later the whole day: needed for rows without a time. */
  #comesInDays(): boolean {
    const { use, version, v1Until } = this.#options
    return use === 'send' && (version === 'v1' || v1Until !== undefined)
  }

  #cut(part: PageChunk, window: Window | undefined): PageChunk {
    const { use, toUs } = this.#options
    const entries = part.entries.between(-Infinity, toUs)
    if (use === 'keep') return { ...part, entries }
    // Spans that stay unread are reported from the cursor at the end.
    const withoutGaps = { ...part, gaps: 0 }
    if (!window) return { ...withoutGaps, entries: Entries.none, quarantined: [] }
    return {
      ...withoutGaps,
      entries: withoutEdges(entries, window),
      ...(part.fault && { void: this.#comesInDays() ? ('walk' as const) : ('answer' as const) }),
    }
  }
}

async function* nothing(step: RangeStep, more: Partial<PageChunk>): Parts {
  yield lastChunk(step, more)
}

/**
 * Each window passes on its own entries. Entries that the API dates elsewhere stay, because no
 * other window would have them.
 */
function withoutEdges(entries: Entries, { from, to }: Window): Entries {
  const isNeighbours = (at: number) =>
    (at >= from * 1000 - EDGE_US && at < from * 1000) || (at >= to * 1000 && at < to * 1000 + EDGE_US)
  if (!entries.times.some(isNeighbours)) return entries
  const own = Array.from({ length: entries.count }, (_, i) => i).filter((i) => !isNeighbours(entries.at(i)))
  return entries.pick(own)
}

/** A 400 on past days: more than a day may be too long for this server; else it is too far back. */
function skipRefused(step: RangeStep, task: Task, window: Window): PageChunk {
  const { cursor, options } = step
  const { from, to } = window
  if (isTooLong(task, window)) return lastChunk(step)
  const isNew = recordRefused(cursor, window)
  stepTo(task.rangeRead, to)
  if (to >= task.rangeRead.to) endRangeRead(options, cursor, task)
  if (isNew)
    options.log.warn(
      'The API answers 400 for this span of the history, perhaps because it does not reach so far back. The span is skipped, and reported when the job ends',
      { from: secondText(from), to: secondText(to) },
    )
  return lastChunk(step, { gaps: isNew ? 1 : 0 })
}

// The position of a job in the past: a history cursor of its own, stored with the entries. Pure.

/** epoch ms */
interface SpanMs {
  readonly from: number
  to: number
}

/** Uses `todo`, `troubles` and what was learned; nothing of it is live. */
interface RangeCursor extends HistoryCursor {
  /** spans that the API rejected with a 400, oldest first; neighbours are joined */
  refused: SpanMs[]
}

/** Unreadable spans are retried this often after everything else is read, then reported. */
const LAST_TRIES = 2

/** Takes over what live reading learned about this API. */
function freshRangeCursor(
  span: JobSpan,
  live: HistoryCursor | undefined,
  boundaryAt: number,
  now: number,
): RangeCursor {
  const from = Math.floor(span.fromUs / 1000)
  const fresh = freshHistoryCursor(now, from, boundaryAt)
  const { unit, unitSure, timeless } = live ?? fresh
  return {
    ...fresh,
    unit,
    unitSure,
    timeless,
    startUs: span.fromUs,
    todo: [readOfSpan(span, now)],
    refused: [],
  }
}

/** The whole span, from its beginning. */
function readOfSpan({ fromUs, toUs }: JobSpan, now: number): RangeRead {
  return rangeReadOver(Math.floor(fromUs / 1000), Math.ceil(toUs / 1000), now)
}

/** A copy that a step may change; undefined: not begun, or another format, so it restarts. */
export function openRangeCursor(text: Cursor | undefined, stream: Stream): RangeCursor | undefined {
  if (text === undefined) return undefined
  try {
    const cursor = openHistoryCursor(text, stream.workspace, stream.source) as HistoryCursor &
      Partial<RangeCursor>
    return isListOf(cursor.refused, (one) => areNumbers(one, 'from', 'to'))
      ? (cursor as RangeCursor)
      : undefined
  } catch {
    return undefined
  }
}

const isDone = (cursor: RangeCursor): boolean => cursor.todo.length === 0 && dueForRetry(cursor) === undefined

const dueForRetry = ({ troubles }: RangeCursor) => troubles.find(({ tries }) => tries < LAST_TRIES)

/** What is read next: the span, then its unreadable parts again. */
function taskOf(cursor: RangeCursor, now: number): Task | undefined {
  const common = { priority: 'job', width: cursor.widths.backfill } as const
  const [rangeRead] = cursor.todo
  if (rangeRead) return { ...common, kind: 'todo', rangeRead }
  const trouble = dueForRetry(cursor)
  return (
    trouble && { ...common, kind: 'trouble', rangeRead: rangeReadOfTrouble(trouble, cursor.boundaryAt, now) }
  )
}

/** True if it does not adjoin the last rejected span: then it is a possible gap of its own. */
function recordRefused({ refused }: RangeCursor, { from, to }: Readonly<SpanMs>): boolean {
  const last = refused.at(-1)
  if (last?.to === from) {
    last.to = to
    return false
  }
  refused.push({ from, to })
  return true
}

/** The parts of the span that were not completely read, as far as that is final. */
export function unreadOf(cursor: RangeCursor | undefined): readonly Unread[] {
  if (!cursor) return []
  const unread = (why: Unread['why']) => (one: Readonly<SpanMs>) => ({
    fromUs: one.from * 1000,
    toUs: one.to * 1000,
    why,
  })
  const all = [...cursor.refused.map(unread('refused')), ...cursor.troubles.map(unread('unreadable'))]
  return all.toSorted((a, b) => a.fromUs - b.fromUs)
}

/** The UTC days of the span, epoch ms: inclusive, exclusive. */
function touchedDays({ fromUs, toUs }: JobSpan): readonly [from: number, to: number] {
  return [dayStart(fromUs / 1000), dayStart(toUs / 1000 - 0.001) + DAY_MS]
}
