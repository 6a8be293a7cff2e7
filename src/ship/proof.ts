// Whether a sink's receiver answers. Until it has taken something, and from an overdue answer on, its batches are held in a part of the room that all such sinks share.
import { Tether } from '../model/abort.ts'
import type { Clock } from '../model/clock.ts'
import type { Room } from '../model/room.ts'

/** Receivers that are well answer sooner; what one that hangs can do without is given back then. */
const OVERDUE_MS = 5_000
/** Raw bytes of a sink's next batch until it is proven: the room for the unproven is enough for dozens of them. */
const TRIAL_BYTES = 64 * 1024
/** The same of one that is proven: once it hangs, the batch goes out again as it was, and fits into the room for the unproven. */
const MOST_BYTES = 4 * 1024 * 1024

export interface ProofOptions {
  readonly room: Room
  /** the part of it for those that have not proven themselves; absent: nobody has to */
  readonly unprovenRoom?: Room | undefined
  readonly clock: Clock
}

export class Proof {
  readonly #options: ProofOptions
  /** A failure that is told in time changes nothing: who fails so holds no room for long. */
  #proven = false

  constructor(options: ProofOptions) {
    this.#options = options
  }

  /** Where its next batch is held. */
  get room(): Room {
    const { room, unprovenRoom = room } = this.#options
    return this.#proven ? room : unprovenRoom
  }

  /** Raw bytes of its next batch; one larger entry goes alone all the same. */
  get mostBytes(): number {
    return this.#proven || !this.#options.unprovenRoom ? MOST_BYTES : TRIAL_BYTES
  }

  /** The receiver has a batch that takes so much room; `overdue` is called once its answer is. To be called when it has answered or is given up. */
  asked(roomBytes: number, overdue: () => void): () => void {
    const { room, clock } = this.#options
    const waiting = new Tether()
    let accounted: (() => void) | undefined
    void clock.sleep(OVERDUE_MS, waiting.signal).then(() => {
      if (waiting.signal.aborted) return
      this.#proven = false
      overdue()
      accounted = room.overdue(roomBytes)
    })
    return () => {
      waiting.close()
      accounted?.()
    }
  }

  /** The receiver took what it was asked to. */
  taken(): void {
    this.#proven = true
  }
}
