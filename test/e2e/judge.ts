// The invariants after the last life: nothing missing anywhere, the file's lines once and byte for byte, repeats at HEC bounded, one order.
import type { Stage } from './stage.ts'

export interface Bounds {
  /** how many lines may be at the HEC receiver twice */
  readonly mayRepeat: number
  /** What a receiver lost comes later. */
  readonly unordered?: true
  /** which lines are checked here; absent: all, since the audit log is all that is read */
  readonly only?: (line: Uint8Array) => boolean
}

function idOf(line: Uint8Array): string {
  return (JSON.parse(Buffer.from(line).toString()) as { id: string }).id
}

export function fileLines(stage: Stage): Buffer[] {
  const bytes = stage.written()
  const lines: Buffer[] = []
  for (let from = 0; from < bytes.length;) {
    const end = bytes.indexOf(10, from)
    lines.push(bytes.subarray(from, end < 0 ? bytes.length : end))
    from = end < 0 ? bytes.length : end + 1
  }
  return lines
}

/** Which entries have arrived so far; reads only what is new since the last look. */
export class Arrivals {
  readonly archive = new Set<string>()
  readonly splunk = new Set<string>()
  readonly #stage: Stage
  #fileAt = 0
  #eventAt = 0

  constructor(stage: Stage) {
    this.#stage = stage
  }

  look(): void {
    const { hec } = this.#stage
    for (let event = hec.indexed[this.#eventAt]; event; event = hec.indexed[++this.#eventAt])
      this.splunk.add(idOf(event.event))
    const bytes = this.#stage.written()
    // The last line may be incomplete.
    for (let end = bytes.indexOf(10, this.#fileAt); end >= 0; end = bytes.indexOf(10, this.#fileAt)) {
      this.archive.add(idOf(bytes.subarray(this.#fileAt, end)))
      this.#fileAt = end + 1
    }
  }
}

/** Between CR and LF outside of strings is all that a line may lack. */
function onOneLine(raw: Uint8Array): string {
  return Buffer.from(raw)
    .toString('latin1')
    .replace(/[\r\n]/g, '')
}

/** What the API has shown where the daemon reads: all of it has to arrive. */
export const shown = ({ mock }: Stage): ReturnType<Stage['mock']['entries']> =>
  mock
    .entries()
    .filter(({ defect, shownBy }) => defect === undefined && shownBy.some((where) => where !== 'latest'))

interface Received {
  readonly ids: readonly string[]
  readonly faults: readonly string[]
}

function judgeLines(stage: Stage, sink: string, lines: readonly Buffer[], mayRepeat: number): Received {
  const entries = new Map(stage.mock.entries().map((entry) => [entry.id, entry]))
  const faults: string[] = []
  const seen = new Set<string>()
  for (const line of lines) {
    const id = idOf(line)
    seen.add(id)
    const entry = entries.get(id)
    if (!entry) faults.push(`${sink}: a line that the API never made: ${id}`)
    else if (onOneLine(entry.raw) !== line.toString('latin1'))
      faults.push(`${sink}: entry ${id} is not what the API sent`)
  }
  const repeats = lines.length - seen.size
  if (repeats > mayRepeat) faults.push(`${sink}: ${repeats} lines stand twice, at most ${mayRepeat} may`)
  const missing = shown(stage).filter(({ id }) => !seen.has(id))
  for (const { id, atUs, origin, shownBy } of missing.slice(0, 3))
    faults.push(
      `${sink}: ${origin} entry ${id} of ${new Date(atUs / 1000).toISOString()} is missing, shown by ${shownBy.join(' ')} (${missing.length} are)`,
    )
  return { ids: [...seen], faults }
}

export function judge(stage: Stage, { mayRepeat, unordered, only = () => true }: Bounds): string[] {
  const bytes = stage.written()
  const torn = bytes.length > 0 && bytes[bytes.length - 1] !== 10 ? ['archive: its last line is torn'] : []
  const archive = judgeLines(stage, 'archive', fileLines(stage).filter(only), 0)
  const events = stage.hec.indexed.map(({ event }) => event).filter(only)
  const splunk = judgeLines(stage, 'splunk', events, mayRepeat)
  const at = splunk.ids.findIndex((id, index) => id !== archive.ids[index])
  const order = at < 0 || unordered ? [] : [`splunk: line ${at} is out of the file's order`]
  return [...torn, ...archive.faults, ...splunk.faults, ...order].slice(0, 12)
}
