// Upper bounds of the inventory, independent of the list: tables, pages, and the whole cursor.
import { ConnectorError } from '../../core/errors.ts'
import type { VaultCursor } from './cursor.ts'

/**
 * About 27,000 projects. During a pass the cursor is in memory opened, as text, and on its way to
 * disk: in the worst case about 32 times its bytes, and the whole process must stay under 256 MB.
 */
const MAX_CURSOR_BYTES = 4 * 1024 * 1024
/**
 * Requests ask for pages of 100; a list that comes in one page may have as much as the inventory
 * can hold, and each element takes memory beside its bytes.
 */
const MAX_ON_A_PAGE = 30_000
/** The API has only a handful of permission levels. */
export const MAX_PERMISSION_LEVELS = 1000
export const MAX_PRINCIPALS = 50_000
/** Quotes, commas and brackets of a row, the flag, and the number of the pass that saw it. */
const PROJECT_BYTES = 40
const SHARE_BYTES = 6
const PRINCIPAL_BYTES = 20

const bytesOf = (text: string): number => Buffer.byteLength(text)

/** About the length of the result of `closeVaultCursor`. */
function weightOf({ projects, principals, levels }: VaultCursor): number {
  let bytes = 0
  for (const { id, name, content, marks, sharing, shares } of projects.values()) {
    bytes += PROJECT_BYTES + bytesOf(id) + bytesOf(name) + content.length + marks.length + sharing.length
    bytes += (shares.length / 2) * SHARE_BYTES
  }
  for (const { id, workspace, folder, email } of principals)
    bytes += PRINCIPAL_BYTES + bytesOf(id) + bytesOf(workspace) + bytesOf(folder) + bytesOf(email)
  for (const level of levels) bytes += bytesOf(level)
  return bytes
}

/** Throws ConnectorError `misconfigured` if the inventory is larger than allowed. */
export function checkWeight(cursor: VaultCursor, workspace: string): void {
  if (weightOf(cursor) <= MAX_CURSOR_BYTES) return
  throw overLimit(
    `The inventory of the vault of workspace ${workspace} exceeds ${MAX_CURSOR_BYTES / 1024 / 1024} MiB at ${cursor.projects.size} projects and ${cursor.principals.length} users and workspaces`,
  )
}

/** Throws ConnectorError `misconfigured` if one page has more elements than allowed. */
export function checkPage(listed: number): void {
  if (listed > MAX_ON_A_PAGE)
    throw overLimit(`One page of the vault's list has more than ${MAX_ON_A_PAGE} elements`)
}

/** Throws ConnectorError `misconfigured` if a table of the cursor is full. */
export function checkTable(table: readonly unknown[], max: number, what: string): void {
  if (table.length >= max) throw overLimit(`The vault's shares name more than ${max} different ${what}`)
}

const overLimit = (what: string) =>
  new ConnectorError(
    'misconfigured',
    `${what}, which exceeds the limit of the inventory (docs/sources/vault.md): use a key that sees fewer projects, or switch off vault.projects`,
  )
