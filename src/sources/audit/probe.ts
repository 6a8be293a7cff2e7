// Skips entries that cannot be read, with `search`: larger and larger steps forward until one can be read, then back by
// halves to the first that can. Pure.
import { SECOND_US } from '../../core/time.ts'

/** A page is asked for so often before it counts as bad, and so is each place on the way past one. */
export const BAD_TRIES = 3

/** Part of the audit cursor. Instants are µs, and whole seconds, since `search` takes no others. */
export interface Probe {
  /** where to ask next */
  atUs: number
  /** from here the unreadable is still met */
  lowUs: number
  /** from here one that can be read is met, or none any more; null: not yet found */
  highUs: number | null
  steps: number
  /** how often in a row the entry at `atUs` could not be read; absent: not yet */
  tries?: number
  /** bytes of the largest of these answers; absent: there was none */
  mostBytes?: number
  /** the page that is kept as bytes: behind which entry, and how many elements; absent: none is */
  kept?: Kept
}

export interface Kept {
  readonly from: string
  readonly take: number
}

export const keptOf = ({ from }: { from: { id: string } }, take: number | undefined): Kept | undefined =>
  take === undefined ? undefined : { from: from.id, take }

function wholeSecond(us: number): number {
  return Math.floor(us / SECOND_US) * SECOND_US
}

/** Begins after an instant: `search` takes whole seconds, so at the next second. */
export function probeAfter(us: number, kept?: Kept): Probe {
  const lowUs = wholeSecond(us)
  return { ...(kept && { kept }), atUs: lowUs + SECOND_US, lowUs, highUs: null, steps: 0 }
}

/**
 * Asks for the same second again, because the answer of `bytes` bytes may just have been cut, and more often if an earlier
 * one was longer. Undefined: that was tried often enough.
 */
export function askedAgain(probe: Probe, bytes: number): Probe | undefined {
  const tries = (probe.tries ?? 0) + 1
  const mostBytes = Math.max(bytes, probe.mostBytes ?? 0)
  const isEnough = tries >= BAD_TRIES * (isCut(bytes, mostBytes) ? 3 : 1)
  return isEnough ? undefined : { ...probe, tries, mostBytes }
}

/** The entry at `probe.atUs` cannot be read either; `ownUs` is its own time if that can be read. */
export function unreadableAt(probe: Probe, ownUs: number | undefined): Probe {
  const lowUs = Math.max(probe.atUs, ownUs === undefined ? 0 : wholeSecond(ownUs))
  const steps = probe.steps + 1
  // What became visible there late may be unreadable too.
  const highUs = probe.highUs !== null && probe.highUs > lowUs ? probe.highUs : null
  const atUs = highUs === null ? lowUs + SECOND_US * 2 ** Math.min(steps, 24) : between(lowUs, highUs)
  return { ...stillKept(probe), atUs, lowUs, highUs, steps }
}

/** The entry at `probe.atUs` can be read, or there is none. Undefined if only the unreadable entry's own second comes before it. */
export function readableAt(probe: Probe): Probe | undefined {
  const { atUs, lowUs, steps } = probe
  if (atUs - lowUs <= SECOND_US) return undefined
  return { ...stillKept(probe), atUs: between(lowUs, atUs), lowUs, highUs: atUs, steps }
}

/** An answer much shorter than the longest of the same place was cut; a server may vary its white space. */
export const isCut = (bytes: number, mostBytes: number): boolean => bytes < mostBytes * 0.9

const stillKept = ({ kept }: Probe): Pick<Probe, 'kept'> => (kept ? { kept } : {})

function between(lowUs: number, highUs: number): number {
  return Math.max(wholeSecond((lowUs + highUs) / 2), lowUs + SECOND_US)
}
