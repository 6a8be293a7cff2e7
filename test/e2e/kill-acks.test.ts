// The built program before a Splunk that acknowledges later, killed while it waits for that.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { roundsOf } from '../rounds.ts'
import { dice } from '../simulation/random.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { judge } from './judge.ts'
import { calm, die, expectNoSecret, killAtRandom } from './lives.ts'
import { openStage } from './stage.ts'
import type { Stage } from './stage.ts'

/** Twelve in all, with so many batches in flight. */
const KILLS = 4
const IN_FLIGHT = [2, 1, 4]
const BACKLOG = 2_000

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

async function openRound(batchEntries: number, maxInFlight: number): Promise<Stage> {
  return openStage({
    seed: maxInFlight,
    batchEntries,
    traffic: { backlog: BACKLOG, entriesPerHour: 3_600, rhythm: 'steady', exotic: 0.2 },
    switches: { latency: 10, retry_after: 'none' },
    receiver: { ackDelayMs: 200, indexers: maxInFlight > 1 ? 2 : 1 },
    // Asked for the last time long after it was safe: a batch that is unknown by then was lost.
    splunk: { acks: true, ack_timeout: '1s', max_in_flight: maxInFlight },
  })
}

/** Requests and polls without an answer, indexers that die with what they had not written, cookies that end. */
function trouble({ hec }: Stage, roll: ReturnType<typeof dice>): { doubts: number } {
  const counted = { doubts: 0 }
  const perhaps = (share: number) => {
    if (!roll.chance(share)) return false
    counted.doubts++
    return true
  }
  hec.faultOf = () => {
    if (perhaps(0.02)) hec.crash(Date.now(), roll.below(hec.options.indexers))
    if (perhaps(0.01)) hec.expireCookies()
    return perhaps(0.02) ? { kind: 'reset', indexes: true } : undefined
  }
  hec.ackFaultOf = () => (perhaps(0.03) ? { kind: 'reset', tells: true } : undefined)
  return counted
}

describe.concurrent('the built program, killed while batches wait for their acknowledgements', () => {
  test.for(roundsOf(IN_FLIGHT, 1))(
    'loses nothing that the indexers lose, and repeats no more than waits: %i in flight',
    async (maxInFlight) => {
      const roll = dice(2_000 + maxInFlight)
      const batchEntries = roll.pick([60, 120])
      const stage = await openRound(batchEntries, maxInFlight)
      try {
        const counted = trouble(stage, roll)
        const { reported, logs } = await die(KILLS, async () => {
          const death = await killAtRandom(built, stage, roll)
          await death.child.ended
          // Half of the time the power is gone for the indexers too.
          if (roll.chance(0.5)) stage.hec.crash(Date.now())
          return death
        })
        expectNoSecret(logs + (await calm(built, stage)))
        const waiting = batchEntries * maxInFlight
        const mayRepeat = waiting * (2 * KILLS + counted.doubts + 1)
        const faults = judge(stage, { mayRepeat, unordered: true })
        expect(faults, `${maxInFlight} in flight, killed: ${reported}`).toEqual([])
      } finally {
        await stage.close()
      }
    },
  )
})
