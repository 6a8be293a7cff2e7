// The bucket for evidence: manifests are stored in it, and a verifier finds them and the listed
// objects again.
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { readUpTo } from '../kit/http.ts'
import { lockedUntil, smallBody } from './bucket.ts'
import type { ManifestStore } from './evidence/evidence.ts'
import type { EvidenceStore } from './verify/objects.ts'
import { under } from './object-key.ts'
import type { S3Options } from './options.ts'
import { vanished } from './store.ts'
import type { Store } from './store.ts'

const contentType = 'application/x-ndjson'

export function manifestStore(
  store: Pick<Store, 'put' | 'fetch' | 'where'>,
  options: S3Options,
  clock: Clock,
): ManifestStore {
  const { prefix } = options
  return {
    async put(key, bytes, signal) {
      const put = { contentType, lockedUntil: lockedUntil(options, clock.now()) }
      return (await store.put(under(prefix, key), smallBody(bytes), put, signal)).outcome
    },
    async get(key, mostBytes, signal) {
      try {
        const body = await store.fetch(under(prefix, key), signal)
        if (body) return await readUpTo(body, mostBytes)
      } catch (error) {
        if (error instanceof ConnectorError && error.code === 'forbidden') return undefined
        throw error
      }
      throw vanished(store, key)
    },
  }
}

export function bucketEvidence(store: Store, prefix: string, signal: AbortSignal): EvidenceStore {
  const beginning = under(prefix, '')
  return {
    async *list(strange) {
      for await (const { key } of store.list(beginning, undefined, signal))
        if (key.startsWith(beginning)) yield key.slice(beginning.length)
        else strange(key, `was listed by the server under the prefix ${beginning}, which it does not have`)
    },
    get: (key) => store.fetch(under(prefix, key), signal),
  }
}
