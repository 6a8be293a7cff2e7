// A load balancer before several indexers, sticky by a cookie like AWS's: a client that loses the cookie loses the indexer.
import type { HecSettings } from './hec-options.ts'

export interface Routed {
  readonly indexer: number
  readonly headers: Readonly<Record<string, string>>
}

const WIDTH = 32

export class Balancer {
  /** Part of each cookie: a cookie of an earlier epoch leads nowhere. */
  #epoch = 1
  #turn = 0
  #issued = 0
  /** Indexers that are out of service. */
  readonly #gone = new Set<number>()

  expireCookies(): void {
    this.#epoch++
  }

  take(indexer: number): void {
    this.#gone.add(indexer)
  }

  giveBack(indexer: number): void {
    this.#gone.delete(indexer)
  }

  /** undefined: no server can answer. */
  route(cookies: string, settings: HecSettings, now: number): Routed | undefined {
    if (settings.indexers < 2) return this.#gone.has(0) ? undefined : { indexer: 0, headers: {} }
    const known = settings.sticky ? this.#read(cookies, settings, now) : undefined
    if (known !== undefined && !settings.cookieRolls) return { indexer: known, headers: {} }
    const indexer = known ?? this.#next(settings.indexers)
    if (indexer === undefined) return undefined
    return {
      indexer,
      headers: settings.sticky ? { 'set-cookie': this.#cookie(settings.cookieName, indexer, now) } : {},
    }
  }

  #next(indexers: number): number | undefined {
    for (let tries = 0; tries < indexers; tries++) {
      const indexer = this.#turn++ % indexers
      if (!this.#gone.has(indexer)) return indexer
    }
    return undefined
  }

  /** Opaque to the client: hexadecimal, and never the same twice. */
  #cookie(name: string, indexer: number, now: number): string {
    const value = Buffer.from([this.#epoch, indexer, now, ++this.#issued].join(' ')).toString('hex')
    const expires = new Date(now + 7 * 86_400_000).toUTCString()
    return `${name}=${value.padEnd(WIDTH, '20')}; Expires=${expires}; Path=/`
  }

  #read(cookies: string, settings: HecSettings, now: number): number | undefined {
    const value = new RegExp(`(?:^|; ?)${settings.cookieName}=([0-9a-f]+)(?:;|$)`).exec(cookies)?.[1]
    if (value === undefined) return undefined
    const [epoch, indexer = 0, givenAt = 0] = Buffer.from(value, 'hex').toString().split(' ').map(Number)
    const good = epoch === this.#epoch && indexer < settings.indexers && !this.#gone.has(indexer)
    return good && now - givenAt < settings.cookieLifeMs ? indexer : undefined
  }
}
