// Which entries an answer has shown before: the same id, time and bytes once more is no second entry.
import { createHash } from 'node:crypto'
import type { Entries } from '../../model/entries.ts'
import { ConnectorError } from '../../model/errors.ts'
import { Ordinals } from './ordinals.ts'

/** Some 840,000 entries an answer, in 12 MB. */
const MOST_SLOTS = 2 ** 20

/** Counts the entries of one answer, each once. Two that share 64 bits of their hashes count as one: for counting only, never for keeping. */
export class EntriesOnce {
  #ordinals: Ordinals | undefined

  constructor(mostSlots = MOST_SLOTS) {
    this.#ordinals = new Ordinals(mostSlots)
  }

  /** True where it was shown before. Of an answer that is too long for that nothing is taken for shown any more. */
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
