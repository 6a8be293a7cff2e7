// Tests with throw-away objects how a server behaves: "compatible" servers differ in what matters
// here.
import { createHash } from 'node:crypto'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import type { CheckResult } from '../../contracts/sink.ts'
import { randomDigits } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { DAY_MS } from '../../core/time.ts'
import { compareKeys, encryptionOf, lockModeOf, smallBody } from './bucket.ts'
import type { Body, Looked, PutAnswer, PutOptions } from './bucket.ts'
import { under } from './object-key.ts'
import type { S3Options } from './options.ts'
import { ForeignAnswer } from './reply.ts'
import { lookIfAllowed } from './store.ts'
import type { Store } from './store.ts'

/** Programs that read tables from buckets ignore names that begin with a dot. */
const FOLDER = '.auditferry'
/** Long enough to be visible, short enough to expire soon. */
const LOCK_MS = 60_000

const contentType = 'text/plain'

const first = smallBody('auditferry: may be deleted\n')
const second = smallBody('auditferry: must not replace what is there\n')

const isDenied = (error: unknown): boolean =>
  error instanceof ConnectorError &&
  !(error instanceof ForeignAnswer) &&
  (error.code === 'forbidden' || error.code === 'misconfigured')

interface Probe {
  readonly store: Store
  readonly options: S3Options
  readonly now: () => number
  readonly signal: AbortSignal
}

function put(
  { store, signal }: Probe,
  key: string,
  body: Body,
  more: Partial<PutOptions> = {},
): Promise<PutAnswer> {
  return store.put(key, body, { contentType, ...more }, signal)
}

/** A lock of one minute; if a policy requires longer locks, as long as for real objects. */
async function putLocked(probe: Probe, key: string): Promise<PutAnswer> {
  const { object_lock: lock } = probe.options
  if (!lock) return put(probe, key, first)
  try {
    return await put(probe, key, first, { lockedUntil: probe.now() + LOCK_MS })
  } catch (error) {
    if (!(error instanceof ConnectorError) || error.code !== 'forbidden') throw error
    return await put(probe, key, first, { lockedUntil: probe.now() + lock.days * DAY_MS })
  }
}

async function putAgain(probe: Probe, key: string): Promise<Manners['again']> {
  try {
    return (await put(probe, key, second)).outcome === 'exists' ? 'refused' : 'replaced'
  } catch (error) {
    if (isDenied(error)) return 'denied'
    throw error
  }
}

/** True if the server accepts a body under another checksum. */
async function takesWrongChecksum(probe: Probe, key: string): Promise<boolean> {
  try {
    await put(probe, key, first, { claimedSha256: second.sha256 })
    return true
  } catch (error) {
    if (error instanceof ConnectorError && error.action === 'stop') throw error
    return false
  }
}

async function examine(probe: Probe, key: string): Promise<Manners> {
  const answer = await putLocked(probe, key)
  // A name that was taken already has shown that a second put is refused.
  const again = answer.outcome === 'exists' ? 'refused' : await putAgain(probe, key)
  const looked = await lookIfAllowed(probe.store, key, probe.signal)
  const { encryption, kmsKeyId } = answer
  return { encryption, kmsKeyId, again, looked, sha256: first.sha256, bytes: first.bytes }
}

/** True if it was removed, as far as the answers show. */
async function removed({ store, signal }: Probe, keys: readonly string[]): Promise<boolean> {
  const all = await Promise.allSettled(keys.map((key) => store.remove(key, signal)))
  return all.every(({ status }) => status === 'fulfilled')
}

type Environment = Pick<SinkDeps, 'clock' | 'random'>

/** Runs every test, for `validate --connect`. Never throws. */
export async function checkBucket(
  store: Store,
  options: S3Options,
  { clock, random }: Environment,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const probe = { store, options, now: () => clock.now(), signal }
  const key = under(options.prefix, `${FOLDER}/check-${randomDigits(random, 12)}`)
  const made = [key]
  try {
    const manners = await examine(probe, key)
    made.push(`${key}-checksum`)
    const wrongChecksum = await takesWrongChecksum(probe, `${key}-checksum`)
    const clean = await removed(probe, made)
    const left: CheckResult = {
      what: `${store.where}, clean-up`,
      ok: true,
      message: clean
        ? 'what this check wrote is removed'
        : `this key may not delete, as it should be: remove ${under(options.prefix, FOLDER)}/ by a lifecycle rule`,
    }
    return [...verdicts(store.where, options, { ...manners, wrongChecksum }), left]
  } catch (error) {
    await removed(probe, made).catch(() => false)
    const message = error instanceof Error ? error.message : 'could not be asked'
    return [{ what: store.where, ok: false, message }]
  }
}

/**
 * Runs before the first object of a process. Throws `misconfigured` if the server ignores a
 * requirement. Its object stays, under one name for each set of requirements: the next start tests
 * with it that a second put is refused.
 */
export async function proveBucket(
  store: Store,
  options: S3Options,
  { clock }: Environment,
  signal: AbortSignal,
): Promise<void> {
  const { sse, object_lock: lock } = options
  const demands = createHash('sha256').update(JSON.stringify({ sse, lock })).digest('hex').slice(0, 8)
  const key = under(options.prefix, `${FOLDER}/probe-${demands}`)
  const manners = await examine({ store, options, now: () => clock.now(), signal }, key)
  const fault = verdicts(store.where, options, manners).find(({ ok }) => !ok)
  if (fault) throw new ConnectorError('misconfigured', `${fault.what}: ${fault.message}`)
}

// What a server's behaviour means for this configuration: a requirement that it ignores is a fault,
// the rest is reported.

interface Manners {
  /** as in the answer to the first put */
  readonly encryption: string | undefined
  readonly kmsKeyId?: string | undefined
  /** the outcome of a second put under the same name */
  readonly again: 'refused' | 'replaced' | 'denied'
  /** `denied`: this key may not read; undefined: missing although it was reported as stored */
  readonly looked: Looked | 'denied' | undefined
  /** of the body that was put, hex */
  readonly sha256: string
  readonly bytes: number
  /** a body under another checksum was accepted; absent: not tested */
  readonly wrongChecksum?: boolean
}

const readOf = ({ looked }: Manners): Looked | undefined => (typeof looked === 'object' ? looked : undefined)

const otherServer = 'something other than the bucket may be answering; check endpoint, proxy and portal'

function write({ again, looked, bytes }: Manners): Omit<CheckResult, 'what'> {
  if (looked === undefined)
    return { ok: false, message: `an object that was reported as stored is missing: ${otherServer}` }
  // An object that was replaced has the length of the other; some servers report no length.
  if (again === 'refused' && looked !== 'denied' && looked.bytes > 0 && looked.bytes !== bytes)
    return { ok: false, message: `a stored object has another length: ${otherServer}` }
  return { ok: true, message: 'objects can be written' }
}

function once({ again }: Manners): Omit<CheckResult, 'what'> {
  if (again === 'refused') return { ok: true, message: 'a second object under one name is refused (412)' }
  if (again === 'denied')
    return {
      ok: false,
      message:
        'a second object under one name is refused as forbidden, not as already there (412): a retry would stay blocked. With Object Lock the bucket needs versioning',
    }
  return {
    ok: false,
    message:
      'a second object under one name replaces the first: If-None-Match is ignored (Garage does so, and Ceph before version 18 in versioned buckets), so a retry cannot be distinguished from a new object',
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
    message: `sse is set and the server ignores it: objects would be unencrypted, or encrypted differently. Use a server that encrypts, or remove sse`,
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
        'objects are encrypted with another KMS key than sse.kms_key_id names: check the key, and the defaults of the bucket and the server',
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
      'object_lock is set and the server ignores it: objects could be deleted at any time. Use a bucket with Object Lock on a server that supports it, or remove object_lock. At AWS a role that may read and lacks s3:GetObjectRetention sees no lock either: grant it',
  }
}

/** Never a fault: the object's name and the signature contain a hash as well. */
function checksums({ endpoint }: S3Options, manners: Manners): Omit<CheckResult, 'what'> {
  const read = readOf(manners)
  const kept = read?.sha256 === Buffer.from(manners.sha256, 'hex').toString('base64')
  if (manners.wrongChecksum === true) {
    const isPlain = endpoint?.toLowerCase().startsWith('http://') === true
    const noticed = isPlain ? 'not noticed: endpoint is plain http, without TLS' : 'noticed by TLS alone'
    return {
      ok: true,
      message: `the server does not compare checksums: damage in transit is ${noticed}`,
    }
  }
  if (manners.looked === 'denied') return { ok: true, message: 'checksums are compared' }
  return {
    ok: true,
    message: kept ? 'checksums are compared and kept' : 'the server keeps no SHA-256 of its objects',
  }
}

/** @internal for tests */
export function verdicts(where: string, options: S3Options, manners: Manners): readonly CheckResult[] {
  const given = {
    write: write(manners),
    'once only': once(manners),
    encryption: encryption(options, manners),
    'object lock': lock(options, manners),
    checksums: checksums(options, manners),
  }
  return Object.entries(given).flatMap(([what, verdict]) =>
    verdict ? [{ what: `${where}, ${what}`, ...verdict }] : [],
  )
}
