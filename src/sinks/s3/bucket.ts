// The requests to a bucket and its answers, as our own types.
import { createHash } from 'node:crypto'
import { DAY_MS } from '../../core/time.ts'
import type { S3Options } from './options.ts'

/** A body on the disk, or in memory where it is small. */
export interface Body {
  readonly bytes: number
  /** of the body, hex */
  readonly sha256: string
  read(): AsyncIterable<Uint8Array>
}

export function smallBody(content: string | Uint8Array): Body {
  const bytes = Buffer.from(content)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  return {
    bytes: bytes.length,
    sha256,
    async *read() {
      yield bytes
    },
  }
}

export interface PutOptions {
  readonly contentType: string
  /** epoch ms until which the object is locked; absent: we set no lock */
  readonly lockedUntil?: number | undefined
  /** A checksum that is not the body's, to test whether the server verifies it. */
  readonly claimedSha256?: string
}

/** `exists`: the name was already taken. The other fields are what the server reports. */
export interface PutAnswer {
  readonly outcome: 'stored' | 'exists'
  /** AES256, aws:kms or another value of the server */
  readonly encryption: string | undefined
  readonly kmsKeyId?: string | undefined
}

export interface Looked {
  readonly bytes: number
  readonly encryption: string | undefined
  readonly kmsKeyId: string | undefined
  readonly lockMode: string | undefined
  /** epoch ms */
  readonly lockedUntil: number | undefined
  /** base64, as the server keeps it */
  readonly sha256: string | undefined
}

export interface ListedObject {
  readonly key: string
  readonly bytes: number
}

// Compares what sse and object_lock require of an object with what the server reports. Pure.

export type Demands = Pick<S3Options, 'sse' | 'object_lock'>

/** `sse and object_lock`, as far as they are set; '' if neither is. */
export const demandsText = ({ sse, object_lock: lock }: Demands): string =>
  [...(sse ? ['sse'] : []), ...(lock ? ['object_lock'] : [])].join(' and ')

/** As S3 spells it. */
export const encryptionOf = (sse: NonNullable<S3Options['sse']>) => (sse.type === 's3' ? 'AES256' : 'aws:kms')

/** As S3 spells it. */
export const lockModeOf = (lock: NonNullable<S3Options['object_lock']>) =>
  lock.mode === 'governance' ? 'GOVERNANCE' : 'COMPLIANCE'

const idOf = (key: string): string => key.slice(Math.max(key.lastIndexOf('/'), key.lastIndexOf(':')) + 1)

/** True for a key name of AWS that is not an alias. */
const isPlain = (key: string): boolean =>
  /^arn:[^/]*:key\/[^/]+$/.test(key) || /^(?:mrk-)?[0-9a-f-]{32,36}$/.test(key)

/**
 * Compares two names of KMS keys: an id, an ARN, or another server's own name. `unknown`: they may
 * mean the same key, as with an alias.
 */
export function compareKeys(wanted: string, shown: string | undefined): 'same' | 'other' | 'unknown' {
  if (shown === undefined || /(?:^|:)alias\//.test(wanted)) return 'unknown'
  if (idOf(wanted) === idOf(shown)) return 'same'
  return isPlain(wanted) && isPlain(shown) ? 'other' : 'unknown'
}

/** Epoch ms until which an object or manifest that is put now stays locked; undefined: no lock. */
export const lockedUntil = ({ object_lock: lock }: Demands, now: number): number | undefined =>
  lock && now + lock.days * DAY_MS

/** The settings that an object lacks: it is older than they are, or another program stored it. */
export function lacking({ sse, object_lock: lock }: Demands, looked: Looked): readonly string[] {
  const encrypted =
    !sse ||
    (looked.encryption === encryptionOf(sse) &&
      (sse.kms_key_id === undefined || compareKeys(sse.kms_key_id, looked.kmsKeyId) !== 'other'))
  const mode = looked.lockedUntil === undefined ? undefined : looked.lockMode
  const locked = !lock || mode === lockModeOf(lock) || mode === 'COMPLIANCE'
  return [...(encrypted ? [] : ['sse']), ...(locked ? [] : ['object_lock'])]
}
