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
    permissions: new Set(options.permissions ?? Object.keys(documentedLimits)),
  }
}

/** The requests of a rolling minute. */
export class Minute {
  #arrivals: number[] = []

  /** Undefined if the request is admitted; otherwise the ms until the next one may be. */
  refuses(limit: number, now: number): number | undefined {
    if ((this.#arrivals[0] ?? now) <= now - MINUTE_MS)
      this.#arrivals = this.#arrivals.filter((at) => at > now - MINUTE_MS)
    const { length } = this.#arrivals
    if (limit <= 0 || length < limit) return undefined
    return (this.#arrivals[length - limit] ?? now) + MINUTE_MS - now
  }

  count(now: number): void {
    this.#arrivals.push(now)
  }
}
