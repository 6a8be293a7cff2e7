// A manifest: what was stored in one interval, as one line of JSON that is hashed and signed byte
// for byte, and its key. Pure.
import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import type { CheckResult } from '../../../contracts/sink.ts'
import { ConnectorError, errnoOf } from '../../../core/errors.ts'
import { jsonOf } from '../../../core/json.ts'
import { isoMicros } from '../../../core/time.ts'

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
  /** null if no entry has a readable time */
  first_time: microInstant().nullable(),
  last_time: microInstant().nullable(),
  /** absent if an earlier attempt stored it */
  stored_sha256: digest().optional(),
  stored_bytes: count().optional(),
})

export const manifestInterval = z.strictObject({
  first: seq(),
  last: seq(),
  delivered: count(),
  filtered: count(),
  parked: count(),
})

/** Where all of a chain is stored: a chain that was copied to another place is not valid there. */
const storedIn = z.strictObject({
  bucket: z.string().regex(/^[A-Za-z0-9._-]{1,255}$/),
  /** '' for none */
  prefix: z.string().regex(/^[\x21-\x7e]{0,1024}$/),
})

/** The members appear in the line in this order. */
const manifest = z.strictObject({
  type: z.literal('auditferry-manifest'),
  version: z.literal(1),
  sink: z.string().regex(/^[a-z0-9-]{1,63}$/),
  /** A new journal has a new id and its own chain: its sequence numbers start again. */
  journal: z.string().regex(/^[0-9a-z-]{1,64}$/),
  number: seq(),
  stored_in: storedIn,
  previous: z.strictObject({ number: seq(), sha256: digest() }).nullable(),
  /** Spans several intervals if nothing ran, or nothing could be stored. */
  interval: z.strictObject({ from: instant(), until: instant(), every_seconds: z.number().positive() }),
  /** False: the next manifest continues the same interval. */
  complete: z.boolean(),
  made_at: instant(),
  /** of the public key, as DER */
  key_sha256: digest(),
  /** all of (after, through] is in `stretches` or `gaps` */
  sequence: z.strictObject({ after: count(), through: count() }),
  stretches: z.array(manifestInterval),
  /** acknowledged while evidence was off: nothing is known about them */
  gaps: z.array(z.strictObject({ first: seq(), last: seq() })),
  objects: z.array(manifestObject),
})

export type StoredIn = z.output<typeof storedIn>
export type Manifest = z.output<typeof manifest>
export type ManifestObject = z.output<typeof manifestObject>
export type ManifestInterval = z.output<typeof manifestInterval>

/** The line with its LF, as it is hashed, signed and stored. */
export function manifestLine(value: Manifest): string {
  return `${JSON.stringify(value)}\n`
}

export function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

interface ManifestPlace {
  readonly sink: string
  readonly journal: string
  readonly number: number
}

/** Within a chain only the number varies: two manifests of one number cannot both be stored. */
export function manifestKey({ sink, journal, number }: ManifestPlace): string {
  return `manifest/sink=${sink}/journal=${journal}/${String(number).padStart(16, '0')}.ndjson`
}

const manifestKeyPattern =
  /^manifest\/sink=(?<sink>[a-z0-9-]+)\/journal=(?<journal>[0-9a-z-]+)\/(?<number>\d{16})\.ndjson$/

/** Undefined for any other key. */
export function manifestPlace(key: string): ManifestPlace | undefined {
  const found = manifestKeyPattern.exec(key)?.groups
  if (!found) return undefined
  const { sink = '', journal = '' } = found
  const number = Number(found['number'])
  // A chain counts from 1; larger numbers than safe integers are not exact.
  return number >= 1 && Number.isSafeInteger(number) ? { sink, journal, number } : undefined
}

/** years 0 and 10000, ms: instants outside have no such text */
const FIRST_MS = Date.parse('0000-01-01T00:00:00Z')
const END_MS = Date.parse('+010000-01-01T00:00:00Z')

/** An instant with six decimals, from µs; null if there is none. */
export function microTime(us: number): string | null {
  return us >= FIRST_MS * 1000 && us < END_MS * 1000 ? isoMicros(us) : null
}

// The stored form of a manifest: its line, then a line with the Ed25519 signature of the first.
// So `head -n 1` and openssl can check it.

/** A signature line has 186 bytes; a longer one is broken or hostile, and not parsed. */
const MOST_SIGNATURE_BYTES = 256

const signatureLine = z.strictObject({
  signature: z.base64().length(88),
  key_sha256: z.string().regex(/^[0-9a-f]{64}$/),
})

/** The id of a public key: SHA-256 of its DER form. */
export function keyId(key: KeyObject): string {
  const open = key.type === 'private' ? createPublicKey(key) : key
  return sha256(open.export({ type: 'spki', format: 'der' }))
}

function ed25519(key: KeyObject): KeyObject {
  if (key.asymmetricKeyType !== 'ed25519')
    throw new Error(`the key is ${key.asymmetricKeyType ?? 'of no known kind'}, want Ed25519`)
  return key
}

/** Throws a plain error without any of the text. @internal for tests */
export function readSigningKey(pem: string): KeyObject {
  let key: KeyObject
  try {
    key = createPrivateKey(pem)
  } catch {
    throw new Error('it contains no private key in PEM without a passphrase')
  }
  return ed25519(key)
}

/** The error that `readSigningKey` would throw, as text; undefined: none. */
export function signingKeyFault(pem: string): string | undefined {
  try {
    readSigningKey(pem)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : 'it cannot be used'
  }
}

const pemBlock = /-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g

/** Every public key in a PEM text, by id: after a rotation the file may have the old one too. */
export function readPublicKeys(pem: string): ReadonlyMap<string, KeyObject> {
  const blocks = pem.match(pemBlock) ?? []
  if (blocks.length === 0 && pem.includes('PRIVATE KEY-----'))
    throw new Error('it holds a private key: give its public half (openssl pkey -in FILE -pubout)')
  if (blocks.length === 0) throw new Error('it holds no public key in PEM (BEGIN PUBLIC KEY)')
  const keys = blocks.map((block) => {
    try {
      return createPublicKey(block)
    } catch {
      throw new Error('a public key in it cannot be read')
    }
  })
  return new Map(keys.map((key) => [keyId(ed25519(key)), key]))
}

/** The manifest's line and its signature. Ed25519 is deterministic: same bytes, same signature. */
export function signedManifest(line: string, key: KeyObject): Uint8Array {
  const signature = sign(null, Buffer.from(line), key).toString('base64')
  return Buffer.from(`${line}${JSON.stringify({ signature, key_sha256: keyId(key) })}\n`)
}

export interface OpenedManifest {
  readonly manifest: Manifest
  /** of its line; the next manifest has it in `previous` */
  readonly sha256: string
}

/** Checks form and signature. Returns a text with the fault, if any. */
export function openManifest(
  body: Uint8Array,
  keys: ReadonlyMap<string, KeyObject>,
): OpenedManifest | string {
  const end = body.indexOf(10)
  if (end < 0 || body.at(-1) !== 10) return 'is cut: expected two whole lines'
  const line = body.subarray(0, end + 1)
  const below = body.subarray(end + 1)
  const signed =
    below.length > MOST_SIGNATURE_BYTES ? undefined : readSignature(Buffer.from(below).toString())
  if (!signed) return 'has no signature line of the known form'
  const key = keys.get(signed.key_sha256)
  if (!key)
    return `is signed with a key that was not given (SHA-256 of it: ${signed.key_sha256}): another program wrote it, or the key was rotated and the new public key must be given too, or --public-key is the wrong file`
  if (!verify(null, line, key, Buffer.from(signed.signature, 'base64')))
    return 'was changed: its signature does not fit'
  const read = jsonOf(manifest, Buffer.from(line).toString())
  if (!read) return 'is signed, but is no manifest that this version knows: verify it with a newer one'
  if (read.key_sha256 !== signed.key_sha256)
    return 'names another key than the one that signed it: it was signed again'
  return { manifest: read, sha256: sha256(line) }
}

/** Accepts only the exact form written: every byte of the object must be checked. */
function readSignature(text: string): z.output<typeof signatureLine> | undefined {
  const found = jsonOf(signatureLine, text)
  return found && text === `${JSON.stringify(found)}\n` ? found : undefined
}

// Reads the key that signs manifests from its file, and explains why it cannot be used.

const readText = (path: string): string => readFileSync(path, 'utf8')

/** Throws `misconfigured`: an unusable key blocks the manifests and is reported. */
export function signingKey(keyFile: string, readKey: (path: string) => string = readText): KeyObject {
  try {
    return readSigningKey(readKey(keyFile))
  } catch (error) {
    const code = errnoOf(error, '')
    const why = code === '' && error instanceof Error ? error.message : code
    throw new ConnectorError(
      'misconfigured',
      `No manifest can be signed: the key file ${keyFile} cannot be used (${why}). Put an Ed25519 private key in PEM there (openssl genpkey -algorithm ed25519); entries are still stored, and the next manifest lists them`,
      { cause: error },
    )
  }
}

/** What `validate --connect` reports about the key. */
export function checkSigningKey(keyFile: string): CheckResult {
  const what = 'evidence.signing_key_file'
  try {
    const id = keyId(signingKey(keyFile))
    return { what, ok: true, message: `signs manifests; SHA-256 of its public key: ${id}` }
  } catch (error) {
    return { what, ok: false, message: error instanceof Error ? error.message : 'cannot be used' }
  }
}
