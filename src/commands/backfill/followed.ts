// What `backfill` says of those that are followed: how far they are, what they found, and what of their span stayed unread.
import type { Backfill } from '../../model/backfill.ts'
import type { PastSpan, Unread } from '../../model/past.ts'
import { secondText } from '../../model/time.ts'
import { countText, numberText } from '../../ops/words.ts'
import { printable } from '../../model/printable.ts'
import { gapsText, percentText } from '../shared/follow-text.ts'
import type { Following } from '../shared/follow-text.ts'

const BAR_WIDTH = 30
/** Parts that stayed unread. */
const NAMED = 5

export const backfillsFollowed: Following<Backfill> = {
  what: 'backfill',
  title: 'backfill',
  stays: (whose) => `what ${whose} read stays`,
  heard: (client) => client.backfills(),
  begunAt: ({ begunAt }) => begunAt,
  nameText,
  ratio: ratioOf,
  countsText,
  isWhole: ({ counts, unread }) => counts.gaps === 0 && unread.length === 0,
  endText: (one, ended) =>
    `${nameText(one)}, ${spanText(one)}: ${ended}: ${countsText(one)}${unreadText(one.unread)}`,
  barText,
}

function nameText({ origin }: Backfill): string {
  return printable(`${origin.workspace} ${origin.source}`)
}

function ratioOf({ fromUs, toUs, atUs, endedAt }: Backfill): number {
  if (endedAt !== undefined) return 1
  return atUs === undefined ? 0 : Math.min(1, Math.max(0, (atUs - fromUs) / (toUs - fromUs)))
}

function barText(all: readonly Backfill[]): string {
  const ratio = all.reduce((sum, one) => sum + ratioOf(one), 0) / Math.max(1, all.length)
  const done = Math.round(ratio * BAR_WIDTH)
  const [first] = all
  const name = all.length === 1 && first ? nameText(first) : countText(all.length, 'backfills')
  const read = all.reduce((sum, { counts }) => sum + counts.read, 0)
  const fresh = all.reduce((sum, { counts }) => sum + counts.new, 0)
  const counts = `${countText(read, 'entries')} read, ${countText(fresh, 'new')}`
  return `${name} [${'#'.repeat(done)}${'.'.repeat(BAR_WIDTH - done)}] ${percentText(ratio)}  ${counts}`
}

function countsText({ counts }: Backfill): string {
  const { read, new: fresh, known, filtered, quarantined, gaps } = counts
  return `${numberText(read)} read, ${numberText(fresh)} new, ${numberText(known)} known, ${numberText(filtered)} filtered, ${numberText(quarantined)} quarantined${gapsText(gaps)}`
}

const spanText = ({ fromUs, toUs }: PastSpan) => `${secondText(fromUs / 1000)} to ${secondText(toUs / 1000)}`

const unreadWhy = {
  refused: 'refused by the API with 400 (it may not reach so far back)',
  unreadable: 'unreadable while other times could be read (try again later)',
} as const

function unreadText(unread: readonly Unread[]): string {
  const named = unread
    .slice(0, NAMED)
    .map((part) => `\n  not read: ${spanText(part)}: ${unreadWhy[part.why]}`)
  const more = unread.length - NAMED
  return `${named.join('')}${more > 0 ? `\n  and ${more} more` : ''}`
}
