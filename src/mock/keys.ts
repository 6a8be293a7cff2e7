// API keys: their users, their permissions, and their requests per minute.
import { MINUTE_MS } from '../core/time.ts'

export type Area = 'audit' | 'history' | 'vault' | 'assistant'

/** Requests per minute for each area; 0 for no limit. */
export type Limits = Readonly<Record<Area, number>>

export const documentedLimits: Limits = { audit: 60, history: 60, vault: 10, assistant: 20 }

export interface KeyOptions {
  readonly key: string
  /** the user of their audited reads */
  readonly user?: string
  readonly ip?: string
  /** areas, or single endpoints such as `audit.search`; default: all areas */
  readonly permissions?: readonly string[]
}

export interface Key {
  /** Changes when it is rotated. */
  secret: string
  readonly user: string
  readonly ip: string
  readonly permissions: ReadonlySet<string>
}

export function keyOf(options: KeyOptions, domain: string): Key {
  return {
    secret: options.key,
    user: options.user ?? `siem@${domain}`,
    ip: options.ip ?? '203.0.113.5',
    permissions: new Set(options.permissions ?? ['audit', 'history', 'vault', 'assistant']),
  }
}

export function mayCall(key: Key, area: Area, endpoint: string): boolean {
  return key.permissions.has(area) || key.permissions.has(`${area}.${endpoint}`)
}

/** A rolling minute. */
export class Minute {
  readonly #arrivals: number[] = []

  /** Undefined if the request is admitted; otherwise the ms until the next one may be. */
  refuses(limit: number, now: number): number | undefined {
    const arrivals = this.#arrivals
    let stale = 0
    while (stale < arrivals.length && (arrivals[stale] ?? 0) <= now - MINUTE_MS) stale++
    if (stale > 0) arrivals.splice(0, stale)
    if (limit <= 0 || arrivals.length < limit) return undefined
    return (arrivals[arrivals.length - limit] ?? now) + MINUTE_MS - now
  }

  count(now: number): void {
    this.#arrivals.push(now)
  }
}
