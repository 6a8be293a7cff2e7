// Sequence numbers of entries that move to another journal. They are dense per shard, so they change
// where shards are split or joined. Pure.
import { ConnectorError } from '../../core/errors.ts'
import type { Seq, SequenceRange } from '../../core/sequence.ts'
import { withAcked } from '../rules/acknowledgement.ts'
import type { Acknowledged } from '../rules/acknowledgement.ts'

/** What a shard holds: entries after `begin`, up to `lastSeq`. Those before are delivered and pruned. */
export interface ShardNumbers {
  readonly shard: number
  readonly begin: Seq
  readonly lastSeq: Seq
}

/** Consecutive entries that stay consecutive. */
interface Move extends SequenceRange {
  readonly to: number
  readonly shift: number
}

interface Source extends ShardNumbers {
  /** of the entries before `begin`, in every target */
  readonly shift: number
  /** ascending */
  readonly moves: Move[]
}

/**
 * The numbers of pruned entries come first, shard after shard: dead letters still have them, and no
 * new entry may get one of them again. Stored entries follow, each shard's in their order.
 */
export class Renumbering {
  readonly #sources: readonly Source[]
  readonly #begin: Seq
  /** by target shard */
  readonly #last = new Map<number, Seq>()

  /** `shards`: those that the entries come from, in their order. */
  constructor(shards: readonly ShardNumbers[]) {
    let begin = 0
    this.#sources = shards.map((numbers) => {
      const source = { ...numbers, shift: begin, moves: [] }
      begin += numbers.begin
      return source
    })
    this.#begin = begin
  }

  /** The new numbers of a chunk. Call for each one, in the order of shards and numbers. */
  add(shard: number, { first, last }: SequenceRange, to: number): SequenceRange {
    const { begin, lastSeq, moves } = this.#source(shard)
    const before = moves.at(-1)
    const expected = (before?.last ?? begin) + 1
    if (first !== expected || last > lastSeq) throw hole(shard, expected)
    const newFirst = this.lastSeq(to) + 1
    const shift = newFirst - first
    if (before?.to === to && before.shift === shift) moves[moves.length - 1] = { ...before, last }
    else moves.push({ first, last, to, shift })
    this.#last.set(to, last + shift)
    return { first: newFirst, last: last + shift }
  }

  /** Throws ConnectorError `journal_corrupt` if entries at the end of a shard were not added. */
  assertWhole(): void {
    for (const { shard, begin, lastSeq, moves } of this.#sources) {
      const last = moves.at(-1)?.last ?? begin
      if (last !== lastSeq) throw hole(shard, last + 1)
    }
  }

  /** Of a target shard, so far. */
  lastSeq(to: number): Seq {
    return this.#last.get(to) ?? this.#begin
  }

  /** Where the entries of a range are that move to this shard; ascending, not adjacent. */
  moved(shard: number, { first, last }: SequenceRange, to: number): readonly SequenceRange[] {
    const { begin, shift, moves } = this.#source(shard)
    const found: SequenceRange[] = []
    const add = (part: Move) => {
      const from = Math.max(first, part.first) + part.shift
      const until = Math.min(last, part.last) + part.shift
      const before = found.at(-1)
      if (from > until) return
      if (before?.last === from - 1) found[found.length - 1] = { first: before.first, last: until }
      else found.push({ first: from, last: until })
    }
    add({ first: 1, last: begin, to, shift })
    for (let i = indexAt(moves, first); i < moves.length; i++) {
      const move = moves[i] as Move
      if (move.first > last) break
      if (move.to === to) add(move)
    }
    return found
  }

  /**
   * What a sink has acknowledged of a target shard. `of`: of a shard that the entries come from;
   * undefined: it does not know the sink, which would begin at its oldest stored entry.
   */
  acknowledged(of: (shard: number) => Acknowledged | undefined, to: number): Acknowledged {
    return this.#sources
      .flatMap(({ shard, begin }) => {
        const { position, ahead } = of(shard) ?? { position: begin, ahead: [] }
        return [{ first: 1, last: position }, ...ahead].flatMap((range) => this.moved(shard, range, to))
      })
      .reduce<Acknowledged>(withAcked, { position: 0, ahead: [] })
  }

  /** Where the entries of a batch are: in each shard they stay consecutive. */
  batch(shard: number, batch: SequenceRange, targets: readonly number[]) {
    return targets.flatMap((to) => this.moved(shard, batch, to).map((range) => ({ ...range, to })))
  }

  #source(shard: number): Source {
    const source = this.#sources.find((one) => one.shard === shard)
    if (source === undefined) throw new Error(`Shard ${shard} is not one of those that are copied`)
    return source
  }
}

/** Of the first move that ends at or behind `seq`. */
function indexAt(moves: readonly Move[], seq: Seq): number {
  let [low, high] = [0, moves.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((moves[middle] as Move).last < seq) low = middle + 1
    else high = middle
  }
  return low
}

const hole = (shard: number, seq: Seq) =>
  new ConnectorError(
    'journal_corrupt',
    `Shard ${shard} of the journal lacks entry ${seq}, which must be stored: nothing was copied. Restore the journal from a backup`,
  )

/** Entries of a shard that are stored and that this sink has not acknowledged. */
export function pendingCount(
  { begin, lastSeq }: ShardNumbers,
  acknowledged: Acknowledged | undefined,
): number {
  const start: Acknowledged = { position: Math.max(begin, acknowledged?.position ?? 0), ahead: [] }
  const { position, ahead } = (acknowledged?.ahead ?? []).reduce(withAcked, start)
  return ahead.reduce((sum, { first, last }) => sum - (last - first + 1), lastSeq - position)
}
