// Settling a stretch: what was refused is parked, what became of the rest is counted, the position moves, in one transaction (law 3).
import { TRANSACTION_BYTES } from '../model/entries.ts'
import type { Settlement } from '../model/journal.ts'
import type { Amount } from '../model/set-aside.ts'
import type { Core } from './core.ts'
import type { DeadLetters } from './dead-letters.ts'
import { explaining } from './filled.ts'
import { type NoteStatements, writeNotes } from './notes.ts'

/** One transaction, as `append`. What was parked before is not parked again: a settlement that is repeated adds no letter. */
export function settle(
  core: Core,
  letters: DeadLetters,
  noteStatements: NoteStatements,
  sink: string,
  { first, through, parked, tally, next, notes }: Settlement,
): void {
  const { deliveries, ledger, shelf, transactions } = core
  if (parked.some(({ seq }) => seq < first || seq > through))
    throw new Error(`Sink ${sink} parked an entry outside of what it settled`)
  let copied: Amount = { count: 0, bytes: 0 }
  const land = () => {
    // Counted anew where the disk was full at the first try.
    copied = { count: 0, bytes: 0 }
    for (const each of parked) {
      const bytes = letters.writeParked(sink, each)
      if (bytes !== undefined) copied = { count: copied.count + 1, bytes: copied.bytes + bytes }
    }
    const settled = ledger.writeSettled(sink, { first, last: through })
    if (tally) deliveries.add(sink, tally)
    if (next) ledger.writeIntent(sink, next)
    if (notes) writeNotes(noteStatements, { put: notes })
    return settled
  }
  const settled = explaining(core, TRANSACTION_BYTES, () => transactions.write(land))
  ledger.applySettled(sink, settled, copied)
  shelf.release(ledger.settledTo)
}
