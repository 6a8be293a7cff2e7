// What became of a batch's entries, by source and by the entries' own UTC day: what the journal counts for good. Pure.
import type { DayTally } from '../model/balance.ts'
import type { Parked, Run } from '../model/journal.ts'
import type { Seq } from '../model/seq.ts'
import { epochDay } from '../model/time.ts'

type Fate = 'accepted' | 'filtered' | 'replayed'
type Sum = { -readonly [Key in keyof DayTally]: DayTally[Key] }

/** Sums up; the last source and day are at hand, since entries nearly always come in the order of their days. */
export class Tally {
  readonly #sums = new Map<string, Sum>()
  #last: Sum | undefined

  add({ origin }: Pick<Run, 'origin'>, day: number, fate: Fate, count = 1): void {
    if (this.#last?.day !== day || this.#last.origin !== origin) {
      const key = `${origin.workspace} ${origin.source} ${day}`
      const fresh = { origin, day, accepted: 0, filtered: 0, replayed: 0 }
      this.#last = this.#sums.get(key) ?? fresh
      this.#sums.set(key, this.#last)
    }
    this.#last[fate] += count
  }

  /** Counts an entry that the sink does not want; nothing where it counts as no entry of this sink, or was counted before its replay. */
  addFiltered(run: CountedRun, index: number, sink: string): void {
    if (isOwn(run, sink) && !run.replay) this.add(run, dayOf(run, index), 'filtered')
  }

  get sums(): readonly DayTally[] {
    return [...this.#sums.values()]
  }
}

/** A run without its entries' bytes: what counting needs. */
export interface CountedRun extends Omit<Run, 'entries'> {
  readonly entries: Pick<Run['entries'], 'count' | 'times'>
}

export const countedRun = ({ entries: { count, times }, ...run }: Run): CountedRun => ({
  ...run,
  entries: { count, times },
})

/** Days since 1970, of the entry's own time. */
export const dayOf = (run: CountedRun, index: number): number => epochDay(run.entries.times[index] as number)

/** True for what counts at this sink: what is another sink's alone was never this one's. */
const isOwn = ({ onlySink }: CountedRun, sink: string): boolean => onlySink === undefined || onlySink === sink

interface Counted {
  /** ascending, of the lines that were made of the batch */
  readonly seqs: Float64Array
  readonly first: Seq
  readonly through: Seq
  /** counted by the journal, where their letters are */
  readonly parked: readonly Parked[]
}

/** What became of the entries of these runs from `first` through `through`: those with a line were accepted, the others filtered. */
export function tallyOf(
  sink: string,
  runs: readonly CountedRun[],
  { seqs, first, through, parked }: Counted,
): readonly DayTally[] {
  const tally = new Tally()
  const letters = new Set(parked.map(({ seq }) => seq))
  let line = 0
  for (const run of runs) {
    if (!isOwn(run, sink)) continue
    const end = Math.min(run.entries.count, through - run.firstSeq + 1)
    for (let i = Math.max(0, first - run.firstSeq); i < end; i++) {
      const seq = run.firstSeq + i
      while (line < seqs.length && (seqs[line] as number) < seq) line++
      const sent = seqs[line] === seq
      if (letters.size > 0 && letters.has(seq)) continue
      if (!run.replay) tally.add(run, dayOf(run, i), sent ? 'accepted' : 'filtered')
      else if (sent) tally.add(run, dayOf(run, i), 'replayed')
    }
  }
  return tally.sums
}
