// The shares of a project (spec §2.5), read from the bytes of its `sharing`, and their changes.
import { OPEN_ARRAY } from '../../core/bytes.ts'
import { eachElement, eachMember, keyText, memberValue, valueText } from '../../core/json.ts'
import { checkTable, MAX_PERMISSION_LEVELS, MAX_PRINCIPALS } from './bounds.ts'
import { digestOf, Digests, beginningOf, storedId } from './digest.ts'
import type { Principal, VaultCursor } from './cursor.ts'

/** The cursor keeps every share. With more, only the fact of a change is reported. */
const MAX_SHARES = 20_000
/** These texts come from outside and are stored: longer ones are cut, with their hash appended. */
const MAX_TEXT_LENGTH = 320

export interface Share {
  readonly principal: Principal
  readonly level: string
  readonly raw: Uint8Array
  /** as the API wrote it */
  readonly createdAt: string | undefined
}

export type ShareChange =
  | { readonly kind: 'added'; readonly share: Share }
  | { readonly kind: 'changed'; readonly share: Share; readonly before: string }
  | { readonly kind: 'removed'; readonly principal: Principal; readonly before: string }

/** An order-independent digest of the members and shares. */
export function sharingDigest(raw: Uint8Array | undefined): string {
  if (raw === undefined) return 'none'
  const digests = new Digests()
  eachShare(raw, {
    share: (kind, element) => digests.add(kind, element),
    other: (key, value) => digests.add(key, value),
  })
  return digests.together()
}

/** Undefined: too many to report one by one. */
export function readShares(projectId: string, raw: Uint8Array | undefined): readonly Share[] | undefined {
  const shares: Share[] = []
  if (raw === undefined) return shares
  eachShare(raw, {
    share: (kind, element) => {
      if (shares.length <= MAX_SHARES) shares.push(shareOf(projectId, kind, element))
    },
  })
  return shares.length > MAX_SHARES ? undefined : shares
}

interface ShareVisitor {
  share(kind: Principal['kind'], element: Uint8Array): void
  /** other members of `sharing` */
  other?(key: string, value: Uint8Array): void
}

function eachShare(raw: Uint8Array, visitor: ShareVisitor): void {
  eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
    const key = keyText(raw, keyStart, keyEnd) ?? ''
    const value = raw.subarray(valueStart, valueEnd)
    const kind = key === 'user_shares' ? 'user' : key === 'workspace_shares' ? 'workspace' : undefined
    if (kind === undefined || value[0] !== OPEN_ARRAY) visitor.other?.(key, value)
    else eachElement(value, (element) => visitor.share(kind, element))
  })
}

function shareOf(projectId: string, kind: Principal['kind'], raw: Uint8Array): Share {
  const text = (key: string) => bounded(valueText(memberValue(raw, key)) ?? '')
  const email = kind === 'user' ? text('dest_user_email') : ''
  const workspace = text('dest_workspace_id')
  const folder = valueText(memberValue(raw, 'vault_folder_id')) ?? ''
  // A share without a recipient still counts: its bytes identify it.
  const recipient = kind === 'user' ? email : workspace
  const id = kind === 'user' ? text('dest_user_id') || recipient : ''
  return {
    principal: {
      kind,
      id: id !== '' || recipient !== '' ? id : `#${digestOf('', raw)}`,
      workspace,
      folder: storedId(folder) === projectId ? '' : bounded(folder),
      email,
    },
    level: text('permission_level'),
    raw,
    createdAt: valueText(memberValue(raw, 'created_at')),
  }
}

function bounded(text: string): string {
  if (text.length <= MAX_TEXT_LENGTH) return text
  return `${beginningOf(text, MAX_TEXT_LENGTH)}#${digestOf(text)}`
}

const keyOf = ({ kind, id, workspace, folder }: Principal): string =>
  JSON.stringify([kind, id, workspace, folder])

/**
 * Indices of principals and levels in the cursor's tables; adds new ones. Throws ConnectorError
 * `misconfigured` if a table is full: both come from the server, which may send a new one for every
 * share.
 */
export class Tables {
  readonly #cursor: VaultCursor
  readonly #principals = new Map<string, number>()
  readonly #levels = new Map<string, number>()

  constructor(cursor: VaultCursor) {
    this.#cursor = cursor
    cursor.principals.forEach((principal, index) => this.#principals.set(keyOf(principal), index))
    cursor.levels.forEach((level, index) => this.#levels.set(level, index))
  }

  principal(principal: Principal): number {
    const { principals } = this.#cursor
    const key = keyOf(principal)
    const known = this.#principals.get(key)
    if (known !== undefined) {
      // The address may change, the user stays the same.
      if (principal.email !== '') principals[known] = principal
      return known
    }
    checkTable(principals, MAX_PRINCIPALS, 'users and workspaces')
    this.#principals.set(key, principals.length)
    return principals.push(principal) - 1
  }

  level(level: string): number {
    const { levels } = this.#cursor
    const known = this.#levels.get(level)
    if (known !== undefined) return known
    checkTable(levels, MAX_PERMISSION_LEVELS, 'permission levels')
    this.#levels.set(level, levels.length)
    return levels.push(level) - 1
  }

  principalAt(index: number): Principal {
    return this.#cursor.principals[index] as Principal
  }

  levelAt(index: number): string {
    return this.#cursor.levels[index] ?? ''
  }
}

/**
 * The changes from `known` to `shares`. One principal may have several shares: equal ones cancel
 * out, the rest counts.
 */
export function shareChanges(
  known: readonly number[],
  shares: readonly Share[],
  tables: Tables,
): readonly ShareChange[] {
  const before = new Map<number, string[]>()
  for (let i = 0; i < known.length; i += 2) {
    const principal = known[i] as number
    const levels = before.get(principal) ?? []
    levels.push(tables.levelAt(known[i + 1] as number))
    before.set(principal, levels)
  }
  const fresh: { readonly index: number; readonly share: Share }[] = []
  for (const share of shares) {
    const index = tables.principal(share.principal)
    const levels = before.get(index)
    const same = levels?.indexOf(share.level) ?? -1
    if (same >= 0) levels?.splice(same, 1)
    else fresh.push({ index, share })
  }
  const changes: ShareChange[] = fresh.map(({ index, share }) => {
    const level = before.get(index)?.shift()
    return level === undefined ? { kind: 'added', share } : { kind: 'changed', share, before: level }
  })
  for (const [index, levels] of before)
    for (const level of levels)
      changes.push({ kind: 'removed', principal: tables.principalAt(index), before: level })
  return changes
}

/** Applies this one change to the known shares. */
export function applyShare(known: number[], change: ShareChange, tables: Tables): void {
  const { principal } = change.kind === 'removed' ? change : change.share
  const index = tables.principal(principal)
  if (change.kind === 'added') {
    known.push(index, tables.level(change.share.level))
    return
  }
  const level = tables.level(change.before)
  for (let i = 0; i < known.length; i += 2) {
    if (known[i] !== index || known[i + 1] !== level) continue
    if (change.kind === 'changed') known[i + 1] = tables.level(change.share.level)
    else known.splice(i, 2)
    return
  }
}
