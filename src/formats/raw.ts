// `raw`: the entry as the API sent it, byte for byte.
import { RAW_END, RAW_START } from '../model/entries.ts'
import type { Format } from '../model/sink.ts'

export const raw: Format = ({ entries }, index, out) => {
  out.copy(entries.bytes, entries.column(index, RAW_START), entries.column(index, RAW_END))
}
