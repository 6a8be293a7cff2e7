// Each sink through a line that is slow, cut, reset, silent or refused: built from a configuration, with the real dispatcher and a real journal.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { realEnvironment } from '../../src/cli/shared/environment.ts'
import { configSchema } from '../../src/config/schema.ts'
import { openRegistered } from '../fakes/registered.ts'
import type { Clock } from '../../src/core/clock.ts'
import { MemoryBudget } from '../../src/core/memory-budget.ts'
import { openStatusRegistry } from '../../src/observability/status-registry.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openMetrics } from '../../src/observability/metrics.ts'
import { runDispatcher } from '../../src/delivery/loop.ts'
import { Taps } from '../../src/observability/taps.ts'
import { openSinkDelivery } from '../../src/app/delivery.ts'
import { part, spec, uuid } from '../contract/journal-parts.ts'
import { LogLines } from '../fakes/sink-deps.ts'
import { BATCH_ENTRIES, type FaultyReceiver, type OpenReceiver, receivers } from './faulty-receivers.ts'
import { type Line, openToxiproxy, type Toxic, type Toxiproxy, toxiproxyMissing } from './toxiproxy.ts'

if (toxiproxyMissing)
  process.stderr.write(
    '\nSKIPPED: network faults. There is no toxiproxy here; .ci/tools/toxiproxy.sh brings it.\n\n',
  )

const NAME = 'under-test'
/** A deadline of a minute comes after four seconds, a pause of half a minute after two. */
const FASTER = 15
const PATIENCE_MS = 60_000

interface Fault {
  readonly name: string
  /** undefined: connections are refused */
  readonly toxics?: readonly Toxic[]
  /** It only slows: all arrives while it lasts, in real time and without a failure. Other faults end once they had an effect. */
  readonly slows?: true
}

const up = (type: Toxic['type'], attributes: Toxic['attributes']): Toxic => ({
  type,
  stream: 'upstream',
  attributes,
})
const down = (type: Toxic['type'], attributes: Toxic['attributes']): Toxic => ({
  ...up(type, attributes),
  stream: 'downstream',
})
const slices = { average_size: 200, size_variation: 100, delay: 200 }

const faults: readonly Fault[] = [
  { name: 'latency', slows: true, toxics: [up('latency', { latency: 50, jitter: 20 }), down('latency', { latency: 50, jitter: 20 })] }, // prettier-ignore
  { name: 'a slow line', slows: true, toxics: [up('bandwidth', { rate: 50 }), down('bandwidth', { rate: 5 })] }, // prettier-ignore
  { name: 'a line that slices', slows: true, toxics: [up('slicer', slices), down('slicer', slices)] },
  { name: 'resets', toxics: [down('reset_peer', { timeout: 0 })] },
  { name: 'resets after a while', toxics: [down('reset_peer', { timeout: 300 })] },
  { name: 'silence where the answer should be', toxics: [down('timeout', { timeout: 0 })] },
  { name: 'silence both ways', toxics: [up('timeout', { timeout: 0 }), down('timeout', { timeout: 0 })] },
  { name: 'silence, then an end', toxics: [down('timeout', { timeout: 300 })] },
  { name: 'a cut in what is sent', toxics: [up('limit_data', { bytes: 1_000 })] },
  { name: 'a cut in the answer', toxics: [down('limit_data', { bytes: 10 })] },
  { name: 'refusals' },
]

const fast: Clock = {
  now: () => systemClock.now(),
  elapsed: () => systemClock.elapsed() * FASTER,
  sleep: (ms, signal) => systemClock.sleep(ms / FASTER, signal),
}

function configOf(folder: string, sink: object) {
  return configSchema.parse({
    journal: { path: join(folder, 'journal.db') },
    workspaces: [{ name: 'acme', base_url: 'https://api.test', api_key: 'k', audit: {} }],
    sinks: [{ name: NAME, ...sink, batch: { max_entries: BATCH_ENTRIES, linger: '100ms' } }],
  })
}

/** The daemon's delivery as the program builds it, and nothing else of the daemon. */
async function openDelivery(folder: string, sink: object, clock: Clock) {
  const config = configOf(folder, sink)
  const log = new LogLines()
  const words = () => undefined
  const signal = new AbortController().signal
  const context = { env: {}, version: '0.0.0', stdout: words, stderr: words, print: async () => {}, signal }
  const environment = { ...realEnvironment(config, context), clock, log }
  const bounds = { maxBytes: 2 ** 30, keepKeysMs: 1e12, keepDeliveredBytes: 0, ballastBytes: 0 }
  const journal = await openRegistered({ path: config.journal.path, ...bounds, sinks: [NAME], clock, log })
  const metrics = openMetrics({ version: context.version })
  const registry = openStatusRegistry({ clock, metrics, journalStats: () => journal.stats(), version: '0.0.0', rateLimiter: () => [] }) // prettier-ignore
  const parts = { config, environment, mode: { once: false }, journal, registry, memory: new MemoryBudget(32 * 2 ** 20), instance: 'i', taps: new Taps(clock) } // prettier-ignore
  const sinkDelivery = openSinkDelivery(parts, config.sinks[0] as (typeof config.sinks)[number], {
    nothingMoreComes: () => false,
  })
  let failures = 0
  const reporter = new Proxy(sinkDelivery.reporter, {
    get(target, name: keyof typeof sinkDelivery.reporter) {
      if (name === 'retry') failures++
      return target[name].bind(target) as unknown
    },
  })
  const stopping = new AbortController()
  const loop = runDispatcher(sinkDelivery.dispatcher, { ...sinkDelivery, reporter }, stopping.signal)
  loop.catch(() => undefined)
  onTestFinished(async () => {
    stopping.abort()
    await loop
    await sinkDelivery.close()
    await journal.close()
  })
  let made = 0
  return {
    failures: () => failures,
    pending: () => journal.stats().entries,
    reported: () => log.lines,
    deadLetters: () => journal.deadLetters({}),
    append: async (count: number) => {
      const body = 'x'.repeat(300)
      await journal.append(part(Array.from({ length: count }, () => spec(++made, { body }))))
    },
  }
}

type Delivery = Awaited<ReturnType<typeof openDelivery>>

async function until(what: string, delivery: Delivery, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  while (!holds()) {
    if (performance.now() > deadline)
      throw new Error(`it did not come: ${what}\n${delivery.reported().slice(-5).join('\n')}`)
    await pause(10)
  }
}

/** Its entries, once all expected ones are there: a receiver may write after its answer. */
async function receivedAll(receiver: OpenReceiver, delivery: Delivery, count: number): Promise<string[]> {
  const wanted = Array.from({ length: count }, (_, i) => uuid(i + 1))
  await until('everything at the receiver', delivery, () => {
    const there = new Set(receiver.received())
    return wanted.every((id) => there.has(id))
  })
  return [...receiver.received()]
}

async function spoil(line: Line, { toxics }: Fault): Promise<void> {
  if (!toxics) return line.refuse()
  for (const toxic of toxics) await line.add(toxic)
}

async function survive(kind: FaultyReceiver, fault: Fault, toxiproxy: Toxiproxy): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-network-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const receiver = await kind.open(folder)
  onTestFinished(() => receiver.close())
  const line = await toxiproxy.lay(receiver.port)
  const delivery = await openDelivery(folder, kind.sink(line.port, folder), fault.slows ? systemClock : fast)
  const all = () => delivery.pending() === 0
  await delivery.append(60)
  await until('the first entries', delivery, all)
  await spoil(line, fault)
  const before = delivery.failures()
  await delivery.append(200)
  if (fault.slows) await until('the entries over a slow line', delivery, all)
  // A sink that only writes to a socket may not notice at once: it must notice afterwards.
  else await until('the fault', delivery, () => delivery.failures() > before || all())
  await line.mend()
  await delivery.append(20)
  await until('the rest', delivery, all)
  const received = await receivedAll(receiver, delivery, 280)
  const failures = delivery.failures()
  expect(await delivery.deadLetters()).toEqual([])
  if (fault.slows) expect(failures).toBe(0)
  else if (kind.inFlight !== 'linger') expect(failures).toBeGreaterThan(before)
  const wanted = Array.from({ length: 280 }, (_, i) => uuid(i + 1))
  const arrived = [...new Set(received)]
  expect(kind.unordered ? arrived.sort() : arrived).toEqual(wanted)
  const twice = received.length - 280
  if (fault.slows) expect(twice).toBe(0)
  else if (kind.inFlight !== 'linger') expect(twice).toBeLessThanOrEqual(failures * kind.inFlight)
}

describe.skipIf(toxiproxyMissing)('network faults', () => {
  let toxiproxy: Toxiproxy | undefined
  beforeAll(async () => {
    toxiproxy = await openToxiproxy()
  })
  afterAll(() => toxiproxy?.close())

  for (const kind of receivers) {
    if (kind.missing !== undefined) process.stderr.write(`\nSKIPPED: ${kind.name}: ${kind.missing}\n\n`)
    describe.skipIf(kind.missing !== undefined)(kind.name, () => {
      test.each(faults)('survives $name: nothing is lost, and only what was in flight comes twice', (fault) =>
        survive(kind, fault, toxiproxy as Toxiproxy),
      )
    })
  }
})
