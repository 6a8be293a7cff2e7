// A bucket as the evidence sees it: where manifests are put, and where a verifier finds them again with all that they list.
import type { Clock } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import { DAY_MS } from '../../model/time.ts'
import type { ManifestStore } from './evidence.ts'
import type { EvidenceStore } from './evidence-objects.ts'
import { under } from './key.ts'
import { sha256 } from './manifest.ts'
import type { S3Options } from './options.ts'
import type { Body } from './bucket.ts'
import type { Store } from './store.ts'

const contentType = 'application/x-ndjson'

function bodyOf(bytes: Uint8Array): Body {
  return {
    bytes: bytes.length,
    sha256: sha256(bytes),
    async *read() {
      yield bytes
    },
  }
}

/** Manifests are locked as the objects are. */
export function manifestStore(
  store: Pick<Store, 'put' | 'fetch' | 'where'>,
  options: S3Options,
  clock: Clock,
): ManifestStore {
  const { prefix, object_lock: lock } = options
  return {
    async put(key, bytes, signal) {
      const lockedUntil = lock && clock.now() + lock.days * DAY_MS
      const put = { contentType, lockedUntil }
      return (await store.put(under(prefix, key), bodyOf(bytes), put, signal)).outcome
    },
    async get(key, mostBytes, signal) {
      try {
        const body = await store.fetch(under(prefix, key), signal)
        if (body) return await beginningOf(body, mostBytes)
      } catch (error) {
        if (error instanceof ConnectorError && error.code === 'forbidden') return undefined
        throw error
      }
      throw new ConnectorError('bad_reply', `${store.where}: ${key} was taken a moment ago, and is not there`)
    },
  }
}

/** Whoever may write to the bucket says how long a body is: what is beyond is not read. */
async function beginningOf(body: AsyncIterable<Uint8Array>, mostBytes: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body) {
    parts.push(part.subarray(0, mostBytes - bytes))
    bytes += part.length
    if (bytes >= mostBytes) break
  }
  return Buffer.concat(parts)
}

export function bucketEvidence(store: Store, prefix: string, signal: AbortSignal): EvidenceStore {
  const beginning = under(prefix, '')
  return {
    async *list() {
      for await (const { key } of store.list(beginning, undefined, signal)) yield key.slice(beginning.length)
    },
    get: (key) => store.fetch(under(prefix, key), signal),
  }
}
