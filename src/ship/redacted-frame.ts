// A sink's frame that sees each entry as it may be seen: formats and frames work on the changed entry and know of no other.
import { columnsOf, Entries, ID_END, ID_START, TIME_END, TIME_START, TYPE } from '../model/entries.ts'
import type { Frame } from '../model/sink.ts'
import { ByteWriter } from '../model/writer.ts'
import type { Redact } from './redact.ts'
import { ENTRY_SPARE_BYTES } from './spare.ts'

const USUAL_BYTES = 16 * 1024

export function redactedFrame(frame: Frame, redact: Redact): Frame {
  const slab = new ByteWriter(USUAL_BYTES)
  return (run, index, out, format) => {
    if (redact(run.entries.raw(index), slab)) {
      const entries = changedEntry(run.entries, index, slab)
      frame({ ...run, entries, firstSeq: run.firstSeq + index }, 0, out, format)
    } else frame(run, index, out, format)
    slab.clear(ENTRY_SPARE_BYTES)
  }
}

/** The entry whose changed bytes stand in `slab`. Its id and time are the same ones, behind those bytes: what they were may lie elsewhere by now. */
function changedEntry(entries: Entries, index: number, slab: ByteWriter): Entries {
  const behind = (start: number, end: number) => {
    const from = slab.length
    slab.copy(entries.bytes, entries.column(index, start), entries.column(index, end))
    return [from, slab.length] as const
  }
  const raw = [0, slab.length] as const
  const id = behind(ID_START, ID_END)
  const time = behind(TIME_START, TIME_END)
  const type = entries.column(index, TYPE)
  const columns = Uint32Array.from(columnsOf({ raw, id, time, type, version: entries.version(index) }))
  return new Entries(slab.bytes, 1, columns, Float64Array.of(entries.at(index)), entries.types)
}
