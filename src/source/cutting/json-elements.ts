// The elements of a JSON array, as places in its bytes: what model/json-members.ts does for objects. Nothing is parsed.
import { CLOSE_ARRAY, COMMA, OPEN_ARRAY, QUOTE } from '../../model/ascii.ts'
import { afterSpace, eachMember, stringAt, valueEnd } from '../../model/json-members.ts'

/** Calls `visit` for each element of the array that `raw` is. `raw` must be valid JSON; of anything else it makes nothing. */
export function eachElement(raw: Uint8Array, visit: (element: Uint8Array) => void): void {
  if (raw[0] !== OPEN_ARRAY) return
  let at = 0
  do {
    const start = afterSpace(raw, at + 1)
    const end = valueEnd(raw, start)
    at = afterSpace(raw, end)
    if (end > start && (raw[at] === COMMA || raw[at] === CLOSE_ARRAY)) visit(raw.subarray(start, end))
  } while (raw[at] === COMMA)
}

/** The value of the object's member `key`; of several the last. Undefined where `raw` is no object or has none. */
export function memberValue(raw: Uint8Array, key: string): Uint8Array | undefined {
  let found: Uint8Array | undefined
  eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
    if (keyEnd - keyStart > 6 * key.length + 2) return
    if (keyText(raw, keyStart, keyEnd) === key) found = raw.subarray(valueStart, valueEnd)
  })
  return found
}

/** Undefined where what stands there is no string, as in bytes that were cut. */
export function keyText(raw: Uint8Array, start: number, end: number): string | undefined {
  try {
    return stringAt(raw, start, end)
  } catch {
    return undefined
  }
}

/** A string as it is meant; anything else, a number above all, as it is written. */
export function valueText(value: Uint8Array | undefined): string | undefined {
  if (value === undefined) return undefined
  if (value[0] === QUOTE) return keyText(value, 0, value.length)
  return Buffer.from(value).toString()
}
