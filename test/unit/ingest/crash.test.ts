// The ingest loop dies between any two appends.
import { expect, test } from 'vitest'
import { ingestOnce } from '../../../src/ingest/loop.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import { driven, openDesk, stream } from '../app/desk.ts'
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
    const desk = await openDesk()
    const added = desk.add(2_500)
    const dying = { ...desk.collector, journal: dyingAfter(appends, desk.journal) }
    const signal = new AbortController().signal
    let cursor = await desk.journal.cursor(stream)
    try {
      for (let step = 0; step < 8; step++)
        cursor = (await driven(desk.clock, ingestOnce(dying, cursor, signal))).cursor
    } catch (error) {
      expect(error).toMatchObject({ message: 'crashed' })
    }
    desk.cursor = await desk.journal.cursor(stream)
    await desk.drain()
    expect((await desk.ids()).toSorted()).toEqual(added.toSorted())
  },
)
