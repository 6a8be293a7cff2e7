// One window of the history: its request, in a given unit and version, and its answer as groups of
// entries.
import { Entries } from '../../contracts/entries.ts'
import type { Priority, Quarantined } from '../../contracts/source.ts'
import { TRANSACTION_BYTES } from '../../contracts/entries.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { memberValue } from '../../core/json.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS, SECOND_US, dayStart } from '../../core/time.ts'
import { usualLimits } from '../http/deadline.ts'
import type { BodyLimits } from '../http/deadline.ts'
import { OneBehind, readCompleteElements } from '../http/groups.ts'
import { mayLeadUs, partOf } from '../shared.ts'
import type { Group, Naming } from '../splitter/entries-builder.ts'
import { Splitter } from '../splitter/splitter.ts'
import type { SplitterLimits, SplitterOptions } from '../splitter/splitter.ts'
import { deliverableFromUs, sightingsOf, stepTo } from './cursor.ts'
import type { HistoryCursor } from './cursor.ts'
import { lastChunk } from './step.ts'
import type { HistoryVersion, Parts, Step, Task } from './step.ts'
import { warnOfClocks, recordServerClock } from './unit.ts'
import { RowNaming, recordVersion, versionAt } from './version.ts'
import { MIN_WIDTH_MS } from './width.ts'

/** If a window takes longer, counting only the wait for the server, it is requested in halves. */
const MAX_WINDOW_MS = 10 * MINUTE_MS
/** After an answer up to this size, and as quick, the next window may be wider than a day. */
const LIGHT_BYTES = 1024 * 1024
const LIGHT_MS = 10_000

export interface Window {
  /** epoch ms, whole seconds except for the end of the open day */
  readonly from: number
  readonly to: number
  readonly version: HistoryVersion
  /** v1 rows may have no time: the window is a UTC day, or the elapsed part of the open one */
  readonly isDay: boolean
  /** it can be halved */
  readonly divisible: boolean
}

/** The window that a task reads next; undefined if nothing is left. */
export function windowOf(cursor: HistoryCursor, task: Task): Window | undefined {
  const { kind, rangeRead } = task
  return kind === 'trouble' ? windowOver(cursor, rangeRead.from, rangeRead.to) : nextWindow(cursor, task)
}

/** The next window; undefined if the rest is unreadable, retried separately. @internal for tests */
export function nextWindow(cursor: HistoryCursor, task: Task): Window | undefined {
  const { rangeRead } = task
  const startMs = Math.floor(deliverableFromUs(cursor) / 1000)
  for (;;) {
    const window = followingWindow(cursor, task)
    if (window === undefined || window.from >= startMs) return window
    // A day that is read in parts begins at its start. Its last part is requested even with a start
    // in the future, because the clock of the answer may prove that start wrong.
    if (window.to >= Math.min(rangeRead.to, dayStart(window.from) + DAY_MS)) return window
    stepTo(rangeRead, Math.min(startMs, window.to))
  }
}

function followingWindow(cursor: HistoryCursor, { kind, rangeRead, width }: Task): Window | undefined {
  const { boundaryAt, timeless, troubles } = cursor
  for (const { from, to } of troubles) if (from <= rangeRead.at && rangeRead.at < to) rangeRead.at = to
  const { at } = rangeRead
  if (at >= rangeRead.to) return undefined
  // The open day is read up to now only: ordinals of its beginning are those of the whole day.
  if (timeless && versionAt(cursor, at) === 'v1')
    return dayWindow(at, dayStart(rangeRead.to) === dayStart(at) ? rangeRead.to : undefined)
  const day = dayStart(at)
  // The past is read in whole days, from the start of a day on.
  const daysMs = kind === 'todo' && at === day ? Math.floor(width.ms / DAY_MS) * DAY_MS : 0
  const to = Math.max(at + daysMs, Math.min(at + width.ms, day + DAY_MS))
  const ahead = [boundaryAt, ...troubles.map(({ from }) => from)].filter((edge) => edge > at)
  return windowOver(cursor, at, Math.min(to, rangeRead.to, ...ahead))
}

/** The window [from, to), which must not cross the boundary between versions. */
export function windowOver(cursor: HistoryCursor, from: number, to: number): Window {
  const version = versionAt(cursor, from)
  if (version === 'v1' && cursor.timeless) return dayWindow(from, undefined)
  return { from, to, version, isDay: false, divisible: to - from > MIN_WIDTH_MS }
}

function dayWindow(at: number, openTo: number | undefined): Window {
  const from = dayStart(at)
  return { from, to: openTo ?? from + DAY_MS, version: 'v1', isDay: true, divisible: false }
}

export interface Reading {
  /** the last group, not yielded yet; undefined: none, or too large to wait */
  readonly pending: Group | undefined
  /** events, including malformed ones */
  readonly elements: number
  /** v1 rows without a readable time that were not delivered, because the window is no day */
  readonly omitted: number
  readonly light: boolean
  /** the answer had begun when it failed */
  readonly answered: boolean
  /** from the first to the last time in what arrived, ms */
  readonly seenMs: number
  /** undefined: none; errors that are not about the window are thrown */
  readonly fault: Fault | undefined
}

/** Why a window does not count as read. */
export interface Fault {
  /**
   * `unread`: not read to its end, or it only had an error. `no_events`: it only had other
   * elements. `undecided`: it had them beside events, and the next answer will decide. `unsteady`:
   * each answer had different ones.
   */
  readonly kind: 'unread' | 'no_events' | 'undecided' | 'unsteady'
  readonly error: ConnectorError
  /** the elements instead of events: quarantined if the window is skipped */
  readonly elements: readonly Quarantined[]
}

/** Errors about the window: another one may be readable. Other errors prove nothing about it. */
const aboutWindow: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['too_large', 'timeout', 'server_error'])

export function isAboutWindow(error: unknown, answered: boolean): error is ConnectorError {
  if (!(error instanceof ConnectorError)) return false
  // A cut answer may be a proxy's time limit; a login page in its place proves nothing.
  if (error.code === 'unreachable' || error.code === 'bad_reply') return answered
  return aboutWindow.has(error.code)
}

/** Reads one window; yields all groups but the last, and that one too if it is large. */
export async function* readWindow(
  step: Step,
  window: Window,
  priority: Priority,
  headUs: number | undefined,
): Parts<Reading> {
  const { cursor, options } = step
  const startedAt = options.clock.elapsed()
  const naming = window.version === 'v1' ? new RowNaming(window.isDay ? window.from : undefined) : undefined
  const seen = {
    elements: 0,
    bytes: 0,
    answered: false,
    hasNewVersion: false,
    first: Infinity,
    last: -Infinity,
  }
  const behind = new OneBehind()
  const noEvents = new NoEvents()
  let error: ConnectorError | undefined
  try {
    const groups = ask(step, window, cursor.unit, priority, naming, () => (seen.answered = true))
    for await (const received of groups) {
      const events = withoutNoEvents(step, window, received, noEvents)
      const group = deliverable(step, window, events)
      seen.elements += events.entries.count + events.quarantined.length
      seen.bytes += received.entries.bytes.length
      recordTimes(step, group, seen)
      if (group.entries.count > 0 && recordVersion(cursor, window.from, window.to)) seen.hasNewVersion = true
      for (const ready of behind.next(group)) {
        // Records the version of this window before any of it is stored.
        if (seen.hasNewVersion) yield lastChunk(step, { underWay: true })
        seen.hasNewVersion = false
        yield partOf({ ...ready, headUs })
      }
    }
  } catch (caught) {
    if (!isAboutWindow(caught, seen.answered))
      throw withAdvice(caught, window.version, cursor.v2From !== null)
    error = caught
  }
  const omitted = naming?.omitted ?? 0
  const sighted = error
    ? { fault: { kind: 'unread' as const, error, elements: [] }, malformed: [] }
    : sightingOf(step, window, noEvents, seen.elements + omitted)
  return {
    pending: sighted.malformed.length > 0 ? withQuarantined(behind.last, sighted.malformed) : behind.last,
    elements: seen.elements,
    omitted,
    light: seen.bytes <= LIGHT_BYTES && options.clock.elapsed() - startedAt <= LIGHT_MS,
    answered: seen.answered,
    seenMs: Math.max(0, (seen.last - seen.first) / 1000),
    fault: sighted.fault,
  }
}

/** Elements known to be malformed are quarantined. The other non-events stay in `noEvents`. */
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

/** Judges elements of a complete answer that are not events: malformed only beside events. */
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
  switch (sightingsOf(cursor).record(window, elements, events)) {
    case 'undecided':
      return faultOf('undecided', 'the answer has elements that are not events, perhaps an API error')
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

/** Requests a window in `unit` and yields its groups. Spec §4.2 and §9. */
export function ask(
  { options, cursor, signal }: Step,
  window: Window,
  unit: HistoryCursor['unit'],
  priority: Priority,
  naming: RowNaming | undefined,
  answered: () => void,
): AsyncGenerator<Group> {
  const { client, clock, kind } = options
  // Either end may be inclusive or not: one more second on both sides, except for a whole day.
  const margin = window.isDay ? 0 : 1
  const start = Math.max(0, Math.floor(window.from / SECOND_MS) - margin)
  const end = Math.ceil(window.to / SECOND_MS) + margin
  const zeros = unit === 'ms' ? '000' : ''
  const path = `/api/${window.version}/history/${kind}?start_time=${start}${zeros}&end_time=${end}${zeros}`
  const invalid = (serverAt: number | undefined) => recordServerClock(cursor, serverAt, clock.now())
  const request = { method: 'GET' as const, path, orNone: true, limits: limitsOf(window), invalid }
  return client.send(request, priority, signal, (answer) => {
    answered()
    warnOfClocks(options.log, cursor, recordServerClock(cursor, answer.serverAt, answer.sentAt))
    return readCompleteElements(answer, eventOptions(window.version, options, naming))
  })
}

function limitsOf({ divisible }: Window): BodyLimits {
  // A window that cannot be split may have any size; the minimum rate still applies.
  return divisible
    ? { ...usualLimits, longestMs: MAX_WINDOW_MS }
    : { ...usualLimits, capBytes: 64 * 1024 ** 3 }
}

export function eventOptions(
  version: HistoryVersion,
  { maxDepth, maxEntryBytes }: SplitterLimits,
  naming: RowNaming | undefined,
): SplitterOptions {
  const limits = { maxDepth, maxEntryBytes }
  // The type is a product area (spec §2.3); for v1 rows it is the corresponding column (spec §2.4).
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

/** Drops entries before the start, and at the edges those of a day in the other version. */
function deliverable({ cursor, options }: Step, window: Window, group: Group): Group {
  const { startAt, startUs, boundaryAt } = cursor
  // A row without a time is dated with its day, which may begin before the start.
  const least = window.isDay ? startAt * 1000 : startUs
  const from = window.version === 'v2' ? Math.max(least, boundaryAt * 1000) : least
  const until = window.version === 'v1' ? boundaryAt * 1000 : Infinity
  const entries = group.entries.between(from, until)
  // Only in this case, because it examines each entry again.
  if (window.version === 'v1' || (window.from - SECOND_MS) * 1000 >= startUs) return { ...group, entries }
  const isBefore = isMalformedBefore(startUs, eventOptions(window.version, options, undefined))
  return { entries, quarantined: group.quarantined.filter((element) => !isBefore(element)) }
}

function recordTimes(
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

/**
 * v2 is not available everywhere yet (spec §9): its absence is reported with the remedy, and never
 * a reason to read v1. `hasAnswered`: v2 events were read before.
 */
function withAdvice(error: unknown, version: HistoryVersion, hasAnswered: boolean): unknown {
  if (!(error instanceof ConnectorError) || version === 'v1') return error
  const { code, message } = error
  if (code !== 'not_found' && code !== 'forbidden' && code !== 'misconfigured') return error
  const advice =
    code === 'forbidden' && hasAnswered
      ? 'the key has lost the permission for the history: grant it'
      : 'either this workspace has no version 2 of the history API yet: set history.version: v1; or the key lacks the permission for the history: grant it. See docs/sources/history.md'
  return new ConnectorError(code, `${message.split(': ', 1)[0] ?? message}: ${advice}`, { cause: error })
}

/** New entries of `kind` before this instant (µs) are late: live reading had passed it. */
export function headUsOf(kind: Task['kind'], { polledTo }: HistoryCursor): number | undefined {
  if (polledTo === null || kind === 'todo' || kind === 'trouble') return undefined
  // Event times have whole seconds: an event of the poll's own second is not late.
  return Math.floor(polledTo / SECOND_MS) * SECOND_US
}

// Malformed elements with a time before the start: like events there, they are not wanted.

/** The name does not matter: only the time is read. */
const named: Naming = { id: () => Buffer.from('-'), untimed: () => undefined }

/** `startUs`: nothing earlier is wanted. `options`: how the elements of the answer were split. */
function isMalformedBefore(startUs: number, options: SplitterOptions): (element: Quarantined) => boolean {
  return ({ reason, bytes }) => {
    // Other malformed elements are not searched for a time.
    if (reason !== 'no_id') return false
    const one = { ...options, idKey: undefined, naming: named, maxEntriesPerGroup: 1 }
    const splitter = new Splitter({ kind: 'value', key: undefined }, one)
    splitter.push(bytes)
    splitter.end()
    return (splitter.take()?.entries.times[0] ?? startUs) < startUs
  }
}

// Elements of an answer that are no events: an error instead of the list looks like that,
// and so does an event that the API cannot write.

/** Distinct ones in one answer. With more it is no answer of a history. */
const MAX_IN_ANSWER = 1000

/** It has neither an id nor a time. With one of them it is an event, even if malformed. */
function isNoEvent({ reason, bytes }: Quarantined, { idKey, timeKey }: SplitterOptions): boolean {
  if (reason === 'not_an_object') return true
  if (reason !== 'no_id') return false
  // An element with a time is a row of version 1, with or without an id.
  if (idKey === undefined) return true
  return memberValue(bytes, idKey) === undefined && memberValue(bytes, timeKey) === undefined
}

/** The elements of one answer that are not known to be malformed. */
class NoEvents {
  readonly #all = new Map<string, Quarantined>()

  #bytes = 0

  /** Throws ConnectorError `bad_reply` if there are too many, or they are too large. */
  add(element: Quarantined): void {
    if (this.#all.has(element.sha256)) return
    // A copy: the element is a view of the whole piece that it was cut from.
    this.#all.set(element.sha256, { ...element, bytes: element.bytes.slice() })
    this.#bytes += element.bytes.length
    if (this.#all.size > MAX_IN_ANSWER || this.#bytes > TRANSACTION_BYTES)
      throw new ConnectorError(
        'bad_reply',
        'too many elements of the answer have neither an id nor a time: it is not taken as an answer of the history',
      )
  }

  get all(): readonly Quarantined[] {
    return [...this.#all.values()]
  }

  /** One of them looks like an API error (spec §7). */
  get hasError(): boolean {
    return this.all.some(({ bytes }) => memberValue(bytes, 'error') !== undefined)
  }
}
