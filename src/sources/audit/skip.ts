// Skips entries that cannot be read, with `search`, for every reader: steps forward, each twice as
// long, until something readable is found, then halves the distance back to the first readable entry.
import type { Priority } from '../../contracts/source.ts'
import { SECOND_US } from '../../core/time.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { isReadByTime, quarantinedBytes, REACH_MARGIN_US, reachUs, timeOf } from './lookup.ts'
import type { Found } from './lookup.ts'
import type { PagingStep } from './step.ts'
import type { Position } from './walk.ts'

/** A failed page, or a time on the way past one, is requested this often. */
export const BAD_TRIES = 3
/** Before anything was read, an unreadable answer is more likely an outage: more tries. */
const FIRST_TRIES = 10

/** Part of a cursor. Instants are µs in whole seconds, because `search` takes no others. */
export interface Probe {
  /** where to search next */
  atUs: number
  /** the last time known to be unreadable */
  lowUs: number
  /** a time that is readable, or after the last entry; null: none known yet */
  highUs: number | null
  /** steps forward; -1: at the first time of all, before anything was read */
  steps: number
  /** failed tries in a row at `atUs`; absent: none */
  tries?: number
  /** bytes of the largest of these answers; absent: there was none */
  mostBytes?: number
  /** the page that is quarantined; absent: none is */
  kept?: QuarantinedPage
}

/** `take` elements after the entry `from`. */
export interface QuarantinedPage {
  readonly from: string
  readonly take: number
}

const wholeSecond = (us: number): number => Math.floor(us / SECOND_US) * SECOND_US

export function probeAt(us: number): Probe {
  return { atUs: wholeSecond(us), lowUs: wholeSecond(us), highUs: null, steps: -1 }
}

/** Begins in the second after an instant. */
export function probeAfter(us: number, kept?: QuarantinedPage): Probe {
  const lowUs = wholeSecond(us)
  return { ...(kept && { kept }), atUs: lowUs + SECOND_US, lowUs, highUs: null, steps: 0 }
}

interface SkipOptions {
  readonly priority: Priority
  /** the last entry before the unreadable one; undefined: none was read */
  readonly from?: Position | undefined
  /** the time of an entry read before: if it is unreadable now, this is an outage */
  readonly knownUs?: number | undefined
  /** the walk needs no entries from this instant (µs) on */
  readonly endUs: number
}

/** `group`: what to store of the answer. `gaps`: 1 if the very first entry is left out. */
export type Skipped =
  | { readonly next: 'on'; readonly probe: Probe; readonly gaps: number; readonly group: Group | undefined }
  | { readonly next: 'nothing'; readonly group: Group | undefined }
  | { readonly next: 'readable'; readonly position: Position; readonly group: Group | undefined }
  | { readonly next: 'again'; readonly probe: Probe }
  | { readonly next: 'outage' }

/**
 * Decides by `found`, the answer of `search` at `probe.atUs`:
 *
 *   found                               next
 *   nothing before `endUs`              on: halfway back; nothing, if that is the unreadable entry's second
 *   an entry                            on: halfway back; readable, if it is the first
 *   the entry before the unreadable     on: forward
 *   an unreadable answer                again, it may be cut; then on: forward, or outage if all is unreadable
 */
export async function skip(
  step: PagingStep,
  probe: Probe,
  found: Found,
  { priority, from, knownUs, endUs }: SkipOptions,
): Promise<Skipped> {
  const { position, unreadable, group } = found
  const atUs = timeOf(found)
  const isNothing = probe.atUs >= endUs || (atUs ?? 0) >= endUs || (!position && !unreadable)
  if (isNothing || (position && position.id !== from?.id)) {
    // An answer without a time may be cut: that is no reason to quarantine it.
    const shown = atUs === undefined ? undefined : group
    const nearer = halfwayBack(probe)
    if (nearer) return { next: 'on', probe: nearer, gaps: 0, group: shown }
    if (isNothing || !position) return { next: 'nothing', group: shown }
    return { next: 'readable', position, group }
  }
  const again = position ? undefined : sameAgain(probe, quarantinedBytes(group))
  if (again) return { next: 'again', probe: again }
  if (!position && !(await isReadByTime(step, knownUs, priority))) return { next: 'outage' }
  // Before the reach of `search` the API shows only the unreadable entry itself.
  const reachedUs = wholeSecond(reachUs(step) + REACH_MARGIN_US)
  const further = forward(probe, Math.max(found.unreadableUs ?? 0, reachedUs))
  return { next: 'on', probe: further, gaps: probe.steps < 0 ? 1 : 0, group }
}

/** The same second once more: the answer may be cut, surely if an earlier one was longer. */
function sameAgain(probe: Probe, bytes: number): Probe | undefined {
  const tries = (probe.tries ?? 0) + 1
  const mostBytes = Math.max(bytes, probe.mostBytes ?? 0)
  const mostTries = probe.steps < 0 ? FIRST_TRIES : BAD_TRIES * (isCut(bytes, mostBytes) ? 3 : 1)
  return tries < mostTries ? { ...probe, tries, mostBytes } : undefined
}

/** `unreadableUs`: nothing is readable up to here. */
function forward(probe: Probe, unreadableUs: number): Probe {
  const lowUs = Math.max(probe.atUs, wholeSecond(unreadableUs))
  const steps = probe.steps + 1
  // A late entry at `highUs` may be unreadable too.
  const highUs = probe.highUs !== null && probe.highUs > lowUs ? probe.highUs : null
  const atUs = highUs === null ? lowUs + SECOND_US * 2 ** Math.min(steps, 24) : middle(lowUs, highUs)
  return { ...withKept(probe), atUs, lowUs, highUs, steps }
}

/** Undefined if no second is left between. */
function halfwayBack(probe: Probe): Probe | undefined {
  const { atUs, lowUs, steps } = probe
  if (atUs - lowUs <= SECOND_US) return undefined
  return { ...withKept(probe), atUs: middle(lowUs, atUs), lowUs, highUs: atUs, steps }
}

/** Much shorter than the longest answer at this place; a server may vary its white space. */
export const isCut = (bytes: number, mostBytes: number): boolean => bytes < mostBytes * 0.9

const withKept = ({ kept }: Probe): Pick<Probe, 'kept'> => (kept ? { kept } : {})

const middle = (lowUs: number, highUs: number): number =>
  Math.max(wholeSecond((lowUs + highUs) / 2), lowUs + SECOND_US)
