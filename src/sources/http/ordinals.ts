// Counts how often each row came in one answer, by its hash, in bounded memory.
import { createHash } from 'node:crypto'
import type { Entries } from '../../contracts/entries.ts'
import { ConnectorError } from '../../core/errors.ts'

const FIRST_SLOTS = 4096
/** About 3.3 million different rows per window, in 50 MB. */
const MAX_SLOTS = 2 ** 22
const MAX_FILL = 0.8

/**
 * Counts the rows of one window: open addressing over 64 bits of the hash, 12 bytes per slot. Two
 * rows with the same 64 bits count as one; their ids still differ, because those have 128 bits.
 */
export class Ordinals {
  readonly #maxSlots: number
  #highs = new Uint32Array(FIRST_SLOTS)
  #lows = new Uint32Array(FIRST_SLOTS)
  /** 0: the slot is free */
  #counts = new Uint32Array(FIRST_SLOTS)
  #rows = 0

  constructor(maxSlots = MAX_SLOTS) {
    this.#maxSlots = maxSlots
  }

  /**
   * The ordinal of one more row with this hash, from 1. Throws ConnectorError `too_large` if there
   * are too many different ones.
   */
  next(high: number, low: number): number {
    let slot = this.#find(high, low)
    if (this.#counts[slot] === 0) {
      if (this.#rows >= this.#counts.length * MAX_FILL) {
        this.#grow()
        slot = this.#find(high, low)
      }
      this.#rows++
      this.#highs[slot] = high
      this.#lows[slot] = low
    }
    const ordinal = (this.#counts[slot] as number) + 1
    this.#counts[slot] = ordinal
    return ordinal
  }

  #find(high: number, low: number): number {
    const mask = this.#counts.length - 1
    let slot = low & mask
    while (this.#counts[slot] !== 0 && (this.#lows[slot] !== low || this.#highs[slot] !== high))
      slot = (slot + 1) & mask
    return slot
  }

  #grow(): void {
    const [highs, lows, counts] = [this.#highs, this.#lows, this.#counts]
    const slots = counts.length * 2
    if (slots > this.#maxSlots)
      throw new ConnectorError(
        'too_large',
        `The answer contains more than ${this.#rows} different events without an id, the most that can be told apart: a shorter span of time is requested automatically`,
      )
    this.#highs = new Uint32Array(slots)
    this.#lows = new Uint32Array(slots)
    this.#counts = new Uint32Array(slots)
    for (let old = 0; old < counts.length; old++) {
      if (counts[old] === 0) continue
      const slot = this.#find(highs[old] as number, lows[old] as number)
      this.#highs[slot] = highs[old] as number
      this.#lows[slot] = lows[old] as number
      this.#counts[slot] = counts[old] as number
    }
  }
}

// Recognises repeated entries within one answer, by id, time and bytes.

/** About 840,000 entries per answer, in 12 MB. */
const MAX_ENTRY_SLOTS = 2 ** 20

/**
 * Counts the distinct entries of one answer. Two with the same 64 hash bits count as one: for
 * counts only, never for storage.
 */
export class EntriesOnce {
  #ordinals: Ordinals | undefined = new Ordinals(MAX_ENTRY_SLOTS)

  /** True if the answer had it before. After too many entries nothing is recognised as a repeat. */
  isRepeat(entries: Entries, index: number): boolean {
    if (!this.#ordinals) return false
    const key = `${entries.at(index)} ${entries.id(index)} `
    const hash = createHash('sha256').update(key).update(entries.raw(index)).digest()
    try {
      return this.#ordinals.next(hash.readUInt32LE(0), hash.readUInt32LE(4)) > 1
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      this.#ordinals = undefined
      return false
    }
  }
}
