// A batch as lines: each entry through the sink's format and frame into one buffer, in journal order. Pure but for the buffer.
import type { Batch, Run } from '../model/journal.ts'
import type { Seq } from '../model/seq.ts'
import type { WayOut } from '../model/room.ts'
import type { Format, Frame, Lines } from '../model/sink.ts'
import type { ByteWriter } from '../model/writer.ts'
import type { Redact } from './redact.ts'
import { redactedFrame } from './redacted-frame.ts'
import { type CountedRun, countedRun } from './tally.ts'

export interface Framing {
  readonly sink: { readonly frame: Frame }
  readonly format: Format
  readonly wanted: (run: Run, index: number) => boolean
}

/** The one place where a sink's content policy comes in: whatever frames an entry for it goes through here. */
export function framingOf({
  sink,
  format,
  wanted,
  redact,
}: Framing & { readonly redact?: Redact | undefined }): Framing {
  if (!redact) return { sink, format, wanted }
  const frame = redactedFrame((run, index, out, inner) => sink.frame(run, index, out, inner), redact)
  return { sink: { frame }, format, wanted }
}

export interface BatchFraming extends Framing {
  /** of framed lines; the first line stands in it however long it is */
  readonly maxBytes: number
}

/** A batch with its lines. The lines live in `writer` until the loader frees it. */
export interface Loaded {
  readonly first: Seq
  /** everything up to here stands in it, framed or filtered */
  readonly last: Seq
  readonly lines: Lines
  /** what the lines were made of */
  readonly runs: readonly CountedRun[]
  /** own time of line i, µs */
  readonly times: Float64Array
  readonly writer: ByteWriter
  readonly giveBack: WayOut
}

/** Frames as many entries of the batch as `maxBytes` holds. Their own bytes are let go of then: of the room the lines alone are held. */
export function frameBatch(
  batch: Batch,
  framing: BatchFraming,
  writer: ByteWriter,
  giveBack: WayOut,
): Loaded {
  writer.clear()
  const ends = new Uint32Array(batch.count)
  const seqs = new Float64Array(batch.count)
  const times = new Float64Array(batch.count)
  const { count, last } = frameRuns(batch, framing, writer, { ends, seqs, times })
  const lines = { count, bytes: writer.view(), ends: ends.subarray(0, count), seqs: seqs.subarray(0, count) }
  giveBack(writer.length)
  const runs = batch.runs.map(countedRun)
  return { first: batch.first, last, lines, runs, times: times.subarray(0, count), writer, giveBack }
}

interface Columns {
  readonly ends: Uint32Array
  readonly seqs: Float64Array
  readonly times: Float64Array
}

function frameRuns(
  batch: Batch,
  { sink, format, wanted, maxBytes }: BatchFraming,
  writer: ByteWriter,
  into: Columns,
) {
  let count = 0
  let last = batch.first - 1
  for (const run of batch.runs) {
    const size = run.entries.count
    for (let i = 0; i < size; i++) {
      if (wanted(run, i)) {
        const before = writer.length
        sink.frame(run, i, writer, format)
        if (writer.length > maxBytes && count > 0) {
          writer.length = before
          return { count, last }
        }
        into.seqs[count] = run.firstSeq + i
        into.times[count] = run.entries.times[i] as number
        into.ends[count++] = writer.length
      }
      last = run.firstSeq + i
    }
  }
  return { count, last }
}
