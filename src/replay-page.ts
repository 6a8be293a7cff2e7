// One part of a page that is sent again: what of it was not sent before, what is counted of it, and what must be remembered until the page is whole.
import type { Append, NoteChange } from './model/journal.ts'
import type { PastSpan } from './model/past.ts'
import type { ReplayCounts } from './model/replays.ts'
import { walkOf } from './past-orders.ts'
import type { PastWalk } from './past-orders.ts'
import { markOf, markOfHash, nameOf, pageNote, pagePrefix } from './replay-order.ts'
import type { Order } from './replay-order.ts'

/** A replay under way. */
export interface Running extends PastWalk<Order> {
  /** what of the page under way was sent already, by this process or the one before */
  readonly sent: Set<string>
  /** names of the notes that say so */
  pages: string[]
  /** both are here: of one that a restart found they are read when its turn comes */
  isLoaded: boolean
}

export const begun = (order: Order): Running => ({
  ...walkOf(order),
  ...{ sent: new Set<string>(), pages: [], isLoaded: false },
})

/** Of the next note. */
export function pageNameOf({ order, pages }: Running): string {
  return `${pagePrefix(order)}${String(pages.length).padStart(6, '0')}`
}

/** What of a part lies in the span, and was not sent from this page before: once, however often the part has it. */
export function sift(
  sent: ReadonlySet<string>,
  { entries: all, quarantined }: Append,
  { fromUs, toUs }: PastSpan,
) {
  const entries = all.between(fromUs, toUs)
  const marks: string[] = []
  const fresh: number[] = []
  const met = new Set<string>()
  const isNew = (mark: string) => !sent.has(mark) && met.size < met.add(mark).size
  for (let i = 0; i < entries.count; i++) {
    const mark = markOf(entries, i)
    if (!isNew(mark)) continue
    fresh.push(i)
    marks.push(mark)
  }
  const bad = quarantined.map(({ sha256 }) => markOfHash(sha256)).filter(isNew)
  return { entries, fresh, marks: [...marks, ...bad], malformed: bad.length }
}

export function added(counts: ReplayCounts, more: ReplayCounts): ReplayCounts {
  return {
    read: counts.read + more.read,
    sent: counts.sent + more.sent,
    filtered: counts.filtered + more.filtered,
    unknown: counts.unknown + more.unknown,
    malformed: counts.malformed + more.malformed,
    gaps: counts.gaps + more.gaps,
  }
}

/** `dropped`: of a page that is whole nothing need be remembered any more. `page`: the note for `marks`, where there are some. */
export function notesOf(
  order: Order,
  dropped: readonly string[],
  page: string | undefined,
  marks: readonly string[],
): NoteChange {
  const told = { name: nameOf(order), value: JSON.stringify(order) }
  return { drop: dropped, put: page === undefined ? [told] : [told, { name: page, value: pageNote(marks) }] }
}
