// Orders in notes of the journal: kept before they count, found by whoever waits, told for a day.
import { expect, test } from 'vitest'
import type { Note, NoteChange } from '../../../src/contracts/records.ts'
import type { Log } from '../../../src/core/log.ts'
import { DAY_MS } from '../../../src/core/time.ts'
import { PastOrders, jobOf } from '../../../src/jobs/orders.ts'

interface Order {
  readonly name: string
  endedAt?: number
}

/** `refuses`: notes that the journal has no room for. */
function openOrders({ refuses = '' } = {}) {
  const notes = new Map<string, string>()
  const logged: unknown[] = []
  const say = () => undefined
  const log: Log = {
    ...{ debug: say, info: say, error: say, with: () => log },
    warn: (sentence, fields) => void logged.push([sentence, fields]),
  }
  const state = { now: 1_000, refuses }
  const journal = {
    notes: async (): Promise<Note[]> => [...notes].map(([name, value]) => ({ name, value })),
    putNote: async (name: string, value: string) => void notes.set(name, value),
    async changeNotes({ drop, put }: NoteChange) {
      if ([...drop, ...put.map(({ name }) => name)].includes(state.refuses)) throw new Error('no room')
      for (const name of drop) notes.delete(name)
      for (const { name, value } of put) notes.set(name, value)
    },
  }
  const clock = { now: () => state.now, sleep: async () => undefined }
  const again = (lacks: (order: Order) => 'source' | undefined = () => undefined) =>
    new PastOrders({
      ...{ what: 'backfill' as const, prefix: '', journal, clock },
      nameOf: ({ name }: Order) => name,
      read(note) {
        const { atUs, ...order } = JSON.parse(note) as Order & { atUs?: number }
        return jobOf<Order>(order, atUs)
      },
      lacks,
      log,
      whose: ({ name }) => ({ name }),
    })
  return { orders: again(), again, notes, state, logged }
}

const never = new AbortController().signal

test('what was begun is found by whoever waits, also where the next order cannot be kept', async () => {
  const { orders } = openOrders({ refuses: 'b' })
  const found = orders.next(([first]) => first, never)
  const [a, b] = [jobOf<Order>({ name: 'a' }), jobOf<Order>({ name: 'b' })]
  await orders.begin(a)
  await expect(orders.begin(b)).rejects.toThrow('no room')
  expect(await found).toBe(a)
  expect(orders.open()).toEqual([a])
  expect(b.cancelled.signal.aborted).toBe(true)
})

test('one that cannot be kept leaves the one that ended before it where it was', async () => {
  const { orders, state } = openOrders()
  const ended = jobOf<Order>({ name: 'a', endedAt: 900 })
  await orders.begin(ended)
  state.refuses = 'a'
  await expect(orders.begin(jobOf<Order>({ name: 'a' }))).rejects.toThrow('no room')
  expect(orders.listed()).toEqual([ended])
})

test('one that cannot be kept leaves alone whoever has taken its place meanwhile', async () => {
  const { orders, state } = openOrders({ refuses: 'a' })
  const refused = expect(orders.begin(jobOf<Order>({ name: 'a' }))).rejects.toThrow('no room')
  state.refuses = ''
  const next = jobOf<Order>({ name: 'a' })
  await orders.begin(next)
  await refused
  expect(orders.open()).toEqual([next])
})

test('one that ended is told to who followed it for a minute after its end, also where the next one has its place', async () => {
  const { orders, state } = openOrders()
  const one = jobOf<Order>({ name: 'a' })
  await orders.begin(one)
  one.order.endedAt = state.now
  await orders.save(one)
  const next = jobOf<Order>({ name: 'a' })
  await orders.begin(next)
  expect(orders.listed()).toEqual([next])
  expect(orders.listedToFollowers()).toEqual([one, next])
  state.now += 60_001
  expect(orders.listedToFollowers()).toEqual([next])
})

test('one that ended is told again, for its day and over a restart, once the one in its place was cancelled', async () => {
  const { orders, again, state } = openOrders()
  const one = jobOf<Order>({ name: 'a' })
  await orders.begin(one)
  one.order.endedAt = state.now
  one.atUs = 7
  await orders.save(one)
  for (let times = 0; times < 2; times++) {
    const next = jobOf<Order>({ name: 'a' })
    await orders.begin(next)
    expect(await orders.cancel(next)).toBe(true)
    expect(orders.listedToFollowers()).toEqual([one])
    expect(orders.open()).toEqual([])
  }
  const restarted = again()
  await restarted.load()
  expect(restarted.listed()).toMatchObject([{ order: { name: 'a', endedAt: state.now }, atUs: 7 }])
  state.now += DAY_MS + 1
  expect(orders.listed()).toEqual([])
})

test('one that ended by a clock that was ahead is not told for as long as that was', async () => {
  const { orders, state } = openOrders()
  const one = jobOf<Order>({ name: 'a', endedAt: state.now + 365 * DAY_MS })
  await orders.begin(one)
  expect(orders.listed()).toEqual([])
  await orders.begin(jobOf<Order>({ name: 'a' }))
  expect(orders.listedToFollowers().map(({ order }) => order)).toEqual([{ name: 'a' }])
})

test('one that was cancelled is not saved again, nor cancelled twice; its notes are gone', async () => {
  const { orders, notes } = openOrders()
  const one = jobOf<Order>({ name: 'a' })
  await orders.begin(one)
  notes.set('a page', '')
  expect(await orders.cancel(one, ['a page'])).toBe(true)
  expect(await orders.cancel(one)).toBe(false)
  await orders.save(one)
  expect(notes.size).toBe(0)
  expect(() => orders.assertCurrent(one)).toThrow('The backfill was cancelled')
})

test('one that cannot be taken out of the journal is under way on, in its place too, and can be cancelled later', async () => {
  const { orders, again, state } = openOrders()
  const ended = jobOf<Order>({ name: 'a', endedAt: 900 })
  await orders.begin(ended)
  const one = jobOf<Order>({ name: 'a' })
  await orders.begin(one)
  await orders.begin(jobOf<Order>({ name: 'b' }))
  const [, b] = orders.open()
  state.refuses = 'b'
  await expect(b ? orders.cancel(b) : undefined).rejects.toThrow('no room')
  state.refuses = 'a'
  await expect(orders.cancel(one)).rejects.toThrow('no room')
  expect(new Set(orders.open())).toEqual(new Set([one, b]))
  expect(one.cancelled.signal.aborted).toBe(false)
  expect(orders.listedToFollowers()).toContain(ended)
  state.refuses = ''
  expect(await orders.cancel(one)).toBe(true)
  expect(one.cancelled.signal.aborted).toBe(true)
  expect(new Set(orders.listed())).toEqual(new Set([ended, b]))
  const next = again(() => 'source')
  await next.load()
  const [asleep] = next.asleep()
  state.refuses = 'b'
  await expect(asleep ? next.cancel(asleep) : undefined).rejects.toThrow('no room')
  expect(next.asleep()).toEqual([asleep])
})

test('one that has ended is not cancelled: it is told on, after a restart too', async () => {
  const { orders, again, state } = openOrders()
  const one = jobOf<Order>({ name: 'a' })
  await orders.begin(one)
  one.order.endedAt = state.now
  await orders.save(one)
  expect(await orders.cancel(one)).toBe(false)
  expect(orders.listed()).toEqual([one])
  const next = again()
  await next.load()
  expect(next.listed().map(({ order }) => order)).toEqual([{ name: 'a', endedAt: state.now }])
})

test('after a restart all are there again; one that ended is told for a day', async () => {
  const { orders, again, state } = openOrders()
  const one = jobOf<Order>({ name: 'a' })
  await orders.begin(one)
  one.order.endedAt = state.now
  await orders.save(one)
  await orders.begin(jobOf<Order>({ name: 'b' }))
  const next = again()
  await next.load()
  expect(next.listed().map(({ order }) => order.name)).toEqual(['a', 'b'])
  expect(next.open().map(({ order }) => order.name)).toEqual(['b'])
  state.now += DAY_MS + 1
  expect(next.listed().map(({ order }) => order.name)).toEqual(['b'])
})

test('one whose source is switched off is not under way: who asks hears that it waits for that, and it can be cancelled', async () => {
  const { orders, again, notes, state, logged } = openOrders()
  await orders.begin(jobOf<Order>({ name: 'a' }))
  await orders.begin(jobOf<Order>({ name: 'b' }))
  const ended = jobOf<Order>({ name: 'c', endedAt: state.now })
  await orders.begin(ended)
  const next = again(({ name }) => (name === 'b' ? undefined : 'source'))
  await next.load()
  expect(next.open().map(({ order }) => order.name)).toEqual(['b'])
  expect(next.listed().map(({ order }) => order.name)).toEqual(['b'])
  // Only the one that is under way: what has ended lacks nothing.
  expect(logged).toEqual([
    [expect.stringMatching(/^A backfill waits .*source is not in the config/), { name: 'a' }],
  ])
  const [asleep] = next.asleep()
  expect(asleep).toMatchObject({ order: { name: 'a' }, waitsFor: 'source' })
  expect(next.listedToFollowers().map(({ order }) => order.name)).toEqual(['b', 'a'])
  expect(asleep && (await next.cancel(asleep, ['a page']))).toBe(true)
  expect(asleep && (await next.cancel(asleep))).toBe(false)
  expect([...notes.keys()]).toEqual(['b', 'c'])
  expect(next.asleep()).toEqual([])
})

test('who waits for an order waits no longer than for the stop', async () => {
  const { orders } = openOrders()
  const stop = new AbortController()
  const found = orders.next(([first]) => first, stop.signal)
  stop.abort()
  expect(await found).toBeUndefined()
})
