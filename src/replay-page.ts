// One part of a page that is sent again: what of it was not sent before, what is counted of it, and what must be remembered until the page is whole. Pure.
import type { Append, NoteChange } from './model/journal.ts'
import type { PastSpan } from './model/past.ts'
import type { ReplayCounts } from './model/replays.ts'
import { markOf, markOfHash, nameOf, pageNote } from './replay-order.ts'
import type { Order } from './replay-order.ts'

/** What of a part lies in the span, and was not sent from this page before. */
export function sift(
  sent: ReadonlySet<string>,
  { entries: all, quarantined }: Append,
  { fromUs, toUs }: PastSpan,
) {
  const entries = all.between(fromUs, toUs)
  const marks: string[] = []
  const fresh: number[] = []
  for (let i = 0; i < entries.count; i++) {
    const mark = markOf(entries, i)
    if (sent.has(mark)) continue
    fresh.push(i)
    marks.push(mark)
  }
  const bad = quarantined.map(({ sha256 }) => markOfHash(sha256)).filter((mark) => !sent.has(mark))
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

/** Of a page's last part: nothing of it need be remembered any more. */
export function notesOf(
  { pages: before }: { readonly pages: readonly string[] },
  order: Order,
  pages: readonly string[],
  marks: readonly string[],
): NoteChange {
  const name = nameOf(order.sink, order.origin)
  const put = [{ name, value: JSON.stringify(order) }]
  const page = pages.at(-1)
  if (page === undefined) return { drop: before, put }
  return { drop: [], put: [...put, { name: page, value: pageNote(marks) }] }
}
