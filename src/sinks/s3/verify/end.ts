// Where the chains end, compared with what somebody knows from outside: a manifest's hash, or a time. Pure.
import type { Interval, WalkedChain } from './chain.ts'
import type { Tell } from './findings.ts'
import type { Manifest } from '../evidence/manifest.ts'

export interface Bounds {
  /** epoch ms: a manifest must reach at least to here */
  readonly untilAt?: number | undefined
  /** hashes of manifests that must be in the chains */
  readonly lastSha256?: readonly string[]
}

export function tellEnds(
  chains: readonly WalkedChain[],
  { untilAt, lastSha256 = [] }: Bounds,
  tell: Tell,
): void {
  if (chains.length === 0) tell('fault', 'manifest/', 'holds no manifest at all: nothing can be proved')
  for (const hash of lastSha256)
    if (!chains.some(({ hashes }) => hashes.has(hash)))
      tell(
        'fault',
        'manifest/',
        `holds no manifest with SHA-256 ${hash}: the end of a chain was cut, or another one put in its place`,
      )
  if (untilAt === undefined) return
  const sinks = Map.groupBy(chains, ({ sink }) => sink)
  for (const [sink, own] of sinks) tellUntil(sink, own, untilAt, tell)
}

/** The newest of a sink's chains, of which each journal that it had has one, must reach to `untilAt`: another sink's does not speak for it. */
function tellUntil(sink: string, chains: readonly WalkedChain[], untilAt: number, tell: Tell): void {
  const until = new Date(untilAt).toISOString()
  const reaching = chains.filter(({ last }) => last && reachOf(last.manifest) >= untilAt)
  const leaps = reaching.map(({ intervals }) => leapOver(intervals, untilAt))
  if (leaps.includes(undefined)) return
  const [leap] = leaps
  if (leap) {
    const [from, to] = [leap.fromAt, leap.untilAt].map((at) => new Date(at).toISOString())
    tell(
      'fault',
      `manifest/sink=${sink}`,
      `reaches ${until} by one manifest alone, number ${leap.number}, which spans ${from ?? ''} to ${to ?? ''}: nothing ran then, or the clock had jumped ahead and the end of the chain was cut; no manifest can tell which. Name a time outside of it, or a --last-manifest`,
    )
    return
  }
  const reached = Math.max(...chains.map(({ last }) => (last ? reachOf(last.manifest) : -Infinity)))
  const where = Number.isFinite(reached) ? `ends at ${new Date(reached).toISOString()}` : 'ends nowhere'
  tell(
    'fault',
    `manifest/sink=${sink}`,
    `${where}, before ${until}: the end of the chain was cut, or nothing was written since`,
  )
}

/** An incomplete one proves its interval's begin only. */
const reachOf = ({ complete, interval }: Manifest): number =>
  Date.parse(complete ? interval.until : interval.from)

/**
 * The manifest of many intervals at once by which alone a chain gets over this time: one that a clock made which had jumped
 * ahead looks the same, and so does all that was made until it was set back. Undefined where an ordinary interval holds it.
 */
function leapOver(intervals: readonly Interval[], at: number): Interval | undefined {
  const over = intervals.filter(({ fromAt, untilAt }) => fromAt <= at && at <= untilAt)
  return over.some(({ wide }) => !wide) ? undefined : over[0]
}
