// How a page of the project list is asked for, in which size, and what an error in its place means.
import { ConnectorError } from '../../model/errors.ts'
import { vaultPaths } from '../../model/vault-paths.ts'
import { isTooMuch } from '../answer/errors.ts'
import type { Pass } from './cursor.ts'

/** The most that a page may hold (spec §4.3), and in which steps it is narrowed where an answer is too large. */
const PAGE_SIZES = [100, 25, 5, 1] as const
export const [LARGEST_PAGE] = PAGE_SIZES
/** What may be chance is asked for once more in the same size. */
const CHANCE_TRIES = 2

export const smallerThan = (perPage: number): number | undefined => PAGE_SIZES.find((size) => size < perPage)

/**
 * The size of pages where they fail. That may be their size or an outage: when the smaller ones come through, the largest
 * are tried once more, so that an outage does not leave a long list to be read project by project.
 */
export class PageSize {
  #failures = 0
  #doubt: 'none' | 'narrowed' | 'answered' | 'settled' = 'none'

  /** Where the page is not to be asked for as it was, the pass begins again. What fails in every size is no matter of size. */
  failed(error: unknown, perPage: number, beginAgain: (perPage: number) => void): void {
    if (!isTooMuch(error, false) || ++this.#failures < CHANCE_TRIES) return
    this.#failures = 0
    const smaller = smallerThan(perPage)
    // All before this one project came: beginning again would read all of it again, without a pause, and end here.
    if (this.#doubt === 'settled' && smaller === undefined) return
    if (this.#doubt !== 'settled') this.#doubt = 'narrowed'
    beginAgain(smaller ?? LARGEST_PAGE)
  }

  answered(isOver: boolean): void {
    this.#failures = 0
    if (isOver) this.#doubt = 'none'
    else if (this.#doubt === 'narrowed') this.#doubt = 'answered'
  }

  /** The pass that goes on; undefined: it is to begin again with the largest pages, once. */
  underWay(pass: Pass | undefined): Pass | undefined {
    if (this.#doubt !== 'answered') return pass
    this.#doubt = 'settled'
    return undefined
  }
}

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

/** The same error; one of a permission that is missing says its name. */
export function withPermission(error: unknown): unknown {
  if (!(error instanceof ConnectorError) || error.code !== 'forbidden') return error
  return new ConnectorError(
    'forbidden',
    `${error.message}; the vault inventory needs the permission 'View workspace projects'`,
    { cause: error },
  )
}
