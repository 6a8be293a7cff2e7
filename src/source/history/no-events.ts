// Elements of an answer that are no events: an error in the place of the list looks like that, and so does an event that the API cannot write.
import { ConnectorError } from '../../model/errors.ts'
import type { Quarantined } from '../../model/source.ts'
import { memberValue } from '../cutting/json-elements.ts'
import type { SplitterOptions } from '../cutting/splitter.ts'

/** Different ones in one answer. With more it is no answer of a history. */
const MOST_IN_ANSWER = 1000

/** Neither an id nor a time is in it. What has one of them is an event, however malformed. */
export function isNoEvent({ reason, bytes }: Quarantined, { idKey, timeKey }: SplitterOptions): boolean {
  if (reason === 'not_an_object') return true
  if (reason !== 'no_id') return false
  // What has a time is a row of version 1, with an id or without.
  if (idKey === undefined) return true
  return memberValue(bytes, idKey) === undefined && memberValue(bytes, timeKey) === undefined
}

/** Those of one answer that are not known to be malformed. */
export class NoEvents {
  readonly #all = new Map<string, Quarantined>()

  /** Throws ConnectorError `bad_reply` where there are too many. */
  add(element: Quarantined): void {
    this.#all.set(element.sha256, element)
    if (this.#all.size > MOST_IN_ANSWER)
      throw new ConnectorError('bad_reply', `more than ${MOST_IN_ANSWER} of its elements are no events`)
  }

  get all(): readonly Quarantined[] {
    return [...this.#all.values()]
  }

  /** One of them is what the API answers where it fails (spec §7). */
  get hasError(): boolean {
    return this.all.some(({ bytes }) => memberValue(bytes, 'error') !== undefined)
  }
}
