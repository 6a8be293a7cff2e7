// One line as one HEC event object. Only keys that Splunk knows: after an unknown one it answers
// 200 and drops the rest.
import { OPEN_OBJECT } from '../../core/bytes.ts'
import { ID_END, ID_START } from '../../contracts/entries.ts'
import { quote, writeEscaped } from '../../core/json.ts'
import { perStream, type Shared } from '../../contracts/journal.ts'
import type { Frame } from '../../contracts/sink.ts'
import { epochSeconds } from '../../core/time.ts'

export interface FrameOptions {
  readonly index?: string | undefined
  readonly source?: string | undefined
  readonly sourcetype?: string | undefined
  readonly host?: string | undefined
  hostOf(workspace: string): string
}

/** What all events of a stream share: written once, then copied. */
interface Constants {
  /** between the time and the event */
  readonly middle: Buffer
  /** between the event and the entry's id */
  readonly fields: Buffer
  readonly close: Buffer
}

function constantsOf({ stream, replay }: Shared, options: FrameOptions): Constants {
  const { workspace, source } = stream
  const meta = {
    host: options.host ?? options.hostOf(workspace),
    source: options.source ?? `auditferry:${workspace}`,
    sourcetype: options.sourcetype ?? `auditferry:${source}`,
    ...(options.index === undefined ? {} : { index: options.index }),
  }
  const fields = JSON.stringify({ workspace, auditferry_source: source }).slice(0, -1)
  return {
    middle: Buffer.from(`${JSON.stringify(meta).slice(1, -1)},"event":`),
    fields: Buffer.from(`,"fields":${fields},"entry_id":"`),
    close: Buffer.from(replay ? ',"replay":true}}' : '}}'),
  }
}

export function hecFrame(options: FrameOptions): Frame {
  const constants = perStream((shared) => constantsOf(shared, options))
  return (run, index, out, format) => {
    const { middle, fields, close } = constants(run)
    const { entries } = run
    const at = entries.at(index)
    out.text(Number.isFinite(at) ? `{"time":${epochSeconds(at)},` : '{')
    out.copy(middle)
    const from = out.length
    format(run, index, out)
    // A line that is not JSON becomes a JSON string. An entry's own JSON is always an object.
    if (out.bytes[from] !== OPEN_OBJECT) quote(out, from)
    out.copy(fields)
    writeEscaped(out, entries.bytes, entries.column(index, ID_START), entries.column(index, ID_END))
    const version = entries.version(index)
    out.text(version > 0 ? `","version":${version}` : '"')
    out.copy(close)
  }
}
