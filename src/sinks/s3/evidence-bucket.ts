// The bucket for evidence: manifests are stored in it, and a verifier finds them and the listed
// objects again.
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { readUpTo } from '../kit/http.ts'
import { lockedUntil } from './bucket.ts'
import type { ManifestStore } from './evidence/evidence.ts'
import type { EvidenceStore } from './verify/objects.ts'
import { under } from './object-key.ts'
import { sha256 } from './evidence/manifest.ts'
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

export function manifestStore(
  store: Pick<Store, 'put' | 'fetch' | 'where'>,
  options: S3Options,
  clock: Clock,
): ManifestStore {
  const { prefix } = options
  return {
    async put(key, bytes, signal) {
      const put = { contentType, lockedUntil: lockedUntil(options, clock.now()) }
      return (await store.put(under(prefix, key), bodyOf(bytes), put, signal)).outcome
    },
    async get(key, mostBytes, signal) {
      try {
        const body = await store.fetch(under(prefix, key), signal)
        if (body) return await readUpTo(body, mostBytes)
      } catch (error) {
        if (error instanceof ConnectorError && error.code === 'forbidden') return undefined
        throw error
      }
      throw new ConnectorError(
        'bad_reply',
        `${store.where}: the server said that ${key} exists, and then did not find it; another program may delete objects there. It is tried again`,
      )
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
