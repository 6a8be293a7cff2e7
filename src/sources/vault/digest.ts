// Digests by which contents of the vault are told apart: of one value, and of many together whatever order they come in.
import { createHash, hash } from 'node:crypto'
import type { Hash } from 'node:crypto'

/** 64 bits: enough to tell contents apart, few enough to keep for each project. */
export function digestOf(key: string, value?: Uint8Array): string {
  const bytes = value ? Buffer.concat([Buffer.from(`${key}\0`), value]) : Buffer.from(key)
  return hash('sha256', bytes, 'base64url').slice(0, 11)
}

/** A page of 4 MB may hold two million, and each takes fifty times its bytes in memory. */
const MOST_SORTED = 50_000

/** The digest of many. Behind the first fifty thousand their order counts. */
export class Digests {
  readonly #sorted: string[] = []
  #rest: Hash | undefined

  add(key: string, value: Uint8Array): string {
    const digest = digestOf(key, value)
    if (this.#sorted.length < MOST_SORTED) this.#sorted.push(digest)
    else (this.#rest ??= createHash('sha256')).update(digest)
    return digest
  }

  together(): string {
    const rest = this.#rest ? [this.#rest.digest('base64url')] : []
    return digestOf([...this.#sorted.sort(), ...rest].join())
  }
}

// How an id of the vault is kept, whatever its length.

/** A UUID has 36. */
const LONGEST_ID = 64
/** A longer id is kept as so much of its beginning and its hash: together as long as the longest id. */
const ID_HEAD = 20

/** The id as it is kept and told: one of more than 64 characters is its first 20, `#`, and its SHA-256 in base64url. */
export function keptId(id: string): string {
  return id.length <= LONGEST_ID ? id : `${headOf(id, ID_HEAD)}#${hash('sha256', id, 'base64url')}`
}

/** Characters of its own: `slice` alone would keep the whole text in memory. */
export function headOf(text: string, length: number): string {
  return text.length <= length ? text : Buffer.from(text.slice(0, length), 'utf16le').toString('utf16le')
}
