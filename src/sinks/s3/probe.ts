// What a server really does, asked by throw-away objects: servers that are "compatible" differ just where it counts.
import { createHash } from 'node:crypto'
import { ConnectorError } from '../../model/errors.ts'
import { randomDigits } from '../../model/random.ts'
import type { CheckResult } from '../../model/sink.ts'
import type { SinkDeps } from '../../model/sink-kind.ts'
import { DAY_MS } from '../../model/time.ts'
import { under } from './key.ts'
import type { S3Options } from './options.ts'
import { StrangersAnswer } from './bucket/answer.ts'
import type { Body, PutAnswer, PutOptions } from './bucket/bucket.ts'
import type { Store } from './bucket/store.ts'
import { lookIfAllowed } from './bucket/looking.ts'
import { type Manners, verdicts } from './verdicts.ts'

/** Hidden to what reads tables out of buckets: names that begin with a dot are. */
const FOLDER = '.auditferry'
/** Long enough to be seen, short enough to be gone soon. */
const LOCK_MS = 60_000
const RACERS = 8

const contentType = 'text/plain'

function bodyOf(text: string): Body {
  const bytes = Buffer.from(text)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  return {
    bytes: bytes.length,
    sha256,
    async *read() {
      yield bytes
    },
  }
}

const first = bodyOf('auditferry: may be deleted\n')
const second = bodyOf('auditferry: must not replace what is there\n')

const isDenied = (error: unknown): boolean =>
  error instanceof ConnectorError &&
  !(error instanceof StrangersAnswer) &&
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

/** A lock of a minute; where a policy wants it longer, of the length that real objects get. */
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
    return (await put(probe, key, second)).outcome === 'there' ? 'refused' : 'replaced'
  } catch (error) {
    if (isDenied(error)) return 'denied'
    throw error
  }
}

/** True when a body under another checksum is taken. */
async function takesWrongChecksum(probe: Probe, key: string): Promise<boolean> {
  try {
    await put(probe, key, first, { claimedSha256: second.sha256 })
    return true
  } catch (error) {
    if (error instanceof ConnectorError && error.action === 'stop') throw error
    return false
  }
}

/** How many of several at once are told that they were first. */
async function winners(probe: Probe, key: string): Promise<number> {
  const racing = Array.from({ length: RACERS }, (_, i) => put(probe, key, bodyOf(`auditferry: racer ${i}\n`)))
  const ended = await Promise.allSettled(racing)
  return ended.filter((each) => each.status === 'fulfilled' && each.value.outcome === 'stored').length
}

async function examine(probe: Probe, key: string): Promise<Manners> {
  const answer = await putLocked(probe, key)
  // A name that was taken when we came has shown what is asked here.
  const again = answer.outcome === 'there' ? 'refused' : await putAgain(probe, key)
  const looked = await lookIfAllowed(probe.store, key, probe.signal)
  const { encryption, kmsKeyId } = answer
  return { encryption, kmsKeyId, again, looked, sha256: first.sha256, bytes: first.bytes }
}

/** True when it could be removed, as far as one is told. */
async function removed({ store, signal }: Probe, keys: readonly string[]): Promise<boolean> {
  const all = await Promise.allSettled(keys.map((key) => store.remove(key, signal)))
  return all.every(({ status }) => status === 'fulfilled')
}

type Outside = Pick<SinkDeps, 'clock' | 'random'>

/** Everything that can be found out, for `validate --connect`. Throws nothing. */
export async function checkBucket(
  store: Store,
  options: S3Options,
  { clock, random }: Outside,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const probe = { store, options, now: () => clock.now(), signal }
  const key = under(options.prefix, `${FOLDER}/check-${randomDigits(random, 12)}`)
  const made = [key]
  try {
    const manners = await examine(probe, key)
    made.push(`${key}-checksum`, `${key}-race`)
    const wrongChecksum = await takesWrongChecksum(probe, `${key}-checksum`)
    const racers = await winners(probe, `${key}-race`)
    const clean = await removed(probe, made)
    const left: CheckResult = {
      what: `${store.where}, clean-up`,
      ok: true,
      message: clean
        ? 'what this check wrote is removed'
        : `this key may not delete, as it should be: remove ${under(options.prefix, FOLDER)}/ by a lifecycle rule`,
    }
    return [...verdicts(store.where, options, { ...manners, wrongChecksum, winners: racers }), left]
  } catch (error) {
    await removed(probe, made).catch(() => false)
    const message = error instanceof Error ? error.message : 'could not be asked'
    return [{ what: store.where, ok: false, message }]
  }
}

/**
 * Before the first object of a process. Throws `misconfigured` when the server ignores what the configuration demands. Its
 * object has one name for each set of demands and stays: the next start finds it there, which answers the first question.
 */
export async function proveBucket(
  store: Store,
  options: S3Options,
  { clock }: Outside,
  signal: AbortSignal,
): Promise<void> {
  const { sse, object_lock: lock } = options
  const demands = createHash('sha256').update(JSON.stringify({ sse, lock })).digest('hex').slice(0, 8)
  const key = under(options.prefix, `${FOLDER}/probe-${demands}`)
  const manners = await examine({ store, options, now: () => clock.now(), signal }, key)
  const fault = verdicts(store.where, options, manners).find(({ ok }) => !ok)
  if (fault) throw new ConnectorError('misconfigured', `${fault.what}: ${fault.message}`)
}
