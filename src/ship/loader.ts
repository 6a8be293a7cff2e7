// What is owed next, as lines: taken from the journal when enough stands there, framed in room of the process's allowance.
import { believed } from '../model/clock.ts'
import type { Batch, Stretch } from '../model/journal.ts'
import type { Frame } from '../model/sink.ts'
import { ByteWriter } from '../model/writer.ts'
import { frameBatch, type Framing, framingOf, type Loaded, rawBytesIn, roomBytes } from './lines.ts'
import { type DeliveryOptions, waitsInVain } from './loop.ts'

/** A writer that one huge entry made grow is not kept. */
const SPARE_BYTES = 4 * 1024 * 1024

export interface BatchLimits {
  readonly maxEntries: number
  /** of framed lines; one line goes out alone, however large */
  readonly maxBytes: number
  /** how long a batch that is not full may wait for more */
  readonly lingerMs: number
}

export interface LoaderOptions extends DeliveryOptions {
  readonly sink: { readonly name: string; readonly frame: Frame }
  readonly limits: BatchLimits
}

export interface Wish {
  readonly maxEntries: number
  /** on their way already */
  readonly busy: readonly Stretch[]
  /** No more than one line, with what nobody wants around it. */
  readonly oneLine?: boolean
}

type Looked =
  | { readonly waitMs: number }
  | { readonly batch: Batch; readonly leave: () => void }
  | { readonly wantedBytes: number }

export class Loader {
  readonly #options: LoaderOptions
  readonly #framing: Framing
  readonly #spare: ByteWriter[] = [new ByteWriter(), new ByteWriter()]

  constructor(options: LoaderOptions) {
    this.#options = options
    this.#framing = framingOf(options)
  }

  /** The oldest entries that are neither settled nor on their way, or ms to wait for more of them. `free` what comes. */
  async load(wish: Wish, signal: AbortSignal): Promise<Loaded | number> {
    const found = await this.#look(wish)
    if ('waitMs' in found) return found.waitMs
    if ('batch' in found) return this.#frame(found.batch, this.#lineBytes(wish), found.leave)
    return this.#loadInTurn(wish, found.wantedBytes, signal)
  }

  /** The same where it may go out now and there is room right now; else undefined. */
  async loadIfRoom(wish: Wish): Promise<Loaded | undefined> {
    // A batch that could not stay is not read to find that out.
    if (this.#options.room.full) return undefined
    const found = await this.#look(wish)
    return 'batch' in found ? this.#frame(found.batch, this.#lineBytes(wish), found.leave) : undefined
  }

  /** What there is, where it may stay; else no more of it than how much room it wants. */
  #look(wish: Wish): Promise<Looked> {
    const { limits, room } = this.#options
    return room.oneByOne(async () => {
      const batch = await this.#take(wish, limits.maxBytes, rawBytesIn(room.freeBytes))
      if (typeof batch === 'number') return { waitMs: batch }
      const wantedBytes = roomBytes(batch)
      const leave = batch.leftBytes === undefined && room.tryEnter(wantedBytes)
      return leave ? { batch, leave } : { wantedBytes }
    })
  }

  /** Whoever waits for room holds no batch meanwhile: it is read again, and no more of it, when its turn has come. */
  async #loadInTurn(wish: Wish, wantedBytes: number, signal: AbortSignal): Promise<Loaded | number> {
    const leave = await this.#options.room.enter(wantedBytes, signal)
    try {
      const batch = await this.#take(wish, rawBytesIn(wantedBytes))
      if (typeof batch !== 'number') return this.#frame(batch, this.#lineBytes(wish), leave)
      leave()
      return batch
    } catch (error) {
      leave()
      throw error
    }
  }

  /** One line goes out however long it is. */
  #lineBytes({ oneLine }: Wish): number {
    return oneLine ? 0 : this.#options.limits.maxBytes
  }

  /** What may go out now, as it stands in the journal, or ms to wait for more. */
  async #take({ maxEntries, busy }: Wish, mostBytes: number, loneBytes?: number): Promise<Batch | number> {
    const { journal, sink, limits, clock, lookAgainMs } = this.#options
    const { maxBytes, lingerMs } = limits
    const wished = { maxEntries, maxBytes: mostBytes, loneBytes }
    const batch = await journal.take(sink.name, wished, undefined, busy)
    if (!batch) return Infinity
    const oldestAt = batch.runs[0]?.appendedAt ?? 0
    const now = clock.now()
    const waitMs = believed(oldestAt + lingerMs, lingerMs, now) - now
    // Frames add to the payload: twice of it, as in memory, is held against the bound of framed lines.
    const full = batch.count >= maxEntries || roomBytes(batch) >= maxBytes
    if (waitMs <= 0 || full || waitsInVain(this.#options)) return batch
    // A journal that is full takes nothing in until something is settled.
    return journal.stats().full ? batch : Math.min(waitMs, lookAgainMs)
  }

  /** All of a stretch, whatever the limits are now: the batch of an intent. */
  async reload(stretch: Stretch, signal: AbortSignal): Promise<Loaded> {
    const { journal, room } = this.#options
    const batch = await journal.range(stretch.first, stretch.last)
    const leave = room.tryEnter(roomBytes(batch))
    return leave ? this.#frame(batch, Infinity, leave) : this.#reloadInTurn(stretch, roomBytes(batch), signal)
  }

  /** As `#loadInTurn`; an intent's entries stay as they are until it is settled. */
  async #reloadInTurn({ first, last }: Stretch, wantedBytes: number, signal: AbortSignal): Promise<Loaded> {
    const { journal, room } = this.#options
    const leave = await room.enter(wantedBytes, signal)
    try {
      return this.#frame(await journal.range(first, last), Infinity, leave)
    } catch (error) {
      leave()
      throw error
    }
  }

  /** Once: its buffer is another batch's from then on. */
  free({ leave, writer }: Loaded): void {
    leave()
    if (writer.bytes.length <= SPARE_BYTES) this.#spare.push(writer)
  }

  #frame(batch: Batch, maxBytes: number, leave: () => void): Loaded {
    return frameBatch(batch, { ...this.#framing, maxBytes }, this.#spare.pop() ?? new ByteWriter(), leave)
  }
}
