// Malformed elements that say a time before the start: like the events there, they were not wanted.
import type { Quarantined } from '../../model/source.ts'
import type { Naming } from '../cutting/entries-builder.ts'
import { Splitter } from '../cutting/splitter.ts'
import type { SplitterOptions } from '../cutting/splitter.ts'

/** Any name does: only the time is looked at. */
const named: Naming = { id: () => Buffer.from('-'), untimed: () => undefined }

/** `startUs`: nothing before is wanted. `options`: how the elements of the answer were cut. */
export function isMalformedBefore(
  startUs: number,
  options: SplitterOptions,
): (element: Quarantined) => boolean {
  return ({ reason, bytes }) => {
    // In what is malformed in another way no time is looked for.
    if (reason !== 'no_id') return false
    const one = { ...options, idKey: undefined, naming: named, maxEntriesPerGroup: 1 }
    const splitter = new Splitter({ kind: 'value', key: undefined }, one)
    splitter.push(bytes)
    splitter.end()
    return (splitter.take()?.entries.times[0] ?? startUs) < startUs
  }
}
