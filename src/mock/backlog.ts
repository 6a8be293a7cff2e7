// A large past, rendered before the first request: any page of it is a range of one buffer, so that
// load tests measure the reader.
import { ByteWriter } from '../core/bytes.ts'
import { askKindOf } from './questions.ts'
import { drawType, types } from './catalogue.ts'
import { shownIn, shownNames } from './entry.ts'
import type { MockEntry } from './entry.ts'
import { join } from './replies.ts'
import type { Page } from './replies.ts'
import { userOf } from './people.ts'
import { chanceOf, mix, streamSeed, uuidStream } from './random.ts'
import { compose } from './traffic.ts'
import type { Uuids } from './random.ts'

interface BacklogSettings {
  readonly count: number
  readonly seed: number
  readonly domain: string
  readonly exotic: number
  readonly sinceMs: number
  /** all entries are before this */
  readonly untilMs: number
}

const ENTRY_BYTES = 420
const asks = types.map((type) => askKindOf(type) !== undefined)
const personOf = (chance: number) => Math.floor(chance * 60)

export class Backlog {
  readonly count: number
  readonly #ids: Uuids
  readonly #bytes: Buffer
  /** element i is in [starts[i], starts[i + 1] - 1), with a comma after it */
  readonly #starts: Float64Array
  readonly #times: Float64Array
  readonly #types: Uint16Array
  readonly #shown: Uint8Array
  readonly #shownAt: Float64Array
  readonly #own: number
  readonly #domain: string
  #historyShown: Uint16Array | undefined
  #kept = 0

  constructor({ count, seed, domain, exotic, sinceMs, untilMs }: BacklogSettings) {
    this.count = count
    this.#ids = uuidStream(seed, 'backlog')
    this.#starts = new Float64Array(count + 1)
    this.#times = new Float64Array(count)
    this.#types = new Uint16Array(count)
    this.#shown = new Uint8Array(count)
    this.#shownAt = new Float64Array(count)
    const stepUs = ((untilMs - sinceMs) * 1000) / Math.max(1, count)
    const own = (this.#own = streamSeed(seed, 'backlog'))
    this.#domain = domain
    const writer = new ByteWriter(Math.max(1, count) * ENTRY_BYTES)
    for (let i = 0; i < count; i++) {
      const chance = chanceOf(own, i)
      const type = drawType(chanceOf(own ^ 1, i))
      const atUs = Math.floor(sinceMs * 1000 + (i + chance) * stepUs)
      this.#times[i] = atUs
      this.#types[i] = type
      const facts = { id: this.#ids.at(i), atUs, type: types[type] ?? '', defect: undefined }
      writer.copy(compose(mix(own, i), domain, exotic, facts, personOf(chance), { depth: 0, hugeBytes: 0 }))
      writer.byte(44)
      this.#starts[i + 1] = writer.length
    }
    this.#bytes = writer.view()
  }

  /** Undefined if the id is unknown or purged. */
  indexOf(id: string): number | undefined {
    const index = this.#ids.indexOf(id)
    return index !== undefined && index >= this.#kept && index < this.count ? index : undefined
  }

  atUs(index: number): number {
    return this.#times[index] ?? NaN
  }

  /** The first entry kept at or after `us`; `count` if there is none. */
  firstAt(us: number): number {
    return this.#search(us, this.#kept)
  }

  #search(us: number, from: number): number {
    let low = from
    let high = this.count
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#times[middle] ?? 0) < us) low = middle + 1
      else high = middle
    }
    return low
  }

  /** The next entry of `type` from `index` on; `count` if there is none. */
  next(index: number, type: string | undefined): number {
    if (type === undefined) return Math.max(index, this.#kept)
    const wanted = types.indexOf(type)
    const found = this.#types.indexOf(wanted, Math.max(index, this.#kept))
    return found < 0 || wanted < 0 ? this.count : found
  }

  /** The last of `type`; -1 if there is none. */
  last(type: string | undefined): number {
    const found = type === undefined ? this.count - 1 : this.#types.lastIndexOf(types.indexOf(type))
    return found >= this.#kept ? found : -1
  }

  /** Entries with history events, purged or not, in [fromUs, untilUs). */
  asksBetween(fromUs: number, untilUs: number): number[] {
    const found: number[] = []
    const end = this.#search(untilUs, 0)
    for (let i = this.#search(fromUs, 0); i < end; i++) if (asks[this.#types[i] ?? 0]) found.push(i)
    return found
  }

  /** Who did what in entry `index`. */
  actOf(index: number): { entryId: string; type: string; user: string } {
    const person = personOf(chanceOf(this.#own, index))
    return {
      entryId: this.#ids.at(index),
      type: types[this.#types[index] ?? 0] ?? '',
      user: userOf(person, this.#domain),
    }
  }

  markHistory(index: number, bits: number): void {
    this.#historyShown ??= new Uint16Array(this.count)
    this.#historyShown[index] = (this.#historyShown[index] ?? 0) | bits
  }

  historyMarks(index: number): number {
    return this.#historyShown?.[index] ?? 0
  }

  purgeBefore(us: number): void {
    this.#kept = this.firstAt(us)
  }

  page(from: number, take: number, type: string | undefined): Page {
    if (type === undefined) return this.#stretch(from, Math.min(this.count, from + take))
    const indices: number[] = []
    for (let i = this.next(from, type); i < this.count && indices.length < take; i = this.next(i + 1, type))
      indices.push(i)
    const parts = indices.map((i) => this.#stretch(i, i + 1))
    return {
      count: parts.length,
      element: (i) => parts[i]?.element(0) ?? new Uint8Array(0),
      joined: (separator) =>
        join(
          indices.map((i) => this.#raw(i)),
          separator,
        ),
      show: (where, at) => parts.forEach((part) => part.show(where, at)),
    }
  }

  #raw(index: number): Buffer {
    return this.#bytes.subarray(this.#starts[index] ?? 0, (this.#starts[index + 1] ?? 1) - 1)
  }

  #stretch(from: number, to: number): Page {
    const starts = this.#starts
    return {
      count: Math.max(0, to - from),
      element: (index) => this.#raw(from + index),
      // The rendered separator is a comma.
      joined: () =>
        this.#bytes.subarray(starts[from] ?? 0, Math.max(starts[from] ?? 0, (starts[to] ?? 0) - 1)),
      show: (where, at) => {
        const bit = 1 << shownIn.indexOf(where)
        for (let i = from; i < to; i++) {
          this.#shown[i] = (this.#shown[i] ?? 0) | bit
          if (!this.#shownAt[i]) this.#shownAt[i] = at
        }
      },
    }
  }

  entry(index: number): MockEntry {
    const atUs = this.atUs(index)
    return {
      id: this.#ids.at(index),
      atUs,
      type: types[this.#types[index] ?? 0] ?? '',
      visibleAt: Math.floor(atUs / 1000),
      origin: 'backlog',
      defect: undefined,
      raw: this.#raw(index),
      shownBy: shownNames(this.#shown[index] ?? 0),
      shownAt: this.#shownAt[index] ? this.#shownAt[index] : undefined,
      purged: index < this.#kept,
    }
  }
}
