// Pruning and returning sinks never lose young keys,
// pending chunks, dead letters or in-flight batches.
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

it("the keys of a source's last two days of reading are kept, however old the entries", async () => {
  clock.nowMs = START_US / 1000 + 3 * keepKeysMs
  await journal.append(part([spec(1)]))
  clock.nowMs += DAY_MS
  await journal.append(part([{ id: uuid(100), at: clock.nowMs * 1000 }]))
  await pruneAll()
  expect(await journal.append(part([spec(1)]))).toMatchObject({ added: 0, known: 1 })
})

it('an entry dated far in the future removes no keys within the retention', async () => {
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

  it('removes no keys that are needed once it is corrected', async () => {
    for (let day = 0; day < 8; day++) {
      clock.nowMs = START_US / 1000 + day * DAY_MS
      await journal.append(entryNow(day))
    }
    clock.nowMs += 365 * DAY_MS
    await pruneAll()
    clock.nowMs -= 365 * DAY_MS
    expect(await journal.append(part([{ id: uuid(0), at: START_US }]))).toMatchObject({ added: 0, known: 1 })
  })

  it('is assumed if no source reads new entries', async () => {
    await journal.append(usageOf(1))
    clock.nowMs += DAY_MS
    await journal.append(usageOf(2 * 86_400))
    clock.nowMs += DAY_MS
    await journal.append(usageOf(3 * 86_400))
    clock.nowMs += 3 * keepKeysMs
    await pruneAll()
    expect(await journal.append(usageOf(1))).toMatchObject({ added: 0, known: 1 })
  })

  it('is not assumed if another source reads new entries', async () => {
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

it('a pending chunk is never pruned, even if the totals ask for room', () => {
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

it('an entry rejected twice is one dead letter, with the id and time of the first', async () => {
  await journal.append(part([spec(1), spec(2)]))
  const rejected = [{ seq: 1, code: 'refused', reason: 'no' }]
  const reject = () => journal.ack('a', { first: 1, through: 1, rejected })
  await reject()
  const before = await journal.deadLetters({})
  clock.nowMs += 5_000
  await reject()
  expect(before).toHaveLength(1)
  expect(await journal.deadLetters({})).toEqual(before)
  expect(journal.stats().sinks.map(({ deadLetters }) => deadLetters)).toEqual([1, 0])
})

it('a returning sink loses the in-flight batches of pruned entries and keeps later ones', async () => {
  for (const n of [1, 2, 3]) await journal.append(part([spec(n)]))
  for (const seq of [1, 2, 3])
    await journal.recordInFlight('b', { first: seq, last: seq, shape: 's', detail: String(seq) })
  await reopen(['a'])
  await journal.ack('a', acknowledgement(1, 2))
  await pruneAll()
  await reopen(['a', 'b'])
  expect((await journal.inFlightBatches('b')).map(({ first }) => first)).toEqual([3])
})

it('accounts with too many deliveries still balance for a new sink: the count before its time may be negative', () => {
  const db = new Sqlite(':memory:')
  migrate(db, 'memory')
  db.exec(`INSERT INTO sources (workspace, source) VALUES ('acme', 'audit');
    INSERT INTO sinks VALUES ('a', 9, 0, 0);
    INSERT INTO counts VALUES (1, 5, 3, 0, 0, 0, 0), (1, 6, 3, 0, 0, 0, 0), (1, 7, 3, 0, 0, 0, 0);
    INSERT INTO accounts (sink, source, day, accepted) VALUES ('a', 1, 5, 5), ('a', 1, 6, 3), ('a', 1, 7, 1)`)
  const accounts = new DeliveryAccounts(db, new Streams(db))
  accounts.begin('a', { position: 9, ahead: [] })
  const reported = accounts.delivered({ fromDay: 0, toDay: 9 })
  expect(reported.map(({ day, before, accepted }) => [day, before, accepted])).toEqual([
    [5, -2, 5],
    [6, 0, 3],
    [7, 2, 1],
  ])
  db.close()
})

it('the accounts of a sink that missed pruned entries balance', async () => {
  for (const n of [1, 2, 3]) await journal.append(part([spec(n)]))
  await reopen(['a'])
  await journal.ack('a', acknowledgement(1, 2))
  await pruneAll()
  await reopen(['a', 'b'])
  const { rows } = await accountReport(journal, { fromDay: 0, toDay: 1e6 }, ['b'])
  expect(rows).toMatchObject([{ kept: 3, before: 2, pending: 1, missing: 0 }])
})

describe('dead letters', () => {
  const lettersOf = (...seqs: number[]) => seqs.map((seq) => ({ seq, code: 'refused', reason: 'no' }))

  it('of several sinks are retried together, each for its own sink', async () => {
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

  it('of a removed sink stay, and can be retried once the sink is back', async () => {
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
    ['after', 3, 2],
  ])(
    'cannot be %s the acknowledged range: nothing of the acknowledgement is stored',
    async (_, seq, acked) => {
      await journal.append(part([spec(1), spec(2), spec(3)]))
      const acking = journal.ack('a', { first: acked, through: acked, rejected: lettersOf(seq) })
      await expect(acking).rejects.toThrow('outside of what it acknowledged')
      expect(await journal.deadLetters({})).toEqual([])
      expect(journal.stats().sinks[0]).toMatchObject({ position: 0, pendingEntries: 3 })
    },
  )
})
