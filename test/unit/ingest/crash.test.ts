// The ingest loop dies between any two appends.
import { expect, test } from 'vitest'
import { ingestOnce } from '../../../src/ingest/loop.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import { driven, openHarness, stream } from '../app/audit-harness.ts'
import { withMethods } from '../../fakes/with-methods.ts'

/** Lets so many appends land, then the process dies. */
function dyingAfter(appends: number, journal: Journal): Journal {
  let landed = 0
  return withMethods(journal, {
    append: async (part) => {
      if (landed === appends) throw new Error('crashed')
      landed++
      return journal.append(part)
    },
  })
}

test.each([0, 1, 2, 3, 4])(
  'no crash between two appends leaves a cursor ahead of its entries: after %i of them everything is read',
  async (appends) => {
    const harness = await openHarness()
    const added = harness.add(2_500)
    const dying = { ...harness.collector, journal: dyingAfter(appends, harness.journal) }
    const signal = new AbortController().signal
    let cursor = await harness.journal.cursor(stream)
    try {
      for (let step = 0; step < 8; step++)
        cursor = (await driven(harness.clock, ingestOnce(dying, cursor, signal))).cursor
    } catch (error) {
      expect(error).toMatchObject({ message: 'crashed' })
    }
    harness.cursor = await harness.journal.cursor(stream)
    await harness.drain()
    expect((await harness.ids()).toSorted()).toEqual(added.toSorted())
  },
)
