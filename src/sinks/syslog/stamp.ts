// An entry's own time as syslog writes it, in UTC: with microseconds in RFC 5424, to the second and without a year in RFC 3164.
import { DOT, ZERO } from '../../model/ascii.ts'
import type { ByteWriter } from '../../model/writer.ts'

const MINUTE_US = 60_000_000
/** Years 0001 to 9999: what four digits can tell. */
const FIRST_US = -62_135_596_800_000_000
const LAST_US = 253_402_300_800_000_000
const LETTER_Z = 90

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const isTellable = (us: number) => us >= FIRST_US && us < LAST_US

type Stamp = (us: number, out: ByteWriter) => void

/** `2026-11-21T10:00:00.123456Z`, or `-`. Entries come in order: the minute that they share is made once. */
export function stamp5424(): Stamp {
  let knownMinute = NaN
  let text = Buffer.alloc(0)
  return (us, out) => {
    if (!isTellable(us)) {
      out.text('-')
      return
    }
    const minute = Math.floor(us / MINUTE_US)
    if (minute !== knownMinute) {
      text = Buffer.from(new Date(minute * 60_000).toISOString().slice(0, 17))
      knownMinute = minute
    }
    out.copy(text)
    let rest = us - minute * MINUTE_US
    out.reserve(10)
    const { bytes, length } = out
    for (let at = length + 8; at >= length; at--) {
      if (at === length + 2) {
        bytes[at] = DOT
        continue
      }
      const next = Math.floor(rest / 10)
      bytes[at] = ZERO + rest - next * 10
      rest = next
    }
    bytes[length + 9] = LETTER_Z
    out.length = length + 10
  }
}

/** `Nov  1 10:00:00`. `otherwise` (epoch ms) is told where the entry has no time that can be written. */
export function writeStamp3164(us: number, otherwise: number, out: ByteWriter): void {
  const date = new Date(isTellable(us) ? Math.floor(us / 1000) : otherwise)
  const day = String(date.getUTCDate()).padStart(2)
  out.text(`${months[date.getUTCMonth()] ?? ''} ${day} ${date.toISOString().slice(11, 19)}`)
}
