// A body that holds a single entry, or none, cut by the same splitter as a page.
import { CR, LF, SPACE, TAB } from '../../model/ascii.ts'
import { Entries } from '../../model/entries.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Group } from './group.ts'
import { Splitter } from './splitter.ts'
import type { EntryLimits } from './splitter.ts'

interface SplitOneOptions extends EntryLimits {
  /** the entry may lie under this key, as `earliest` answers; `search` and `latest` may or may not do the same (law 6) */
  readonly wrapper: string
}

const none: Group = { entries: Entries.none, quarantined: [] }

/**
 * One entry, or one quarantined element, or neither: where the body is empty, `null`, `{}`, `[]`, or holds one of these under the wrapper.
 * A body that is a good entry by itself is taken as such, whatever its keys. Throws ConnectorError `bad_reply` when the body
 * is no JSON, or a list or plain value.
 */
export function splitOne(body: Uint8Array, options: SplitOneOptions): Group {
  if (isBlank(body)) return none
  const bare = splitValue(body, undefined, options)
  if (bare.entries.count === 1) return bare
  const wrapped = splitValue(body, options.wrapper, options)
  const found = wrapped.entries.count + wrapped.quarantined.length > 0 ? wrapped : bare
  const malformed = found.quarantined[0]
  if (!malformed) return found
  if (isNothing(malformed.bytes)) return none
  if (malformed.reason === 'not_an_object')
    throw new ConnectorError('bad_reply', 'the reply is JSON of another shape: one entry was expected')
  return found
}

function splitValue(body: Uint8Array, key: string | undefined, options: SplitOneOptions): Group {
  const splitter = new Splitter({ kind: 'value', key }, options)
  splitter.push(body)
  splitter.end()
  const groups: Group[] = []
  for (let group = splitter.take(); group; group = splitter.take()) groups.push(group)
  const [group = none] = groups
  if (groups.length > 1 || group.entries.count + group.quarantined.length > 1)
    throw new ConnectorError('bad_reply', 'the reply holds its entry twice')
  return group
}

function isBlank(body: Uint8Array): boolean {
  return body.every((byte) => byte === SPACE || byte === TAB || byte === LF || byte === CR)
}

function isNothing(bytes: Uint8Array): boolean {
  const text = Buffer.from(bytes.subarray(0, 64)).toString().replace(/\s/g, '')
  return text === 'null' || text === '{}' || text === '[]'
}
