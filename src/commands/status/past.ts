// What `status` says of the past that is read again just now: backfills, and replays from the API.
import { countText, numberText, stampText } from '../../ops/words.ts'
import type { BackfillStatus, ReplayStatus, StatusReport } from '../../ops/status.ts'
import { printable } from '../../model/printable.ts'
import { gapsText, percentText, troubleText } from '../shared/follow-text.ts'

/** Of each kind: the commands' own --status lists them all. */
const SHOWN = 10

type PastStatus = Omit<BackfillStatus, 'new_entries'>

function lineText(one: PastStatus, to: string, came: string): string {
  const { workspace, source, from, to: until, progress, read_entries, gaps } = one
  const span = `${stampText(from)} to ${stampText(until)} UTC`
  const counts = `${countText(read_entries, 'entries')} read, ${came}${gapsText(gaps)}`
  const trouble = troubleText({ error: one.error, waitsFor: one.waits_for, waitReason: one.wait_reason })
  return `  ${printable(`${workspace} ${source}${to}`)}, ${printable(span)}: ${percentText(progress ?? 0)}, ${counts}${trouble}\n`
}

const backfillText = (one: BackfillStatus) => lineText(one, '', `${numberText(one.new_entries)} new`)
const replayText = (one: ReplayStatus) =>
  lineText(one, ` to ${one.sink}`, `${numberText(one.sent_entries)} put at the journal's end`)

function sectionText<One extends PastStatus>(
  title: string,
  command: string,
  all: readonly One[],
  text: (one: One) => string,
): string[] {
  const open = all.filter(({ state }) => state !== 'done')
  if (open.length === 0) return []
  const rest = open.length - SHOWN
  const more = rest > 0 ? `  and ${rest} more: auditferry ${command} --status\n` : ''
  return [`${title}\n${open.slice(0, SHOWN).map(text).join('')}${more}`]
}

/** A section of each kind of which one is under way. */
export function pastLines({ backfills = [], replays = [] }: Partial<StatusReport>): string[] {
  return [
    ...sectionText('BACKFILLS UNDER WAY', 'backfill', backfills, backfillText),
    ...sectionText('REPLAYS FROM THE API UNDER WAY', 'replay', replays, replayText),
  ]
}
