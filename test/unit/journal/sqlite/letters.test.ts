// Many dead letters at once: within bounded memory, and on a full disk.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { openRegistered } from '../../../fakes/registered.ts'
import { TRANSACTION_BYTES } from '../../../../src/contracts/entries.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { idsOf, logOf, part, plenty, spec, TestClock, uuid } from '../../../contract/journal-parts.ts'

let folder: string
let clock: TestClock
let journal: Journal

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'auditferry-letters-'))
  clock = new TestClock()
  const limits = { maxBytes: 2 ** 30, keepKeysMs: 1e9, keepDeliveredBytes: 2 ** 20 }
  const path = join(folder, 'journal.db')
  journal = await openRegistered({ path, ...limits, sinks: ['a'], clock, log: logOf(), ballastBytes: 10_000 })
})
afterEach(async () => {
  vi.restoreAllMocks()
  await journal.close()
  await rm(folder, { recursive: true, force: true })
})

const rejectAll = async (count: number) => {
  const rejected = Array.from({ length: count }, (_, i) => ({ seq: i + 1, code: 'refused', reason: 'no' }))
  await journal.ack('a', { first: 1, through: count, rejected })
}

it('retried dead letters are copied in pieces of at most 4 MB', async () => {
  const body = 'x'.repeat(TRANSACTION_BYTES / 4)
  for (let n = 1; n <= 10; n++) await journal.append(part([spec(n, { body })]))
  await rejectAll(10)
  const pieces = vi.spyOn(Buffer, 'concat')
  expect(await journal.retryDeadLetters({})).toBe(10)
  const sizes = pieces.mock.results.map(({ value }) => (value as Buffer).length)
  pieces.mockRestore()
  expect(Math.max(...sizes)).toBeGreaterThan(body.length)
  expect(Math.max(...sizes)).toBeLessThanOrEqual(TRANSACTION_BYTES + 1024)
  const batch = await journal.take('a', { maxEntries: 100, maxBytes: 1e9 })
  expect(idsOf(batch)).toEqual(Array.from({ length: 10 }, (_, i) => uuid(i + 1)))
})

it('dead letters stored on the second try, with the room of the ballast, count once', async () => {
  await journal.append(part([spec(1), spec(2)]))
  let asked = 0
  clock.now = () => {
    if (++asked === 2) throw Object.assign(new Error('as told'), { code: 'ENOSPC' })
    return clock.nowMs
  }
  await rejectAll(2)
  expect(asked).toBe(4)
  expect(journal.stats().sinks[0]?.deadLetters).toBe(2)
  expect(await journal.deadLetters({})).toHaveLength(2)
  expect(await journal.take('a', plenty)).toBeUndefined()
})
