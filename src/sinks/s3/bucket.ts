// What is asked of a bucket, and what it answers, in our own words.
import { DAY_MS } from '../../core/time.ts'
import type { S3Options } from './options.ts'

/** A body on the disk, or in memory where it is small. */
export interface Body {
  readonly bytes: number
  /** of the body, hex */
  readonly sha256: string
  read(): AsyncIterable<Uint8Array>
}

export interface PutOptions {
  readonly contentType: string
  /** epoch ms until which the object is locked; absent: not by us */
  readonly lockedUntil?: number | undefined
  /** Another checksum than the body's own: to see whether the server looks at it. */
  readonly claimedSha256?: string
}

/** `there`: the name was taken already. The rest is what the server said of what it did. */
export interface PutAnswer {
  readonly outcome: 'stored' | 'there'
  /** AES256, aws:kms or what else the server says */
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

// What sse and object_lock demand of an object, held against what the server says that it keeps. Pure.

export type Demands = Pick<S3Options, 'sse' | 'object_lock'>

/** `sse and object_lock`, of what is set; '' where nothing is. */
export const demandsText = ({ sse, object_lock: lock }: Demands): string =>
  [...(sse ? ['sse'] : []), ...(lock ? ['object_lock'] : [])].join(' and ')

/** In the words of S3. */
export const encryptionOf = (sse: NonNullable<S3Options['sse']>) => (sse.type === 's3' ? 'AES256' : 'aws:kms')

/** In the words of S3. */
export const lockModeOf = (lock: NonNullable<S3Options['object_lock']>) =>
  lock.mode === 'governance' ? 'GOVERNANCE' : 'COMPLIANCE'

const idOf = (key: string): string => key.slice(Math.max(key.lastIndexOf('/'), key.lastIndexOf(':')) + 1)

/** True for a name as AWS has them: there a key has no others, but for aliases. */
const isPlain = (key: string): boolean =>
  /^arn:[^/]*:key\/[^/]+$/.test(key) || /^(?:mrk-)?[0-9a-f-]{32,36}$/.test(key)

/** Whether two names mean one KMS key: each is an id, an ARN, or what a server that is not AWS calls it. `unknown`: they may mean one key, such as an alias. */
export function compareKeys(wanted: string, shown: string | undefined): 'same' | 'other' | 'unknown' {
  if (shown === undefined || /(?:^|:)alias\//.test(wanted)) return 'unknown'
  if (idOf(wanted) === idOf(shown)) return 'same'
  return isPlain(wanted) && isPlain(shown) ? 'other' : 'unknown'
}

/** Until when an object that is put now stays locked, epoch ms; undefined: it is not. Manifests are locked as the objects are. */
export const lockedUntil = ({ object_lock: lock }: Demands, now: number): number | undefined =>
  lock && now + lock.days * DAY_MS

/** The settings that an object which was stored by somebody else, or before they were set, does not have. */
export function lacking({ sse, object_lock: lock }: Demands, looked: Looked): readonly string[] {
  const encrypted =
    !sse ||
    (looked.encryption === encryptionOf(sse) &&
      (sse.kms_key_id === undefined || compareKeys(sse.kms_key_id, looked.kmsKeyId) !== 'other'))
  const mode = looked.lockedUntil === undefined ? undefined : looked.lockMode
  const locked = !lock || mode === lockModeOf(lock) || mode === 'COMPLIANCE'
  return [...(encrypted ? [] : ['sse']), ...(locked ? [] : ['object_lock'])]
}
