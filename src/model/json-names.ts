// Which of some names a member's key is, however it is written: as it is, or with escapes.
import { BACKSLASH } from './ascii.ts'
import { stringAt } from './json-members.ts'

/** Looks up the key that `raw[start, end)` is with its quotes: the index of its name, negative where it is none of them. */
export type FindName = (raw: Uint8Array, start: number, end: number) => number

export function findNameOf(names: readonly string[]): FindName {
  const keys = names.map((name) => Buffer.from(name))
  // Six bytes a character is the longest way to write it.
  const longestBytes = Math.max(0, ...names.map(({ length }) => 6 * length)) + 2
  return (raw, start, end) => {
    if (end - start > longestBytes) return -1
    for (let index = 0; index < keys.length; index++)
      if (isWritten(raw, start, end, keys[index] as Uint8Array)) return index
    for (let at = start + 1; at < end - 1; at++)
      if (raw[at] === BACKSLASH) return names.indexOf(stringAt(raw, start, end))
    return -1
  }
}

/** Does `text` stand in `raw[start, end)` as it is, between quotes? */
export function isWritten(raw: Uint8Array, start: number, end: number, text: Uint8Array): boolean {
  const { length } = text
  if (end - start !== length + 2) return false
  for (let i = 0; i < length; i++) if (raw[start + 1 + i] !== text[i] || text[i] === BACKSLASH) return false
  return true
}
