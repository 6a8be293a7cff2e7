// The severity of a message: notice, save where the line is CEF and tells its own.
import { BACKSLASH } from '../../model/ascii.ts'

const NOTICE = 5
const PIPE = 124
const CEF = Buffer.from('CEF:')
/** A CEF header, which stands before the extension, is looked for in so many bytes. */
const LONGEST_HEADER = 4096

/** CEF counts from 0, least, to 10, worst; syslog from 7 to 0. */
const bySeverity = [6, 6, 6, 6, 5, 5, 5, 4, 4, 2, 2]

export function severityOf(bytes: Uint8Array, length: number): number {
  for (let i = 0; i < CEF.length; i++) if (bytes[i] !== CEF[i]) return NOTICE
  const until = Math.min(length, LONGEST_HEADER)
  let pipes = 0
  let from = 0
  for (let at = 0; at < until; at++) {
    if (bytes[at] === BACKSLASH) at++
    else if (bytes[at] === PIPE && ++pipes === 6) from = at + 1
    else if (bytes[at] === PIPE && pipes === 7) {
      const digits = Buffer.from(bytes.subarray(from, at)).toString('latin1')
      return /^\d{1,2}$/.test(digits) ? (bySeverity[Number(digits)] ?? NOTICE) : NOTICE
    }
  }
  return NOTICE
}
