// Takes CR and LF out of an element, in place, so that it fits a line. Inside a JSON string neither can stand, so all of them are between tokens.
import { CR, LF, SPACE } from '../../model/ascii.ts'
import { ELEMENT, NONE } from './element-marks.ts'

/** Returns the new end; `marks` but the element's own move along. What is left over behind it becomes white space. */
export function stripLineBreaks(bytes: Uint8Array, start: number, end: number, marks: Int32Array): number {
  for (let i = ELEMENT + 1; i < marks.length; i++) {
    const mark = marks[i] as number
    if (mark !== NONE) marks[i] = mark - countLineBreaks(bytes, start, mark)
  }
  let to = start
  for (let at = start; at < end; at++) {
    const byte = bytes[at] as number
    if (byte !== LF && byte !== CR) bytes[to++] = byte
  }
  bytes.fill(SPACE, to, end)
  return to
}

function countLineBreaks(bytes: Uint8Array, start: number, end: number): number {
  let count = 0
  for (let i = start; i < end; i++) if (bytes[i] === LF || bytes[i] === CR) count++
  return count
}
