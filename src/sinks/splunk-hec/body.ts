// One line as one HEC event object. Only keys that Splunk knows: after an unknown one it answers
// 200 and drops the rest.
import { COMMA, DOT, OPEN_OBJECT, QUOTE, ZERO } from '../../core/bytes.ts'
import { ID_END, ID_START } from '../../contracts/entries.ts'
import { quote, writeEscaped } from '../../core/json.ts'
import { perStream, type Shared } from '../../contracts/journal.ts'
import type { Frame } from '../../contracts/sink.ts'
import { epochSeconds } from '../../core/time.ts'
import type { ByteWriter } from '../../core/bytes.ts'

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

const OPEN = Buffer.from('{"time":')
const OPEN_TIMELESS = Buffer.from('{')
const VERSION = Buffer.from('","version":')
const MICRO = 1_000_000

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

/** Digit by digit, six decimals: a string per entry would cost more than the rest of the frame. */
function writeTime(us: number, out: ByteWriter): void {
  if (!Number.isFinite(us)) {
    out.copy(OPEN_TIMELESS)
    return
  }
  out.copy(OPEN)
  if (us < 0 || us >= 1e16) {
    out.text(epochSeconds(us))
  } else {
    out.reserve(18)
    const { bytes, length } = out
    let seconds = Math.floor(us / MICRO)
    let rest = us - seconds * MICRO
    const width = seconds < 1e9 ? String(seconds).length : 10
    for (let at = length + width - 1; at >= length; at--) {
      const next = Math.floor(seconds / 10)
      bytes[at] = ZERO + seconds - next * 10
      seconds = next
    }
    bytes[length + width] = DOT
    for (let at = length + width + 6; at > length + width; at--) {
      const next = Math.floor(rest / 10)
      bytes[at] = ZERO + rest - next * 10
      rest = next
    }
    out.length = length + width + 7
  }
  out.byte(COMMA)
}

/** A line that is not JSON becomes a JSON string. An entry's own JSON is always an object. */
function quoteUnlessJson(out: ByteWriter, from: number): void {
  if (out.bytes[from] === OPEN_OBJECT) return
  quote(out, from)
}

export function hecFrame(options: FrameOptions): Frame {
  const constants = perStream((shared) => constantsOf(shared, options))
  return (run, index, out, format) => {
    const { middle, fields, close } = constants(run)
    const { entries } = run
    writeTime(entries.at(index), out)
    out.copy(middle)
    const from = out.length
    format(run, index, out)
    quoteUnlessJson(out, from)
    out.copy(fields)
    writeEscaped(out, entries.bytes, entries.column(index, ID_START), entries.column(index, ID_END))
    const version = entries.version(index)
    if (version > 0) {
      out.copy(VERSION)
      out.text(String(version))
    } else {
      out.byte(QUOTE)
    }
    out.copy(close)
  }
}
