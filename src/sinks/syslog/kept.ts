// What was sent over a stream lately: a receiver's end or a reset may have cost any of it, so it is kept a while to be sent again.
import type { Lines } from '../../model/sink.ts'

/** What the kernels on both sides may hold unread, and no more than a daemon of 256 MiB can spare. */
const KEPT_BYTES = 8 * 1024 * 1024
/** Whole lines are kept and forgotten together up to this size: a stream may not begin inside a message. */
const PIECE_BYTES = 64 * 1024

interface Piece {
  readonly bytes: Uint8Array
  /** monotonic ms; Infinity: in doubt, to be sent again */
  sentAt: number
  /** how long a peer had it when that one went in an orderly way */
  hadMs: number
}

export class Kept {
  readonly #lingerMs: number
  readonly #mostBytes: number
  #pieces: Piece[] = []
  #bytes = 0

  constructor(lingerMs: number, mostBytes = KEPT_BYTES) {
    this.#lingerMs = lingerMs
    this.#mostBytes = mostBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Copies; what the rest of its own batch would push out is not even copied. */
  add({ bytes, ends, count }: Lines, now: number): void {
    if (this.#lingerMs === 0) return
    const total = ends[count - 1] ?? 0
    this.#drop(({ length }) => length > 0 && this.#bytes + total > this.#mostBytes)
    let from = 0
    for (let i = 0; i < count; i++) {
      const end = ends[i] as number
      if (i < count - 1 && (ends[i + 1] as number) - from <= PIECE_BYTES) continue
      if (end > from && total - from <= this.#mostBytes) {
        this.#pieces.push({ bytes: Buffer.from(bytes.subarray(from, end)), sentAt: now, hadMs: 0 })
        this.#bytes += end - from
      }
      from = end
    }
  }

  /** Forgets what the peer has been sent longer ago than the linger. Asked only while the peer is there. */
  expire(now: number): void {
    this.#drop(([oldest]) => oldest !== undefined && now - oldest.sentAt > this.#lingerMs)
  }

  /**
   * The peer is gone: what is kept now stays until it went out once more, however long that takes. After an orderly end it
   * goes on ageing from where it was, or a receiver that closes what is idle would be sent the same for ever.
   */
  doubt(now: number, orderly: boolean): void {
    this.expire(now)
    for (const piece of this.#pieces) {
      if (piece.sentAt !== Infinity) piece.hadMs = orderly ? Math.max(0, now - piece.sentAt) : 0
      piece.sentAt = Infinity
    }
  }

  /** Sends all of it, the oldest first; what could not be sent stays in doubt. */
  async sendAgain(send: (bytes: Uint8Array) => Promise<void>, now: () => number): Promise<void> {
    for (const piece of this.#pieces) {
      await send(piece.bytes)
      piece.sentAt = now() - piece.hadMs
    }
  }

  clear(): void {
    this.#pieces = []
    this.#bytes = 0
  }

  #drop(isDue: (pieces: readonly Piece[]) => boolean): void {
    let dropped = 0
    while (isDue(this.#pieces.slice(dropped, dropped + 1)))
      this.#bytes -= (this.#pieces[dropped++] as Piece).bytes.length
    this.#pieces.splice(0, dropped)
  }
}
