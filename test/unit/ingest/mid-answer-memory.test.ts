// A later chunk of an answer that finds no memory: the open socket is worth a wait, since giving up means requesting all of it again.
import { expect, test } from 'vitest'
import { ingestOnce } from '../../../src/ingest/loop.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Source } from '../../../src/contracts/source.ts'
import { partOf } from '../../../src/sources/shared.ts'
import { entriesOf, spec } from '../../contract/journal-parts.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { SourceNotes } from '../../fakes/reporters.ts'
import { never, openRig, START } from '../delivery/rig.ts'
import { driven, SECOND } from '../app/audit-harness.ts'

const stream = { workspace: 'acme', source: 'audit' } as const

async function collecting(roomAt: number, signal = never) {
  const rig = await openRig()
  const asked = { times: 0, closed: 0 }
  const source: Source = {
    stream,
    plan: () => ({ dueAt: 0, priority: 'live', caughtUp: false }),
    async *read() {
      asked.times++
      try {
        yield partOf({ entries: entriesOf([spec(1)]) })
        yield partOf({ entries: entriesOf([spec(2)]), cursor: 'two' })
      } finally {
        asked.closed++
      }
    },
  }
  let parts = 0
  const journal = withMethods(rig.journal, {
    append: async (part) => {
      if (++parts > 100) throw new Error('this goes in circles')
      if (parts > 1 && rig.clock.now() < roomAt) throw new ConnectorError('journal_full', 'no room')
      return rig.journal.append(part)
    },
  })
  const reporter = new SourceNotes()
  const { clock, log } = rig
  const more = { random: () => 0.5, wanted: () => true, once: false }
  const read = driven(clock, ingestOnce({ source, journal, reporter, log, clock, ...more }, 'zero', signal))
  return { rig, asked, reporter, read }
}

test('a later chunk waits for memory up to 30 s with its answer open, and is requested once', async () => {
  const { rig, asked, reporter, read } = await collecting(START + 29 * SECOND)
  expect((await read).cursor).toBe('two')
  expect(rig.journal.stats().entries).toBe(2)
  expect(asked).toEqual({ times: 1, closed: 1 })
  expect(reporter.states).toContain('paused')
  // What came in by then is read.
  expect(reporter.states.at(-1)).toBe('reading')
})

test('a later chunk that finds no memory within 30 s gives up its answer, and the cursor stays', async () => {
  const { rig, asked, read } = await collecting(Infinity)
  await expect(read).rejects.toMatchObject({ code: 'journal_full' })
  expect(rig.clock.now()).toBeGreaterThanOrEqual(START + 30 * SECOND)
  expect(rig.clock.now()).toBeLessThan(START + 35 * SECOND)
  expect(asked).toEqual({ times: 1, closed: 1 })
  expect(await rig.journal.cursor(stream)).toBeUndefined()
})

test('at a stop a later chunk stops waiting for memory, and is not retried', async () => {
  const { rig, asked, read } = await collecting(Infinity, AbortSignal.abort())
  await expect(read).rejects.toMatchObject({ code: 'journal_full' })
  expect(rig.clock.now()).toBe(START)
  expect(asked).toEqual({ times: 1, closed: 1 })
})
