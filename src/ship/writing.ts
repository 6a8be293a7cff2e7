// Writes a closed stretch onto the disk: one walk over it frames a lot of its objects side by side. What has more groups is walked again.
import type { Clock } from '../model/clock.ts'
import type { Batch, Journal, Run } from '../model/journal.ts'
import type { Seq } from '../model/seq.ts'
import type { ObjectGroup, OpenObject } from '../model/object.ts'
import type { ObjectSink } from '../model/sink.ts'
import { ByteWriter } from '../model/writer.ts'
import type { ClosedStretch, WaitingObject } from './closed-stretch.ts'
import type { Framing } from './lines.ts'
import { takePiece } from './piece.ts'
import type { Held, ShareOptions } from './share.ts'
import { PIECE_SPARE_BYTES } from './spare.ts'
import { Contents } from './stretch.ts'
import { dayOf, Tally } from './tally.ts'

/** Objects that are written in one walk: each has a compressor. */
const LOT = 8

interface WritingOptions extends ShareOptions {
  readonly sink: Pick<ObjectSink, 'name' | 'open'>
  readonly journal: Pick<Journal, 'take'>
  readonly clock: Clock
}

interface Writing {
  readonly object: OpenObject
  readonly contents: Contents
  readonly writer: ByteWriter
}

/** Leaves up to a lot of its objects on the disk, to be put. */
export async function writeLot(
  options: WritingOptions,
  framing: Framing,
  closed: ClosedStretch,
  signal: AbortSignal,
): Promise<void> {
  const { intent } = closed
  closed.tally = new Tally()
  const lot = new Lot(options, framing, closed)
  try {
    for (let at = intent.first - 1; at < intent.last;) {
      const { batch, giveBack } = await pieceOf(options, at, intent.last, signal)
      try {
        await lot.add(batch)
      } finally {
        giveBack()
      }
      at = batch.last
    }
    closed.waiting.push(...(await lot.end()))
    closed.complete = !lot.more
  } catch (error) {
    await lot.discard()
    throw error
  }
}

async function pieceOf(options: WritingOptions, after: Seq, last: Seq, signal: AbortSignal): Promise<Held> {
  const piece = await takePiece(options, after, last - after, signal)
  if (piece?.batch.first === after + 1) return piece
  piece?.giveBack()
  throw new Error(`The journal lacks entry ${after + 1}, which was not settled`)
}

/** The objects that one walk writes. */
class Lot {
  /** There are groups that it had no place for. */
  more = false
  readonly #options: WritingOptions
  readonly #framing: Framing
  readonly #closed: ClosedStretch
  readonly #open = new Map<ObjectGroup, Writing>()

  constructor(options: WritingOptions, framing: Framing, closed: ClosedStretch) {
    this.#options = options
    this.#framing = framing
    this.#closed = closed
  }

  /** Frames what of the piece belongs to its objects, and hands that to the disk. */
  async add(piece: Batch): Promise<void> {
    for (const run of piece.runs) await this.#frame(run)
    for (const writing of this.#open.values()) await flush(writing)
  }

  async end(): Promise<readonly WaitingObject[]> {
    const waiting: WaitingObject[] = []
    for (const [group, { object, contents }] of this.#open)
      waiting.push({ group, contents, ready: await object.end(contents.whole) })
    return waiting
  }

  async discard(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ object }) => object.discard()))
  }

  async #frame(run: Run): Promise<void> {
    const { sink, format, wanted } = this.#framing
    const { groups, done, tally } = this.#closed
    const nowMs = this.#options.clock.now()
    for (let i = 0; i < run.entries.count; i++) {
      if (!wanted(run, i)) {
        tally.addFiltered(run, i, this.#options.sink.name)
        continue
      }
      tally.add(run, dayOf(run, i), run.replay ? 'replayed' : 'accepted')
      const group = groups.of(run, i)
      let writing = this.#open.get(group)
      if (!writing) {
        if (done.has(group)) continue
        if (this.#open.size === LOT) {
          this.more = true
          continue
        }
        writing = await this.#begin(group)
      }
      sink.frame(run, i, writing.writer, format)
      writing.contents.add(run.firstSeq + i, run.entries.at(i), nowMs)
    }
  }

  async #begin(group: ObjectGroup): Promise<Writing> {
    const object = await this.#options.sink.open(this.#open.size)
    const writing = { object, contents: new Contents(group), writer: new ByteWriter() }
    this.#open.set(group, writing)
    return writing
  }
}

/** What was framed of one piece goes to the disk. */
async function flush({ object, writer }: Writing): Promise<void> {
  if (writer.length === 0) return
  await object.write(writer.view())
  writer.clear(PIECE_SPARE_BYTES)
}
