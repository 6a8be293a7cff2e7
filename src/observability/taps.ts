// Live samples of what a sink was sent: only if the configuration allows it, and only while a
// person looks.
import { LF } from '../core/bytes.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { SinkObserver } from '../contracts/reporter.ts'

/** Samples are for reading: longer lines are cut, and this bounds the memory of a reader. */
export const MAX_LINES = 1_000
const MAX_BYTES = 256 * 1024

interface TapReader {
  readonly limit: number
  readonly lines: Uint8Array[]
  bytes: number
  readonly full: AbortController
}

export class Taps {
  readonly #clock: Pick<Clock, 'sleep'>
  readonly #readers = new Map<string, Set<TapReader>>()

  constructor(clock: Pick<Clock, 'sleep'>) {
    this.#clock = clock
  }

  /** Copies the lines that the sink takes. Costs one look at a set without a reader. */
  observer(sink: string): SinkObserver {
    const readers = new Set<TapReader>()
    this.#readers.set(sink, readers)
    return observerOf(readers)
  }

  /**
   * The next lines that the sink takes, at most `limit`; fewer if `waitMs` ends first. Throws
   * ConnectorError `misconfigured` if the configuration does not allow it.
   */
  async next(name: string, limit: number, waitMs: number): Promise<readonly Uint8Array[]> {
    const readers = this.#readers.get(name)
    if (!readers)
      throw new ConnectorError(
        'misconfigured',
        `tap is disabled for sink ${name} because it shows log content; set tap: true to enable it (no restart needed)`,
      )
    const reader: TapReader = {
      limit: Math.min(limit, MAX_LINES),
      lines: [],
      bytes: 0,
      full: new AbortController(),
    }
    readers.add(reader)
    await this.#clock.sleep(waitMs, reader.full.signal)
    readers.delete(reader)
    return reader.lines
  }

  /** Readers get the lines so far, so that no wait delays a stop. */
  close(): void {
    for (const readers of this.#readers.values()) for (const { full } of readers) full.abort()
  }
}

function copyTo(readers: ReadonlySet<TapReader>, line: Uint8Array): void {
  for (const reader of readers) {
    if (reader.lines.length >= reader.limit || reader.bytes >= MAX_BYTES) continue
    const sample = line.slice(0, MAX_BYTES - reader.bytes)
    reader.lines.push(sample)
    reader.bytes += sample.length
    if (reader.lines.length >= reader.limit || reader.bytes >= MAX_BYTES) reader.full.abort()
  }
}

function observerOf(readers: ReadonlySet<TapReader>): SinkObserver {
  return {
    async deliver({ lines: { bytes, ends } }, send) {
      const outcome = await send()
      const again = new Set(outcome.retry?.indices)
      for (let i = 0; readers.size > 0 && i < Math.min(outcome.acknowledged, MAX_LINES); i++)
        if (!again.has(i)) copyTo(readers, bytes.subarray(i === 0 ? 0 : ends[i - 1], ends[i]))
      return outcome
    },
    // An object's lines are shown as they are written; the object itself is stored later.
    write(lines) {
      for (let at = 0, shown = 0; readers.size > 0 && at < lines.length && shown < MAX_LINES; shown++) {
        const end = lines.indexOf(LF, at)
        const to = end < 0 ? lines.length : end + 1
        copyTo(readers, lines.subarray(at, to))
        at = to
      }
    },
  }
}
