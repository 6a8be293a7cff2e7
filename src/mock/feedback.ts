// What people say of an answer, hours later: versions of a query event, as a function of its question and the time.
import { HOUR_MS } from '../model/time.ts'
import type { Ask } from './asks.ts'
import { below, dice, pick } from './random.ts'
import { keyedBy } from './resources.ts'

export interface Remark {
  /** epoch ms: from when on the event says so */
  readonly from: number
  readonly comments: string
  readonly sentiments: string
}

const words: readonly (readonly [sentiments: string, comments: string])[] = [
  ['POSITIVE', ''],
  ['POSITIVE', 'Exactly what the client asked.'],
  ['NEGATIVE', 'Clause 14.2 was overlooked, "again".'],
  ['NEGATIVE', 'Zitiert ein Urteil, das es nicht gibt 😕'],
]

/** The first says nothing; one event in twelve gets another one to two days later, one in fifty a third. */
export function remarksOf(ask: Ask, seed: number): Remark[] {
  const random = dice(keyedBy(ask.entryId, seed ^ 0x5eed))
  const remarks: Remark[] = [{ from: ask.visibleAt, comments: '', sentiments: '' }]
  if (ask.completion || random() >= 1 / 12) return remarks
  let from = Math.floor(ask.atUs / 1000)
  for (let times = random() < 0.25 ? 2 : 1; times > 0; times--) {
    from += HOUR_MS + below(random, 47 * HOUR_MS)
    const [sentiments, comments] = pick(random, words)
    remarks.push({
      from,
      comments: times === 1 && remarks.length > 1 ? `${comments} (edited)` : comments,
      sentiments,
    })
  }
  return remarks
}

/** The number of the remark that holds at `now`, from 0. */
export function remarkAt(remarks: readonly Remark[], now: number): number {
  return Math.max(
    0,
    remarks.findLastIndex(({ from }) => from <= now),
  )
}
