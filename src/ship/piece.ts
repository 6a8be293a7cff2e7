// A piece of the journal for who walks over a stretch of it, in its sink's share of the room.
import type { Journal } from '../model/journal.ts'
import type { Seq } from '../model/seq.ts'
import { type Held, rawBytesIn, type ShareOptions, takeIntoRoom } from './share.ts'

/** What is read of the journal at a time: a stretch may be far larger than what we may hold. */
const PIECE = { maxEntries: 1_000, maxBytes: 1024 * 1024 }

interface PieceOptions extends ShareOptions {
  readonly journal: Pick<Journal, 'take'>
  readonly sink: { readonly name: string }
}

/** The oldest entries behind `after`, `maxEntries` at most; undefined: there are none. Rejects when `signal` aborts. */
export function takePiece(
  options: PieceOptions,
  after: Seq | undefined,
  maxEntries: number,
  signal: AbortSignal,
): Promise<Held | undefined> {
  const { journal, sink, room } = options
  const most = Math.min(PIECE.maxEntries, maxEntries)
  const read = (maxBytes: number, loneBytes?: number) =>
    journal.take(sink.name, { maxEntries: most, maxBytes, loneBytes }, { after })
  return takeIntoRoom(options, read, Math.min(PIECE.maxBytes, rawBytesIn(room)), signal)
}
