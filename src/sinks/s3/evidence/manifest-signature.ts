// A manifest as it is stored: its line, and under it a line with the Ed25519 signature over the first, so that `head -n 1` and openssl can check it.
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { z } from 'zod'
import { readManifest, sha256, type Manifest } from './manifest.ts'
import { jsonOf } from '../../../model/json-of.ts'

/** The line below has 186 bytes. What is longer is not parsed: whoever may write to the bucket chose it. */
const MOST_SIGNATURE_BYTES = 256

const signatureLine = z.strictObject({
  signature: z.base64().length(88),
  key_sha256: z.string().regex(/^[0-9a-f]{64}$/),
})

/** A public key's name: SHA-256 of it as DER. */
export function keyId(key: KeyObject): string {
  const open = key.type === 'private' ? createPublicKey(key) : key
  return sha256(open.export({ type: 'spki', format: 'der' }))
}

function ed25519(key: KeyObject): KeyObject {
  if (key.asymmetricKeyType !== 'ed25519')
    throw new Error(`the key is ${key.asymmetricKeyType ?? 'of no known kind'}, want Ed25519`)
  return key
}

/** Throws a plain error that holds nothing of the text. */
export function readSigningKey(pem: string): KeyObject {
  let key: KeyObject
  try {
    key = createPrivateKey(pem)
  } catch {
    throw new Error('it holds no private key in PEM without a passphrase')
  }
  return ed25519(key)
}

/** What `readSigningKey` would throw, as words; undefined: nothing. */
export function signingKeyFault(pem: string): string | undefined {
  try {
    readSigningKey(pem)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : 'it cannot be used'
  }
}

const pemBlock = /-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g

/** Every public key of a PEM text, by its id: after a rotation one file may hold the old and the new. */
export function readPublicKeys(pem: string): ReadonlyMap<string, KeyObject> {
  const blocks = pem.match(pemBlock) ?? []
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

/** The object: the manifest's line and its signature. Ed25519 gives the same signature for the same bytes. */
export function signedManifest(line: string, key: KeyObject): Uint8Array {
  const signature = sign(null, Buffer.from(line), key).toString('base64')
  return Buffer.from(`${line}${JSON.stringify({ signature, key_sha256: keyId(key) })}\n`)
}

export interface OpenedManifest {
  readonly manifest: Manifest
  /** of its line: what the next one's `previous` holds */
  readonly sha256: string
}

/** Checks form and signature. A text tells what is wrong. */
export function openManifest(
  body: Uint8Array,
  keys: ReadonlyMap<string, KeyObject>,
): OpenedManifest | string {
  const end = body.indexOf(10)
  if (end < 0 || body.at(-1) !== 10) return 'is cut: want two whole lines'
  const line = body.subarray(0, end + 1)
  const below = body.subarray(end + 1)
  const signed =
    below.length > MOST_SIGNATURE_BYTES ? undefined : readSignature(Buffer.from(below).toString())
  if (!signed) return 'has no signature line of the known form'
  const key = keys.get(signed.key_sha256)
  if (!key)
    return `is signed with a key that was not given (SHA-256 of it: ${signed.key_sha256}): somebody else made it, or the key was changed and the new public key must be given too`
  if (!verify(null, line, key, Buffer.from(signed.signature, 'base64')))
    return 'was changed: its signature does not fit'
  const manifest = readManifest(Buffer.from(line).toString())
  if (!manifest) return 'is signed, but is no manifest that this version knows: verify it with a newer one'
  if (manifest.key_sha256 !== signed.key_sha256)
    return 'names another key than the one that signed it: it was signed anew'
  return { manifest, sha256: sha256(line) }
}

/** Only as it was written: nothing may stand in the object that nothing checks. */
function readSignature(text: string): z.output<typeof signatureLine> | undefined {
  const found = jsonOf(signatureLine, text)
  return found && text === `${JSON.stringify(found)}\n` ? found : undefined
}
