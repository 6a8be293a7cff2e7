// What `replay` says of those that the daemon reads from the API: how far they are, what was sent, and how the other sinks get what they lack.
import type { ApiReplay } from '../../model/api-replay.ts'
import { secondText } from '../../model/time.ts'
import { countText, numberText } from '../../ops/words.ts'
import { printable } from '../../model/printable.ts'
import { gapsText } from '../shared/follow-text.ts'
import type { Following } from '../shared/follow-text.ts'
import { spansText } from './cut.ts'

export const replaysFollowed: Following<ApiReplay> = {
  what: 'replay',
  title: 'replay from the API',
  stays: (whose) => `what ${whose} put into the journal goes out`,
  heard: (client) => client.replays(),
  begunAt: ({ runAt }) => runAt,
  nameText,
  ratio: ratioOf,
  countsText,
  isWhole: ({ counts }) => counts.gaps === 0,
  endText: (one, ended) =>
    one.spans.length === 0
      ? `${nameText(one)}: nothing to read: this span is later than what live reading has read in order (${spansText(one)})`
      : `${nameText(one)}: ${ended}: ${countsText(one)}`,
  adviceText,
}

function nameText({ origin, sink }: ApiReplay): string {
  return printable(`${origin.workspace} ${origin.source} to ${sink}, from the API`)
}

function ratioOf({ spans, atUs }: ApiReplay): number {
  const whole = spans.reduce((sum, { fromUs, toUs }) => sum + toUs - fromUs, 0)
  const read = (at: number) =>
    spans.reduce((sum, { fromUs, toUs }) => sum + Math.min(Math.max(at - fromUs, 0), toUs - fromUs), 0)
  return atUs === undefined || whole === 0 ? 0 : read(atUs) / whole
}

function countsText(one: ApiReplay): string {
  const { read, sent, filtered, unknown, malformed, gaps } = one.counts
  const sums = `${numberText(read)} read, ${numberText(sent)} put at the journal's end as a replay, ${numberText(filtered)} filtered, ${numberText(malformed)} malformed`
  const never =
    unknown === 0
      ? ''
      : `; ${numberText(unknown)} of them the journal does not know, or not with this content`
  const left = spansText(one)
  const cut = left === '' ? '' : `; not read, later than what live reading had read in order: ${left}`
  return `${sums}${never}${gapsText(gaps)}${cut}`
}

/** What this sink has now and the others may lack. */
function adviceText({ counts, origin, spans }: ApiReplay): string {
  const [first] = spans
  const last = spans.at(-1)
  if (counts.unknown === 0 || !first || !last) return ''
  const span = `--workspace ${origin.workspace} --from ${secondText(first.fromUs / 1000)} --to ${secondText(Math.ceil(last.toUs / 1e6) * 1000)}`
  return `auditferry: ${countText(counts.unknown, 'entries')} of ${printable(`${origin.workspace} ${origin.source}`)} were sent that the journal does not know, or not with this content: never read, of a type that was not wanted then, changed since, or older than journal.keep_keys. Other sinks may lack them: auditferry reconcile ${span} tells, auditferry backfill ${span} delivers what is not known to every sink\n`
}
