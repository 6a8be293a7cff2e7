// A closed stretch on its way out as objects: what of it waits on the disk, what is stored.
import { type Contents, Groups } from './stretch.ts'
import type { Intent } from '../model/journal.ts'
import type { ObjectGroup, ReadyObject, StoredObject } from '../model/object.ts'
import { Tally } from './tally.ts'

export interface WaitingObject {
  readonly group: ObjectGroup
  readonly ready: ReadyObject
  readonly contents: Contents
}

/** Its intent is in the journal. */
export interface ClosedStretch {
  readonly intent: Intent
  readonly groups: Groups
  /** on the disk, to be put; what fails stays */
  readonly waiting: WaitingObject[]
  readonly done: Set<ObjectGroup>
  readonly stored: StoredObject[]
  readonly contents: Contents[]
  /** of the last walk, which met every entry of the stretch */
  tally: Tally
  /** the last walk met no group that is not done or waiting */
  complete: boolean
}

export function closedBy(intent: Intent): ClosedStretch {
  const lists = { waiting: [], stored: [], contents: [] }
  return { intent, groups: new Groups(), ...lists, done: new Set(), tally: new Tally(), complete: false }
}

/** What waits is given up: the journal still has it, and it comes under the same names. */
export async function writeAnew(closed: ClosedStretch): Promise<void> {
  closed.complete = false
  await Promise.all(closed.waiting.splice(0).map(({ ready }) => ready.discard()))
}
