// Which entries a sink may never have: those whose top-level member of a name has one of the listed values. Reads bytes, changes none.
import { OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../model/ascii.ts'
import type { Run } from '../model/journal.ts'
import { eachMember, stringAt } from '../model/json-members.ts'
import { findNameOf } from '../model/json-names.ts'

/** Values by the name of their member. */
export type Denied = Readonly<Record<string, readonly string[]>>

interface Listed {
  readonly values: ReadonlySet<string>
  /** bytes of a value as it is written, above which it is none of these */
  readonly longestBytes: number
}

function listedOf(values: readonly string[]): Listed {
  return {
    values: new Set(values),
    longestBytes: Math.max(0, ...values.map(({ length }) => 6 * length)) + 2,
  }
}

/**
 * True for an entry that is kept from the sink. A string is compared as it is meant, whatever its escapes; a number, `true`,
 * `false` and `null` as they are written; an array or object equals nothing. Of a name that occurs twice either value counts.
 */
export function deniedBy(rules: Denied): (run: Run, index: number) => boolean {
  const find = findNameOf(Object.keys(rules))
  const lists = Object.values(rules).map(listedOf)
  return ({ entries }, index) => {
    const raw = entries.raw(index)
    let denied = false
    eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
      const listed = denied ? undefined : lists[find(raw, keyStart, keyEnd)]
      if (listed && valueEnd - valueStart <= listed.longestBytes)
        denied = isListed(raw, valueStart, valueEnd, listed)
    })
    return denied
  }
}

function isListed(raw: Uint8Array, start: number, end: number, { values }: Listed): boolean {
  if (raw[start] === QUOTE) return values.has(stringAt(raw, start, end))
  if (raw[start] === OPEN_ARRAY || raw[start] === OPEN_OBJECT) return false
  return values.has(Buffer.from(raw.subarray(start, end)).toString('latin1'))
}
