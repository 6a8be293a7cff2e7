// What making room and coming back must never take away: young keys, owed chunks, parked entries, live intents.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Core } from '../../../../src/journal/sqlite/core.ts'
import { openRegistered } from '../../../fakes/registered.ts'
import { Streams } from '../../../../src/journal/sqlite/streams.ts'
import { Pending } from '../../../../src/journal/sqlite/pending.ts'
import { preparePrune, prune } from '../../../../src/journal/sqlite/prune.ts'
import { DeliveryAccounts } from '../../../../src/journal/sqlite/accounts.ts'
import { migrate } from '../../../../src/journal/sqlite/schema.ts'
import { accountReport } from '../../../../src/contracts/accounts.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import {
  DAY_MS,
  logOf,
  part,
  acknowledgement,
  spec,
  START_US,
  TestClock,
  usage,
  uuid,
} from '../../../contract/journal-parts.ts'

const keepKeysMs = 10 * DAY_MS
let folder: string
let journal: Journal
let clock: TestClock

async function open(sinks: readonly string[]): Promise<void> {
  journal = await openRegistered({
    ...{ path: join(folder, 'a.db'), maxBytes: 2 ** 30, keepKeysMs, keepDeliveredBytes: 0, sinks },
    ...{ clock, log: logOf(), ballastBytes: 0 },
  })
}

async function reopen(sinks: readonly string[]): Promise<void> {
  await journal.close()
  await open(sinks)
}

async function pruneAll(): Promise<void> {
  while (await journal.prune()) continue
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'auditferry-prune-'))
  clock = new TestClock()
  await open(['a', 'b'])
})
afterEach(async () => {
  await journal.close()
  await rm(folder, { recursive: true, force: true })
})

it('keys of what a source read on its day of reading before the last are kept, however old their entries', async () => {
  clock.nowMs = START_US / 1000 + 3 * keepKeysMs
  await journal.append(part([spec(1)]))
  clock.nowMs += DAY_MS
  await journal.append(part([{ id: uuid(100), at: clock.nowMs * 1000 }]))
  await pruneAll()
  expect(await journal.append(part([spec(1)]))).toMatchObject({ added: 0, known: 1 })
})

it('an entry that is dated far ahead takes no keys that are still to be kept', async () => {
  for (let day = 0; day < 8; day++) {
    clock.nowMs = START_US / 1000 + day * DAY_MS
    await journal.append(part([{ id: uuid(day), at: clock.nowMs * 1000 }]))
  }
  await journal.append(part([{ id: uuid(99), at: (clock.nowMs + 365 * DAY_MS) * 1000 }]))
  await pruneAll()
  expect(await journal.append(part([{ id: uuid(0), at: START_US }]))).toMatchObject({ added: 0, known: 1 })
})

describe('a clock that is ahead', () => {
  const usageOf = (n: number) => part([spec(n)], { stream: usage })
  const entryNow = (n: number) => part([{ id: uuid(n), at: clock.nowMs * 1000 }])

  it('takes no keys that are wanted once it is set right', async () => {
    for (let day = 0; day < 8; day++) {
      clock.nowMs = START_US / 1000 + day * DAY_MS
      await journal.append(entryNow(day))
    }
    clock.nowMs += 365 * DAY_MS
    await pruneAll()
    clock.nowMs -= 365 * DAY_MS
    expect(await journal.append(part([{ id: uuid(0), at: START_US }]))).toMatchObject({ added: 0, known: 1 })
  })

  it('is told from a source that went quiet by what the others read', async () => {
    await journal.append(usageOf(1))
    clock.nowMs += DAY_MS
    await journal.append(usageOf(2 * 86_400))
    clock.nowMs += DAY_MS
    await journal.append(usageOf(3 * 86_400))
    clock.nowMs += 3 * keepKeysMs
    await pruneAll()
    expect(await journal.append(usageOf(1))).toMatchObject({ added: 0, known: 1 })
  })

  it('is not suspected where another source reads what is new', async () => {
    for (const n of [1, 2 * 86_400, 3 * 86_400]) {
      await journal.append(usageOf(n))
      clock.nowMs += DAY_MS
    }
    clock.nowMs += 3 * keepKeysMs
    await journal.append(entryNow(1))
    await pruneAll()
    expect(await journal.append(usageOf(1))).toMatchObject({ added: 1, known: 0 })
  })
})

it('an owed chunk is never pruned, even where the totals say that there is room to make', () => {
  const db = new Sqlite(':memory:')
  migrate(db, 'memory')
  const put = db.prepare("INSERT INTO chunks VALUES (?, ?, 1, 100, 0, 0, NULL, 0, '[]', x'', x'', x'')")
  for (const first of [1, 3, 5]) put.run(first, first + 1)
  const pending = new Pending(db)
  pending.applyRegistered(pending.writeRegistered(['a'], logOf()))
  // Up to the middle of the second chunk.
  pending.applyAck('a', pending.writeAck('a', { first: 1, last: 3 }), { count: 0, bytes: 0 })
  pending.storedBytes += 10_000
  const chunkStore = { forget: () => undefined }
  const transactions = { write: <T>(work: () => T): T => work() }
  const core = { db, pending, chunkStore, transactions, clock, keepKeysMs, keepDeliveredBytes: 0 }
  prune(core as unknown as Core, preparePrune(db))
  expect(db.prepare('SELECT first FROM chunks ORDER BY first').pluck().all()).toEqual([3, 5])
  db.close()
})

it('an entry parked twice is one dead letter, with the number and the time of the first', async () => {
  await journal.append(part([spec(1), spec(2)]))
  const rejected = [{ seq: 1, code: 'refused', reason: 'no' }]
  const park = () => journal.ack('a', { first: 1, through: 1, rejected })
  await park()
  const before = await journal.deadLetters({})
  clock.nowMs += 5_000
  await park()
  expect(before).toHaveLength(1)
  expect(await journal.deadLetters({})).toEqual(before)
  expect(journal.stats().sinks.map(({ deadLetters }) => deadLetters)).toEqual([1, 0])
})

it('a sink that comes back after its entries went has no intent for them, and keeps those above', async () => {
  for (const n of [1, 2, 3]) await journal.append(part([spec(n)]))
  for (const seq of [1, 2, 3])
    await journal.recordInFlight('b', { first: seq, last: seq, shape: 's', detail: String(seq) })
  await reopen(['a'])
  await journal.ack('a', acknowledgement(1, 2))
  await pruneAll()
  await reopen(['a', 'b'])
  expect((await journal.inFlightBatches('b')).map(({ first }) => first)).toEqual([3])
})

it('books that counted more than there was come out even when a sink is met anew: what was before its time may be below zero', () => {
  const db = new Sqlite(':memory:')
  migrate(db, 'memory')
  db.exec(`INSERT INTO sources (workspace, source) VALUES ('acme', 'audit');
    INSERT INTO sinks VALUES ('a', 9, 0, 0);
    INSERT INTO counts VALUES (1, 5, 3, 0, 0, 0, 0), (1, 6, 3, 0, 0, 0, 0), (1, 7, 3, 0, 0, 0, 0);
    INSERT INTO accounts (sink, source, day, accepted) VALUES ('a', 1, 5, 5), ('a', 1, 6, 3), ('a', 1, 7, 1)`)
  const deliveries = new DeliveryAccounts(db, new Streams(db))
  deliveries.begin('a', { position: 9, ahead: [] })
  const reported = deliveries.delivered({ fromDay: 0, toDay: 9 })
  expect(reported.map(({ day, before, accepted }) => [day, before, accepted])).toEqual([
    [5, -2, 5],
    [6, 0, 3],
    [7, 2, 1],
  ])
  db.close()
})

it('the books of a sink that lost entries while it was away come out even', async () => {
  for (const n of [1, 2, 3]) await journal.append(part([spec(n)]))
  await reopen(['a'])
  await journal.ack('a', acknowledgement(1, 2))
  await pruneAll()
  await reopen(['a', 'b'])
  const { rows } = await accountReport(journal, { fromDay: 0, toDay: 1e6 }, ['b'])
  expect(rows).toMatchObject([{ kept: 3, before: 2, pending: 1, missing: 0 }])
})

describe('letters', () => {
  const lettersOf = (...seqs: number[]) => seqs.map((seq) => ({ seq, code: 'refused', reason: 'no' }))

  it('of several sinks are put back in one go, each for its own', async () => {
    await journal.append(part([spec(1), spec(2)]))
    for (const sink of ['a', 'b'])
      await journal.ack(sink, { first: 1, through: 2, rejected: lettersOf(1, 2) })
    expect(await journal.retryDeadLetters({})).toBe(4)
    await reopen(['a', 'b'])
    const batch = await journal.take('a', { maxEntries: 10, maxBytes: 1e6 })
    expect(
      batch?.slices.map(({ onlySink, firstSeq, entries }) => [onlySink, firstSeq, entries.count]),
    ).toEqual([
      ['a', 3, 2],
      ['b', 5, 2],
    ])
  })

  it('of a sink that left the configuration stay, and are put back once it is there again', async () => {
    await journal.append(part([spec(1)]))
    await journal.ack('b', { first: 1, through: 1, rejected: lettersOf(1) })
    await reopen(['a'])
    expect(await journal.retryDeadLetters({})).toBe(0)
    expect(await journal.deadLetters({})).toHaveLength(1)
    expect(await journal.take('a', { maxEntries: 10, maxBytes: 1e6 }, { after: 1 })).toBeUndefined()
    await reopen(['a', 'b'])
    expect(await journal.retryDeadLetters({})).toBe(1)
  })

  it.each([
    ['before', 1, 2],
    ['behind', 3, 2],
  ])('%s what is settled cannot be parked, and then nothing of it lands', async (_, seq, settled) => {
    await journal.append(part([spec(1), spec(2), spec(3)]))
    const settling = journal.ack('a', { first: settled, through: settled, rejected: lettersOf(seq) })
    await expect(settling).rejects.toThrow('outside of what it acknowledged')
    expect(await journal.deadLetters({})).toEqual([])
    expect(journal.stats().sinks[0]).toMatchObject({ position: 0, pendingEntries: 3 })
  })
})
