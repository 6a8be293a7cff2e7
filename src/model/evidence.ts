// What evidence is to the rest: who testifies which objects were stored, and what it remembers to do so.
import type { Journal } from './journal.ts'
import type { Note } from './note.ts'
import type { Seq } from './seq.ts'
import type { StoredObject } from './object.ts'

/** What may be remembered across restarts beside what is settled. */
export type Memory = Pick<Journal, 'note' | 'notes' | 'changeNotes' | 'stats'>

/** What one settlement settles: what is in no object and not parked was filtered. */
export interface StoredStretch {
  readonly first: Seq
  readonly last: Seq
  readonly parked: number
  readonly objects: readonly StoredObject[]
}

export interface EvidenceState {
  /** Nothing else is to be done now: what failed is tried again at once; otherwise entries go first for a while. */
  readonly idle: boolean
  /** Nothing more will come, or nothing before a person mends it: what was stored is testified before its time is up. */
  readonly last: boolean
}

/** Who testifies which objects were stored. Never asked concurrently. */
export interface Evidence {
  /** All objects of the stretch [first, last] are stored: what it gives lands in the one transaction that settles them. Asked again for the same stretch where that failed. */
  stored(stretch: StoredStretch): readonly Note[]
  /** Asked before the first stretch, between two, and where nothing is to be sent: writes what is due. Gives the ms until it wants to be asked again. */
  step(state: EvidenceState, signal: AbortSignal): Promise<number>
}
