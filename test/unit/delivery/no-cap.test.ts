// No retry cap (invariant 3): however often a receiver fails, what it did not take stays pending.
import { expect, it } from 'vitest'
import { failing, taken } from '../../fakes/sink.ts'
import { openQuay } from './quay.ts'

it.each(['unreachable', 'server_error', 'timeout', 'unauthorized', 'misconfigured'] as const)(
  'a batch that failed a hundred times is still pending and goes out unchanged: %s',
  async (code) => {
    const quay = await openQuay()
    const berth = quay.berth()
    await quay.append(3)
    berth.sink.answer = failing(code)
    for (let tries = 0; tries < 100; tries++) await expect(berth.step()).rejects.toMatchObject({ code })
    expect(quay.journal.stats().entries).toBe(3)
    berth.sink.answer = taken
    await berth.empty()
    expect(berth.sink.deliveries.at(-1)).toMatchObject({ seqs: [1, 2, 3], possibleDuplicate: true })
    expect(quay.journal.stats()).toMatchObject({ entries: 0 })
  },
)
