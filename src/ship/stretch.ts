// A stretch of the journal that goes out as objects: which group each entry belongs to, how much is open, how long it took. Holds counts, no entries.
import type { Batch, Run } from '../model/journal.ts'
import type { Seq } from '../model/seq.ts'
import type { ObjectContent, ObjectGroup } from '../model/object.ts'
import { perOrigin, type Shared } from '../model/per-origin.ts'
import { DAY_MS, dayText } from '../model/time.ts'
import { Delays } from './delays.ts'
import type { Framing } from './lines.ts'
import { ByteWriter } from '../model/writer.ts'
import { ENTRY_SPARE_BYTES } from './spare.ts'
import { dayOf, Tally } from './tally.ts'

/** A stretch is closed before it would touch more groups: an object each. */
const MOST_GROUPS = 64

/** of year 9999 and of year 0: what lies beyond is no day that a name could hold */
const LAST_DAY = 2_932_896
const FIRST_DAY = -719_528

const groupDay = (day: number): string =>
  day >= FIRST_DAY && day <= LAST_DAY ? dayText(day * DAY_MS) : 'unknown'

/** A replay has the name of the second in which it began, which all of its entries carry. */
const replayName = ({ replay, appendedAt }: Shared): string | undefined =>
  replay ? new Date(appendedAt).toISOString().replace(/[-:]|\.\d+/g, '') : undefined

/** The groups of a stretch: of each there is one object here, so that groups are compared by identity. */
export class Groups {
  readonly #known = new Map<string, ObjectGroup>()
  readonly #undatedOf = perOrigin((shared) => ({ origin: shared.origin, replay: replayName(shared) }))
  #undated: Pick<ObjectGroup, 'origin' | 'replay'> | undefined
  #day = NaN
  #last: ObjectGroup | undefined

  of(run: Run, index: number): ObjectGroup {
    const day = dayOf(run, index)
    const undated = this.#undatedOf(run)
    if (this.#last && this.#undated === undated && this.#day === day) return this.#last
    this.#undated = undated
    this.#day = day
    return (this.#last = this.#find({ ...undated, day: groupDay(day) }))
  }

  #find(group: ObjectGroup): ObjectGroup {
    const { origin, day, replay } = group
    const id = `${origin.workspace} ${origin.source} ${day} ${replay ?? ''}`
    const known = this.#known.get(id)
    if (known) return known
    this.#known.set(id, group)
    return group
  }
}

/** All behind the sink's position that was seen so far. */
export class OpenStretch {
  first: Seq | undefined
  last: Seq | undefined
  /** epoch ms at which the journal took the oldest wanted entry */
  oldestAt = 0
  count = 0
  /** of what nobody wants: all there is to settle of a stretch in which nothing is wanted */
  readonly filtered = new Tally()
  #bytes = 0
  readonly #groups = new Groups()
  readonly #met = new Set<ObjectGroup>()
  readonly #scratch = new ByteWriter(4096)

  /** Counts as many entries of the piece as fit; true when the stretch is full. One entry fits always. */
  add(piece: Batch, { sink, format, wanted }: Framing, maxBytes: number, name: string): boolean {
    this.first ??= piece.first
    for (const run of piece.runs)
      for (let i = 0; i < run.entries.count; i++) {
        if (wanted(run, i)) {
          sink.frame(run, i, this.#scratch, format)
          const { length } = this.#scratch
          this.#scratch.clear(ENTRY_SPARE_BYTES)
          if (!this.#fits(this.#groups.of(run, i), length, maxBytes)) return true
          if (this.count++ === 0) this.oldestAt = run.appendedAt
          this.#bytes += length
        } else this.filtered.addFiltered(run, i, name)
        this.last = run.firstSeq + i
      }
    return this.#bytes >= maxBytes
  }

  #fits(group: ObjectGroup, bytes: number, maxBytes: number): boolean {
    if (this.count > 0 && this.#bytes + bytes > maxBytes) return false
    if (!this.#met.has(group) && this.#met.size === MOST_GROUPS) return false
    this.#met.add(group)
    return true
  }
}

/** What one object holds, while it is written. */
export class Contents {
  readonly delays = new Delays()
  readonly #group: ObjectGroup
  #count = 0
  #first: Seq = 0
  #last: Seq = 0
  #firstAtUs = NaN
  #lastAtUs = NaN

  constructor(group: ObjectGroup) {
    this.#group = group
  }

  add(seq: Seq, atUs: number, nowMs: number): void {
    if (this.#count++ === 0) this.#first = seq
    this.#last = seq
    if (!(atUs >= this.#firstAtUs)) this.#firstAtUs = Number.isNaN(atUs) ? this.#firstAtUs : atUs
    if (!(atUs <= this.#lastAtUs)) this.#lastAtUs = Number.isNaN(atUs) ? this.#lastAtUs : atUs
    this.delays.add(atUs, nowMs)
  }

  get whole(): ObjectContent {
    return {
      group: this.#group,
      count: this.#count,
      first: this.#first,
      last: this.#last,
      firstAtUs: this.#firstAtUs,
      lastAtUs: this.#lastAtUs,
    }
  }
}
