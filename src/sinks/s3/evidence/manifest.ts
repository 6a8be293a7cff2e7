// A manifest: what was stored in one interval, as one line of JSON that is hashed and signed as it stands, and the key it is stored under. Pure.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { isoMicros } from '../../../model/time.ts'
import { jsonOf } from '../../../model/json-of.ts'

const digest = () => z.string().regex(/^[0-9a-f]{64}$/)
const instant = () => z.iso.datetime({ precision: 3 })
const microInstant = () => z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
const seq = () => z.int().min(1)
const count = () => z.int().min(0)

export const manifestObject = z.strictObject({
  key: z.string().regex(/^[\x20-\x7e]{1,1024}$/),
  /** of the uncompressed lines */
  sha256: digest(),
  bytes: count(),
  entries: z.int().min(1),
  first_sequence: seq(),
  last_sequence: seq(),
  /** null where no entry has a time that can be read */
  first_time: microInstant().nullable(),
  last_time: microInstant().nullable(),
  /** absent where an earlier attempt had stored it */
  stored_sha256: digest().optional(),
  stored_bytes: count().optional(),
})

export const manifestStretch = z.strictObject({
  first: seq(),
  last: seq(),
  delivered: count(),
  filtered: count(),
  parked: count(),
})

/** Where all of a chain is stored: a chain that was copied to another place does not hold there. */
const storedIn = z.strictObject({
  bucket: z.string().regex(/^[A-Za-z0-9._-]{1,255}$/),
  /** '' for none */
  prefix: z.string().regex(/^[\x21-\x7e]{0,1024}$/),
})

/** The order of the members is the order in the line. */
const manifest = z.strictObject({
  type: z.literal('auditferry-manifest'),
  version: z.literal(1),
  sink: z.string().regex(/^[a-z0-9-]{1,63}$/),
  /** A journal made anew has another id and begins a chain of its own: its sequence numbers begin again. */
  journal: z.string().regex(/^[0-9a-z-]{1,64}$/),
  number: seq(),
  stored_in: storedIn,
  previous: z.strictObject({ number: seq(), sha256: digest() }).nullable(),
  /** One that is longer than `every_seconds` spans several: nothing ran, or nothing could be stored. */
  interval: z.strictObject({ from: instant(), until: instant(), every_seconds: z.number().positive() }),
  /** False: the next manifest goes on with the same interval. */
  complete: z.boolean(),
  made_at: instant(),
  /** of the public key, as DER */
  key_sha256: digest(),
  /** all of (after, through] stands in `stretches` or `gaps` */
  sequence: z.strictObject({ after: count(), through: count() }),
  stretches: z.array(manifestStretch),
  /** settled while evidence was off: nothing is known of them */
  gaps: z.array(z.strictObject({ first: seq(), last: seq() })),
  objects: z.array(manifestObject),
})

export type StoredIn = z.output<typeof storedIn>
export type Manifest = z.output<typeof manifest>
export type ManifestObject = z.output<typeof manifestObject>
export type ManifestStretch = z.output<typeof manifestStretch>

/** The line with its end, as it is hashed, signed and stored. */
export function manifestLine(value: Manifest): string {
  return `${JSON.stringify(value)}\n`
}

/** Undefined for what is no manifest of this version. */
export function readManifest(line: string): Manifest | undefined {
  return jsonOf(manifest, line)
}

export function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

interface ManifestPlace {
  readonly sink: string
  readonly journal: string
  readonly number: number
}

/** The number alone makes the key in its chain: two manifests of one number cannot both be stored. */
export function manifestKey({ sink, journal, number }: ManifestPlace): string {
  return `manifest/sink=${sink}/journal=${journal}/${String(number).padStart(16, '0')}.ndjson`
}

const manifestKeyPattern =
  /^manifest\/sink=(?<sink>[a-z0-9-]+)\/journal=(?<journal>[0-9a-z-]+)\/(?<number>\d{16})\.ndjson$/

/** Undefined for the key of anything else. */
export function manifestPlace(key: string): ManifestPlace | undefined {
  const found = manifestKeyPattern.exec(key)?.groups
  if (!found) return undefined
  const { sink = '', journal = '' } = found
  const number = Number(found['number'])
  // A chain counts from 1, and no further than a number is exact.
  return number >= 1 && Number.isSafeInteger(number) ? { sink, journal, number } : undefined
}

/** of year 0 and of year 10000, ms: what lies beyond has no such text */
const FIRST_MS = Date.parse('0000-01-01T00:00:00Z')
const END_MS = Date.parse('+010000-01-01T00:00:00Z')

/** An instant with six decimals, from µs; null for none. */
export function microTime(us: number): string | null {
  return us >= FIRST_MS * 1000 && us < END_MS * 1000 ? isoMicros(us) : null
}
