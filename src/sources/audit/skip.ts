// Skips entries that cannot be read, with `search`: larger and larger steps forward until one can be read, then back by
// halves to the first that can. The one place that does so, for live reading, lookback, jobs and the very first read.
import type { Priority } from '../../contracts/source.ts'
import { SECOND_US } from '../../core/time.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { isReadByTime, quarantinedBytes, REACH_MARGIN_US, reachUs } from './lookup.ts'
import type { Found } from './lookup.ts'
import type { PagingStep } from './step.ts'
import type { Position } from './walk.ts'

/** A page is asked for so often before it counts as bad, and so is each time on the way past one. */
export const BAD_TRIES = 3
/** Where nothing was read before, an unreadable answer is asked for so often: it may be an outage. */
const FIRST_TRIES = 10

/** Part of a cursor. Instants are µs, and whole seconds, since `search` takes no others. */
export interface Probe {
  /** where to ask next */
  atUs: number
  /** from here the unreadable is still met */
  lowUs: number
  /** from here one that can be read is met, or none any more; null: not yet found */
  highUs: number | null
  /** steps forward; below 0: at the time where reading begins, of which nothing is known */
  steps: number
  /** how often in a row the entry at `atUs` could not be read; absent: not yet */
  tries?: number
  /** bytes of the largest of these answers; absent: there was none */
  mostBytes?: number
  /** the page that is quarantined: behind which entry, and how many elements; absent: none is */
  kept?: QuarantinedPage
}

export interface QuarantinedPage {
  readonly from: string
  readonly take: number
}

export const quarantinedPage = (
  { from }: { from: { id: string } },
  take: number | undefined,
): QuarantinedPage | undefined => (take === undefined ? undefined : { from: from.id, take })

const wholeSecond = (us: number): number => Math.floor(us / SECOND_US) * SECOND_US

/** Begins at an instant. */
export function probeAt(us: number): Probe {
  return { atUs: wholeSecond(us), lowUs: wholeSecond(us), highUs: null, steps: -1 }
}

/** Begins after an instant: `search` takes whole seconds, so at the next second. */
export function probeAfter(us: number, kept?: QuarantinedPage): Probe {
  const lowUs = wholeSecond(us)
  return { ...(kept && { kept }), atUs: lowUs + SECOND_US, lowUs, highUs: null, steps: 0 }
}

interface SkipOptions {
  readonly priority: Priority
  /** the last entry before the unreadable one; undefined: none was read */
  readonly from?: Position | undefined
  /** the time of an entry that was read before: if it no longer can be, this is an outage */
  readonly knownUs?: number | undefined
  /** what is dated at or after this instant (µs) is of no interest to the walk */
  readonly endUs: number
}

/** `group`: what of the answer is kept. `gaps`: the entry where reading begins is left out. */
export type Skipped =
  | { readonly next: 'on'; readonly probe: Probe; readonly gaps: number; readonly group: Group | undefined }
  | { readonly next: 'nothing'; readonly gaps: number; readonly group: Group | undefined }
  | { readonly next: 'readable'; readonly position: Position; readonly group: Group | undefined }
  | { readonly next: 'again'; readonly probe: Probe }
  | { readonly next: 'outage' }

/**
 * What follows from `found`, which is what the API shows at `probe.atUs`:
 *
 *   found                                   next
 *   nothing, or only what is past the end   on: back by half; nothing: right behind the unreadable entry already
 *   an entry                                on: back by half; readable: it is the first
 *   the entry before the unreadable one     on: forward
 *   what cannot be read                     again: some times, it may be cut; then on: forward, if others are read by time; else outage
 */
export async function skip(
  step: PagingStep,
  probe: Probe,
  found: Found,
  { priority, from, knownUs, endUs }: SkipOptions,
): Promise<Skipped> {
  const { position, unreadable, unreadableUs, group } = found
  const atUs = position?.at ?? unreadableUs
  const isPastEnd = probe.atUs >= endUs || (atUs ?? 0) >= endUs
  if (isPastEnd || (!position && !unreadable)) {
    // An answer without a time may just have been cut: there is no evidence here to quarantine it.
    const shown = atUs === undefined ? undefined : group
    return onOr(readableAt(probe), 0, shown) ?? { next: 'nothing', gaps: 0, group: shown }
  }
  if (position && position.id !== from?.id)
    return onOr(readableAt(probe), 0, group) ?? { next: 'readable', position, group }
  const again = position ? undefined : askedAgain(probe, quarantinedBytes(group))
  if (again) return { next: 'again', probe: again }
  if (!position && !(await isReadByTime(step, knownUs, priority))) return { next: 'outage' }
  const gaps = probe.steps < 0 ? 1 : 0
  return onOr(forward(step, probe, unreadableUs, endUs), gaps, group) ?? { next: 'nothing', gaps, group }
}

const onOr = (probe: Probe | undefined, gaps: number, group: Group | undefined): Skipped | undefined =>
  probe && { next: 'on', probe, gaps, group }

/** Before the reach of `search` nothing is found but the entry that cannot be read. Past the end nothing is asked for. */
function forward(step: PagingStep, probe: Probe, ownUs = 0, endUs: number): Probe | undefined {
  const reachedUs = wholeSecond(reachUs(step) + REACH_MARGIN_US)
  let next: Probe | undefined = unreadableAt(probe, Math.max(ownUs, reachedUs))
  while (next && next.atUs >= endUs) next = readableAt(next)
  return next
}

/**
 * Asks for the same second again, because the answer of `bytes` bytes may just have been cut, and more often if an earlier
 * one was longer. Undefined: that was tried often enough.
 */
function askedAgain(probe: Probe, bytes: number): Probe | undefined {
  const tries = (probe.tries ?? 0) + 1
  const mostBytes = Math.max(bytes, probe.mostBytes ?? 0)
  const mostTries = probe.steps < 0 ? FIRST_TRIES : BAD_TRIES * (isCut(bytes, mostBytes) ? 3 : 1)
  return tries < mostTries ? { ...probe, tries, mostBytes } : undefined
}

/** The entry at `probe.atUs` cannot be read either; `ownUs` is its own time if that can be read. */
function unreadableAt(probe: Probe, ownUs: number): Probe {
  const lowUs = Math.max(probe.atUs, wholeSecond(ownUs))
  const steps = probe.steps + 1
  // What became visible there late may be unreadable too.
  const highUs = probe.highUs !== null && probe.highUs > lowUs ? probe.highUs : null
  const atUs = highUs === null ? lowUs + SECOND_US * 2 ** Math.min(steps, 24) : between(lowUs, highUs)
  return { ...stillQuarantined(probe), atUs, lowUs, highUs, steps }
}

/** The entry at `probe.atUs` can be read, or there is none. Undefined if only the unreadable entry's own second comes before it. */
function readableAt(probe: Probe): Probe | undefined {
  const { atUs, lowUs, steps } = probe
  if (atUs - lowUs <= SECOND_US) return undefined
  return { ...stillQuarantined(probe), atUs: between(lowUs, atUs), lowUs, highUs: atUs, steps }
}

/** An answer much shorter than the longest of the same place was cut; a server may vary its white space. */
export const isCut = (bytes: number, mostBytes: number): boolean => bytes < mostBytes * 0.9

const stillQuarantined = ({ kept }: Probe): Pick<Probe, 'kept'> => (kept ? { kept } : {})

function between(lowUs: number, highUs: number): number {
  return Math.max(wholeSecond((lowUs + highUs) / 2), lowUs + SECOND_US)
}
