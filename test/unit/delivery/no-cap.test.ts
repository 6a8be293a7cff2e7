// No retry cap (invariant 3): however often a receiver fails, what it did not take stays pending.
import { expect, it } from 'vitest'
import { failing, taken } from '../../fakes/sink.ts'
import { openRig } from './rig.ts'

it.each(['unreachable', 'server_error', 'timeout', 'unauthorized', 'misconfigured'] as const)(
  'a batch that failed a hundred times is still pending and goes out unchanged: %s',
  async (code) => {
    const rig = await openRig()
    const sinkRig = rig.sinkRig()
    await rig.append(3)
    sinkRig.sink.answer = failing(code)
    for (let tries = 0; tries < 100; tries++) await expect(sinkRig.step()).rejects.toMatchObject({ code })
    expect(rig.journal.stats().entries).toBe(3)
    sinkRig.sink.answer = taken
    await sinkRig.empty()
    expect(sinkRig.sink.deliveries.at(-1)).toMatchObject({ seqs: [1, 2, 3], possibleDuplicate: true })
    expect(rig.journal.stats()).toMatchObject({ entries: 0 })
  },
)
