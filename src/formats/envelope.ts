// `envelope`: the entry as the API sent it, with where it came from and when written before it.
import { ID_END, ID_START, RAW_END, RAW_START, TIME_END, TIME_START } from '../model/entries.ts'
import type { Run } from '../model/journal.ts'
import { writeEscaped } from '../model/json.ts'
import type { Format } from '../model/sink.ts'

const TIME_KEY = Buffer.from('","time":"')
const ENTRY_KEY = Buffer.from(',"entry":')
const CLOSE = 125

/** What is the same for each entry of a run: written once, copied from then on. */
interface Constants {
  readonly run: Run
  readonly head: Buffer
  readonly ingested: Buffer
}

function constantsOf(run: Run): Constants {
  const { workspace, source } = run.origin
  const opening = JSON.stringify({ workspace, source }).slice(0, -1)
  return {
    run,
    head: Buffer.from(`${opening},"id":"`),
    ingested: Buffer.from(`","ingested_at":"${new Date(run.appendedAt).toISOString()}"`),
  }
}

export function envelope(): Format {
  let known: Constants | undefined
  return (run, index, out) => {
    if (known?.run !== run) known = constantsOf(run)
    const { entries } = run
    out.copy(known.head)
    writeEscaped(out, entries.bytes, entries.column(index, ID_START), entries.column(index, ID_END))
    out.copy(TIME_KEY)
    writeEscaped(out, entries.bytes, entries.column(index, TIME_START), entries.column(index, TIME_END))
    out.copy(known.ingested)
    const version = entries.version(index)
    if (version > 0) out.text(`,"version":${version}`)
    if (run.replay) out.text(',"replay":true')
    out.copy(ENTRY_KEY)
    out.copy(entries.bytes, entries.column(index, RAW_START), entries.column(index, RAW_END))
    out.byte(CLOSE)
  }
}
