// Digests that identify contents of the vault: of one value, or of many, independent of their
// order.
import { createHash, hash } from 'node:crypto'
import type { Hash } from 'node:crypto'

/** 64 bits: enough to distinguish contents, small enough to keep for each project. */
export function digestOf(key: string, value?: Uint8Array): string {
  const bytes = value ? Buffer.concat([Buffer.from(`${key}\0`), value]) : Buffer.from(key)
  return hash('sha256', bytes, 'base64url').slice(0, 11)
}

/** A page of 4 MB may have two million, and each takes fifty times its bytes in memory. */
const MAX_SORTED = 50_000

/** The digest of many values. After the first fifty thousand their order matters. */
export class Digests {
  readonly #sorted: string[] = []
  #rest: Hash | undefined

  add(key: string, value: Uint8Array): string {
    const digest = digestOf(key, value)
    if (this.#sorted.length < MAX_SORTED) this.#sorted.push(digest)
    else (this.#rest ??= createHash('sha256')).update(digest)
    return digest
  }

  together(): string {
    const rest = this.#rest ? [this.#rest.digest('base64url')] : []
    return digestOf([...this.#sorted.sort(), ...rest].join())
  }
}

// How ids of the vault are stored, for any length.

/** A UUID has 36. */
const MAX_ID_LENGTH = 64
/** A longer id is stored as this many characters and its hash, as long as the longest id. */
const ID_PREFIX_LENGTH = 20

/** The id as stored and reported; if too long, its first 20 characters, `#`, and its SHA-256. */
export function storedId(id: string): string {
  return id.length <= MAX_ID_LENGTH
    ? id
    : `${beginningOf(id, ID_PREFIX_LENGTH)}#${hash('sha256', id, 'base64url')}`
}

/** A separate copy: `slice` alone would keep the whole text in memory. */
export function beginningOf(text: string, length: number): string {
  return text.length <= length ? text : Buffer.from(text.slice(0, length), 'utf16le').toString('utf16le')
}
