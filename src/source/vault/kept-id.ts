// How an id of the vault is kept, whatever its length.
import { hash } from 'node:crypto'

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
