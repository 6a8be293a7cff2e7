// Whether a configuration that was read again is the one that runs: then there is nothing to take over.
import { createHash } from 'node:crypto'
import { Secret } from '../model/secret.ts'
import { policyFiles } from './policy.ts'
import type { Config } from './schema.ts'

/** What is not understood here is another one. */
export function isSameConfig(one: unknown, other: unknown): boolean {
  if (one instanceof Secret) return other instanceof Secret && one.isSame(other)
  if (Array.isArray(one))
    return (
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((item, index) => isSameConfig(item, other[index]))
    )
  if (!isPlain(one) || !isPlain(other)) return Object.is(one, other)
  const keys = Object.keys(one)
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSameConfig(one[key], other[key]))
  )
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

/** A digest of the keys that values are hashed with. A sink reads its key once, so a new key in the same file is a change of the configuration. */
export function hashKeysDigest({ sinks }: Config, read: (path: string) => string): string {
  const digest = createHash('sha256')
  for (const { path } of sinks.flatMap(({ redact }) => policyFiles(redact))) {
    let text = ''
    try {
      text = read(path)
    } catch {
      // The sink waits for it, and finds it by itself.
    }
    digest.update(`${path}\n${text.length}\n${text}\n`)
  }
  return digest.digest('hex')
}
