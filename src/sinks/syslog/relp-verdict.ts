// Which messages a RELP receiver stored, which it refuses for good, and which are merely not stored yet. Pure.
import type { ConnectorError } from '../../model/errors.ts'
import type { Outcome, Refusal } from '../../model/sink.ts'
import { OK } from './relp-replies.ts'

/** So often a message is sent before a refusal counts as the receiver's last word. */
const TRIES = 3

/**
 * The verdict over one delivery. A message is refused for good only when it was refused in each try while the receiver took one
 * sent after it: a receiver that refuses everything is failing, and judges no message.
 */
export class Verdict {
  readonly #codes: Uint16Array
  /** refused, but one behind it was taken */
  readonly #singled: Uint8Array
  /** indices of the messages that the next try is to send */
  pending: readonly number[]
  tries = 0

  constructor(count: number) {
    this.#codes = new Uint16Array(count)
    this.#singled = new Uint8Array(count)
    this.pending = Array.from({ length: count }, (_, index) => index)
  }

  /** What was answered to `pending`, in that order; one more code at the end is that of a known good message. */
  note(codes: Uint16Array): void {
    const { pending } = this
    let takenBehind = codes[pending.length] === OK
    for (let at = pending.length - 1; at >= 0; at--) {
      const index = pending[at] as number
      const code = codes[at] as number
      if (code !== 0) this.#codes[index] = code
      if (code === OK) takenBehind = true
      else if (code !== 0 && takenBehind) this.#singled[index] = 1
    }
    this.pending = pending.filter((index) => this.#codes[index] !== OK)
    // Whoever changes its mind did not mean it for good: all tries begin again for the others.
    const changed = this.tries > 0 && this.pending.length < pending.length
    this.tries = changed ? 1 : this.tries + 1
  }

  get lastTryNext(): boolean {
    return this.tries === TRIES - 1
  }

  /** Nothing told yet whether the receiver takes anything at all behind what it refused. */
  get doubted(): boolean {
    return this.pending.some((index) => this.#singled[index] === 0)
  }

  get settled(): boolean {
    return this.pending.length === 0
  }

  get decided(): boolean {
    return this.settled || this.tries >= TRIES
  }

  /** the code of the first message that is not taken */
  get firstRefusal(): number {
    return this.#codes[this.pending[0] ?? 0] ?? 0
  }

  /** How far all is done with. Refusals count only once decided; before, the first one ends it. */
  outcome(): Outcome {
    const refused: Refusal[] = []
    const count = this.#codes.length
    for (let index = 0; index < count; index++) {
      const code = this.#codes[index] as number
      if (code === OK) continue
      const forGood = this.tries >= TRIES && code !== 0 && this.#singled[index] === 1
      if (!forGood) return { settled: index, refused }
      refused.push({ index, code: 'refused', reason: reasonOf(code), own: true })
    }
    return { settled: count, refused }
  }

  /** The prefix that is done with; where there is none, the error. */
  outcomeOr(error: ConnectorError): Outcome {
    const outcome = this.outcome()
    if (outcome.settled === 0) throw error
    return outcome
  }
}

/** The receiver's own words may echo the message, so its code must do. */
const reasonOf = (code: number): string =>
  `the RELP receiver answered ${code} ${TRIES} times and took what came after it; its own log tells why`
