// Rows of the history's version 1 carry no id: here they get one, from their bytes, their day where they say no time, and how many of the same came before in their window (law 8).
import { hash } from 'node:crypto'
import type { Moment, Naming } from '../cutting/entries-builder.ts'
import { Ordinals } from '../answer/ordinals.ts'
import { memberValue } from '../cutting/json-elements.ts'

/** The part of a row's SHA-256 that names it. */
const HASH_BYTES = 16

/** Names the rows of one answer. */
export class RowNaming implements Naming {
  /** rows without a readable time that were left out, since their window is no day */
  leftOut = 0
  readonly #ordinals: Ordinals
  readonly #day: Moment | undefined

  /** `dayAt`: epoch ms of the UTC day that the window is, when it is one. */
  constructor(dayAt: number | undefined, ordinals = new Ordinals()) {
    this.#ordinals = ordinals
    if (dayAt !== undefined)
      this.#day = {
        text: Buffer.from(new Date(dayAt).toISOString().replace('.000Z', 'Z')),
        at: dayAt * 1000,
      }
  }

  /** Rows that say no time may be equal on every day: their day is a part of what they are called. */
  id(bytes: Uint8Array, start: number, end: number, dated?: Moment): Uint8Array {
    const row = bytes.subarray(start, end)
    const named = dated === undefined ? row : Buffer.concat([row, dated.text])
    const whole = hash('sha256', named, 'buffer').subarray(0, HASH_BYTES)
    const ordinal = this.#ordinals.next(whole.readUInt32LE(0), whole.readUInt32LE(4))
    return Buffer.from(`${whole.toString('hex')}-${ordinal}`, 'latin1')
  }

  /** Where the API fails it may say so in the place of a row (spec §7). */
  untimed(bytes: Uint8Array, start: number, end: number): Moment | undefined | 'no_entry' {
    if (memberValue(bytes.subarray(start, end), 'error') !== undefined) return 'no_entry'
    if (this.#day === undefined) this.leftOut++
    return this.#day
  }
}
