// What the inventory remembers between two reads: digests of every project, its shares, and the
// position of the pass. Pure.
import type { Cursor } from '../../contracts/source.ts'
import type { Fields } from '../shared.ts'
import { areNumbers, isListOf, isNullOr, isText, openStored } from '../shared.ts'
import { storedId } from './digest.ts'

/** A recipient of a share: a user, or a whole workspace (spec §2.5). */
export interface Principal {
  readonly kind: 'user' | 'workspace'
  /** dest_user_id, or its replacement; '' for a workspace */
  readonly id: string
  /** dest_workspace_id with its digits as written */
  readonly workspace: string
  /** vault_folder_id if it is not the project itself */
  readonly folder: string
  /** dest_user_email as last seen: describes the user, but does not identify it */
  readonly email: string
}

/** One project as last reported. */
export interface Known {
  readonly id: string
  name: string
  /** is_knowledge_base_project; null: neither true nor false */
  flag: boolean | null
  /**
   * order-independent digest of all members except the flag and `sharing`; '': never readable, and
   * nothing was reported
   */
  content: string
  /** MARK characters per entry of the cursor's `fields`, from the bytes of the member */
  marks: string
  /** order-independent digest of `sharing`; '': not all of its shares are reported yet */
  sharing: string
  /** number of the last pass that saw it */
  seen: number
  /** pairs of indices into `principals` and `levels` */
  shares: number[]
}

/** A pass over the whole list, from its first page to its end. */
export interface Pass {
  readonly n: number
  readonly perPage: number
  /** its start by the server's clock, µs; 0: no answer yet */
  startedUs: number
  /** of the next request, from 1 */
  page: number
  /** distinct projects seen */
  seen: number
  /** how often a project came again in this pass */
  repeats: number
  /** elements without a readable id */
  nameless: number
  /** total in the pagination of the last page with elements; null: none */
  total: number | null
  /** whether the last page read was the last one by its pagination; null: it does not say */
  lastPage: boolean | null
  /** consecutive pages without anything new, and the projects on them */
  barren: number
  barrenRepeats: number
  /** epoch ms of its last page */
  at: number
}

/** The last completed pass. */
export type Ended = Pick<Pass, 'n' | 'startedUs' | 'seen' | 'repeats' | 'nameless' | 'total'>

export interface VaultCursor {
  readonly v: 1
  /** number of records so far, under the name that stored cursors use; each record has its own */
  told: number
  /** passes begun; a restarted one counts twice: odd ones read forwards, even ones backwards */
  passes: number
  pass: Pass | null
  last: Ended | null
  /** epoch ms of the next pass */
  dueAt: number
  /** consecutive early passes, to check whether projects are really gone */
  early: number
  /** names of members, in the order of `Known.marks` */
  fields: string[]
  principals: Principal[]
  levels: string[]
  projects: Map<string, Known>
}

/** The part that a plan needs. */
export type Planned = Pick<VaultCursor, 'pass' | 'last' | 'dueAt'>

export const plannedOf = ({ pass, last, dueAt }: VaultCursor): Planned => ({ pass, last, dueAt })

/** Length of a mark, in characters of base64url. */
export const MARK = 4
export const NO_MARK = '....'

type Stored = Omit<VaultCursor, 'projects' | 'principals'> & {
  readonly principals: readonly (readonly [string, string, string, string, string])[]
  readonly projects: readonly (readonly [
    id: string,
    name: string,
    flag: boolean | null,
    content: string,
    marks: string,
    sharing: string,
    seen: number,
    shares: number[],
  ])[]
}

function freshVaultCursor(now: number): VaultCursor {
  return {
    v: 1,
    told: 0,
    passes: 0,
    pass: null,
    last: null,
    dueAt: now,
    early: 0,
    fields: [],
    principals: [],
    levels: [],
    projects: new Map(),
  }
}

/** A copy that a step may change. Throws ConnectorError `journal_corrupt` if it cannot be read. */
export function openVaultCursor(text: Cursor | undefined, now: number, workspace: string): VaultCursor {
  if (text === undefined) return freshVaultCursor(now)
  const stored = openStored(text, { workspace, source: 'vault.projects', isWhole })
  return {
    ...stored,
    principals: stored.principals.map(([kind, id, inWorkspace, folder, email]) => ({
      kind: kind === 'u' ? 'user' : 'workspace',
      id,
      workspace: inWorkspace,
      folder,
      email,
    })),
    projects: new Map(
      stored.projects.map(([idText, name, flag, content, marks, sharing, seen, shares]) => {
        const id = storedId(idText)
        return [id, { id, name, flag, content, marks, sharing, seen, shares }]
      }),
    ),
  }
}

const isPass = (value: unknown) =>
  areNumbers(value, 'n', 'perPage', 'startedUs', 'page', 'seen', 'repeats', 'nameless', 'barren', 'at')
const isEnded = (value: unknown) => areNumbers(value, 'n', 'startedUs', 'seen', 'repeats', 'nameless')
const isPrincipal = (value: unknown) => isListOf(value, isText) && (value as unknown[]).length === 5

function isProject(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 8) return false
  const [id, name, flag, content, marks, sharing, seen, shares] = value as unknown[]
  return (
    [id, name, content, marks, sharing].every(isText) &&
    isNullOr(flag, (value) => typeof value === 'boolean') &&
    Number.isFinite(seen) &&
    isListOf(shares, Number.isFinite)
  )
}

function isWhole(fields: Fields): fields is Fields & Stored {
  return (
    areNumbers(fields, 'told', 'passes', 'dueAt', 'early') &&
    isNullOr(fields['pass'], isPass) &&
    isNullOr(fields['last'], isEnded) &&
    isListOf(fields['fields'], isText) &&
    isListOf(fields['levels'], isText) &&
    isListOf(fields['principals'], isPrincipal) &&
    isListOf(fields['projects'], isProject)
  )
}

/** At most about MAX_CURSOR_BYTES; about 200 bytes per project, and about six per share. */
export function closeVaultCursor(cursor: VaultCursor): Cursor {
  const stored: Stored = {
    ...cursor,
    principals: cursor.principals.map(({ kind, id, workspace, folder, email }) => [
      kind === 'user' ? 'u' : 'w',
      ...([id, workspace, folder, email] as const),
    ]),
    projects: Array.from(
      cursor.projects.values(),
      ({ id, name, flag, content, marks, sharing, seen, shares }) =>
        [id, name, flag, content, marks, sharing, seen, shares] as const,
    ),
  }
  return JSON.stringify(stored)
}

/** Removes principals and levels that no share uses any more. */
export function dropUnused(cursor: VaultCursor): void {
  const principals = new UsedRows(cursor.principals)
  const levels = new UsedRows(cursor.levels)
  for (const { shares } of cursor.projects.values())
    for (let i = 0; i < shares.length; i += 2) {
      shares[i] = principals.newIndex(shares[i] as number)
      shares[i + 1] = levels.newIndex(shares[i + 1] as number)
    }
  cursor.principals = principals.rows
  cursor.levels = levels.rows
}

class UsedRows<T> {
  readonly rows: T[] = []
  readonly #all: readonly T[]
  readonly #newIndexes = new Map<number, number>()

  constructor(all: readonly T[]) {
    this.#all = all
  }

  newIndex(index: number): number {
    const known = this.#newIndexes.get(index)
    if (known !== undefined) return known
    this.#newIndexes.set(index, this.rows.length)
    return this.rows.push(this.#all[index] as T) - 1
  }
}
