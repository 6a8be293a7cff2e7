// What every sink promises together with the dispatcher and a real journal, over hours of virtual time: one suite for all kinds.
import { describe, expect, test } from 'vitest'
import type { ConnectorError } from '../../src/core/errors.ts'
import type { Assurance } from '../../src/contracts/sink.ts'
import type { StepClock } from '../fakes/sink-deps.ts'
import { uuid } from './journal-parts.ts'
import { type AnswerFault, answerFaults, casesWith, type CaseWith, given, type Lacks } from './means.ts'
import { type Secured, tlsContract } from './tls.contract.ts'
import { openRig, type Start, type Rig } from './rig.ts'

/** What is absent, the receiver cannot do: a reason says why, where the suite is called. */
export interface DeliveryBench {
  /** under which `start` opens it */
  readonly name: string
  /** A process with this sink: called again, the next process. `BatchDispatcher` over a sink, or what else delivers to it. */
  readonly start: Start
  /** The sink's clock; absent: it needs none, or runs in real time. */
  readonly clock?: StepClock | undefined
  /** Ids of the entries that the receiver has, in its order. */
  received(): readonly string[] | Promise<readonly string[]>
  /** It stores, and still gets a batch again if its answer was lost. */
  readonly again?: true | undefined
  /** The receiver keeps no order: its entries are compared as a set. */
  readonly unordered?: true | undefined
  /** The receiver is gone, or takes nothing. */
  down(): unknown
  up(): unknown
  /** What happens to the answer to the next batch; the receiver may have taken it or not. */
  readonly answers?: Partial<Record<AnswerFault, () => void>> | undefined
  /** The next batch is answered only when the test ends, or never. */
  readonly stall?: (() => void) | undefined
  /** The receiver refuses line `index` of the next batch for good, by name. */
  readonly refuse?: ((index: number) => void) | undefined
  /** The receiver refuses each batch that holds this entry, without saying which it is. */
  readonly poison?: ((id: string) => void) | undefined
  /** `revoke`: the receiver does not accept the present key any more. `renew`: the configuration's source has a good one. */
  readonly key?: { readonly revoke: () => void; readonly renew: () => void } | undefined
  /** A receiver behind TLS on the loopback. */
  readonly secured?: Secured | undefined
  /** Open files, sockets and timers. */
  leftOpen(): number
}

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
const ids = (from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, i) => uuid(from + i))

/** Each id once, in the order of its first arrival. */
const firsts = (received: readonly string[]): string[] => [...new Set(received)]

function mostOften(received: readonly string[]): number {
  const counts = new Map<string, number>()
  for (const id of received) counts.set(id, (counts.get(id) ?? 0) + 1)
  return Math.max(0, ...counts.values())
}

/** It recognizes what it stored. */
export function neverTwice(
  { again }: Pick<DeliveryBench, 'again'>,
  { assurance }: { readonly assurance: Assurance },
): boolean {
  return assurance === 'stored' && again !== true
}

export function deliveryContract(kind: string, setUp: () => DeliveryBench, lacks: Lacks = {}): void {
  describe(`${kind} behind the dispatcher`, () => {
    const caseWith = casesWith(setUp, lacks)
    orderCases(setUp)
    refusalCases(setUp, caseWith)
    trouble(setUp)
    answerCases(setUp, caseWith)
    endings(setUp, caseWith)
    keyCases(setUp, caseWith)
    tlsContract(setUp, caseWith)
  })
}

async function expectAll(bench: DeliveryBench, rig: Rig, wanted: readonly string[]): Promise<void> {
  await rig.until(() => rig.pending() === 0)
  const received = firsts(await bench.received())
  if (bench.unordered) expect(received.sort()).toEqual([...wanted].sort())
  else expect(received).toEqual(wanted)
}

function orderCases(setUp: () => DeliveryBench): void {
  test('pages of any size arrive in the order of the journal, each entry once', async () => {
    const bench = setUp()
    const rig = await openRig(bench, { maxEntries: 7 })
    for (const count of [1, 20, 3, 7, 40]) await rig.append(count)
    rig.sail()
    await expectAll(bench, rig, ids(1, 71))
    expect(await bench.received()).toHaveLength(71)
    await rig.append(5)
    await expectAll(bench, rig, ids(1, 76))
    await rig.stop()
    expect(bench.leftOpen()).toBe(0)
  })
}

function refusalCases(setUp: () => DeliveryBench, caseWith: CaseWith): void {
  caseWith('refuse')(
    'an entry that is refused by name becomes a dead letter, and all around it arrive in order',
    async () => {
      const bench = setUp()
      const refuse = given(bench.refuse)
      const rig = await openRig(bench, { maxEntries: 10 })
      await rig.append(10)
      refuse(3)
      rig.sail()
      await expectAll(bench, rig, [...ids(1, 3), ...ids(5, 10)])
      expect(await bench.received()).toHaveLength(9)
      expect((await rig.deadLetters()).map(({ entryId }) => entryId)).toEqual(ids(4, 4))
      await rig.stop()
    },
  )

  caseWith('poison')(
    'an entry that makes each of its batches fail is found, and it alone becomes a dead letter',
    async () => {
      const bench = setUp()
      const poison = given(bench.poison)
      const rig = await openRig(bench, { maxEntries: 16 })
      await rig.append(40)
      poison(uuid(11))
      rig.sail()
      await expectAll(bench, rig, [...ids(1, 10), ...ids(12, 40)])
      expect(await bench.received()).toHaveLength(39)
      const letters = await rig.deadLetters()
      expect(letters.map(({ entryId }) => entryId)).toEqual(ids(11, 11))
      expect(letters[0]?.reason).toMatch(/\w/)
      await rig.stop()
    },
  )
}

function trouble(setUp: () => DeliveryBench): void {
  test('a receiver that is down for hours gets everything in order when it is back, and did not get endless requests', async () => {
    const bench = setUp()
    const rig = await openRig(bench, { maxEntries: 7 })
    await rig.append(5)
    rig.sail()
    await expectAll(bench, rig, ids(1, 5))
    await bench.down()
    for (let hour = 0; hour < 3; hour++) {
      await rig.append(10)
      await rig.pass(HOUR_MS)
    }
    expect(await bench.received()).toEqual(ids(1, 5))
    expect(rig.pending()).toBe(30)
    // Between two tries it holds no memory that others could use.
    await rig.until(() => rig.usedBytes() === 0)
    const tries = rig.reporter.retries.length
    expect(tries).toBeGreaterThan(3 * 60)
    expect(tries).toBeLessThan(3 * 240)
    await bench.up()
    const upAt = rig.now()
    await expectAll(bench, rig, ids(1, 35))
    expect(rig.now() - upAt).toBeLessThan(2 * MINUTE_MS)
    expect(await bench.received()).toHaveLength(35)
    expect(await rig.deadLetters()).toEqual([])
    await rig.stop()
    expect(bench.leftOpen()).toBe(0)
  })
}

function answerCases(setUp: () => DeliveryBench, caseWith: CaseWith): void {
  for (const fault of answerFaults)
    caseWith(`answers ${fault}`)(
      `an answer that is ${fault} loses nothing: at most its own batch comes twice`,
      async () => {
        const bench = setUp()
        const bring = given(bench.answers?.[fault])
        const rig = await openRig(bench, { maxEntries: 8 })
        await rig.append(8)
        rig.sail()
        await expectAll(bench, rig, ids(1, 8))
        bring()
        const before = rig.now()
        await rig.append(20)
        await expectAll(bench, rig, ids(1, 28))
        const received = await bench.received()
        expect(received.length).toBeLessThanOrEqual(28 + 8)
        expect(mostOften(received)).toBeLessThanOrEqual(neverTwice(bench, rig) ? 1 : 2)
        expect(await rig.deadLetters()).toEqual([])
        expect(rig.now() - before).toBeLessThan(10 * MINUTE_MS)
        await rig.stop()
        expect(bench.leftOpen()).toBe(0)
      },
    )
}

function endings(setUp: () => DeliveryBench, caseWith: CaseWith): void {
  caseWith('stall')('a stop in mid-batch ends at once, and the next process delivers the rest', async () => {
    const bench = setUp()
    const stall = given(bench.stall)
    const rig = await openRig(bench, { maxEntries: 5 })
    await rig.append(12)
    stall()
    rig.sail()
    await rig.until(() => rig.reporter.states.includes('sending'))
    await rig.turns(20)
    const stoppedAt = rig.now()
    await rig.stop()
    expect(rig.now()).toBe(stoppedAt)
    expect(rig.pending()).toBe(12)
    expect(bench.leftOpen()).toBe(0)
    await bench.up()
    rig.sail()
    await expectAll(bench, rig, ids(1, 12))
    expect((await bench.received()).length).toBeLessThanOrEqual(12 + 5)
    await rig.stop()
  })

  test('a kill before the journal could record what was taken: nothing is missing, and nothing twice at a sink that stores', async () => {
    const bench = setUp()
    const rig = await openRig(bench, { maxEntries: 5 })
    await rig.append(12)
    const killed = rig.sailUntilSettling()
    await rig.until(killed)
    rig.sail()
    await expectAll(bench, rig, ids(1, 12))
    const received = await bench.received()
    if (neverTwice(bench, rig)) expect(received).toHaveLength(12)
    else expect(received.length).toBeLessThanOrEqual(12 + 5)
    await rig.stop()
  })
}

function keyCases(setUp: () => DeliveryBench, caseWith: CaseWith): void {
  caseWith('key')(
    'a revoked key blocks the sink; a new one in its file is used without a restart',
    async () => {
      const bench = setUp()
      const key = given(bench.key)
      const rig = await openRig(bench, { maxEntries: 5 })
      await rig.append(3)
      rig.sail()
      await expectAll(bench, rig, ids(1, 3))
      key.revoke()
      await rig.append(4)
      await rig.pass(10 * MINUTE_MS)
      expect(await bench.received()).toHaveLength(3)
      expect(rig.reporter.states.at(-1)).toBe('blocked')
      expect(rig.reporter.errors.at(-1) satisfies ConnectorError | undefined).toMatchObject({
        action: 'block',
      })
      key.renew()
      const renewedAt = rig.now()
      await expectAll(bench, rig, ids(1, 7))
      expect(rig.now() - renewedAt).toBeLessThan(2 * MINUTE_MS)
      expect(await bench.received()).toHaveLength(7)
      expect(await rig.deadLetters()).toEqual([])
      await rig.stop()
    },
  )
}
