// One window of the history: its request, in the unit and version that are asked for, and its answer as groups of entries.
import { Entries } from '../../contracts/entries.ts'
import type { Lane, Quarantined } from '../../contracts/source.ts'
import { TRANSACTION_BYTES } from '../../contracts/entries.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { memberValue } from '../../core/json.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS, SECOND_US, dayStart } from '../../core/time.ts'
import { usualLimits } from '../http/deadline.ts'
import type { BodyLimits } from '../http/deadline.ts'
import { OneBehind, readWholeElements } from '../http/groups.ts'
import { mayLeadUs, partOf } from '../shared.ts'
import type { Group, Naming } from '../splitter/entries-builder.ts'
import { Splitter } from '../splitter/splitter.ts'
import type { SplitterLimits, SplitterOptions } from '../splitter/splitter.ts'
import { shippableFromUs, sightingsOf, stepTo } from './cursor.ts'
import type { HistoryCursor } from './cursor.ts'
import { lastPart } from './step.ts'
import type { HistoryVersion, Parts, Step, Task } from './step.ts'
import { noteClocks, noteServer } from './unit.ts'
import { RowNaming, noteVersion, versionAt } from './version.ts'
import { NARROWEST_MS } from './width.ts'

/** A window that takes longer, as far as we wait for the server, is asked for in halves. */
const LONGEST_MS = 10 * MINUTE_MS
/** An answer up to this, and so quick, lets the next window be wider than a day. */
const LIGHT_BYTES = 1024 * 1024
const LIGHT_MS = 10_000

export interface Window {
  /** epoch ms, whole seconds but for the end of the open day */
  readonly from: number
  readonly to: number
  readonly version: HistoryVersion
  /** v1 rows may have no time: the window is a UTC day, the open one as far as it goes */
  readonly isDay: boolean
  /** in halves it could be read too */
  readonly divisible: boolean
}

/** What a task reads next; undefined where nothing of it is left. */
export function windowOf(cursor: HistoryCursor, task: Task): Window | undefined {
  const { kind, walk } = task
  return kind === 'trouble' ? windowOver(cursor, walk.from, walk.to) : nextWindow(cursor, task)
}

/** The window that comes next; undefined where what is left is known to be unreadable and tried on its own. @internal for tests */
export function nextWindow(cursor: HistoryCursor, task: Task): Window | undefined {
  const { walk } = task
  const startMs = Math.floor(shippableFromUs(cursor) / 1000)
  for (;;) {
    const window = windowAhead(cursor, task)
    if (window === undefined || window.from >= startMs) return window
    // A day that is read in parts is read from the start on. Its last part is asked for all the same: a start still to come may prove wrong by the answer's clock.
    if (window.to >= Math.min(walk.to, dayStart(window.from) + DAY_MS)) return window
    stepTo(walk, Math.min(startMs, window.to))
  }
}

function windowAhead(cursor: HistoryCursor, { kind, walk, width }: Task): Window | undefined {
  const { boundaryAt, timeless, troubles } = cursor
  for (const { from, to } of troubles) if (from <= walk.at && walk.at < to) walk.at = to
  const { at } = walk
  if (at >= walk.to) return undefined
  // The open day is read up to now only: ordinals in its beginning are those of the whole day.
  if (timeless && versionAt(cursor, at) === 'v1')
    return dayWindow(at, dayStart(walk.to) === dayStart(at) ? walk.to : undefined)
  const day = dayStart(at)
  // The past is read in whole days, once the walk stands at the start of one.
  const daysMs = kind === 'todo' && at === day ? Math.floor(width.ms / DAY_MS) * DAY_MS : 0
  const to = Math.max(at + daysMs, Math.min(at + width.ms, day + DAY_MS))
  const ahead = [boundaryAt, ...troubles.map(({ from }) => from)].filter((edge) => edge > at)
  return windowOver(cursor, at, Math.min(to, walk.to, ...ahead))
}

/** The window [from, to), which may not cross the boundary between versions. */
export function windowOver(cursor: HistoryCursor, from: number, to: number): Window {
  const version = versionAt(cursor, from)
  if (version === 'v1' && cursor.timeless) return dayWindow(from, undefined)
  return { from, to, version, isDay: false, divisible: to - from > NARROWEST_MS }
}

function dayWindow(at: number, openTo: number | undefined): Window {
  const from = dayStart(at)
  return { from, to: openTo ?? from + DAY_MS, version: 'v1', isDay: true, divisible: false }
}

export interface Reading {
  /** the last group, not handed out yet; undefined: there was none, or it was too large to wait */
  readonly pending: Group | undefined
  /** events, malformed ones too */
  readonly elements: number
  /** v1 rows without a readable time that were not shipped, since the window is no day */
  readonly leftOut: number
  readonly light: boolean
  /** the answer had begun when it failed */
  readonly answered: boolean
  /** from the first to the last time among what came, ms */
  readonly seenMs: number
  /** undefined: all is well; what is not about the window is thrown instead */
  readonly fault: Fault | undefined
}

/** Why a window does not count as read. */
export interface Fault {
  /**
   * `unread`: not to its end, or an error is all that came. `no_events`: other elements are all that came. `in_doubt`:
   * they came beside events, and the next answer will say more. `unsteady`: other ones came beside them each time.
   */
  readonly kind: 'unread' | 'no_events' | 'in_doubt' | 'unsteady'
  readonly error: ConnectorError
  /** the elements in the place of events: quarantined where the window is passed */
  readonly elements: readonly Quarantined[]
}

/** About the window: another one may be read. What else goes wrong says nothing about this one. */
const aboutWindow: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['too_large', 'timeout', 'server_error'])

export function isAboutWindow(error: unknown, answered: boolean): error is ConnectorError {
  if (!(error instanceof ConnectorError)) return false
  // Cut off in the middle may be a proxy's limit of time; a login page in its place says nothing.
  if (error.code === 'unreachable' || error.code === 'bad_reply') return answered
  return aboutWindow.has(error.code)
}

/** Reads one window and hands out all but its last group, and that too where it is large. `headUs`: as of a part. */
export async function* readWindow(
  step: Step,
  window: Window,
  lane: Lane,
  headUs: number | undefined,
): Parts<Reading> {
  const { cursor, options } = step
  const startedAt = options.clock.elapsed()
  const naming = window.version === 'v1' ? new RowNaming(window.isDay ? window.from : undefined) : undefined
  const seen = { elements: 0, bytes: 0, answered: false, untold: false, first: Infinity, last: -Infinity }
  const behind = new OneBehind()
  const noEvents = new NoEvents()
  let error: ConnectorError | undefined
  try {
    const groups = ask(step, window, cursor.unit, lane, naming, () => (seen.answered = true))
    for await (const whole of groups) {
      const events = withoutNoEvents(step, window, whole, noEvents)
      const group = shippable(step, window, events)
      seen.elements += events.entries.count + events.quarantined.length
      seen.bytes += whole.entries.bytes.length
      noteTimes(step, group, seen)
      if (group.entries.count > 0 && noteVersion(cursor, window.from, window.to)) seen.untold = true
      for (const ready of behind.next(group)) {
        // Says before anything is kept of this window as which version it was read.
        if (seen.untold) yield lastPart(step, { underWay: true })
        seen.untold = false
        yield partOf({ ...ready, headUs })
      }
    }
  } catch (caught) {
    if (!isAboutWindow(caught, seen.answered)) throw withAdvice(caught, window.version)
    error = caught
  }
  const leftOut = naming?.leftOut ?? 0
  const sighted = error
    ? { fault: { kind: 'unread' as const, error, elements: [] }, malformed: [] }
    : sightingOf(step, window, noEvents, seen.elements + leftOut)
  return {
    pending: sighted.malformed.length > 0 ? withQuarantined(behind.last, sighted.malformed) : behind.last,
    elements: seen.elements,
    leftOut,
    light: seen.bytes <= LIGHT_BYTES && options.clock.elapsed() - startedAt <= LIGHT_MS,
    answered: seen.answered,
    seenMs: Math.max(0, (seen.last - seen.first) / 1000),
    fault: sighted.fault,
  }
}

/** What is no event is quarantined where it is known to be malformed. What else there is of it is kept back in `noEvents`. */
function withoutNoEvents({ options, cursor }: Step, window: Window, group: Group, noEvents: NoEvents): Group {
  if (group.quarantined.length === 0) return group
  const cut = eventOptions(window.version, options, undefined)
  const sightings = sightingsOf(cursor)
  const quarantined = group.quarantined.filter((element) => {
    if (!isNoEvent(element, cut) || sightings.isMalformed(window, element)) return true
    noEvents.add(element)
    return false
  })
  return { ...group, quarantined }
}

/** What the elements of a whole answer say that are not events. Only beside events they can be malformed. */
function sightingOf(
  { cursor }: Step,
  window: Window,
  noEvents: NoEvents,
  events: number,
): { readonly fault: Fault | undefined; readonly malformed: readonly Quarantined[] } {
  const elements = noEvents.all
  const faultOf = (kind: Fault['kind'], what: string) => ({
    fault: { kind, elements, error: new ConnectorError('bad_reply', what) },
    malformed: [],
  })
  if (elements.length > 0 && events === 0)
    return faultOf(
      noEvents.hasError ? 'unread' : 'no_events',
      'the answer has elements, but none of them is an event: perhaps an API error',
    )
  switch (sightingsOf(cursor).note(window, elements, events)) {
    case 'in_doubt':
      return faultOf('in_doubt', 'the answer has elements that are not events, perhaps an API error')
    case 'unsteady':
      return faultOf('unsteady', 'each answer has other elements that are not events')
    default:
      return { fault: undefined, malformed: elements }
  }
}

const withQuarantined = (group: Group | undefined, more: readonly Quarantined[]): Group => ({
  entries: group?.entries ?? Entries.none,
  quarantined: [...(group?.quarantined ?? []), ...more],
})

/** Asks for a window in `unit` and gives its groups. Spec §4.2 and §9: paths and shapes of both versions. */
export function ask(
  { options, cursor, signal }: Step,
  window: Window,
  unit: HistoryCursor['unit'],
  lane: Lane,
  naming: RowNaming | undefined,
  answered: () => void,
): AsyncGenerator<Group> {
  const { client, clock, kind } = options
  // Either end may be inclusive or not: a second more on both sides, and dedup. Not around a day whose ordinals count.
  const margin = window.isDay ? 0 : 1
  const start = Math.max(0, Math.floor(window.from / SECOND_MS) - margin)
  const end = Math.ceil(window.to / SECOND_MS) + margin
  const zeros = unit === 'ms' ? '000' : ''
  const path = `/api/${window.version}/history/${kind}?start_time=${start}${zeros}&end_time=${end}${zeros}`
  const invalid = (serverAt: number | undefined) => noteServer(cursor, serverAt, clock.now())
  const request = { method: 'GET' as const, path, orNone: true, limits: limitsOf(window), invalid }
  return client.send(request, lane, signal, (answer) => {
    answered()
    noteClocks(options.log, cursor, noteServer(cursor, answer.serverAt, answer.sentAt))
    return readWholeElements(answer, eventOptions(window.version, options, naming))
  })
}

function limitsOf({ divisible }: Window): BodyLimits {
  // What cannot be asked for in halves may be as large as it is; the pace holds all the same.
  return divisible ? { ...usualLimits, longestMs: LONGEST_MS } : { ...usualLimits, capBytes: 64 * 1024 ** 3 }
}

export function eventOptions(
  version: HistoryVersion,
  { maxDepth, maxEntryBytes }: SplitterLimits,
  naming: RowNaming | undefined,
): SplitterOptions {
  const limits = { maxDepth, maxEntryBytes }
  // The type is a product area (spec §2.3); of v1 rows it is what stands in its place (spec §2.4).
  return version === 'v2'
    ? {
        ...limits,
        arrayKey: 'events',
        idKey: 'unique_usage_id',
        timeKey: 'utc_time',
        typeKey: 'product_surface_area',
      }
    : { ...limits, idKey: undefined, timeKey: 'timestamp', typeKey: 'Task', ...(naming && { naming }) }
}

/** Nothing before the start; nothing of a day that is read as the other version, as a window's edges may bring it. */
function shippable({ cursor, options }: Step, window: Window, group: Group): Group {
  const { startAt, startUs, boundaryAt } = cursor
  // A row without a time is dated with its day, which may begin before the start does.
  const least = window.isDay ? startAt * 1000 : startUs
  const from = window.version === 'v2' ? Math.max(least, boundaryAt * 1000) : least
  const until = window.version === 'v1' ? boundaryAt * 1000 : Infinity
  const entries = group.entries.between(from, until)
  // Only there: each is looked at once more.
  if (window.version === 'v1' || (window.from - SECOND_MS) * 1000 >= startUs) return { ...group, entries }
  const isBefore = isMalformedBefore(startUs, eventOptions(window.version, options, undefined))
  return { entries, quarantined: group.quarantined.filter((element) => !isBefore(element)) }
}

function noteTimes(
  { cursor, options }: Step,
  { entries }: Group,
  seen: { first: number; last: number },
): void {
  const horizonUs = mayLeadUs(options.clock.now())
  for (let i = 0; i < entries.count; i++) {
    const at = entries.at(i)
    if (at > cursor.headUs && at <= horizonUs) cursor.headUs = at
    if (at < seen.first) seen.first = at
    if (at > seen.last) seen.last = at
  }
}

/** v2 is not everywhere yet (spec §9): its absence is told with the way out, and never taken for a reason to read v1. */
function withAdvice(error: unknown, version: HistoryVersion): unknown {
  if (!(error instanceof ConnectorError) || version === 'v1') return error
  const { code, message } = error
  if (code !== 'not_found' && code !== 'forbidden' && code !== 'misconfigured') return error
  return new ConnectorError(
    code,
    `${message.split(': ', 1)[0] ?? message}: either version 2 of the history API is not there for this workspace yet, then set history.version: v1; or the key lacks the permission for the history, then grant it. See docs/sources/history.md`,
    { cause: error },
  )
}

/** New entries of `kind` before this instant (µs) are late: live reading had been there. */
export function headUsOf(kind: Task['kind'], { polledTo }: HistoryCursor): number | undefined {
  if (polledTo === null || kind === 'todo' || kind === 'trouble') return undefined
  // Event times have whole seconds: one of the poll's own second is not late.
  return Math.floor(polledTo / SECOND_MS) * SECOND_US
}

// Malformed elements that say a time before the start: like the events there, they were not wanted.

/** Any name does: only the time is looked at. */
const named: Naming = { id: () => Buffer.from('-'), untimed: () => undefined }

/** `startUs`: nothing before is wanted. `options`: how the elements of the answer were cut. */
function isMalformedBefore(startUs: number, options: SplitterOptions): (element: Quarantined) => boolean {
  return ({ reason, bytes }) => {
    // In what is malformed in another way no time is looked for.
    if (reason !== 'no_id') return false
    const one = { ...options, idKey: undefined, naming: named, maxEntriesPerGroup: 1 }
    const splitter = new Splitter({ kind: 'value', key: undefined }, one)
    splitter.push(bytes)
    splitter.end()
    return (splitter.take()?.entries.times[0] ?? startUs) < startUs
  }
}

// Elements of an answer that are no events: an error in the place of the list looks like that, and so does an event that the API cannot write.

/** Different ones in one answer. With more it is no answer of a history. */
const MOST_IN_ANSWER = 1000

/** Neither an id nor a time is in it. What has one of them is an event, however malformed. */
function isNoEvent({ reason, bytes }: Quarantined, { idKey, timeKey }: SplitterOptions): boolean {
  if (reason === 'not_an_object') return true
  if (reason !== 'no_id') return false
  // What has a time is a row of version 1, with an id or without.
  if (idKey === undefined) return true
  return memberValue(bytes, idKey) === undefined && memberValue(bytes, timeKey) === undefined
}

/** Those of one answer that are not known to be malformed. */
class NoEvents {
  readonly #all = new Map<string, Quarantined>()

  #bytes = 0

  /** Throws ConnectorError `bad_reply` where there are too many, or too much. */
  add(element: Quarantined): void {
    if (this.#all.has(element.sha256)) return
    // A copy: the element is a view of all that was cut with it.
    this.#all.set(element.sha256, { ...element, bytes: element.bytes.slice() })
    this.#bytes += element.bytes.length
    if (this.#all.size > MOST_IN_ANSWER || this.#bytes > TRANSACTION_BYTES)
      throw new ConnectorError('bad_reply', 'too much of the answer is no event')
  }

  get all(): readonly Quarantined[] {
    return [...this.#all.values()]
  }

  /** One of them is what the API answers where it fails (spec §7). */
  get hasError(): boolean {
    return this.all.some(({ bytes }) => memberValue(bytes, 'error') !== undefined)
  }
}
