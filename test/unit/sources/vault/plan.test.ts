// When the vault is read next, and whether all of it had been: by the cursor alone, whoever wrote it.
import { expect, it } from 'vitest'
import { HOUR, MINUTE } from '../../app/audit-harness.ts'
import { idOf, openVaultHarness } from './harness.ts'

const paged = async () => {
  const harness = await openVaultHarness()
  harness.vault.manner.cap = 2
  for (const name of ['a', 'b', 'c', 'd']) harness.vault.add(name)
  return harness
}

it('nothing is caught up before a first pass has ended; from then on between passes, and not within one', async () => {
  const harness = await paged()
  const planned = () => [harness.source.plan(harness.cursor), harness.clock.now()] as const
  const isCaughtUp = (wanted: boolean) => {
    const [{ caughtUp, dueAt }, now] = planned()
    expect([caughtUp, dueAt - now]).toEqual([wanted, wanted ? 6 * HOUR : 0])
  }
  isCaughtUp(false)
  await harness.step()
  isCaughtUp(false)
  await harness.pass()
  isCaughtUp(true)
  await harness.restart()
  isCaughtUp(true)
  harness.clock.advance(harness.clock.now() + 6 * HOUR)
  await harness.step()
  isCaughtUp(false)
  await harness.restart()
  isCaughtUp(false)
  await harness.pass()
  isCaughtUp(true)
})

it('a plan follows the cursor that it is asked about, not one that was opened before', async () => {
  const harness = await paged()
  await harness.pass()
  await harness.restart()
  expect(harness.source.plan(undefined).caughtUp).toBe(false)
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
  harness.clock.advance(harness.clock.now() + 6 * HOUR)
  const { cursor } = harness
  await harness.step()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
  expect(harness.source.plan(cursor).caughtUp).toBe(true)
})

it('a clock that was set back delays neither the next pass nor one under way', async () => {
  const harness = await paged()
  await harness.pass()
  const now = harness.clock.now.bind(harness.clock)
  const due = (backMs: number) => {
    harness.clock.now = () => now() - backMs
    return harness.source.plan(harness.cursor).dueAt - harness.clock.now()
  }
  expect([due(0), due(MINUTE)]).toEqual([6 * HOUR, 0])
  due(0)
  harness.clock.advance(now() + 6 * HOUR)
  await harness.step()
  expect([due(0), due(HOUR)]).toEqual([0, 0])
})

it.each([
  [6 * HOUR, [MINUTE, MINUTE, MINUTE, 6 * HOUR, MINUTE]],
  [MINUTE / 2, Array(5).fill(MINUTE / 2)],
])(
  'if projects are missing without proof the next pass comes soon, three times, and never later than the interval (%i ms)',
  async (intervalMs, wanted) => {
    const harness = await openVaultHarness({ source: { intervalMs } })
    for (const name of ['a', 'b', 'c', 'd']) harness.vault.add(name)
    await harness.pass()
    harness.vault.projects.delete(idOf(2))
    harness.vault.manner.total = 'too_high'
    const pauses: number[] = []
    for (let i = 0; i < 5; i++) {
      harness.clock.advance(harness.clock.now() + intervalMs)
      await harness.pass()
      pauses.push(harness.source.plan(harness.cursor).dueAt - harness.clock.now())
    }
    expect(pauses).toEqual(wanted)
  },
)
