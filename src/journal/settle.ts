// Settling a stretch: what was refused is parked, what became of the rest is counted, the position moves, in one transaction (law 3).
import type { Settlement } from '../model/journal.ts'
import type { Core } from './core.ts'
import { type LetterStatements, park } from './letters.ts'
import { type NoteStatements, writeNotes } from './notes.ts'

export interface SettleStatements {
  readonly letters: LetterStatements
  readonly notes: NoteStatements
}

export function settle(
  core: Core,
  { letters, notes: noteStatements }: SettleStatements,
  sink: string,
  { first, through, parked, tally, next, notes }: Settlement,
): void {
  const { deliveries, ledger, shelf, transactions } = core
  if (parked.some(({ seq }) => seq < first || seq > through))
    throw new Error(`Sink ${sink} parked an entry outside of what it settled`)
  let copied = 0
  const progress = transactions.write(() => {
    // Counted anew where the disk was full at the first try.
    copied = 0
    for (const each of parked) if (park(core, letters, sink, each)) copied++
    const settled = ledger.writeSettled(sink, { first, last: through })
    if (tally) deliveries.add(sink, tally)
    if (next) ledger.writeIntent(sink, next)
    if (notes) writeNotes(noteStatements, { put: notes })
    return settled
  })
  ledger.applySettled(sink, progress, copied)
  shelf.release(ledger.settledTo)
}
