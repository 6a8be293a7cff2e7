// An answer of one entry, as `latest`, `earliest` and `search` give it: its place in the feed, whatever stands around it and however malformed it is.
import { Entries } from '../../model/entries.ts'
import { ConnectorError } from '../../model/errors.ts'
import { textsUnder } from '../../model/json-texts.ts'
import type { Quarantined } from '../../model/source.ts'
import { parseInstantText } from '../../model/time.ts'
import { BodySample } from '../answer/body-sample.ts'
import type { Answer } from '../client/client.ts'
import { hold } from '../answer/hold.ts'
import type { Group } from '../cutting/group.ts'
import type { SplitterOptions } from '../cutting/splitter.ts'
import { splitOne } from '../cutting/split-one.ts'
import type { Position } from './cursor.ts'

const textsOf = textsUnder(['id', 'timestamp'])

/** What may stand around an entry in its answer. */
const WRAPPING_BYTES = 64 * 1024

export interface FoundEntry {
  /** undefined: there is none, or none that can be read */
  readonly position: Position | undefined
  /** the entry itself, or the bytes of one that is malformed */
  readonly group: Group | undefined
  /** There is something, but no place to go on from: the way on is a later time. */
  readonly unreadable: boolean
  /** its own time, where at least that can be read, µs */
  readonly unreadableUs?: number | undefined
}

/** An empty body, null and an empty object tell that there is none (spec: not shown). */
export async function readFoundEntry(
  answer: Pick<Answer, 'body'>,
  options: SplitterOptions,
): Promise<FoundEntry> {
  const sample = new BodySample()
  const body = await hold(answer, options.maxEntryBytes + WRAPPING_BYTES, sample)
  return body ? foundIn(body, sample, options) : kept(sample, 'too_large')
}

/** No place to go on from; its bytes are what there is of it. */
function kept(sample: BodySample, reason: Quarantined['reason']): FoundEntry {
  const group = { entries: Entries.none, quarantined: [sample.quarantined(reason)] }
  return { position: undefined, group, unreadable: true }
}

function foundIn(body: Uint8Array, sample: BodySample, options: SplitterOptions): FoundEntry {
  let group: Group
  try {
    group = splitOne(body, { ...options, wrapper: 'log' })
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    return kept(sample, 'unreadable_page')
  }
  const { entries, quarantined } = group
  if (entries.count > 0)
    return { position: { id: entries.id(0), at: entries.at(0) }, group, unreadable: false }
  const [malformed] = quarantined
  if (!malformed) return { position: undefined, group: undefined, unreadable: false }
  const { position, atUs } = readMalformed(malformed)
  return { position, group, unreadable: position === undefined, unreadableUs: atUs }
}

/** Where an entry stands that does not tell its time, and of which nothing is known but that it is there. */
export const NO_TIME = 0

/** A malformed entry may still have an id, and pages go on from it, save half a character, which no address can hold. Without a readable time it stands before all others. */
function readMalformed({ reason, bytes }: Quarantined): {
  position: Position | undefined
  atUs: number | undefined
} {
  // Of one too large there is only the head, which is no JSON.
  if (reason === 'too_large') return { position: undefined, atUs: undefined }
  const { id = '', timestamp = '' } = textsOf(bytes)
  const at = parseInstantText(timestamp)
  const atUs = Number.isSafeInteger(at) ? at : undefined
  const named = id !== '' && id.length <= 1024 && id.isWellFormed()
  return { position: named ? { id, at: atUs ?? NO_TIME } : undefined, atUs }
}
