// Invariant 4: a sink releases whatever it has framed, so that a waiting sink holds no entries outside the memory budget.
import { expect, it, test } from 'vitest'
import { formatNamed, formatNames } from '../../../src/formats/index.ts'
import type { ChunkSlice } from '../../../src/contracts/journal.ts'
import { ByteWriter, makeWay } from '../../../src/core/bytes.ts'
import type { Frame } from '../../../src/contracts/sink.ts'
import { redactBy, redactedFrame } from '../../../src/delivery/redact.ts'
import { Groups, OpenRange } from '../../../src/delivery/objects.ts'
import { hecFrame } from '../../../src/sinks/splunk-hec/body.ts'
import { syslogFrame } from '../../../src/sinks/syslog/frame.ts'
import { rawFormat, runOf } from '../../fakes/lines.ts'
import { taken } from '../../fakes/sink.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { openRig } from './rig.ts'

const hostOf = () => 'api.example.com'
const hec = hecFrame({ hostOf })
const syslog = (rfc: 5424 | 3164) =>
  syslogFrame({
    ...{ rfc, facility: 'local0', app_name: 'auditferry', hostname: undefined, enterprise_id: 32473 },
    ...{ max_message_bytes: 8192, oversize: 'split', hostOf },
  })
const asFrame =
  (name: (typeof formatNames)[number], format = formatNamed(name)): Frame =>
  (run, index, out) =>
    format(run, index, out)

const frames: Readonly<Record<string, Frame>> = {
  ...Object.fromEntries(formatNames.map((name) => [`format ${name}`, asFrame(name)])),
  splunk_hec: hec,
  'syslog by RFC 5424': syslog(5424),
  'syslog by RFC 3164': syslog(3164),
  'a content policy': redactedFrame(hec, redactBy([{ fields: ['user'], change: { with: 'drop' } }])),
}

/** Asked for in a later task, since a reference made in this task keeps it alive. */
async function isGone(ref: WeakRef<object>): Promise<boolean> {
  await settled()
  makeWay(Infinity)
  return ref.deref() === undefined
}

function used(use: (run: ChunkSlice) => void): WeakRef<object> {
  const run = runOf([{ id: 'a' }])
  use(run)
  return new WeakRef(run.entries.bytes)
}

test.each(Object.entries(frames))('%s keeps nothing of what it has framed', async (_, frame) => {
  const ref = used((run) => frame(run, 0, new ByteWriter(), rawFormat))
  expect(await isGone(ref)).toBe(true)
})

it('an open object range keeps nothing of what it has counted', async () => {
  const groups = new Groups()
  const ref = used((run) => groups.of(run, 0))
  expect(await isGone(ref)).toBe(true)
  expect(groups).toBeDefined()
})

const HUGE_BYTES = 9 * 2 ** 20

/** Whether the memory is given back: a background thread does that whenever it runs. */
async function keeps(use: (run: ChunkSlice) => void): Promise<boolean> {
  const held = async () => {
    await settled()
    makeWay(Infinity)
    return process.memoryUsage().arrayBuffers
  }
  await held()
  const before = await held()
  use(runOf([{ id: 'a', raw: JSON.stringify({ user: 'someone', query: 'x'.repeat(HUGE_BYTES) }) }]))
  for (let look = 0; look < 50; look++) if ((await held()) - before < HUGE_BYTES / 2) return false
  return true
}

test.each(Object.entries(frames))('%s keeps no buffer of a huge entry', async (_, frame) => {
  expect(await keeps((run) => frame(run, 0, new ByteWriter(), rawFormat))).toBe(false)
})

it('an open object range keeps no buffer of a huge entry', async () => {
  const open = new OpenRange()
  const framing = { sink: { frame: hec }, format: rawFormat, wanted: () => true }
  const kept = await keeps((run) =>
    open.add({ first: 1, last: 1, count: 1, slices: [run] }, framing, Infinity, 'archive'),
  )
  expect(kept).toBe(false)
  expect(open.count).toBe(1)
})

it('a lingering sink keeps nothing of what it has sent', async () => {
  const rig = await openRig()
  const refs: WeakRef<object>[] = []
  // As read from the disk: what the journal has cached is the journal's.
  const journal = withMethods(rig.journal, {
    take: async (...wish) => {
      const batch = await rig.journal.take(...wish)
      const slices = batch?.slices.map((run) => ({ ...run, entries: run.entries.pick([0, 1, 2]) }))
      refs.push(...(slices ?? []).map(({ entries }) => new WeakRef(entries)))
      return batch && slices && { ...batch, slices }
    },
  })
  const sinkRig = rig.sinkRig('archive', { journal })
  await rig.append(3)
  await sinkRig.empty()
  expect(await Promise.all(refs.map(isGone))).toEqual([true])
  expect(await sinkRig.step()).toBe(Infinity)
})

it('a delivery reuses its line buffers, but releases one that a huge entry made grow', async () => {
  const rig = await openRig()
  const sinkRig = rig.sinkRig('archive', { batch: { maxEntries: 3 } })
  const buffers: ArrayBufferLike[] = []
  sinkRig.sink.answer = (delivery) => {
    buffers.push(delivery.lines.bytes.buffer)
    return taken(delivery)
  }
  const deliverAll = async () => {
    await sinkRig.empty()
    return new Set(buffers.splice(0))
  }
  await rig.append(30)
  const usual = await deliverAll()
  expect(usual.size).toBeLessThanOrEqual(2)
  await rig.append(1, { body: 'x'.repeat(HUGE_BYTES) })
  const [huge] = await deliverAll()
  expect(huge?.byteLength).toBeGreaterThan(HUGE_BYTES)
  await rig.append(30)
  const after = await deliverAll()
  expect([after.size <= 2, after.has(huge as ArrayBufferLike)]).toEqual([true, false])
  for (const { byteLength } of after) expect(byteLength).toBeLessThanOrEqual(4 * 2 ** 20)
})
