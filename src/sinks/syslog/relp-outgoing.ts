// What of a round is written next: as many frames as the window has room for, and the last one in pieces.
import { ByteWriter } from '../../model/writer.ts'
import { putFrame } from './relp-frame.ts'
import type { Round } from './relp-round.ts'

/** As many frames go out in one write as fit: a write of its own for each costs more than all the rest. */
const WRITE_BYTES = 256 * 1024

export class Outgoing {
  readonly #out = new ByteWriter()
  readonly #window: number
  #nextTxnr = 1

  constructor(window: number) {
    this.#window = window
  }

  /** the number of the next frame that is begun */
  get nextTxnr(): number {
    return this.#nextTxnr
  }

  /** What can be written now: as many frames as the window has room for, or a piece of the last one. */
  next(round: Round): Uint8Array | undefined {
    const out = this.#out
    const end = Math.min(round.datas.length - 1, round.answered + this.#window)
    if (round.sent >= end || round.halted) return this.#nextOfLast(round)
    out.clear()
    for (; round.sent < end && out.length < WRITE_BYTES; round.sent++) this.#frame(round)
    round.carried = round.answered
    return out.view()
  }

  /**
   * A receiver's system holds back a small answer until an earlier one is acknowledged on the wire, and ours acknowledges
   * at once only where it has something to send; else both wait for 40 ms. So each piece of answers is met with a byte of
   * the last frame, and its rest goes out when all before it is answered: then nothing is held back.
   */
  #nextOfLast(round: Round): Uint8Array | undefined {
    const out = this.#out
    const begun = round.lastBytes > 0
    if (round.sent !== round.datas.length - 1 || (round.halted && !begun)) return undefined
    const finish = round.open === 0 || round.halted
    if (!finish && round.answered === round.carried) return undefined
    if (!begun) {
      out.clear()
      this.#frame(round)
    }
    round.carried = round.answered
    const from = round.lastBytes
    round.lastBytes = finish ? out.length : Math.min(from + 1, out.length - 1)
    if (finish) round.sent++
    return from === round.lastBytes ? undefined : out.bytes.subarray(from, round.lastBytes)
  }

  #frame({ command, datas, sent }: Round): void {
    putFrame(this.#out, this.#nextTxnr++, command, datas[sent] as Uint8Array)
  }
}
