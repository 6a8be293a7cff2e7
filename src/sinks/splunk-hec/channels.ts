// The channels of one endpoint: a batch that waits for its acknowledgement has one to itself.
import type { Random } from '../../model/clock.ts'
import { randomDigits } from '../../model/random.ts'

function guid(random: Random): string {
  const hex = randomDigits(random, 32)
  const variant = '89ab'[Math.floor(random() * 4)] ?? '8'
  const version = `4${hex.slice(13, 16)}`
  return [hex.slice(0, 8), hex.slice(8, 12), version, variant + hex.slice(17, 20), hex.slice(20)].join('-')
}

/**
 * Ids count per channel and indexer, and begin anew with an indexer's restart: on a shared channel the same id could come to
 * mean two batches, and the one's `true` confirm the other. So a channel is used again only when all that was ever sent on it
 * is answered for; what ended in doubt leaves its channel behind. Splunk holds a million of them.
 */
export class Channels {
  readonly #random: Random
  readonly #free: string[] = []

  constructor(random: Random) {
    this.#random = random
  }

  take(): string {
    return this.#free.pop() ?? guid(this.#random)
  }

  giveBack(channel: string): void {
    this.#free.push(channel)
  }
}
