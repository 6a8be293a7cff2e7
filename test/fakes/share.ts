// A sink's share that its owner alone enters, and that finds him out where he waits in it for what he holds himself.
import { MemoryBudget } from '../../src/core/memory-budget.ts'

const ALL_BYTES = 32 * 2 ** 20

export class Share extends MemoryBudget {
  /** the room around it, which others enter too */
  readonly around: MemoryBudget

  constructor(bytes = ALL_BYTES) {
    const around = new MemoryBudget(ALL_BYTES)
    super(bytes, around)
    this.around = around
  }

  override enter(bytes: number, signal: AbortSignal): Promise<() => void> {
    if (this.usedBytes > 0)
      throw new Error(`somebody waits who holds ${this.usedBytes} bytes of his own share`)
    return super.enter(bytes, signal)
  }
}
