// How a page of the project list is asked for, and what an error in its place means.
import { ConnectorError } from '../model/errors.ts'
import { vaultPaths } from '../model/vault-paths.ts'
import type { Pass } from './vault-cursor.ts'

/**
 * By name, since nothing but a new, renamed or deleted project moves another one's place; by date every upload would. Every
 * second pass goes backwards: where names are equal and their order is left to chance, what one direction hides the other shows.
 */
export function pathOf({ n, page, perPage }: Pass): string {
  const order = n % 2 === 1 ? 'asc' : 'desc'
  return `${vaultPaths.workspaceProjects}?page=${page}&per_page=${perPage}&sort_by=name&sort_order=${order}`
}

/**
 * Behind the last page there may be an error in the place of an empty page (spec §7: 404 for what is not there). Where nobody
 * says which page is the last, a 404 is taken for the end: were it none, the next pass, which comes from the other end,
 * would see other projects, and nothing be proven.
 */
export function isEnd(error: unknown, { page, lastPage }: Pass): boolean {
  if (page === 1 || !(error instanceof ConnectorError)) return false
  if (error.code === 'not_found') return lastPage !== false
  return error.code === 'bad_request' && lastPage === true
}

/** The permission that is missing is said by its name. */
export function named(error: unknown): unknown {
  if (!(error instanceof ConnectorError) || error.code !== 'forbidden') return error
  return new ConnectorError(
    'forbidden',
    `${error.message}; the vault inventory needs the permission 'View workspace projects'`,
    { cause: error },
  )
}
