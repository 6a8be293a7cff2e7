// Verifies that a prefix holds what its manifests say: nothing is missing, changed or added, up to
// the last manifest. Pure over a store.
import { printableName } from '../../../core/printable.ts'
import { manifestKey, manifestPlace } from '../evidence/manifest.ts'
import type { Manifest, ManifestObject } from '../evidence/manifest.ts'
import { ChainWalk } from './chain.ts'
import type { ChainName, Interval, WalkOptions, WalkedChain } from './chain.ts'
import { objectFault, objectPlace, unlessUnread } from './objects.ts'
import type { EvidenceStore, Finding, Pause, ReportFinding, Touched } from './objects.ts'
import { otherNames, reportUnlisted } from './unlisted.ts'

/** Concurrent reads of objects: over a network most of the time is waiting. */
const AT_ONCE = 8

export type VerifyOptions = WalkOptions & Bounds

export interface Verified {
  readonly faults: number
  readonly chains: readonly WalkedChain[]
  readonly objects: number
  /** objects whose lines alone were compared: no manifest describes their stored bodies */
  readonly byLines: number
  /** number of objects that the store did not give */
  readonly unread: number
  readonly entries: number
  /** by all faults together, as far as known */
  readonly touched: AllTouched
}

type Seen = 'unlisted' | 'listed'

interface Listing {
  /** manifest numbers by chain, ascending */
  readonly chains: ReadonlyMap<string, { readonly name: ChainName; readonly numbers: number[] }>
  readonly objects: Map<string, Seen>
}

const TWICE = 'is listed twice: another name in the bucket looks the same'

async function listAll(
  store: EvidenceStore,
  report: ReportFinding,
  others: { readonly add: (key: string) => void },
): Promise<Listing> {
  const chains = new Map<string, { name: ChainName; numbers: number[] }>()
  const objects = new Map<string, Seen>()
  for await (const key of store.list((key, what) => report('fault', key, what))) {
    const place = manifestPlace(key)
    if (place) {
      const { sink, journal, number } = place
      const id = `${sink}/${journal}`
      const chain = chains.get(id) ?? { name: { sink, journal }, numbers: [] }
      chain.numbers.push(number)
      chains.set(id, chain)
    } else if (!objectPlace(key)) others.add(key)
    else if (objects.has(key)) report('fault', key, TWICE)
    else objects.set(key, 'unlisted')
  }
  for (const { name, numbers } of chains.values()) sortOnce(numbers, name, report)
  return { chains, objects }
}

function sortOnce(numbers: number[], name: ChainName, report: ReportFinding): void {
  const sorted = numbers.splice(0).sort((a, b) => a - b)
  for (const number of sorted)
    if (number === numbers.at(-1)) report('fault', manifestKey({ ...name, number }), TWICE)
    else numbers.push(number)
}

/** Throws if the list cannot be read: then nothing is proved either way. */
export async function verifyEvidence(
  store: EvidenceStore,
  options: VerifyOptions,
  found: (finding: Finding) => void,
): Promise<Verified> {
  const counts = { faults: 0, objects: 0, byLines: 0, unread: 0, entries: 0 }
  const touched = new TouchedSum()
  const report: ReportFinding = (level, where, what, touches) => {
    if (level === 'fault') counts.faults++
    if (level === 'fault' && touches) touched.add(where, touches)
    found({ level, where: printableName(where), what })
  }
  const others = otherNames(report)
  const listing = await listAll(store, report, others)
  const chains: WalkedChain[] = []
  for (const [, { name, numbers }] of [...listing.chains].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const walk = new ChainWalk(name, store, options, report)
    for (const number of numbers) {
      const manifest = await walk.step(number)
      if (manifest) await checkObjects(store, manifest, listing.objects, report, counts, options.pause)
    }
    chains.push(walk.end())
  }
  tellEnds(chains, options, report)
  const unlisted = [...listing.objects].filter(([, seen]) => seen === 'unlisted').map(([key]) => key)
  reportUnlisted(unlisted, chains, report)
  others.end()
  return { ...counts, chains, touched: touched.all() }
}

const touchedOf = (object: ManifestObject): Touched => ({
  entries: object.entries,
  first: object.first_sequence,
  last: object.last_sequence,
  from: object.first_time,
  until: object.last_time,
})

/** Uncompressed: the body equals the lines. */
const isByLines = ({ key, stored_sha256: stored }: ManifestObject): boolean =>
  stored === undefined && objectPlace(key)?.packed !== ''

async function checkObjects(
  store: EvidenceStore,
  { objects }: Manifest,
  listed: Map<string, Seen>,
  report: ReportFinding,
  counts: { objects: number; byLines: number; unread: number; entries: number },
  pause: Pause | undefined,
): Promise<void> {
  for (let at = 0; at < objects.length; at += AT_ONCE) {
    const some = objects.slice(at, at + AT_ONCE)
    const faults = await Promise.all(
      some.map((object) =>
        unlessUnread(
          () => objectFault(store, object),
          pause,
          (why) => {
            counts.unread++
            return why
          },
        ),
      ),
    )
    for (const [i, object] of some.entries()) {
      const { key, entries } = object
      if (listed.get(key) === 'listed') report('fault', key, 'is listed twice', touchedOf(object))
      if (listed.has(key)) listed.set(key, 'listed')
      const fault = faults[i]
      if (fault !== undefined) report('fault', key, fault, touchedOf(object))
      if (isByLines(object)) counts.byLines++
      counts.objects++
      counts.entries += entries
    }
  }
}

// Compares the ends of the chains with what is known from elsewhere: a manifest's hash, or a time.

interface Bounds {
  /** epoch ms: a manifest must reach at least this time */
  readonly untilAt?: number | undefined
  /** hashes of manifests that must be in the chains */
  readonly lastSha256?: readonly string[]
}

function tellEnds(
  chains: readonly WalkedChain[],
  { untilAt, lastSha256 = [] }: Bounds,
  report: ReportFinding,
): void {
  if (chains.length === 0) report('fault', 'manifest/', 'contains no manifest: nothing can be proved')
  for (const hash of lastSha256)
    if (!chains.some(({ hashes }) => hashes.has(hash)))
      report(
        'fault',
        'manifest/',
        `holds no manifest with SHA-256 ${hash}: the end of a chain was cut, or another one put in its place`,
      )
  if (untilAt === undefined) return
  const sinks = Map.groupBy(chains, ({ sink }) => sink)
  for (const [sink, own] of sinks) tellUntil(sink, own, untilAt, report)
}

/** Of the sink's chains, one per journal, the newest must reach `untilAt`. */
function tellUntil(
  sink: string,
  chains: readonly WalkedChain[],
  untilAt: number,
  report: ReportFinding,
): void {
  const until = new Date(untilAt).toISOString()
  const reaching = chains.filter(({ last }) => last && reachOf(last.manifest) >= untilAt)
  const leaps = reaching.map(({ intervals }) => leapOver(intervals, untilAt))
  if (leaps.includes(undefined)) return
  const [leap] = leaps
  if (leap) {
    const [from, to] = [leap.fromAt, leap.untilAt].map((at) => new Date(at).toISOString())
    report(
      'fault',
      `manifest/sink=${sink}`,
      `reaches ${until} by one manifest alone, number ${leap.number}, which spans ${from ?? ''} to ${to ?? ''}: nothing ran then, or the clock had jumped ahead and the end of the chain was cut; no manifest can show which. Name a time outside of it, or a --last-manifest`,
    )
    return
  }
  const reached = Math.max(...chains.map(({ last }) => (last ? reachOf(last.manifest) : -Infinity)))
  const where = Number.isFinite(reached) ? `ends at ${new Date(reached).toISOString()}` : 'ends nowhere'
  report(
    'fault',
    `manifest/sink=${sink}`,
    `${where}, before ${until}: the end of the chain was cut, or nothing was written since`,
  )
}

/** An incomplete manifest proves only the beginning of its interval. */
const reachOf = ({ complete, interval }: Manifest): number =>
  Date.parse(complete ? interval.until : interval.from)

/**
 * The manifest over several intervals that alone covers this time; undefined: an ordinary one does
 * too. A clock that jumped ahead and back produces the same.
 */
function leapOver(intervals: readonly Interval[], at: number): Interval | undefined {
  const over = intervals.filter(({ fromAt, untilAt }) => fromAt <= at && at <= untilAt)
  return over.some(({ wide }) => !wide) ? undefined : over[0]
}

// What all faults together affect: the number of entries, sequence numbers, and times. Pure.

export interface Span {
  readonly count: number
  readonly entries: number
  readonly first: number
  readonly last: number
  /** of the entries; undefined if no manifest says it */
  readonly from?: string | undefined
  readonly until?: string | undefined
}

/** `listed`: entries that manifests describe; `planted`: those of objects that none describes. */
interface AllTouched {
  readonly listed: Span | undefined
  readonly planted: Span | undefined
}

type Ends = Pick<Span, 'from' | 'until'>

/** All texts have one format, so that string order is time order. */
function endsOf(span: Ends, { from, until }: Touched): Ends {
  const first = [span.from, from].filter((each) => typeof each === 'string').sort()[0]
  const last = [span.until, until]
    .filter((each) => typeof each === 'string')
    .sort()
    .at(-1)
  return { from: first, until: last }
}

function widened(span: Span | undefined, touched: Touched): Span {
  const { entries = 0, first, last } = touched
  return {
    count: (span?.count ?? 0) + 1,
    entries: (span?.entries ?? 0) + entries,
    first: Math.min(span?.first ?? Infinity, first),
    last: Math.max(span?.last ?? 0, last),
    ...endsOf(span ?? {}, touched),
  }
}

/** Adds each item once, even if several faults name it. @internal for tests */
export class TouchedSum {
  readonly #seen = new Set<string>()
  #listed: Span | undefined
  #planted: Span | undefined

  add(where: string, touched: Touched): void {
    const name = `${where} ${touched.first} ${touched.last}`
    if (this.#seen.has(name)) return
    this.#seen.add(name)
    if (touched.entries === undefined) this.#planted = widened(this.#planted, touched)
    else this.#listed = widened(this.#listed, touched)
  }

  all(): AllTouched {
    return { listed: this.#listed, planted: this.#planted }
  }
}
