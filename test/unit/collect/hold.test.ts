import { expect, test } from 'vitest'
import { collect } from '../../../src/collect.ts'
import { driven, MINUTE, openDesk, START } from '../source/desk.ts'

test.each(['unauthorized', 'forbidden'] as const)(
  'a key that is refused as %s is held and tried on, for as long as it takes',
  async (fault) => {
    const desk = await openDesk({ faults: { [fault]: { until: START + 30 * MINUTE } } })
    const added = desk.add(5)
    const stop = new AbortController()
    const running = collect(desk.collector, stop.signal)
    running.catch(() => undefined)
    await driven(desk.clock, desk.clock.sleep(20 * MINUTE))
    expect(await desk.ids()).toEqual([])
    // Slowly: not once a second for half an hour.
    expect(desk.mock.requests.length).toBeLessThan(60)
    await driven(desk.clock, desk.clock.sleep(20 * MINUTE))
    expect(await desk.ids()).toEqual(added)
    stop.abort()
    await driven(desk.clock, running)
  },
)
