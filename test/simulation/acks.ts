// The acknowledging collector of a seed: its faults, and whether what the journal counts as acknowledged is safe at that moment.
import type { Journal } from '../../src/contracts/journal.ts'
import type { Seq } from '../../src/core/sequence.ts'
import type { AckFault, FakeHec, HecEvent } from '../fakes/hec.ts'
import type { Dice } from './random.ts'
import type { AckScenario } from './scenario.ts'

/** Indexers crash and restart, cookies end, polls fail. `doubt` is called for each fault that may repeat batches. */
export function upset(hec: FakeHec, scenario: AckScenario, roll: Dice, now: () => number, doubt: () => void) {
  const indexer = () => roll.below(scenario.indexers)
  const perhaps = () => {
    if (!roll.chance(scenario.upsetShare)) return
    doubt()
    roll.pick([
      () => hec.crash(now(), indexer()),
      () => hec.restart(indexer()),
      () => hec.expireCookies(),
      () => hec.crash(now()),
    ])()
  }
  const honest = hec.faultOf
  hec.faultOf = (request) => {
    perhaps()
    return honest?.(request)
  }
  hec.ackFaultOf = () => {
    perhaps()
    if (!roll.chance(scenario.pollFaultShare)) return undefined
    const tells = roll.chance(0.5)
    if (tells) doubt()
    return roll.pick<AckFault>([
      { kind: 'reset', tells },
      { kind: 'status', status: 502, tells },
      { kind: 'garbage', tells },
      { kind: 'html' },
      { kind: 'code', code: 9 },
      { kind: 'slow', ms: 5_000 },
      { kind: 'slow', ms: 90_000, tells },
    ])
  }
}

/** Which of [first, through], as far as the sink wants their `sources`, are not on an indexer's disk now. Must be called before the acknowledgement that is checked. */
export async function unsafe(
  journal: Journal,
  hec: FakeHec,
  { first, through }: { readonly first: Seq; readonly through: Seq },
  now: number,
  sources: readonly string[],
): Promise<readonly string[]> {
  // As of now: a crash makes another list.
  const { indexed } = hec
  const { slices } = await journal.range(first, through)
  const missing = new Set(
    slices
      .filter(({ stream }) => sources.includes(stream.source))
      .flatMap(({ entries }) => Array.from({ length: entries.count }, (_, i) => entries.id(i))),
  )
  // Acknowledged entries came lately.
  for (let at = indexed.length - 1; at >= 0 && missing.size > 0; at--) {
    const { safeAt, fields } = indexed[at] as HecEvent
    if (safeAt <= now) missing.delete(String(fields['entry_id']))
  }
  return [...missing]
}
