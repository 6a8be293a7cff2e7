// A round that is judged by a clock which was set: as far before its prompt as after it, it is over.
import { expect, test } from 'vitest'
import { Judge } from '../../../src/canary/judge.ts'
import type { CanaryMemory, Round } from '../../../src/canary/round.ts'
import { LogLines } from '../../fakes/sink-deps.ts'
import { SourceNotes } from '../../fakes/reporters.ts'
import { VirtualClock } from '../../simulation/virtual-clock.ts'
import { START } from '../delivery/rig.ts'

const BOUND = 3_600_000

test.each([
  [-10 * BOUND, true],
  [-BOUND, true],
  [-BOUND + 1, false],
  [BOUND - 1, false],
  [BOUND, true],
])('a clock set to %d ms from the prompt ends a round that lacks something: %s', (ms, over) => {
  const lacking: number[] = []
  const canary = {
    seen: () => undefined,
    complete: () => undefined,
    missing: (traces: readonly object[]) => void lacking.push(traces.length),
  }
  const judge = new Judge({
    ...{ boundMs: BOUND, sources: ['audit'], sinks: [], canary },
    ...{ reporter: new SourceNotes(), log: new LogLines(), clock: new VirtualClock(START + ms) },
  })
  const round: Round = {
    ...{ nonce: 'c', sentAt: START, traces: {}, delivered: {}, parked: [], over: false },
  }
  const memory: CanaryMemory = { round, wholeAt: 0 }
  judge.judge(memory, round)
  expect([round.over, memory.missed !== undefined]).toEqual([over, over])
  expect(lacking).toEqual(over ? [1] : [])
})

test('of an earlier process only the results of sinks that still exist are reported', () => {
  const reported: unknown[] = []
  const canary = { seen: (trace: unknown) => reported.push(trace), complete: () => undefined, missing: () => undefined } // prettier-ignore
  const judge = new Judge({
    ...{ boundMs: BOUND, sources: ['audit'], sinks: [{ name: 'siem', source: 'audit' }], canary },
    ...{ reporter: new SourceNotes(), log: new LogLines(), clock: new VirtualClock(START) },
  })
  const delivered = { siem: START + 1, gone: START + 2 }
  const round: Round = { ...{ nonce: 'c', sentAt: START, traces: {}, parked: [], over: false }, delivered } // prettier-ignore
  judge.remember({ round, wholeAt: 0 })
  expect(reported).toEqual([{ stage: 'delivered', sink: 'siem' }])
})

test('a stage missing in an earlier round is not reported any more once nothing looks for it', () => {
  const lacking: number[] = []
  const canary = { seen: () => undefined, complete: () => undefined, missing: (traces: readonly object[]) => void lacking.push(traces.length) } // prettier-ignore
  const reporter = new SourceNotes()
  const judge = new Judge({
    ...{ boundMs: BOUND, sources: ['audit'], sinks: [], canary, reporter },
    ...{ log: new LogLines(), clock: new VirtualClock(START) },
  })
  const traces = { audit: { at: START, seq: 1, id: 'a' } }
  const round: Round = { nonce: 'c', sentAt: START, traces, delivered: {}, parked: [], over: true }
  const memory: CanaryMemory = { round, missed: round, wholeAt: 0 }
  judge.remember(memory)
  judge.promptAnswered(memory)
  expect([lacking, reporter.errors, reporter.states, reporter.successes]).toEqual([[], [], [], 1])
})
