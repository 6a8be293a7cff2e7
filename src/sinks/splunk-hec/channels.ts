// The channels of one endpoint: a batch that waits for its acknowledgement has one to itself.
import type { Random } from '../../model/clock.ts'

function guid(random: Random): string {
  const hex = Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16))
  hex[12] = '4'
  hex[16] = '89ab'[Math.floor(random() * 4)] ?? '8'
  const text = hex.join('')
  const parts = [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20), text.slice(20)]
  return parts.join('-')
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
