// Decides which interval a manifest is for, and which acknowledged batches it lists. Pure.
import { z } from 'zod'
import type { StateEntry } from '../../../contracts/journal.ts'
import type { StoredObject } from '../../../contracts/sink.ts'
import type { Seq } from '../../../core/sequence.ts'
import { manifestObject, manifestInterval, microTime } from './manifest.ts'
import type { Manifest, ManifestObject, ManifestInterval } from './manifest.ts'

/** About this many objects and batches per manifest; the rest is in the interval's next one. */
const MOST_OBJECTS = 2_000
export const MOST_RECORDS = 256

/** The last multiple of the interval at or before `at`. */
const roundDown = (at: number, intervalMs: number): number => Math.floor(at / intervalMs) * intervalMs

/**
 * The end of the interval that is over by now, or how long to wait for it. Intervals that passed
 * while nothing ran count as one. If the clock was set back by more than an interval, a new one
 * begins at once, instead of waiting for the old time; its manifest ends before it begins.
 */
export function intervalOver(chain: Chain, nowAt: number, intervalMs: number): { untilAt: number } | number {
  if (chain.untilAt !== undefined) return { untilAt: chain.untilAt }
  const untilAt = roundDown(nowAt, intervalMs)
  if (untilAt > chain.fromAt || nowAt < chain.fromAt - intervalMs) return { untilAt }
  return roundDown(Math.max(nowAt, chain.fromAt), intervalMs) + intervalMs - nowAt
}

export interface Listed {
  readonly records: readonly SettledNote[]
  readonly stretches: ManifestInterval[]
  readonly gaps: Manifest['gaps']
  readonly through: Seq
  /** no part of the interval is left */
  readonly complete: boolean
}

/**
 * The acknowledged batches after `after`, up to the first one still pending. Up to `position`
 * everything is acknowledged: a part without a record is a gap (evidence was off). `records` has
 * one more than MOST_RECORDS if there are more.
 */
export function listSettled(records: readonly SettledNote[], after: Seq, position: Seq): Listed {
  const taken: SettledNote[] = []
  const stretches: ManifestInterval[] = []
  const gaps: Manifest['gaps'] = []
  let through = after
  let objects = 0
  for (const record of records) {
    const { first, last } = record.settled
    if (first > through + 1 && position < first - 1) break
    objects += record.settled.objects.length
    if (taken.length >= MOST_RECORDS || (taken.length > 0 && objects > MOST_OBJECTS))
      return { records: taken, stretches, gaps, through, complete: false }
    if (first > through + 1) gaps.push({ first: through + 1, last: first - 1 })
    join(stretches, record)
    taken.push(record)
    through = Math.max(through, last)
  }
  if (position > through) gaps.push({ first: through + 1, last: position })
  return { records: taken, stretches, gaps, through: Math.max(through, position), complete: true }
}

/** Joins consecutive batches into one range. */
function join(stretches: ManifestInterval[], { settled }: SettledNote): void {
  const { first, last, delivered, filtered, parked } = settled
  const before = stretches.at(-1)
  if (before?.last !== first - 1) {
    stretches.push({ first, last, delivered, filtered, parked })
    return
  }
  stretches[stretches.length - 1] = {
    first: before.first,
    last,
    delivered: before.delivered + delivered,
    filtered: before.filtered + filtered,
    parked: before.parked + parked,
  }
}

/** If an earlier try stored the body, its bytes are unknown: compression depends on the version. */
export function objectOf(object: StoredObject, prefix: string): ManifestObject {
  const { key, alreadyStored, bodySha256, bodyBytes } = object
  return {
    key: prefix === '' ? key : key.slice(prefix.length + 1),
    sha256: object.linesSha256,
    bytes: object.linesBytes,
    entries: object.count,
    first_sequence: object.first,
    last_sequence: object.last,
    first_time: microTime(object.firstAtUs),
    last_time: microTime(object.lastAtUs),
    ...(alreadyStored ? {} : { stored_sha256: bodySha256, stored_bytes: bodyBytes }),
  }
}

// What evidence saves in the journal: what each acknowledgement stored, the end of the chain, and
// the manifest in flight. Pure.

/** One acknowledged batch. */
const settled = z.object({ ...manifestInterval.shape, objects: z.array(manifestObject) })
type Settled = z.output<typeof settled>

/** The end of the chain: after the last manifest that was stored. */
const chain = z.object({
  /** 0: none yet */
  number: z.int(),
  /** of the last manifest; '' if there is none */
  sha256: z.string(),
  /** epoch ms: start of the current interval */
  fromAt: z.int(),
  /** epoch ms: end of an interval that the last manifest left incomplete */
  untilAt: z.int().optional(),
  /** entries up to here are in a manifest, or older than the chain */
  through: z.int(),
})
export type Chain = z.output<typeof chain>

/** A manifest whose bytes are fixed; its entries are listed nowhere else. */
const pending = z.object({ key: z.string(), body: z.string(), then: chain })
export type Pending = z.output<typeof pending>

export interface SettledNote {
  readonly name: string
  readonly settled: Settled
}

export const chainName = (sink: string) => `evidence:${sink}:chain`
export const pendingName = (sink: string) => `evidence:${sink}:pending`
export const settledPrefix = (sink: string) => `evidence:${sink}:settled:`

export function settledNote(sink: string, record: Settled): StateEntry {
  return {
    name: `${settledPrefix(sink)}${String(record.first).padStart(16, '0')}`,
    value: JSON.stringify(record),
  }
}

/** This program wrote the value: any other form is a bug, or from another version. */
function read<T>(schema: z.ZodType<T>, name: string, value: string): T {
  const found = schema.safeParse(JSON.parse(value))
  if (!found.success)
    throw new Error(`The journal's state entry ${name} does not have the form that this version writes`)
  return found.data
}

export const readSettledNote = ({ name, value }: StateEntry): SettledNote => ({
  name,
  settled: read(settled, name, value),
})
export const readChain = (sink: string, value: string): Chain => read(chain, chainName(sink), value)
export const readPending = (sink: string, value: string): Pending => read(pending, pendingName(sink), value)
