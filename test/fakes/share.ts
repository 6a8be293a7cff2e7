// A sink's share that its owner alone enters, and that finds him out where he waits in it for what he holds himself.
import { Room } from '../../src/core/memory-budget.ts'

const ALL_BYTES = 32 * 2 ** 20

export class Share extends Room {
  /** the room around it, which others enter too */
  readonly around: Room

  constructor(bytes = ALL_BYTES) {
    const around = new Room(ALL_BYTES)
    super(bytes, around)
    this.around = around
  }

  override enter(bytes: number, signal: AbortSignal): Promise<() => void> {
    if (this.heldBytes > 0)
      throw new Error(`somebody waits who holds ${this.heldBytes} bytes of his own share`)
    return super.enter(bytes, signal)
  }
}
