// Whether an answer is what the reader of its area takes, by the reader's own eyes: a server of another kind answers 200 and JSON too.
import { WHOLE_BODY_BYTES } from '../model/entries.ts'
import { ConnectorError } from '../model/errors.ts'
import { readGroups } from './answer/groups.ts'
import { readFoundEntry } from './audit/found.ts'
import { entryOptions } from './audit/step.ts'
import type { Answer } from './client/client.ts'
import type { HistoryVersion } from './history/step.ts'
import { eventOptions } from './history/window.ts'
import { hold } from './answer/hold.ts'
import type { SplitterLimits } from './cutting/splitter.ts'
import { cutPage } from './vault/page.ts'

/** Reads an answer to its end; whether there was anything in it. Throws ConnectorError `bad_reply` where it is of another shape. */
export type Shape = (answer: Answer, limits: SplitterLimits) => Promise<boolean>

/** What `latest` answers: one entry, or one of the many ways to say that there is none. */
export const oneEntry: Shape = async (answer, limits) => {
  const { position, group } = await readFoundEntry(answer, entryOptions(limits))
  const [malformed] = group?.quarantined ?? []
  // One that is too large says nothing about the address.
  if (position || malformed?.reason === 'too_large') return true
  if (!group) return false
  throw new ConnectorError(
    'bad_reply',
    'the reply is of another shape: one entry with its "id" was expected, alone or under "log"',
  )
}

/** An array, in version 2 under `events`. */
export const historyList =
  (version: HistoryVersion): Shape =>
  async (answer, limits) => {
    let found = false
    for await (const { entries } of readGroups(answer, eventOptions(version, limits, undefined), undefined))
      found ||= entries.count > 0
    return found
  }

/** A page of the vault's list. */
export const projectPage: Shape = async (answer, limits) => {
  const body = await hold(answer, WHOLE_BODY_BYTES)
  return !body || cutPage(body, limits).projects.length > 0
}
