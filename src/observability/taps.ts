// Live samples of what a sink was sent: only if the configuration allows it, and only while a
// person looks.
import { LF } from '../core/bytes.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { SinkObserver } from '../contracts/reporter.ts'

/** Samples are for reading: longer lines are cut, and this bounds the memory that a reader can use. */
export const MOST_LINES = 1_000
const MOST_BYTES = 256 * 1024

interface Reader {
  readonly limit: number
  readonly lines: Uint8Array[]
  bytes: number
  readonly full: AbortController
}

export class Taps {
  readonly #clock: Pick<Clock, 'sleep'>
  readonly #lookers = new Map<string, Set<Reader>>()

  constructor(clock: Pick<Clock, 'sleep'>) {
    this.#clock = clock
  }

  /** Copies the lines that the sink takes. Without a reader it costs one look at a set per batch. */
  observer(sink: string): SinkObserver {
    const lookers = new Set<Reader>()
    this.#lookers.set(sink, lookers)
    return observerOf(lookers)
  }

  /**
   * The next lines that the sink takes, at most `limit`; fewer if `waitMs` ends first. Throws ConnectorError `misconfigured` if
   * the configuration does not allow it.
   */
  async next(name: string, limit: number, waitMs: number): Promise<readonly Uint8Array[]> {
    const lookers = this.#lookers.get(name)
    if (!lookers)
      throw new ConnectorError(
        'misconfigured',
        `tap is disabled for sink ${name} because it shows log content; set tap: true to enable it (no restart needed)`,
      )
    const looker: Reader = {
      limit: Math.min(limit, MOST_LINES),
      lines: [],
      bytes: 0,
      full: new AbortController(),
    }
    lookers.add(looker)
    await this.#clock.sleep(waitMs, looker.full.signal)
    lookers.delete(looker)
    return looker.lines
  }

  /** Readers get the lines so far, so that no wait delays a stop. */
  close(): void {
    for (const lookers of this.#lookers.values()) for (const { full } of lookers) full.abort()
  }
}

function show(lookers: ReadonlySet<Reader>, line: Uint8Array): void {
  for (const looker of lookers) {
    if (looker.lines.length >= looker.limit || looker.bytes >= MOST_BYTES) continue
    const sample = line.slice(0, MOST_BYTES - looker.bytes)
    looker.lines.push(sample)
    looker.bytes += sample.length
    if (looker.lines.length >= looker.limit || looker.bytes >= MOST_BYTES) looker.full.abort()
  }
}

function observerOf(lookers: ReadonlySet<Reader>): SinkObserver {
  return {
    async deliver({ lines: { bytes, ends } }, send) {
      const outcome = await send()
      const again = new Set(outcome.retry?.indices)
      for (let i = 0; lookers.size > 0 && i < Math.min(outcome.acknowledged, MOST_LINES); i++)
        if (!again.has(i)) show(lookers, bytes.subarray(i === 0 ? 0 : ends[i - 1], ends[i]))
      return outcome
    },
    // An object's lines are shown as they are written; the object itself is stored later.
    write(lines) {
      for (let at = 0, shown = 0; lookers.size > 0 && at < lines.length && shown < MOST_LINES; shown++) {
        const end = lines.indexOf(LF, at)
        const to = end < 0 ? lines.length : end + 1
        show(lookers, lines.subarray(at, to))
        at = to
      }
    },
  }
}
