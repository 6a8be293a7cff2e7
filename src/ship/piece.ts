// A piece of the journal in room of the process's allowance: what is larger than there is room for is read when its turn has come, not before.
import type { Batch, Journal, Seq } from '../model/journal.ts'
import type { Room } from '../model/room.ts'
import { rawBytesIn, roomBytes } from './lines.ts'

/** What is read of the journal at a time: a stretch may be far larger than what we may hold. */
const PIECE = { maxEntries: 1_000, maxBytes: 1024 * 1024 }

interface PieceOptions {
  readonly journal: Pick<Journal, 'take'>
  readonly sink: { readonly name: string }
  readonly room: Room
}

export interface Piece {
  readonly batch: Batch
  /** to be called when it is done with */
  readonly leave: () => void
}

/** The oldest entries behind `after`, `maxEntries` at most; undefined: there are none. Rejects when `signal` aborts. */
export async function takePiece(
  { journal, sink, room }: PieceOptions,
  after: Seq | undefined,
  maxEntries: number,
  signal: AbortSignal,
): Promise<Piece | undefined> {
  const limits = { ...PIECE, maxEntries: Math.min(PIECE.maxEntries, maxEntries) }
  const batch = await journal.take(sink.name, { ...limits, loneBytes: rawBytesIn(room.freeBytes) }, after)
  if (!batch) return undefined
  const leave = await room.enter(roomBytes(batch), signal)
  if (batch.leftBytes === undefined) return { batch, leave }
  let whole: Batch | undefined
  try {
    whole = await journal.take(sink.name, limits, after)
  } finally {
    if (!whole) leave()
  }
  return whole && { batch: whole, leave }
}
