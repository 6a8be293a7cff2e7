// `raw`: the entry as the API sent it, byte for byte.
import { ID_END, ID_START, RAW_END, RAW_START, TIME_END, TIME_START } from '../contracts/entries.ts'
import { perStream } from '../contracts/journal.ts'
import type { Shared } from '../contracts/journal.ts'
import type { Format } from '../contracts/sink.ts'
import { CLOSE_OBJECT } from '../core/bytes.ts'
import { writeEscaped } from '../core/json.ts'

export const raw: Format = ({ entries }, index, out) => {
  out.copy(entries.bytes, entries.column(index, RAW_START), entries.column(index, RAW_END))
}

// `envelope`: the entry as the API sent it, preceded by its stream and the time of writing.

const TIME_KEY = Buffer.from('","time":"')
const ENTRY_KEY = Buffer.from(',"entry":')

function constantsOf({ stream: { workspace, source }, appendedAt }: Shared) {
  const opening = JSON.stringify({ workspace, source }).slice(0, -1)
  return {
    head: Buffer.from(`${opening},"id":"`),
    ingested: Buffer.from(`","ingested_at":"${new Date(appendedAt).toISOString()}"`),
  }
}

export function envelope(): Format {
  const constants = perStream(constantsOf)
  return (slice, index, out) => {
    const { head, ingested } = constants(slice)
    const { entries } = slice
    out.copy(head)
    writeEscaped(out, entries.bytes, entries.column(index, ID_START), entries.column(index, ID_END))
    out.copy(TIME_KEY)
    writeEscaped(out, entries.bytes, entries.column(index, TIME_START), entries.column(index, TIME_END))
    out.copy(ingested)
    const version = entries.version(index)
    if (version > 0) out.text(`,"version":${version}`)
    if (slice.replay) out.text(',"replay":true')
    out.copy(ENTRY_KEY)
    out.copy(entries.bytes, entries.column(index, RAW_START), entries.column(index, RAW_END))
    out.byte(CLOSE_OBJECT)
  }
}
