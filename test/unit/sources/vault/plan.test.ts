// When the vault is read next, and whether all of it had been: by the cursor alone, whoever wrote it.
import { expect, it } from 'vitest'
import { HOUR, MINUTE } from '../../app/desk.ts'
import { idOf, openVaultDesk } from './desk.ts'

const paged = async () => {
  const desk = await openVaultDesk()
  desk.vault.manner.cap = 2
  for (const name of ['a', 'b', 'c', 'd']) desk.vault.add(name)
  return desk
}

it('nothing is caught up before a first pass has ended; from then on between passes, and not within one', async () => {
  const desk = await paged()
  const planned = () => [desk.source.plan(desk.cursor), desk.clock.now()] as const
  const isCaughtUp = (wanted: boolean) => {
    const [{ caughtUp, dueAt }, now] = planned()
    expect([caughtUp, dueAt - now]).toEqual([wanted, wanted ? 6 * HOUR : 0])
  }
  isCaughtUp(false)
  await desk.step()
  isCaughtUp(false)
  await desk.pass()
  isCaughtUp(true)
  await desk.restart()
  isCaughtUp(true)
  desk.clock.advance(desk.clock.now() + 6 * HOUR)
  await desk.step()
  isCaughtUp(false)
  await desk.restart()
  isCaughtUp(false)
  await desk.pass()
  isCaughtUp(true)
})

it('a plan follows the cursor that it is asked about, not one that was opened before', async () => {
  const desk = await paged()
  await desk.pass()
  await desk.restart()
  expect(desk.source.plan(undefined).caughtUp).toBe(false)
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
  desk.clock.advance(desk.clock.now() + 6 * HOUR)
  const { cursor } = desk
  await desk.step()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(false)
  expect(desk.source.plan(cursor).caughtUp).toBe(true)
})

it('a clock that was set back delays neither the next pass nor one under way', async () => {
  const desk = await paged()
  await desk.pass()
  const now = desk.clock.now.bind(desk.clock)
  const due = (backMs: number) => {
    desk.clock.now = () => now() - backMs
    return desk.source.plan(desk.cursor).dueAt - desk.clock.now()
  }
  expect([due(0), due(MINUTE)]).toEqual([6 * HOUR, 0])
  due(0)
  desk.clock.advance(now() + 6 * HOUR)
  await desk.step()
  expect([due(0), due(HOUR)]).toEqual([0, 0])
})

it.each([
  [6 * HOUR, [MINUTE, MINUTE, MINUTE, 6 * HOUR, MINUTE]],
  [MINUTE / 2, Array(5).fill(MINUTE / 2)],
])(
  'if projects are missing without proof the next pass comes soon, three times, and never later than the interval (%i ms)',
  async (intervalMs, wanted) => {
    const desk = await openVaultDesk({ source: { intervalMs } })
    for (const name of ['a', 'b', 'c', 'd']) desk.vault.add(name)
    await desk.pass()
    desk.vault.projects.delete(idOf(2))
    desk.vault.manner.total = 'too_high'
    const pauses: number[] = []
    for (let i = 0; i < 5; i++) {
      desk.clock.advance(desk.clock.now() + intervalMs)
      await desk.pass()
      pauses.push(desk.source.plan(desk.cursor).dueAt - desk.clock.now())
    }
    expect(pauses).toEqual(wanted)
  },
)
