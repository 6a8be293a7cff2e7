// The answers that a listener is sending: one a connection, each within a time, and a bound on what all readers together have not taken.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Held by Node for connections that do not read. The largest page is far smaller. */
const MOST_UNSENT_BYTES = 8 * 2 ** 20

export class AnswersOut {
  readonly #timeoutMs: number
  /** the one that was asked for first is first */
  readonly #readers = new Set<Socket>()

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /**
   * False: not to be answered. A second request before the first answer is out is pipelining, which no browser, probe or scraper
   * uses, and each of them would cost an answer: the connection is closed.
   */
  begin(socket: Socket, response: ServerResponse): boolean {
    if (this.#readers.has(socket)) socket.destroy()
    if (socket.destroyed) return false
    this.#readers.add(socket)
    const late = setTimeout(() => socket.destroy(), this.#timeoutMs)
    response.once('close', () => {
      clearTimeout(late)
      this.#readers.delete(socket)
    })
    return true
  }

  /** Closes those that have not read for longest, until what is unsent stays below the bound with `bytes` more. */
  makeRoomFor(socket: Socket, bytes: number): void {
    let unsent = bytes
    for (const reader of this.#readers) unsent += reader.writableLength
    for (const reader of this.#readers) {
      if (unsent <= MOST_UNSENT_BYTES) return
      if (reader === socket || reader.writableLength === 0) continue
      unsent -= reader.writableLength
      reader.destroy()
    }
  }
}
