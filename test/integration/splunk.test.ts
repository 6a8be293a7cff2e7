// The HEC sink against Splunk Enterprise in its own image, and the same suite against our fake of it: a search finds exactly what was sent.
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ConnectorError } from '../../src/core/errors.ts'
import type { Format, Confirmation, Lines, Rejection, Sink } from '../../src/contracts/sink.ts'
import { parseInstantText } from '../../src/core/time.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { connectSocket } from '../../src/platform/sockets.ts'
import { openTransport } from '../../src/platform/transport.ts'
import { sinkKinds } from '../../src/sinks/index.ts'
import { linesOf, type MadeEntry, rawFormat, runOf } from '../fakes/lines.ts'
import { LogLines, sinkDeps } from '../fakes/sink-deps.ts'
import { until } from './receivers/ports.ts'
import { fakeSplunk, realSplunk, type Splunk } from './receivers/splunk.ts'

const never = new AbortController().signal
/** An indexer may take its time until a search finds its events. */
const FOUND_MS = 120_000
const HOOK_MS = 900_000

/** New ids each time: one index has what all tests sent. Now, so that no search's own end leaves them out. */
function entriesNow(count: number): MadeEntry[] {
  const time = `${new Date().toISOString().slice(0, -1)}456`
  return Array.from({ length: count }, () => {
    const id = randomUUID()
    return { id, time, raw: JSON.stringify({ id, timestamp: time, type: 'auth:login', user: 'zoë 😀' }) }
  })
}

interface Opened {
  readonly sink: Sink
  readonly log: LogLines
  /** `source` of all that it sends */
  readonly source: string
}

function open(splunk: Splunk, token: string, more: object = {}): Opened {
  const transport = openTransport({})
  const log = new LogLines()
  const source = `suite-${randomUUID()}`
  const options = sinkKinds.splunk_hec.options.parse({ url: splunk.url, token, source, ...more })
  const environment = { clock: systemClock, log, connect: connectSocket, transport: () => transport.send }
  const sink = sinkKinds.splunk_hec.open('splunk', options, sinkDeps(environment))
  onTestFinished(async () => {
    await sink.close()
    await transport.close()
  })
  return { sink, log, source }
}

const deliver = (sink: Sink, lines: Lines) =>
  sink.deliver({ lines, detail: '', possibleDuplicate: false }, never)

interface Shipped {
  readonly refused: readonly Rejection[]
  readonly waiting: readonly Confirmation[]
}

/** Continues from the first unacknowledged entry, like the dispatcher; a failed batch goes out again. */
async function runDispatcher(
  sink: Sink,
  made: readonly MadeEntry[],
  format: Format = rawFormat,
): Promise<Shipped> {
  const refused: Rejection[] = []
  const waiting: Confirmation[] = []
  let done = 0
  for (let tries = 0; done < made.length; tries++) {
    const from = done
    try {
      const { acknowledged, rejected: some, confirmation } = await deliver(sink, linesOf(runOf(made.slice(from)), sink.frame, format)) // prettier-ignore
      refused.push(...some.map((each) => ({ ...each, index: each.index + from })))
      if (confirmation) waiting.push(confirmation)
      done += acknowledged
    } catch (error) {
      if (!(error instanceof ConnectorError) || error.action !== 'retry' || tries > 500) throw error
      await pause(100)
    }
  }
  return { refused, waiting }
}

async function confirmAll({ waiting }: Shipped): Promise<void> {
  for (const later of waiting) await later.confirmed(never)
}

async function failure(sink: Sink, made: readonly MadeEntry[]): Promise<ConnectorError> {
  const lines = linesOf(runOf(made), sink.frame)
  const error = await deliver(sink, lines).then(() => new Error('it was taken'), (each: unknown) => each) // prettier-ignore
  expect(error).toBeInstanceOf(ConnectorError)
  return error as ConnectorError
}

for (const kind of [fakeSplunk, realSplunk]) {
  describe.skipIf(kind.missing !== undefined)(kind.name, () => {
    let splunk: Splunk
    beforeAll(async () => {
      splunk = await kind.open()
    }, HOOK_MS)
    // What could not be opened needs no end.
    afterAll(() => (splunk as Splunk | undefined)?.close(), HOOK_MS)

    /** Search results, once each of these is there. */
    async function found(source: string, made: readonly MadeEntry[]) {
      let events = await splunk.search(source)
      await until(
        'all in a search',
        async () => {
          events = await splunk.search(source)
          const ids = new Set(events.map(({ entryId }) => entryId))
          return made.every(({ id }) => ids.has(id))
        },
        FOUND_MS,
      )
      return events
    }

    async function expectWhole(source: string, made: readonly MadeEntry[]): Promise<void> {
      const events = await found(source, made)
      const byId = new Map(events.map((event) => [event.entryId, event]))
      expect(events).toHaveLength(made.length)
      for (const { id, raw = '', time = '' } of made)
        expect(byId.get(id)).toEqual({
          ...{ entryId: id, raw, index: 'main', sourcetype: 'auditferry:audit' },
          at: (parseInstantText(time) / 1e6).toFixed(6),
        })
    }

    test.each([true, 'auto'] as const)(
      'acks: %s with a token that acknowledges: all stays pending until it is safe, and is found once, byte for byte',
      async (acks) => {
        const { sink, source } = open(splunk, await splunk.token({ acks: true }), { acks })
        const made = entriesNow(1_000)
        const shipped = await runDispatcher(sink, made)
        expect(shipped.waiting).toHaveLength(1)
        await confirmAll(shipped)
        await expectWhole(source, made)
      },
    )

    test('acks: auto with a token that does not: accepted counts, and the log says so', async () => {
      const { sink, source, log } = open(splunk, await splunk.token({ acks: false }))
      const made = entriesNow(100)
      expect(await runDispatcher(sink, made)).toEqual({ refused: [], waiting: [] })
      expect(log.lines.join()).toContain('The token has acknowledgements off')
      await expectWhole(source, made)
    })

    test('acks: true with a token that does not: blocked, before anything is sent', async () => {
      const { sink, source } = open(splunk, await splunk.token({ acks: false }), { acks: true })
      expect(await failure(sink, entriesNow(3))).toMatchObject({ action: 'block' })
      expect(await splunk.search(source)).toEqual([])
    })

    test('several batches wait at a time, each for its own acknowledgement', async () => {
      const { sink, source } = open(splunk, await splunk.token({ acks: true }), { max_in_flight: 4 })
      const batches = Array.from({ length: 4 }, () => entriesNow(50))
      const shipped: Shipped[] = []
      for (const made of batches) shipped.push(await runDispatcher(sink, made))
      for (const each of shipped.reverse()) await confirmAll(each)
      await expectWhole(source, batches.flat())
    })

    test('a restarted daemon asks for batches of its earlier process, and sends nothing again', async () => {
      const token = await splunk.token({ acks: true })
      const former = open(splunk, token)
      const made = entriesNow(20)
      const [later] = (await runDispatcher(former.sink, made)).waiting
      await former.sink.close()
      const { sink } = open(splunk, token)
      const resumed = sink.resume?.(later?.detail ?? '')
      expect(resumed).toBeDefined()
      await resumed?.confirmed(never)
      await expectWhole(former.source, made)
    })

    test('an unknown token blocks the sink and is reported', async () => {
      const { sink } = open(splunk, randomUUID())
      const error = await failure(sink, entriesNow(3))
      expect(['unauthorized', 'forbidden']).toContain(error.code)
      expect(error.action).toBe('block')
    })

    test('an index that the token may not write to blocks the sink, and gets no entry', async () => {
      const { sink, source } = open(splunk, await splunk.token({ acks: true }), { index: 'history' })
      expect(await failure(sink, entriesNow(3))).toMatchObject({ action: 'block' })
      expect(await splunk.search(source)).toEqual([])
    })

    test.each([
      ['is blank', ''],
      ['is no JSON', '{"id":}'],
    ])('an event that %s is refused alone, and all around it arrive', async (_what, text) => {
      const { sink, source } = open(splunk, await splunk.token({ acks: true }))
      const made = entriesNow(10)
      const poison: Format = (run, index, out) => {
        const isIt = Buffer.from(run.entries.raw(index)).includes(made[4]?.id ?? '')
        out.copy(isIt ? Buffer.from(text) : run.entries.raw(index))
      }
      const shipped = await runDispatcher(sink, made, poison)
      expect(shipped.refused.map(({ index }) => index)).toEqual([4])
      await confirmAll(shipped)
      await expectWhole(source, made.toSpliced(4, 1))
    })

    test('check passes, and finds out whether the token acknowledges', async () => {
      const { sink, source } = open(splunk, await splunk.token({ acks: true }), { acks: true, index: 'main' })
      const results = await sink.check(never)
      expect(results.filter(({ ok }) => !ok)).toEqual([])
      expect(results.map(({ what }) => what.split(' ').at(-1))).toEqual(
        expect.arrayContaining(['health', 'token', 'index', 'acknowledgements']),
      )
      expect(await splunk.search(source)).toEqual([])
    })

    test(
      'restarted, it misses nothing: events before, while it was down, and after',
      async () => {
        const { sink, source } = open(splunk, await splunk.token({ acks: true }), {
          ack_timeout: kind.ackTimeout,
        })
        const [before, during, after] = [entriesNow(20), entriesNow(20), entriesNow(20)]
        const first = await runDispatcher(sink, before)
        await splunk.restart(async () => {
          expect(await failure(sink, during)).toMatchObject({ action: 'retry' })
        })
        // Its ids are gone with it: a sink without an answer in time sends again.
        await confirmAll(first).catch(async (error: unknown) => {
          expect(error).toMatchObject({ code: 'timeout' })
          await confirmAll(await runDispatcher(sink, before))
        })
        for (const made of [during, after]) await confirmAll(await runDispatcher(sink, made))
        const events = await found(source, [...before, ...during, ...after])
        const times = (made: readonly MadeEntry[]) =>
          made.map(({ id }) => events.filter(({ entryId }) => entryId === id).length)
        expect(Math.max(...times(before))).toBeLessThanOrEqual(2)
        expect(new Set(times([...during, ...after]))).toEqual(new Set([1]))
      },
      HOOK_MS,
    )
  })
}
