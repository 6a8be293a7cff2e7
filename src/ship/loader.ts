// What is owed next, as lines: taken from the journal when enough stands there, framed in the sink's share of the room.
import { believed } from '../model/clock.ts'
import type { Batch, TooLarge } from '../model/journal.ts'
import type { Stretch } from '../model/seq.ts'
import type { Room } from '../model/room.ts'
import type { Frame } from '../model/sink.ts'
import { ByteWriter } from '../model/writer.ts'
import { frameBatch, type Framing, framingOf, type Loaded } from './lines.ts'
import { type DeliveryOptions, waitsInVain } from './stepper.ts'
import { type Held, rawBytesIn, roomBytes, takeIfRoom, takeIntoRoom } from './share.ts'
import { BATCH_SPARE_BYTES } from './spare.ts'

export interface BatchLimits {
  readonly maxEntries: number
  /** of framed lines; one line goes out alone, however large */
  readonly maxBytes: number
  /** how long a batch that is not full may wait for more */
  readonly lingerMs: number
}

/** The limits of a sink with this share: a batch of several entries fits into it. */
export function limitsIn(share: Room, limits: BatchLimits): BatchLimits {
  return { ...limits, maxBytes: Math.min(limits.maxBytes, rawBytesIn(share)) }
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
    const { limits } = this.#options
    const held = await takeIntoRoom(this.#options, this.#reading(wish), limits.maxBytes, signal)
    return typeof held === 'number' ? held : this.#frame(held, this.#lineBytes(wish))
  }

  /** Like `load`, where something may go out now and there is room for it right now; else undefined. */
  async loadIfRoom(wish: Wish): Promise<Loaded | undefined> {
    const { limits, room } = this.#options
    const held = await takeIfRoom(room, this.#reading(wish), limits.maxBytes)
    return held && this.#frame(held, this.#lineBytes(wish))
  }

  #reading(wish: Wish) {
    return (mostBytes: number, loneBytes?: number) => this.#take(wish, mostBytes, loneBytes)
  }

  /** One line goes out however long it is. */
  #lineBytes({ oneLine }: Wish): number {
    return oneLine ? 0 : this.#options.limits.maxBytes
  }

  /** What may go out now, as it stands in the journal, or ms to wait for more. */
  async #take(
    { maxEntries, busy }: Wish,
    mostBytes: number,
    loneBytes?: number,
  ): Promise<Batch | TooLarge | number> {
    const { journal, sink, limits, clock, lookAgainMs } = this.#options
    const { maxBytes, lingerMs } = limits
    const wished = { maxEntries, maxBytes: mostBytes, loneBytes }
    const batch = await journal.take(sink.name, wished, { busy })
    if (!batch) return Infinity
    if ('rawBytes' in batch) return batch
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
  async reload({ first, last }: Stretch, signal: AbortSignal): Promise<Loaded> {
    const read = () => this.#options.journal.range(first, last)
    return this.#frame(await takeIntoRoom<never>(this.#options, read, Infinity, signal), Infinity)
  }

  /** Once: its buffer is another batch's from then on. */
  free({ giveBack, writer }: Loaded): void {
    giveBack()
    if (writer.bytes.length <= BATCH_SPARE_BYTES) this.#spare.push(writer)
  }

  #frame({ batch, giveBack }: Held, maxBytes: number): Loaded {
    try {
      return frameBatch(
        batch,
        { ...this.#framing, maxBytes },
        this.#spare.pop() ?? new ByteWriter(),
        giveBack,
      )
    } catch (error) {
      giveBack()
      throw error
    }
  }
}
