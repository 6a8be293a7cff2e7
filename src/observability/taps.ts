// Live samples of what a sink was sent: only if the configuration allows it, and only while a
// person looks.
import { LF } from '../core/bytes.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import { overlay } from '../core/overlay.ts'
import type { Delivery, ObjectSink, OpenObject, Outcome, Sink } from '../contracts/sink.ts'

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

  /** Wraps the sink and copies the lines that it takes. Costs one set lookup without a reader. */
  sink<Kind extends Sink | ObjectSink>(sink: Kind): Kind {
    const readers = new Set<TapReader>()
    this.#readers.set(sink.name, readers)
    const tapped = 'objects' in sink ? objectTap(sink, readers) : batchTap(sink, readers)
    return overlay(sink, tapped as Partial<Kind>)
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

function batchTap(sink: Sink, readers: ReadonlySet<TapReader>): Partial<Sink> {
  return {
    async deliver(delivery: Delivery, signal: AbortSignal): Promise<Outcome> {
      const outcome = await sink.deliver(delivery, signal)
      const { bytes, ends } = delivery.lines
      for (let i = 0; readers.size > 0 && i < Math.min(outcome.settled, MAX_LINES); i++)
        copyTo(readers, bytes.subarray(i === 0 ? 0 : ends[i - 1], ends[i]))
      return outcome
    },
  }
}

/** Shows an object's lines as they are written; the object itself is stored later. */
function objectTap(sink: ObjectSink, readers: ReadonlySet<TapReader>): Partial<ObjectSink> {
  return {
    async open(slot: number): Promise<OpenObject> {
      const object = await sink.open(slot)
      const write = async (lines: Uint8Array): Promise<void> => {
        for (let at = 0, shown = 0; readers.size > 0 && at < lines.length && shown < MAX_LINES; shown++) {
          const end = lines.indexOf(LF, at)
          const to = end < 0 ? lines.length : end + 1
          copyTo(readers, lines.subarray(at, to))
          at = to
        }
        await object.write(lines)
      }
      return overlay(object, { write })
    },
  }
}
