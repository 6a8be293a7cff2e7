// The end of a chain against a time from outside: a clock that jumped ahead does not vouch for hours that were cut away.
import { afterEach, beforeEach, expect, it } from 'vitest'
import { BEGIN_AT, HOUR_MS, Setup } from './evidence-setup.ts'

const YEARS_MS = 10 * 365 * 24 * HOUR_MS
let setup: Setup
beforeEach(async () => {
  setup = await Setup.open()
  await setup.append(500)
  await setup.step()
  await setup.runDispatcher(10)
  await setup.hour()
})
afterEach(() => setup.close())

/** Keeps so many manifests, and the objects that they list. */
function cutBehind(count: number): void {
  for (const [at, key] of setup.bucket.keys('manifest/').entries())
    if (at >= count) {
      for (const object of setup.manifest(at + 1)['objects'] as { key: string }[])
        setup.bucket.objects.delete(object.key)
      setup.bucket.objects.delete(key)
    }
}

async function hours(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await setup.runDispatcher(5)
    await setup.hour()
  }
}

it.each([0, 2])(
  'a clock that once jumped ahead, and ran on for %i hours, does not hide that the end was cut',
  async (ranOn) => {
    setup.clock.nowMs += YEARS_MS
    await setup.runDispatcher(5)
    await setup.hour()
    await hours(ranOn)
    setup.clock.nowMs = BEGIN_AT + HOUR_MS
    await setup.step()
    await hours(5)
    const untilAt = setup.clock.nowMs - HOUR_MS
    expect((await setup.verify({ untilAt })).faultLines).toEqual([])
    cutBehind(2 + ranOn)
    expect((await setup.verify()).faultLines).toEqual([])
    expect((await setup.verify({ untilAt })).faultLines).toEqual([
      expect.stringMatching(/by one manifest alone, number 2, which spans .*the clock had jumped ahead/),
    ])
  },
)

it('a time at which nothing ran is not proved, and one before or behind it is', async () => {
  const stoppedAt = Math.floor(setup.clock.nowMs / HOUR_MS) * HOUR_MS
  setup.clock.nowMs += 5 * HOUR_MS
  await setup.step()
  await hours(1)
  const faultsAt = async (untilAt: number) => (await setup.verify({ untilAt })).faultLines.length
  expect(await faultsAt(BEGIN_AT - HOUR_MS)).toBe(0)
  expect(await faultsAt(stoppedAt)).toBe(0)
  expect(await faultsAt(stoppedAt + 1)).toBe(1)
  expect(await faultsAt(stoppedAt + 5 * HOUR_MS - 1)).toBe(1)
  expect(await faultsAt(stoppedAt + 5 * HOUR_MS)).toBe(0)
  expect(await faultsAt(stoppedAt + 6 * HOUR_MS)).toBe(0)
  expect(await faultsAt(stoppedAt + 6 * HOUR_MS + 1)).toBe(1)
})

it('an incomplete interval is reached at its start and no further', async () => {
  const beginAt = Math.floor(setup.clock.nowMs / HOUR_MS) * HOUR_MS
  for (let i = 0; i < 300; i++) await setup.runDispatcher(1)
  await setup.hour()
  expect(setup.manifest(2)).toMatchObject({ complete: false })
  const faultsAt = async (untilAt: number) => (await setup.verify({ untilAt })).faultLines
  expect(await faultsAt(beginAt + HOUR_MS)).toEqual([])
  cutBehind(2)
  expect(await faultsAt(beginAt)).toEqual([])
  expect(await faultsAt(beginAt + 1)).toEqual([
    expect.stringContaining(`ends at ${new Date(beginAt).toISOString()}, before`),
  ])
})
