// One page of the audit log: what the reader needs to know of its groups of entries to decide where to go next.
import type { Entries } from '../../contracts/entries.ts'
import type { Finding } from '../../contracts/source.ts'
import type { Group } from '../splitter/entries-builder.ts'
import type { AuditCursor, Position } from './cursor.ts'
import type { Kind } from './own-fetches.ts'

export interface PageView {
  /** elements, the malformed ones too */
  count: number
  malformed: number
  /** the last entry that is not dated in the future */
  last: Position | null
  /** the last entry, however it is dated */
  lastOfAll: Position | null
  newestUs: number
  /** Infinity: no entry but in the future */
  oldestUs: number
  /** the page holds the head, or goes past it */
  passedHead: boolean
  /** entries behind the head: what a poll is for */
  beyond: number
  /** of these, fetches of our own */
  own: number
  /** the page's last entry is at or after the stop line */
  pastStop: boolean
  metLost: boolean
  pastLost: boolean
  /** places for the trail, oldest first */
  marks: Position[]
}

export function freshView(passedHead: boolean): PageView {
  return {
    count: 0,
    malformed: 0,
    last: null,
    lastOfAll: null,
    newestUs: 0,
    oldestUs: Infinity,
    passedHead,
    beyond: 0,
    own: 0,
    pastStop: false,
    metLost: false,
    pastLost: false,
    marks: [],
  }
}

export interface Looker {
  readonly cursor: AuditCursor
  readonly stopUs: number | null
  /** Entries dated after this instant (µs) are in the future: they are shipped, but reading does not continue from them. */
  readonly horizonUs: number
  classify(entries: Entries, index: number): Kind
  /** an own fetch behind the head: met for the first time */
  ownFetch(atUs: number): void
}

/** Goes over a group in order and adds it to the view. Returns what a person should know of. */
export function lookOver(view: PageView, { entries, quarantined }: Group, by: Looker): readonly Finding[] {
  const findings: Finding[] = []
  const { head, lost } = by.cursor
  const { horizonUs } = by
  view.count += entries.count + quarantined.length
  view.malformed += quarantined.length
  let lastIndex = -1
  for (let i = 0; i < entries.count; i++) {
    const at = entries.times[i] as number
    const kind = by.classify(entries, i)
    if (kind === 'foreign') findings.push({ kind: 'foreign_fetch', index: i })
    if (at > horizonUs) continue
    if (at > view.newestUs) view.newestUs = at
    if (at < view.oldestUs) view.oldestUs = at
    lastIndex = i
    if (lost !== null && at >= lost.at) {
      if (at === lost.at && entries.id(i) === lost.id) view.metLost = true
      else if (at > lost.at) view.pastLost = true
    }
    if (head !== null && at === head.at && entries.id(i) === head.id) {
      view.passedHead = true
      view.beyond = 0
      view.own = 0
      // Entries before the head have left their marks already.
      view.marks = []
      continue
    }
    view.beyond++
    if (kind === 'own') {
      view.own++
      if (view.passedHead) by.ownFetch(at)
    }
    if (isMark(entries.count - 1 - i)) view.marks.push({ id: entries.id(i), at })
  }
  if (entries.count > 0) view.lastOfAll = positionAt(entries, entries.count - 1)
  if (lastIndex >= 0) {
    view.last = positionAt(entries, lastIndex)
    view.pastStop = by.stopUs !== null && view.last.at >= by.stopUs
    if (head === null || view.last.at > head.at) view.passedHead = true
  }
  return findings
}

/** The last entry, and those that are 1, 2, 4, … before it: the nearer to the end, the closer together. */
const isMark = (fromEnd: number): boolean => (fromEnd & (fromEnd - 1)) === 0

function positionAt(entries: Entries, index: number): Position {
  return { id: entries.id(index), at: entries.at(index) }
}
