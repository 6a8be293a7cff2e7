// Verifies one chain of manifests: signatures and hashes are valid, and numbers, intervals and
// sequence numbers consecutive. It reads no entries.
import type { KeyObject } from 'node:crypto'
import { readUpTo } from '../../kit/http.ts'
import { manifestKey, openManifest } from '../evidence/manifest.ts'
import type { Manifest, OpenedManifest, StoredIn } from '../evidence/manifest.ts'
import { namingFault, unlessUnread } from './objects.ts'
import type { EvidenceStore, Pause, ReportFinding } from './objects.ts'

/** Far above a real manifest, which lists a few thousand objects. */
const MANIFEST_BYTES = 16 * 1024 * 1024

/** An interval longer than this many configured intervals was not written in time. */
const MOST_SPANS = 1.5

export interface ChainName {
  readonly sink: string
  readonly journal: string
}

/** Sequence numbers without information, because a manifest is missing or bad. */
interface Blind {
  readonly after: number
  readonly through: number
}

/** The interval of one complete manifest. */
export interface Interval {
  readonly number: number
  readonly fromAt: number
  readonly untilAt: number
  /** spans several intervals */
  readonly wide: boolean
}

export interface Range {
  readonly first: number
  readonly last: number
}

export interface WalkOptions {
  /** absent if unknown, as in a folder */
  readonly storedIn?: StoredIn | undefined
  /** public keys by id */
  readonly keys: ReadonlyMap<string, KeyObject>
  /** gaps that the operator has explained */
  readonly acceptedGaps?: readonly Range[]
  /** Absent: a failed read is not retried. */
  readonly pause?: Pause
}

/** The result of a chain after its last manifest. */
export interface WalkedChain extends ChainName {
  readonly manifests: number
  readonly last: OpenedManifest | undefined
  /** entries up to here are older than the chain */
  readonly after: number
  readonly through: number
  /** entries that the sink's settings filtered, and dead letters */
  readonly filtered: number
  readonly parked: number
  readonly hashes: ReadonlySet<string>
  readonly intervals: readonly Interval[]
  readonly blind: readonly Blind[]
  readonly gaps: readonly Range[]
}

/** A text describes the fault. */
async function manifestAt(
  store: EvidenceStore,
  key: string,
  keys: WalkOptions['keys'],
): Promise<OpenedManifest | string> {
  const body = await store.get(key)
  if (!body) return 'is missing'
  const bytes = await readUpTo(body, MANIFEST_BYTES + 1)
  return bytes.length > MANIFEST_BYTES ? 'is larger than any manifest' : openManifest(bytes, keys)
}

/** Checks the manifests of a chain one after the other. */
export class ChainWalk {
  readonly #name: ChainName
  readonly #store: EvidenceStore
  readonly #options: WalkOptions
  readonly #report: ReportFinding
  readonly #hashes = new Set<string>()
  readonly #intervals: Interval[] = []
  readonly #blind: Blind[] = []
  readonly #gaps: Range[] = []
  /** the previous manifest, if it exists and is valid */
  #before: OpenedManifest | undefined
  #last: OpenedManifest | undefined
  #after: number | undefined
  #through = 0
  #expected = 1
  #blinded = false
  #manifests = 0
  #filtered = 0
  #parked = 0

  constructor(name: ChainName, store: EvidenceStore, options: WalkOptions, report: ReportFinding) {
    this.#name = name
    this.#store = store
    this.#options = options
    this.#report = report
  }

  /** Call in ascending order. Resolves with the manifest if its signature and form are valid. */
  async step(number: number): Promise<Manifest | undefined> {
    const key = manifestKey({ ...this.#name, number })
    this.#tellMissing(number)
    this.#expected = number + 1
    this.#manifests++
    const { keys, pause } = this.#options
    const found = await unlessUnread(
      () => manifestAt(this.#store, key, keys),
      pause,
      (why) => why,
    )
    const opened = typeof found === 'string' ? found : (this.#movedFault(found.manifest, number) ?? found)
    if (typeof opened === 'string') {
      this.#report('fault', key, opened)
      this.#lose()
      return undefined
    }
    this.#link(key, opened)
    return opened.manifest
  }

  #tellMissing(number: number): void {
    if (number === this.#expected) return
    const first = manifestKey({ ...this.#name, number: this.#expected })
    const count = number - this.#expected
    this.#report('fault', first, count === 1 ? 'is missing' : `is missing, and ${count - 1} after it`)
    this.#lose()
  }

  #lose(): void {
    this.#before = undefined
    this.#blinded = true
  }

  /** Our signature, but the manifest is for another key: it was copied there. */
  #movedFault({ sink, journal, number: own }: Manifest, number: number): string | undefined {
    if (sink === this.#name.sink && journal === this.#name.journal && own === number) return undefined
    return `is manifest ${own} of sink ${sink}, journal ${journal}: it was moved here`
  }

  #link(key: string, opened: OpenedManifest): void {
    const { manifest, sha256 } = opened
    const fault = (what: string) => this.#report('fault', key, what)
    if (this.#before) {
      for (const what of linkFaults(this.#before, manifest)) fault(what)
      this.#tellRotation(key, this.#before.manifest, manifest)
    } else if (manifest.number === 1 && manifest.previous !== null)
      fault('is the first one and names one before it')
    else if (manifest.number > 1 && manifest.previous?.number !== manifest.number - 1)
      fault('does not name the one before it')
    for (const what of sequenceFaults(manifest)) fault(what)
    for (const what of objectFaults(manifest)) fault(what)
    this.#tellPlace(key, manifest)
    this.#tellIntervals(key, manifest)
    if (this.#blinded) this.#blind.push({ after: this.#through, through: manifest.sequence.after })
    this.#blinded = false
    this.#after ??= manifest.number === 1 ? manifest.sequence.after : 0
    this.#through = Math.max(this.#through, manifest.sequence.through)
    for (const gap of manifest.gaps) this.#gaps.push(gap)
    for (const { filtered, parked } of manifest.stretches) {
      this.#filtered += filtered
      this.#parked += parked
    }
    this.#hashes.add(sha256)
    this.#before = opened
    this.#last = opened
  }

  #tellRotation(key: string, before: Manifest, manifest: Manifest): void {
    if (before.key_sha256 !== manifest.key_sha256)
      this.#report('note', key, `is the first one signed with the key ${manifest.key_sha256}`)
  }

  /** Each manifest of a copied chain names its origin: reported once, not for each. */
  #tellPlace(key: string, { stored_in: said }: Manifest): void {
    const place = placeText(said)
    if (this.#last && placeText(this.#last.manifest.stored_in) === place) return
    const { storedIn } = this.#options
    if (!storedIn)
      this.#report(
        'note',
        key,
        `says that it was stored in ${place}: a folder cannot show where it was copied from`,
      )
    else if (placeText(storedIn) !== place)
      this.#report('fault', key, `was made for ${place}: it was copied here, to ${placeText(storedIn)}`)
  }

  #tellIntervals(key: string, manifest: Manifest): void {
    const { number, complete, interval, made_at: madeAt, gaps } = manifest
    const { acceptedGaps = [] } = this.#options
    const [from, until] = [Date.parse(interval.from), Date.parse(interval.until)]
    const spans = (until - from) / 1000 / interval.every_seconds
    const wide = spans > MOST_SPANS
    if (complete) this.#intervals.push({ number, fromAt: from, untilAt: until, wide })
    if (until < from)
      this.#report(
        'note',
        key,
        `the clock was set back before it was made: from ${interval.from} to ${interval.until}`,
      )
    else if (wide)
      this.#report(
        'note',
        key,
        `spans ${Math.round(spans)} intervals, ${interval.from} to ${interval.until}: nothing ran, or nothing could be stored; made at ${madeAt}`,
      )
    for (const { first, last } of gaps)
      this.#report(
        acceptedGaps.some((gap) => first >= gap.first && last <= gap.last) ? 'note' : 'fault',
        key,
        `does not cover the entries ${first} to ${last}: they were acknowledged while evidence was off, or dropped while the sink was not configured`,
        { entries: last - first + 1, first, last },
      )
  }

  /** Call after the last number. */
  end(): WalkedChain {
    if (this.#blinded) this.#blind.push({ after: this.#through, through: Infinity })
    return {
      ...this.#name,
      manifests: this.#manifests,
      last: this.#last,
      after: this.#after ?? 0,
      through: this.#through,
      filtered: this.#filtered,
      parked: this.#parked,
      hashes: this.#hashes,
      intervals: this.#intervals,
      blind: this.#blind,
      gaps: this.#gaps,
    }
  }
}

const placeText = ({ bucket, prefix }: StoredIn): string => `s3://${bucket}/${prefix}`

// Faults within one manifest, and between it and the previous one. Pure.

/** Where a manifest does not continue the previous one. */
function* linkFaults({ manifest: before, sha256 }: OpenedManifest, manifest: Manifest): Generator<string> {
  if (manifest.previous?.number !== before.number || manifest.previous.sha256 !== sha256)
    yield `names another manifest as the one before it than ${before.number} with SHA-256 ${sha256}: the chain was forked or joined from two`
  const { from, until } = manifest.interval
  if (before.complete && from !== before.interval.until)
    yield `begins at ${from}, expected ${before.interval.until}, where the one before it ended`
  if (!before.complete && (from !== before.interval.from || until !== before.interval.until))
    yield 'does not continue the interval that the one before it left incomplete'
  if (manifest.sequence.after !== before.sequence.through)
    yield `continues after entry ${manifest.sequence.after}, expected ${before.sequence.through}, where the one before it ended`
}

/** Ranges and gaps must cover (after, through] once and in order; counts must add up. */
function* sequenceFaults({ sequence, stretches, gaps }: Manifest): Generator<string> {
  let at = sequence.after
  for (const { first, last } of [...stretches, ...gaps].sort((a, b) => a.first - b.first)) {
    if (first !== at + 1 || last < first) yield `leaves a hole or an overlap at entry ${at + 1}`
    at = Math.max(at, last)
  }
  if (at !== sequence.through) yield `covers the entries up to ${at}, expected ${sequence.through}`
  for (const { first, last, delivered, filtered, parked } of stretches)
    if (delivered + filtered + parked !== last - first + 1)
      yield `counts ${delivered + filtered + parked} entries from ${first} to ${last}, expected ${last - first + 1}`
}

/** Names must match; each object is in one range; together they have all that was delivered. */
function* objectFaults({ stretches, objects }: Manifest): Generator<string> {
  const held = stretches.map(() => 0)
  for (const object of objects) {
    const naming = namingFault(object)
    if (naming !== undefined) yield `lists ${object.key}, which ${naming}`
    const { first_sequence: first, last_sequence: last } = object
    const at = stretches.findIndex((stretch) => first >= stretch.first && last <= stretch.last)
    if (at < 0) yield `lists ${object.key}, which is outside the entries that it covers`
    else held[at] = (held[at] ?? 0) + object.entries
  }
  for (const [at, { first, last, delivered }] of stretches.entries())
    if (held[at] !== delivered)
      yield `lists objects with ${held[at] ?? 0} of the entries ${first} to ${last}, expected ${delivered}`
}
