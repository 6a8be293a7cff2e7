// Whether what is stored under a prefix is what its manifests say: nothing missing, nothing changed, nothing added, up to the last manifest. Pure over a store.
import { ChainWalk } from './evidence-chain.ts'
import type { ChainName, Finding, Tell, WalkedChain, WalkOptions } from './evidence-chain.ts'
import { type EvidenceStore, objectFault, objectPlace } from './evidence-objects.ts'
import type { Manifest } from './manifest.ts'
import { manifestPlace } from './manifest.ts'
import { tellOthers, tellUnlisted } from './evidence-unlisted.ts'

/** Objects that are read at the same time: over a network most of the time is waiting. */
const AT_ONCE = 8

export interface VerifyOptions extends WalkOptions {
  /** epoch ms: a manifest must reach at least to here */
  readonly untilAt?: number | undefined
  /** hashes of manifests that must be in the chains */
  readonly lastSha256?: readonly string[]
}

export interface Verified {
  readonly faults: number
  readonly chains: readonly WalkedChain[]
  readonly objects: number
  readonly entries: number
}

export type { EvidenceStore } from './evidence-objects.ts'
export type { Finding, Range, WalkedChain } from './evidence-chain.ts'

type Seen = 'unlisted' | 'listed'

interface Listing {
  /** manifest numbers by chain, ascending */
  readonly chains: ReadonlyMap<string, { readonly name: ChainName; readonly numbers: number[] }>
  readonly objects: Map<string, Seen>
  /** names that are neither an object's nor a manifest's */
  readonly others: readonly string[]
}

async function listAll(store: EvidenceStore, tell: Tell): Promise<Listing> {
  const chains = new Map<string, { name: ChainName; numbers: number[] }>()
  const objects = new Map<string, Seen>()
  const others: string[] = []
  for await (const key of store.list((key, what) => tell('fault', key, what))) {
    const place = manifestPlace(key)
    if (place) {
      const { sink, journal, number } = place
      const id = `${sink}/${journal}`
      const chain = chains.get(id) ?? { name: { sink, journal }, numbers: [] }
      chain.numbers.push(number)
      chains.set(id, chain)
    } else if (objectPlace(key)) objects.set(key, 'unlisted')
    else others.push(key)
  }
  for (const { numbers } of chains.values()) numbers.sort((a, b) => a - b)
  return { chains, objects, others }
}

/** Throws what the store throws: then nothing is proved either way. */
export async function verifyEvidence(
  store: EvidenceStore,
  options: VerifyOptions,
  told: (finding: Finding) => void,
): Promise<Verified> {
  const counts = { faults: 0, objects: 0, entries: 0 }
  const tell: Tell = (level, where, what) => {
    if (level === 'fault') counts.faults++
    told({ level, where, what })
  }
  const listing = await listAll(store, tell)
  const chains: WalkedChain[] = []
  for (const [, { name, numbers }] of [...listing.chains].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const walk = new ChainWalk(name, store, options, tell)
    for (const number of numbers) {
      const manifest = await walk.next(number)
      if (manifest) await checkObjects(store, manifest, listing.objects, tell, counts)
    }
    chains.push(walk.end())
  }
  tellEnds(chains, options, tell)
  const unlisted = [...listing.objects].filter(([, seen]) => seen === 'unlisted').map(([key]) => key)
  tellUnlisted(unlisted, chains, tell)
  tellOthers(listing.others, tell)
  return { ...counts, chains }
}

async function checkObjects(
  store: EvidenceStore,
  { objects }: Manifest,
  listed: Map<string, Seen>,
  tell: Tell,
  counts: { objects: number; entries: number },
): Promise<void> {
  for (let at = 0; at < objects.length; at += AT_ONCE) {
    const some = objects.slice(at, at + AT_ONCE)
    const faults = await Promise.all(some.map((object) => objectFault(store, object)))
    for (const [i, { key, entries }] of some.entries()) {
      if (listed.get(key) === 'listed') tell('fault', key, 'is listed twice')
      if (listed.has(key)) listed.set(key, 'listed')
      const fault = faults[i]
      if (fault !== undefined) tell('fault', key, fault)
      counts.objects++
      counts.entries += entries
    }
  }
}

/** Where the chains end: what bounds the end from outside is compared with it. */
function tellEnds(
  chains: readonly WalkedChain[],
  { untilAt, lastSha256 = [] }: VerifyOptions,
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
  if (untilAt !== undefined)
    for (const sink of new Set(chains.map((chain) => chain.sink)))
      tellUntil(
        sink,
        chains.filter((chain) => chain.sink === sink),
        untilAt,
        tell,
      )
}

/** Of a sink's chains, one for each journal that it had, the newest must reach to `untilAt`: another sink's does not speak for it. */
function tellUntil(sink: string, chains: readonly WalkedChain[], untilAt: number, tell: Tell): void {
  const reached = Math.max(...chains.map(({ last }) => (last ? reachOf(last.manifest) : -Infinity)))
  if (reached >= untilAt) return
  const where = Number.isFinite(reached) ? `ends at ${new Date(reached).toISOString()}` : 'ends nowhere'
  tell(
    'fault',
    `manifest/sink=${sink}`,
    `${where}, before ${new Date(untilAt).toISOString()}: the end of the chain was cut, or nothing was written since`,
  )
}

/** An incomplete one proves its interval's begin only. */
const reachOf = ({ complete, interval }: Manifest): number =>
  Date.parse(complete ? interval.until : interval.from)
