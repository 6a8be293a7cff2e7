// Evidence in the sink: delivery in objects, a server that fails and a process that dies, and a bucket that verifies in the end.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Transport } from '../../../../src/contracts/platform.ts'
import { MemoryBudget } from '../../../../src/core/memory-budget.ts'
import { ObjectDispatcher } from '../../../../src/delivery/objects.ts'
import { bucketEvidence } from '../../../../src/sinks/s3/evidence-bucket.ts'
import type { Finding } from '../../../../src/sinks/s3/verify/objects.ts'
import { verifyEvidence } from '../../../../src/sinks/s3/verify/verify.ts'
import { readPublicKeys } from '../../../../src/sinks/s3/evidence/manifest.ts'
import { s3 } from '../../../../src/sinks/s3/sink.ts'
import { Store } from '../../../../src/sinks/s3/store.ts'
import { part, spec, START_US } from '../../../contract/journal-parts.ts'
import { FakeDisk } from '../../../fakes/disk.ts'
import { rawFormat } from '../../../fakes/lines.ts'
import { FakeS3, type S3Fault, s3Transport } from '../../../fakes/s3.ts'
import { sinkDeps } from '../../../fakes/sink-deps.ts'
import { SinkNotes } from '../../../fakes/reporters.ts'
import { never, openRig, type Rig } from '../../delivery/rig.ts'
import { Death, Fate, HOUR_MS, keyPair } from './evidence-setup.ts'

const DAY_US = 86_400_000_000
const keys = keyPair()
let folder: string
let keyFile: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'evidence-'))
  keyFile = join(folder, 'key.pem')
  writeFileSync(keyFile, keys.privatePem)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const base = {
  ...{ bucket: 'logs', prefix: 'a/b', endpoint: 'https://s3.test', force_path_style: true },
  ...{ access_key_id: 'AK', secret_access_key: 'planted-secret' },
}

async function openDock(
  rig: Rig,
  given: object = {},
  nothingMoreComes = () => false,
  lookAgainMs = Infinity,
) {
  await rig.journal.state.put('instance', 'a1b2c3d4e5f6a1b2c3d4e5f6')
  const fake = new FakeS3()
  const fate = new Fate()
  const send = s3Transport(fake, rig.clock)
  const mortal: Transport = (request, signal) => fate.through(() => send(request, signal))
  const evidence = { signing_key_file: keyFile, interval: '1h' }
  const options = s3.options.parse({ ...base, evidence, ...given })
  const reporter = new SinkNotes()
  let dispatcher: ObjectDispatcher
  const begin = () => {
    const deps = sinkDeps({ clock: rig.clock, disk: new FakeDisk(), log: rig.log, transport: () => mortal })
    dispatcher = new ObjectDispatcher({
      ...{ sink: s3.open('archive', options, deps), journal: rig.journal, reporter, log: rig.log },
      ...{
        clock: rig.clock,
        format: rawFormat,
        random: () => 0.5,
        memory: new MemoryBudget(2 ** 25),
        nothingMoreComes,
      },
      ...{ shape: 'one', wanted: (run, i) => run.entries.type(i) !== 'skip', lookAgainMs },
    })
  }
  begin()
  const step = () => dispatcher.step(never)
  return {
    fake,
    fate,
    options,
    step,
    begin,
    pass: (ms: number) => rig.clock.advance(rig.clock.now() + ms),
    manifests: () => [...fake.objects.keys()].filter((key) => key.startsWith('a/b/manifest/')),
    /** Steps until there is nothing to do; returns the codes of what failed, and dies where it must. */
    async work() {
      const codes: string[] = []
      for (let i = 0; i < 2_000; i++) {
        try {
          if (typeof (await step()) === 'number') return codes
        } catch (error) {
          if (!(error instanceof ConnectorError)) throw error
          codes.push(error.code)
          if (codes.length > 50) return codes
        }
      }
      throw new Error('this goes in circles')
    },
    async verify() {
      const findings: Finding[] = []
      const store = new Store(options, { clock: rig.clock, transport: () => send })
      const verified = await verifyEvidence(
        bucketEvidence(store, 'a/b', never),
        { keys: readPublicKeys(keys.publicPem), storedIn: { bucket: 'logs', prefix: 'a/b' } },
        (finding) => findings.push(finding),
      )
      await store.close()
      const faults = findings
        .filter(({ level }) => level === 'fault')
        .map(({ where, what }) => `${where} ${what}`)
      return { ...verified, faultLines: faults }
    },
  }
}

/** Entries of two days and three types, one of which the sink does not want. */
async function append(rig: Rig, from: number, count: number): Promise<void> {
  const specs = Array.from({ length: count }, (_, i) =>
    spec(from + i, {
      at: START_US + ((from + i) % 4 === 0 ? DAY_US : 0) + i,
      ...((from + i) % 5 === 0 ? { type: 'skip' } : {}),
    }),
  )
  await rig.journal.append(part(specs))
}

describe('the sink with evidence', () => {
  it('stores what it delivered and a manifest an hour, which verify against each other', async () => {
    const rig = await openRig()
    const dock = await openDock(rig)
    await append(rig, 1, 40)
    await dock.work()
    for (let hour = 0; hour < 3; hour++) {
      dock.pass(HOUR_MS)
      await dock.work()
    }
    expect(dock.manifests()).toHaveLength(3)
    const { faultLines, entries, chains } = await dock.verify()
    expect([faultLines, entries]).toEqual([[], 32])
    expect(chains[0]).toMatchObject({ through: 40, filtered: 8, parked: 0 })
  })

  it('asks to be called again when the hour ends', async () => {
    const rig = await openRig()
    const dock = await openDock(rig)
    const waitMs = await dock.step()
    expect(waitMs).toBe(HOUR_MS - (rig.clock.now() % HOUR_MS))
  })

  it('probes the server before its first manifest too: one that replaces objects gets none', async () => {
    const dock = await openDock(await openRig())
    dock.fake.switches.overwrites = true
    expect(await dock.work()).toEqual([])
    dock.pass(HOUR_MS)
    await expect(dock.step()).rejects.toMatchObject({
      code: 'misconfigured',
      message: expect.stringContaining('If-None-Match is ignored') as string,
    })
    expect(dock.manifests()).toEqual([])
  })

  it('locks manifests like objects', async () => {
    const rig = await openRig()
    const dock = await openDock(rig, { object_lock: { mode: 'compliance', days: 30 } })
    dock.fake.switches = { ...dock.fake.switches, locks: true }
    await dock.work()
    dock.pass(HOUR_MS)
    await dock.work()
    const [manifest = ''] = dock.manifests()
    expect(dock.fake.objects.get(manifest)?.headers).toMatchObject({
      'x-amz-object-lock-mode': 'COMPLIANCE',
      'if-none-match': '*',
    })
  })

  it('keeps delivering while manifests fail, reports it, and lists everything in the end', async () => {
    const rig = await openRig()
    const dock = await openDock(rig)
    dock.fake.faultOfAll = ({ method, url }): S3Fault | undefined =>
      method === 'PUT' && url.includes('manifest')
        ? { kind: 'code', status: 500, code: 'InternalError' }
        : undefined
    await append(rig, 1, 20)
    await dock.work()
    dock.pass(HOUR_MS)
    expect(new Set(await dock.work())).toEqual(new Set(['server_error']))
    expect(rig.journal.stats().entries).toBe(0)
    await append(rig, 21, 20)
    dock.pass(HOUR_MS)
    await dock.work()
    expect(rig.journal.stats().entries).toBe(0)
    expect(dock.manifests()).toEqual([])
    dock.fake.faultOfAll = undefined
    await dock.work()
    const { faultLines, entries } = await dock.verify()
    expect([faultLines, entries]).toEqual([[], 32])
  })

  it('is blocked by a missing key, and still delivers', async () => {
    const rig = await openRig()
    const gone = join(folder, 'gone.pem')
    const dock = await openDock(rig, { evidence: { signing_key_file: gone } })
    await append(rig, 1, 20)
    await dock.work()
    dock.pass(HOUR_MS)
    expect(new Set(await dock.work())).toEqual(new Set(['misconfigured']))
    await expect(dock.step()).rejects.toThrow(/gone\.pem cannot be used \(ENOENT\)/)
    expect(rig.journal.stats().entries).toBe(0)
  })

  it('at the end of a single run lists what it stored', async () => {
    const rig = await openRig()
    const dock = await openDock(rig, {}, () => true)
    await append(rig, 1, 10)
    await dock.work()
    expect(await dock.step()).toBe(Infinity)
    expect(dock.manifests()).toHaveLength(1)
    expect(await dock.verify()).toMatchObject({ faultLines: [], entries: 8 })
  })

  it('in a single run notices the end although nothing is open', async () => {
    const rig = await openRig()
    let over = false
    const dock = await openDock(rig, {}, () => over, 1_000)
    await append(rig, 1, 10)
    await dock.work()
    dock.pass(300_000)
    await dock.work()
    expect(await dock.step()).toBe(1_000)
    over = true
    expect(await dock.step()).toBe(Infinity)
    expect(await dock.verify()).toMatchObject({ faultLines: [], entries: 8 })
  })

  it('reports in validate whether its key can sign', async () => {
    const rig = await openRig()
    const dock = await openDock(rig)
    const open = (signing_key_file: string) =>
      s3.open(
        'archive',
        s3.options.parse({ ...base, evidence: { signing_key_file } }),
        sinkDeps({ transport: () => s3Transport(dock.fake, rig.clock) }),
      )
    const [good] = await open(keyFile).check(never)
    expect(good).toMatchObject({ what: 'evidence.signing_key_file', ok: true })
    const [bad] = await open(join(folder, 'none.pem')).check(never)
    expect(bad).toMatchObject({ what: 'evidence.signing_key_file', ok: false })
  })
})

it('without evidence only objects are stored, and no state is kept', async () => {
  const rig = await openRig()
  const dock = await openDock(rig, { evidence: undefined })
  await append(rig, 1, 20)
  await dock.work()
  dock.pass(5 * HOUR_MS)
  await dock.work()
  expect([...dock.fake.objects.keys()].filter((key) => !/\/workspace=|\.auditferry/.test(key))).toEqual([])
  expect(await rig.journal.state.list('evidence:', 10)).toEqual([])
})

it('whatever fails and dies when, the bucket verifies: each entry once, each object listed once, one chain', async () => {
  const moment = fc.record({
    dieAt: fc.option(fc.record({ call: fc.nat(12), after: fc.boolean() }), { freq: 2 }),
    fault: fc.option(fc.record({ nth: fc.nat(10), stores: fc.boolean() }), { freq: 2 }),
    entries: fc.nat(12),
    passMs: fc.constantFrom(1_000, 400_000, HOUR_MS, 5 * HOUR_MS),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(moment, { minLength: 1, maxLength: 6 }), async (moments) => {
      const rig = await openRig()
      const dock = await openDock(rig)
      let appended = 0
      for (const { dieAt, fault, entries, passMs } of moments) {
        if (entries > 0) await append(rig, appended + 1, entries)
        appended += entries
        dock.pass(passMs)
        let requests = 0
        dock.fake.faultOfAll = () =>
          fault && requests++ === fault.nth ? { kind: 'reset', stores: fault.stores } : undefined
        dock.fate.dieAt(dieAt ? dieAt.call : Infinity, dieAt?.after ?? false)
        await dock.work().catch((error: unknown) => {
          if (!(error instanceof Death)) throw error
          dock.begin()
        })
      }
      dock.fake.faultOfAll = undefined
      dock.fate.dieAt(Infinity, false)
      for (let hour = 0; hour < 2; hour++) {
        dock.pass(HOUR_MS)
        await dock.work()
      }
      const { faultLines, entries, objects, chains } = await dock.verify()
      const wanted = Array.from({ length: appended }, (_, i) => i + 1).filter((n) => n % 5 !== 0).length
      const stored = [...dock.fake.objects.keys()].filter((key) => key.includes('/workspace='))
      expect({ faultLines, entries, objects, chains: chains.length }).toEqual({
        ...{ faultLines: [], entries: wanted, objects: stored.length, chains: 1 },
      })
    }),
    { numRuns: 25 },
  )
}, 60_000)
