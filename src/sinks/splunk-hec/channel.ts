// One endpoint as acknowledgements see it: its channel, its cookies, and whether its ids still tell batches apart.
import type { Random } from '../../model/clock.ts'
import { cookiesAfter } from './ticket.ts'

function guid(random: Random): string {
  const hex = Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16))
  hex[12] = '4'
  hex[16] = '89ab'[Math.floor(random() * 4)] ?? '8'
  const text = hex.join('')
  const parts = [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20), text.slice(20)]
  return parts.join('-')
}

export class Channel {
  readonly #random: Random
  #id: string
  #cookie = ''
  #lastAckId = -1

  constructor(random: Random) {
    this.#random = random
    this.#id = guid(random)
  }

  get id(): string {
    return this.#id
  }

  get cookie(): string {
    return this.#cookie
  }

  remember(setCookie: string | undefined): void {
    this.#cookie = cookiesAfter(this.#cookie, setCookie)
  }

  /**
   * Ids count up per channel and indexer. False: this one does not, so another indexer answered, or this one began anew, and
   * the same id may mean two batches from now on.
   */
  follows(ackId: number): boolean {
    if (ackId <= this.#lastAckId) return false
    this.#lastAckId = ackId
    return true
  }

  renew(): void {
    this.#id = guid(this.#random)
    this.#lastAckId = -1
  }
}
