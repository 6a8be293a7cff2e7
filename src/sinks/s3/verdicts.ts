// From what a server did to what that means for this configuration: demanded and ignored is a fault, the rest is told.
import type { CheckResult } from '../../model/sink.ts'
import type { S3Options } from './options.ts'
import type { Looked } from './bucket/bucket.ts'
import { compareKeys, encryptionOf, lockModeOf } from './bucket/demands.ts'

export interface Manners {
  /** what the answer to the first put said */
  readonly encryption: string | undefined
  readonly kmsKeyId?: string | undefined
  /** what became of a second put under the same name */
  readonly again: 'refused' | 'replaced' | 'denied'
  /** `denied`: this key may not read; undefined: not there although it was told to be */
  readonly looked: Looked | 'denied' | undefined
  /** of the body that was put, hex */
  readonly sha256: string
  readonly bytes: number
  /** a body under another checksum was taken; absent: not asked */
  readonly wrongChecksum?: boolean
  /** of several puts at once under one name; absent: not asked */
  readonly winners?: number
}

const readOf = ({ looked }: Manners): Looked | undefined => (typeof looked === 'object' ? looked : undefined)

const stranger =
  'something that is not the bucket may be answering in its place; check endpoint, proxy and portal'

function write({ again, looked, bytes }: Manners): Omit<CheckResult, 'what'> {
  if (looked === undefined)
    return { ok: false, message: `an object that was told to be stored is not there: ${stranger}` }
  // One that was replaced has the other's length; some servers tell none.
  if (again === 'refused' && looked !== 'denied' && looked.bytes > 0 && looked.bytes !== bytes)
    return { ok: false, message: `an object that was stored is there of another length: ${stranger}` }
  return { ok: true, message: 'objects can be written' }
}

function once({ again }: Manners): Omit<CheckResult, 'what'> {
  if (again === 'refused') return { ok: true, message: 'a second object under one name is refused (412)' }
  if (again === 'denied')
    return {
      ok: false,
      message:
        'a second object under one name is refused as forbidden, not as already there (412): a retry would be held for ever. With Object Lock the bucket wants versioning',
    }
  return {
    ok: false,
    message:
      'a second object under one name replaces the first: If-None-Match is ignored (Garage does so, and Ceph before version 18 in versioned buckets), so a retry could not be told from a new object',
  }
}

function encryption(options: S3Options, manners: Manners): Omit<CheckResult, 'what'> | undefined {
  const { sse } = options
  if (!sse) return undefined
  const wanted = encryptionOf(sse)
  const read = readOf(manners)
  const shown = read?.encryption ?? manners.encryption
  if (shown === wanted) return keyOf(sse.kms_key_id, read?.kmsKeyId ?? manners.kmsKeyId, wanted)
  if (shown === undefined && manners.looked === 'denied' && manners.again === 'refused')
    return { ok: true, message: 'this key may not read: whether objects are encrypted could not be seen' }
  return {
    ok: false,
    message: `sse is set and the server ignores it: objects would lie unencrypted or otherwise encrypted. Take a server that encrypts, or leave sse out`,
  }
}

function keyOf(
  wanted: string | undefined,
  shown: string | undefined,
  how: string,
): Omit<CheckResult, 'what'> {
  const which = wanted === undefined ? 'same' : compareKeys(wanted, shown)
  if (which === 'other')
    return {
      ok: false,
      message:
        'objects are encrypted with another KMS key than sse.kms_key_id names: check the key, and what the bucket and the server set by themselves',
    }
  const unseen = which === 'same' ? '' : '; whether with the key of sse.kms_key_id could not be compared'
  return { ok: true, message: `objects are encrypted as asked (${how})${unseen}` }
}

function lock(options: S3Options, manners: Manners): Omit<CheckResult, 'what'> | undefined {
  if (!options.object_lock) return undefined
  if (manners.looked === 'denied')
    return { ok: true, message: 'this key may not read: whether objects are locked could not be seen' }
  const read = readOf(manners)
  const wanted = lockModeOf(options.object_lock)
  if (read?.lockMode === wanted && read.lockedUntil !== undefined)
    return { ok: true, message: `objects are locked as asked (${wanted})` }
  return {
    ok: false,
    message:
      'object_lock is set and the server ignores it: objects could be deleted at any time. Take a bucket with Object Lock on a server that has it, or leave object_lock out. At AWS a role that may read and lacks s3:GetObjectRetention sees no lock either: grant it',
  }
}

/** Never a fault: the name of an object and the signature hold a hash as well. */
function checksums({ endpoint }: S3Options, manners: Manners): Omit<CheckResult, 'what'> {
  const read = readOf(manners)
  const kept = read?.sha256 === Buffer.from(manners.sha256, 'hex').toString('base64')
  if (manners.wrongChecksum === true) {
    const isPlain = endpoint?.toLowerCase().startsWith('http://') === true
    const noticed = isPlain ? 'not noticed: endpoint is plain http, without TLS' : 'noticed by TLS alone'
    return {
      ok: true,
      message: `the server does not compare checksums: what is damaged on the way is ${noticed}`,
    }
  }
  if (manners.looked === 'denied') return { ok: true, message: 'checksums are compared' }
  return {
    ok: true,
    message: kept ? 'checksums are compared and kept' : 'the server keeps no SHA-256 of its objects',
  }
}

function race({ winners }: Manners): Omit<CheckResult, 'what'> | undefined {
  if (winners === undefined || winners <= 1) return undefined
  return {
    ok: true,
    message: `of several objects at once under one name ${winners} were told to be the first: nothing is lost, since one name stands for one content`,
  }
}

export function verdicts(where: string, options: S3Options, manners: Manners): readonly CheckResult[] {
  const given = {
    write: write(manners),
    'once only': once(manners),
    encryption: encryption(options, manners),
    'object lock': lock(options, manners),
    checksums: checksums(options, manners),
    'at once': race(manners),
  }
  return Object.entries(given).flatMap(([what, verdict]) =>
    verdict ? [{ what: `${where}, ${what}`, ...verdict }] : [],
  )
}
