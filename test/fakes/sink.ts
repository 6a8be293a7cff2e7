// A sink that remembers what it was given and answers as scripted.
import { ConnectorError } from '../../src/core/errors.ts'
import type { ErrorCode } from '../../src/core/errors.ts'
import type {
  CheckResult,
  Delivery,
  Frame,
  Confirmation,
  Lines,
  Outcome,
  Sink,
} from '../../src/contracts/sink.ts'

export interface Delivered {
  readonly seqs: readonly number[]
  readonly texts: readonly string[]
  readonly detail: string
  readonly possibleDuplicate: boolean
  readonly at: number
}

export function textsOf({ bytes, ends, count }: Lines): string[] {
  return Array.from({ length: count }, (_, i) =>
    Buffer.from(bytes.subarray(i === 0 ? 0 : ends[i - 1], (ends[i] ?? 1) - 1)).toString(),
  )
}

/** All of it. */
export const taken = ({ lines }: Delivery): Outcome => ({ acknowledged: lines.count, rejected: [] })

export const failing = (code: ErrorCode, retryAfterMs?: number) => (): Outcome => {
  throw new ConnectorError(
    code,
    `the receiver says ${code}`,
    retryAfterMs === undefined ? {} : { retryAfterMs },
  )
}

export class FakeSink implements Sink {
  readonly name: string
  readonly type = 'fake'
  readonly assurance = 'stored'
  readonly shape = 'fake'
  readonly deliveries: Delivered[] = []
  readonly warmed: number[][] = []
  answer: (delivery: Delivery) => Outcome | Promise<Outcome> = taken
  prepare?: (lines: Lines) => Promise<string>
  maxUnconfirmed?: number
  resume?: (detail: string) => Confirmation | undefined
  now: () => number = () => 0

  constructor(name = 'archive') {
    this.name = name
  }

  readonly frame: Frame = (run, index, out, format) => {
    format(run, index, out)
    out.byte(10)
  }

  warm(lines: Lines): void {
    this.warmed.push([...lines.seqs])
  }

  async deliver(delivery: Delivery): Promise<Outcome> {
    const { lines, detail, possibleDuplicate } = delivery
    this.deliveries.push({
      seqs: [...lines.seqs],
      texts: textsOf(lines),
      detail,
      possibleDuplicate,
      at: this.now(),
    })
    return this.answer(delivery)
  }

  async check(): Promise<readonly CheckResult[]> {
    return []
  }

  async close(): Promise<void> {
    // nothing to close
  }

  /** Sequence numbers, delivery by delivery. */
  get seqs(): (readonly number[])[] {
    return this.deliveries.map(({ seqs }) => seqs)
  }
}
