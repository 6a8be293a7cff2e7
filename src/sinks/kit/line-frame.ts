// One line per entry, ended by an LF, as standard output and files frame it; and where a batch's
// bytes end.
import { LF } from '../../core/bytes.ts'
import type { Frame, Lines } from '../../contracts/sink.ts'

export const lineFrame: Frame = (run, index, out, format) => {
  format(run, index, out)
  out.byte(LF)
}

/** Exactly the framed lines. */
export function framedBytes(lines: Lines): Uint8Array {
  return lines.bytes.subarray(0, lines.ends[lines.count - 1] ?? 0)
}
