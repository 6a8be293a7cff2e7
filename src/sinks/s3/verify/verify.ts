// Whether what is stored under a prefix is what its manifests say: nothing missing, nothing changed, nothing added, up to the last manifest. Pure over a store.
import { type Bounds, tellEnds } from './end.ts'
import { ChainWalk } from './chain.ts'
import type { ChainName, WalkedChain, WalkOptions } from './chain.ts'
import type { Finding, Tell, Touched } from './findings.ts'
import { type EvidenceStore, objectFault, objectPlace } from './objects.ts'
import type { Manifest, ManifestObject } from '../evidence/manifest.ts'
import { manifestKey, manifestPlace } from '../evidence/manifest.ts'
import { type AllTouched, TouchedSum } from './touched.ts'
import { otherNames, tellUnlisted } from './unlisted.ts'
import { type Pause, unlessUnread } from './unread.ts'
import { printableName } from '../../../model/printable.ts'

/** Objects that are read at the same time: over a network most of the time is waiting. */
const AT_ONCE = 8

export type VerifyOptions = WalkOptions & Bounds

export interface Verified {
  readonly faults: number
  readonly chains: readonly WalkedChain[]
  readonly objects: number
  /** of the objects: no manifest says how their stored bodies are, so that their lines alone were compared */
  readonly byLines: number
  /** of the objects: the store did not give them */
  readonly unread: number
  readonly entries: number
  /** by all faults together, as far as it is known */
  readonly touched: AllTouched
}

type Seen = 'unlisted' | 'listed'

interface Listing {
  /** manifest numbers by chain, ascending */
  readonly chains: ReadonlyMap<string, { readonly name: ChainName; readonly numbers: number[] }>
  readonly objects: Map<string, Seen>
}

const TWICE = 'stands in the list twice: another name in the bucket reads as this one'

async function listAll(
  store: EvidenceStore,
  tell: Tell,
  others: { readonly add: (key: string) => void },
): Promise<Listing> {
  const chains = new Map<string, { name: ChainName; numbers: number[] }>()
  const objects = new Map<string, Seen>()
  for await (const key of store.list((key, what) => tell('fault', key, what))) {
    const place = manifestPlace(key)
    if (place) {
      const { sink, journal, number } = place
      const id = `${sink}/${journal}`
      const chain = chains.get(id) ?? { name: { sink, journal }, numbers: [] }
      chain.numbers.push(number)
      chains.set(id, chain)
    } else if (!objectPlace(key)) others.add(key)
    else if (objects.has(key)) tell('fault', key, TWICE)
    else objects.set(key, 'unlisted')
  }
  for (const { name, numbers } of chains.values()) sortOnce(numbers, name, tell)
  return { chains, objects }
}

function sortOnce(numbers: number[], name: ChainName, tell: Tell): void {
  const sorted = numbers.splice(0).sort((a, b) => a - b)
  for (const number of sorted)
    if (number === numbers.at(-1)) tell('fault', manifestKey({ ...name, number }), TWICE)
    else numbers.push(number)
}

/** Throws where the list cannot be had: then nothing is proved either way. */
export async function verifyEvidence(
  store: EvidenceStore,
  options: VerifyOptions,
  found: (finding: Finding) => void,
): Promise<Verified> {
  const counts = { faults: 0, objects: 0, byLines: 0, unread: 0, entries: 0 }
  const touched = new TouchedSum()
  const tell: Tell = (level, where, what, touches) => {
    if (level === 'fault') counts.faults++
    if (level === 'fault' && touches) touched.add(where, touches)
    found({ level, where: printableName(where), what })
  }
  const others = otherNames(tell)
  const listing = await listAll(store, tell, others)
  const chains: WalkedChain[] = []
  for (const [, { name, numbers }] of [...listing.chains].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const walk = new ChainWalk(name, store, options, tell)
    for (const number of numbers) {
      const manifest = await walk.step(number)
      if (manifest) await checkObjects(store, manifest, listing.objects, tell, counts, options.pause)
    }
    chains.push(walk.end())
  }
  tellEnds(chains, options, tell)
  const unlisted = [...listing.objects].filter(([, seen]) => seen === 'unlisted').map(([key]) => key)
  tellUnlisted(unlisted, chains, tell)
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

/** Where nothing is packed the lines are the body. */
const isByLines = ({ key, stored_sha256: stored }: ManifestObject): boolean =>
  stored === undefined && objectPlace(key)?.packed !== ''

async function checkObjects(
  store: EvidenceStore,
  { objects }: Manifest,
  listed: Map<string, Seen>,
  tell: Tell,
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
      if (listed.get(key) === 'listed') tell('fault', key, 'is listed twice', touchedOf(object))
      if (listed.has(key)) listed.set(key, 'listed')
      const fault = faults[i]
      if (fault !== undefined) tell('fault', key, fault, touchedOf(object))
      if (isByLines(object)) counts.byLines++
      counts.objects++
      counts.entries += entries
    }
  }
}
