// Reads along the file of a sink with format `envelope` and notes how late each entry of the audit log is in it.
import { closeSync, existsSync, openSync, readSync } from 'node:fs'

const LOOK_MS = 20
const CHUNK_BYTES = 1024 * 1024

interface Line {
  readonly workspace: string
  readonly source: string
  readonly time: string
  readonly entry: { readonly type: string }
}

export interface Seen {
  readonly workspace: string
  /** epoch ms */
  readonly madeAt: number
  readonly lagMs: number
}

/** Our own fetches are none: nobody waits for them. */
function seenIn(text: string, now: number): Seen | undefined {
  const { workspace, source, time, entry } = JSON.parse(text) as Line
  if (source !== 'audit' || entry.type.startsWith('api:')) return undefined
  const madeAt = Date.parse(/(Z|[+-]\d\d:\d\d)$/.test(time) ? time : `${time}Z`)
  return { workspace, madeAt, lagMs: now - madeAt }
}

/** `sinceMs`: what was made before is passed over. */
export function followFile(path: string, sinceMs: number) {
  const seen: Seen[] = []
  const buffer = Buffer.alloc(CHUNK_BYTES)
  let file: number | undefined
  let rest = Buffer.alloc(0)
  const look = () => {
    if (file === undefined) {
      if (!existsSync(path)) return
      file = openSync(path, 'r')
    }
    for (let got = readSync(file, buffer); got > 0; got = readSync(file, buffer)) {
      const bytes = Buffer.concat([rest, buffer.subarray(0, got)])
      const end = bytes.lastIndexOf(10) + 1
      rest = Buffer.from(bytes.subarray(end))
      const now = Date.now()
      for (const text of bytes.subarray(0, end).toString().split('\n')) {
        const line = text === '' ? undefined : seenIn(text, now)
        if (line && line.madeAt >= sinceMs) seen.push(line)
      }
    }
  }
  const timer = setInterval(look, LOOK_MS)
  return {
    seen,
    stop() {
      clearInterval(timer)
      look()
      if (file !== undefined) closeSync(file)
    },
  }
}

/** `share` of 0.5 is the median, 1 the worst. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN
}
