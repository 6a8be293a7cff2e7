// What the inventory keeps at most, whatever the list says: tables, pages, and its cursor as a whole.
import { ConnectorError } from '../../core/errors.ts'
import type { VaultCursor } from './cursor.ts'

/**
 * Some 27,000 projects. In a pass the cursor is in memory opened, as text, and on its way to disk: about 32 times its bytes at
 * the worst, and all of the process must stay under 256 MB.
 */
const MOST_CURSOR_BYTES = 4 * 1024 * 1024
/** Pages of 100 are asked for; a list that comes whole in one may have as much as the inventory can hold, and each element takes memory beside its bytes. */
const MOST_ON_A_PAGE = 30_000
/** The API's permission levels are a handful. */
export const MOST_LEVELS = 1000
export const MOST_PRINCIPALS = 50_000
/** Quotes, commas and brackets of a row, the flag and the pass that saw it. */
const PROJECT_BYTES = 40
const SHARE_BYTES = 6
const PRINCIPAL_BYTES = 20

const bytesOf = (text: string): number => Buffer.byteLength(text)

/** About what `closeVaultCursor` would make of it. */
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

/** Throws ConnectorError `misconfigured` where the inventory is larger than may be held. */
export function checkWeight(cursor: VaultCursor, workspace: string): void {
  if (weightOf(cursor) <= MOST_CURSOR_BYTES) return
  throw beyond(
    `What is to be kept of the vault of workspace ${workspace} exceeds ${MOST_CURSOR_BYTES / 1024 / 1024} MiB at ${cursor.projects.size} projects and ${cursor.principals.length} users and workspaces`,
  )
}

/** Throws ConnectorError `misconfigured` where one page lists more than may be held. */
export function checkPage(listed: number): void {
  if (listed > MOST_ON_A_PAGE)
    throw beyond(`One page of the vault's list has more than ${MOST_ON_A_PAGE} elements`)
}

/** Throws ConnectorError `misconfigured` where a table of the cursor is full. */
export function checkTable(table: readonly unknown[], most: number, what: string): void {
  if (table.length >= most) throw beyond(`The vault's shares name more than ${most} different ${what}`)
}

const beyond = (what: string) =>
  new ConnectorError(
    'misconfigured',
    `${what}, which is more than the inventory can hold (docs/sources/vault.md): use a key that sees fewer projects, or switch vault.projects off`,
  )
