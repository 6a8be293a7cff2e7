// Which sinks have answered for a trace: a refusal for good is looked for once, however many dead letters there are.
import { expect, test } from 'vitest'
import { awaited, acknowledgedBy, undelivered } from '../../../src/canary/round.ts'
import type { Round } from '../../../src/canary/round.ts'
import type { Journal, SinkPosition } from '../../../src/contracts/journal.ts'
import type { DeadLetterQuery } from '../../../src/contracts/records.ts'

const sinks = [
  { name: 'siem', source: 'audit' },
  { name: 'archive', source: 'audit' },
] as const

const roundOf = (more: Partial<Round> = {}): Round => ({
  ...{ nonce: 'c', sentAt: 1, delivered: {}, parked: [], over: false },
  traces: { audit: { at: 2, seq: 7, id: 'ours' } },
  ...more,
})

function journalOf(siem: Partial<SinkPosition>, letters: readonly string[]) {
  const asked: DeadLetterQuery[] = []
  const position = {
    sink: 'siem',
    position: 7,
    pendingEntries: 0,
    oldestPendingAt: undefined,
    deadLetters: 0,
  }
  const journal = {
    stats: () => ({ sinks: [{ ...position, ...siem }] }),
    async deadLetters(query: DeadLetterQuery) {
      asked.push(query)
      const { after = 0, limit = 0 } = query
      return letters
        .map((entryId, i) => ({ id: i + 1, entryId }))
        .filter(({ id }) => id > after)
        .slice(0, limit)
    },
  } as unknown as Pick<Journal, 'stats' | 'deadLetters'>
  return { journal, asked }
}

test('a trace that a sink refused is recorded once and not searched again; it stays undelivered', async () => {
  const round = roundOf()
  const { journal, asked } = journalOf({ deadLetters: 1 }, ['ours'])
  expect(await acknowledgedBy(round, sinks, journal)).toEqual([])
  expect(await acknowledgedBy(round, sinks, journal)).toEqual([])
  expect([round.parked, asked.length]).toEqual([['siem'], 1])
  expect(awaited(round, sinks).map(({ name }) => name)).toEqual(['archive'])
  expect(undelivered(round, sinks)).toEqual(sinks)
})

test('its dead letter is found behind a thousand others', async () => {
  const others = Array.from({ length: 1_000 }, (_, i) => `other-${i}`)
  const [found, lost] = [roundOf(), roundOf()]
  const { journal, asked } = journalOf({ deadLetters: 1_001 }, [...others, 'ours'])
  expect(await acknowledgedBy(found, sinks, journal)).toEqual([])
  expect([found.parked, asked.map(({ after }) => after)]).toEqual([['siem'], [0, 1_000]])
  expect(await acknowledgedBy(lost, sinks, journalOf({ deadLetters: 1_000 }, others).journal)).toEqual([
    'siem',
  ])
})

test('entries not acknowledged yet, delivered already or not read are no answer', async () => {
  const { journal } = journalOf({ position: 6 }, [])
  expect(await acknowledgedBy(roundOf(), sinks, journal)).toEqual([])
  const settled = journalOf({}, []).journal
  expect(await acknowledgedBy(roundOf({ delivered: { siem: 3 } }), sinks, settled)).toEqual([])
  expect(await acknowledgedBy(roundOf({ traces: {} }), sinks, settled)).toEqual([])
  expect(await acknowledgedBy(roundOf(), sinks, settled)).toEqual(['siem'])
})
