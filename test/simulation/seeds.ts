// What the two files of simulated seeds share: how many seeds each holds, and how a failing one is told.
import { describe, expect, test } from 'vitest'
import { simulate } from './simulate.ts'

/** Seeds of each file; AUDITFERRY_SEEDS asks for another number. */
const COUNT = Number(process.env['AUDITFERRY_SEEDS'] ?? 500)
/** Seeds of one test: few enough to see it move, enough not to drown in titles. */
const STEP = 25
const TIMEOUT_MS = 900_000

/** Share number `share` (from 0) of the seeds from 1 on, each a whole life of the daemon with its faults and deaths. */
export function simulateSeeds(share: number): void {
  const from = share * COUNT + 1
  const last = from + COUNT - 1
  describe('whatever went wrong, every sink holds all that the API showed', () => {
    for (let first = from; first <= last; first += STEP) {
      const until = Math.min(first + STEP - 1, last)
      test(`seeds ${first} to ${until}`, { timeout: TIMEOUT_MS }, async () => {
        const told: string[] = []
        for (let seed = first; seed <= until; seed++) {
          const { faults } = await simulate(seed)
          if (faults.length > 0)
            told.push(
              `seed ${seed} failed; again with: npm run simulate -- 1 ${seed}\n  ${faults.join('\n  ')}`,
            )
        }
        expect(told.join('\n')).toBe('')
      })
    }
  })
}
