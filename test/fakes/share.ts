// A sink's share that its owner alone enters, and that detects an owner which waits in it for what it holds itself.
import { MemoryBudget } from '../../src/core/memory-budget.ts'

const ALL_BYTES = 32 * 2 ** 20

export class Share extends MemoryBudget {
  /** the memory budget around it, which others enter too */
  readonly around: MemoryBudget

  constructor(bytes = ALL_BYTES) {
    const around = new MemoryBudget(ALL_BYTES)
    super(bytes, around)
    this.around = around
  }

  override reserve(bytes: number, signal: AbortSignal): Promise<() => void> {
    if (this.usedBytes > 0)
      throw new Error(`somebody waits who holds ${this.usedBytes} bytes of his own share`)
    return super.reserve(bytes, signal)
  }
}
