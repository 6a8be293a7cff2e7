// One request as the areas of the API see it. Areas are siblings and do not know each other.
import { failure } from './answer.ts'
import type { Reply } from './answer.ts'
import type { Area, Key } from './keys.ts'
import { mix, shuffled } from './random.ts'
import type { FaultName, Switches } from './switches.ts'
import type { NewEntry, Workspace } from './workspace.ts'

/** One request with its key, admitted by the rate limit. */
export interface Call {
  readonly area: Area
  /** of the path, decoded */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly headers: Readonly<Record<string, string>>
  /** As received; empty if there is none. */
  readonly body: Uint8Array
  /** epoch ms, by the server's clock */
  readonly now: number
  /** of all requests, from 1 */
  readonly ordinal: number
  readonly workspace: Workspace
  readonly key: Key
  readonly switches: Switches
  /** the `page` faults that apply to it */
  readonly struck: ReadonlySet<FaultName>
  /** for choices within a fault */
  readonly seed: number
}

export interface Endpoint {
  /** as permissions name it */
  readonly name: string
  answer(call: Call): Reply
  /** type of the audit entry that a call leaves; undefined for none */
  trace?(switches: Switches): string | undefined
}

export interface AreaRoutes {
  readonly area: Area
  /** By `GET /path/{param}`. The first match wins. */
  readonly endpoints: Readonly<Record<string, Endpoint>>
}

/** The area's error, with its documented message or another one. */
export function refused(call: Call, status: number, message?: string): Reply {
  return failure(call.area, status, message)
}

/** The audit entry of a call: who made it, from where and with which client. */
export function traceOf({ key, headers, switches, now, params }: Call, type: string): NewEntry {
  const sent = headers['user-agent'] ?? ''
  return {
    type,
    user: key.user,
    ip: key.ip,
    userAgent: switches.user_agent === 'sent' ? sent : 'api-client',
    visibleAt: now + switches.latency + switches.self_audit_after,
    data: params,
  }
}

/** Applies the page faults that every list knows; `isShuffled` mixes the order without a fault. */
export function faultyPage<T>({ struck, seed, ordinal }: Call, page: readonly T[], isShuffled = false) {
  if (struck.has('empty_page')) return []
  const order = isShuffled || struck.has('shuffled_page') ? shuffled(page, mix(seed, ordinal)) : page
  return struck.has('duplicated') ? order.flatMap((one, i) => (i % 4 === 0 ? [one, one] : [one])) : order
}

/** With that fault the last page of the same key and area, else this one, which it remembers. */
export function pageOrRepeated<T>({ struck, workspace, key, area }: Call, page: readonly T[]): readonly T[] {
  const slot = workspace.slotOf(area, key)
  const before = struck.has('repeated_page') ? workspace.lastPages.get(slot) : undefined
  if (page.length > 0) workspace.lastPages.set(slot, page)
  return (before as readonly T[] | undefined) ?? page
}
