// The messages inside one line: a line is one entry, which may be several messages, each behind its octet count.
import { SPACE, ZERO } from '../../model/ascii.ts'

/** The messages in `bytes[start, end)`, without their counts: views, not copies. An empty line has none. */
export function* messagesIn(bytes: Uint8Array, start: number, end: number): Generator<Uint8Array> {
  let at = start
  while (at < end) {
    let length = 0
    for (; at < end && bytes[at] !== SPACE; at++) length = length * 10 + ((bytes[at] as number) - ZERO)
    const from = at + 1
    at = from + length
    yield bytes.subarray(from, at)
  }
}
