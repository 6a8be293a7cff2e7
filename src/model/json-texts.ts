// What an entry says under a few names, where that is a text. Only these are decoded: parsed whole, 16 MB of small objects would take twenty times that.
import { QUOTE } from './ascii.ts'
import { eachMember, stringAt } from './json-members.ts'
import { findNameOf } from './json-names.ts'

/** A longer one is nobody's name, address or time: it counts as none. */
const LONGEST_BYTES = 64 * 1024

type Texts<Name extends string> = Partial<Record<Name, string | undefined>>

/** Reads the texts at the top of an entry under `names`; of several under one name the last, and nothing where that is no text. */
export function textsUnder<Name extends string>(names: readonly Name[]): (raw: Uint8Array) => Texts<Name> {
  const find = findNameOf(names)
  return (raw) => {
    const texts: Texts<Name> = {}
    eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
      const name = names[find(raw, keyStart, keyEnd)]
      if (name === undefined) return
      const isText = raw[valueStart] === QUOTE && valueEnd - valueStart <= LONGEST_BYTES
      texts[name] = isText ? stringAt(raw, valueStart, valueEnd) : undefined
    })
    return texts
  }
}
