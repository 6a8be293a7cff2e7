// How long a write may wait for a receiver: longer after each time that was too short, or a slow one would be sent the same for ever.
import { WRITE_MS } from './session.ts'

/** By then a stuck system has long been given up by TCP itself. */
const MOST_MS = 128 * WRITE_MS
/** So much without a long wait is more than the systems on both sides hold: the receiver itself keeps up. */
const BRISK_BYTES = 32 * 1024 * 1024

/**
 * What is handed to a system's buffers tells nothing of the receiver, and a full buffer takes more only when a third of it (a
 * megabyte and more) has left: a receiver of 1000 bytes/s then looks stuck for a quarter of an hour. Giving it up loses all of
 * that, which goes out again from its beginning; so it is given up ever later.
 */
export class Patience {
  #ms = WRITE_MS
  #briskBytes = 0

  get ms(): number {
    return this.#ms
  }

  took(bytes: number, waitedMs: number): void {
    this.#briskBytes = waitedMs > WRITE_MS / 2 ? 0 : this.#briskBytes + bytes
    if (this.#briskBytes >= BRISK_BYTES) this.#ms = WRITE_MS
  }

  ranOut(): void {
    this.#briskBytes = 0
    this.#ms = Math.min(this.#ms * 2, MOST_MS)
  }
}
