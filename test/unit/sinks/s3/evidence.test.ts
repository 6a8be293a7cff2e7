// The chain of manifests as it is written: complete, never forked, whatever dies when.
import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { BEGIN_AT, Death, HOUR_MS, keyPair, Setup } from './evidence-setup.ts'
import { readPublicKeys } from '../../../../src/sinks/s3/evidence/manifest.ts'

let setup: Setup
beforeEach(async () => {
  setup = await Setup.open()
})
afterEach(async () => {
  await setup.close()
})

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: unknown) => (error instanceof ConnectorError ? error.code : String(error)),
  )

describe('the contents of a manifest', () => {
  it('each object of the interval, and each entry as delivered, filtered or dead letter', async () => {
    await setup.append(20)
    await setup.step()
    await setup.runDispatcher(12, { filtered: 2, parked: 1 })
    await setup.runDispatcher(8, { packed: '.zst' })
    await setup.hour()
    const manifest = setup.manifest(1)
    expect(manifest).toMatchObject({
      ...{ type: 'auditferry-manifest', version: 1, sink: 'archive', journal: 'a1b2c3d4e5f6a1b2c3d4e5f6' },
      ...{
        number: 1,
        stored_in: { bucket: 'acme-audit', prefix: 'logs/acme' },
        previous: null,
        complete: true,
        sequence: { after: 0, through: 20 },
        gaps: [],
      },
      interval: {
        from: new Date(BEGIN_AT).toISOString(),
        until: new Date(BEGIN_AT + HOUR_MS / 2).toISOString(),
        every_seconds: 3600,
      },
      stretches: [{ first: 1, last: 20, delivered: 17, filtered: 2, parked: 1 }],
    })
    const objects = manifest['objects'] as Record<string, unknown>[]
    expect(objects.map(({ key }) => key)).toEqual(expect.arrayContaining(setup.bucket.keys('workspace=')))
    expect(objects).toHaveLength(4)
    expect(objects[0]).toMatchObject({
      ...{ entries: 5, first_sequence: 4, last_sequence: 12 },
      ...{ first_time: '2026-01-31T00:00:04.000000Z', last_time: '2026-01-31T00:00:12.000000Z' },
    })
    expect(await setup.verify()).toMatchObject({ faultLines: [], noteLines: [], objects: 4, entries: 17 })
  })

  it('its line names the one before it by its SHA-256', async () => {
    for (let hour = 0; hour < 3; hour++) {
      await setup.append(3)
      await setup.step()
      await setup.runDispatcher(3)
      await setup.hour()
    }
    const [first = '', second = ''] = setup.bucket.keys('manifest/')
    const body = setup.bucket.objects.get(first)?.toString() ?? ''
    const line = body.slice(0, body.indexOf('\n') + 1)
    expect(first).toBe('manifest/sink=archive/journal=a1b2c3d4e5f6a1b2c3d4e5f6/0000000000000001.ndjson')
    expect(second).toMatch(/0000000000000002\.ndjson$/)
    expect(setup.manifest(2)['previous']).toEqual({
      number: 1,
      sha256: createHash('sha256').update(line).digest('hex'),
    })
    expect((await setup.verify()).faultLines).toEqual([])
  })

  it('of a copied journal is in a chain of its own, though the instance stays the same', async () => {
    await setup.journal.state.put('evidence:journal', 'ffffffffffffffffffffffff')
    await setup.step()
    await setup.hour()
    expect(setup.bucket.keys('manifest/')).toEqual([
      'manifest/sink=archive/journal=ffffffffffffffffffffffff/0000000000000001.ndjson',
    ])
    expect((await setup.verify()).faultLines).toEqual([])
  })

  it('an hour without entries has one too', async () => {
    await setup.step()
    await setup.hour()
    await setup.hour()
    expect(setup.manifest(2)).toMatchObject({ number: 2, objects: [], stretches: [], complete: true })
    expect((await setup.verify()).faultLines).toEqual([])
  })

  it('hours in which nothing ran are one manifest that says how many it spans, and hides nothing', async () => {
    await setup.append(2)
    await setup.step()
    await setup.runDispatcher(2)
    await setup.hour()
    await setup.append(2)
    await setup.runDispatcher(2)
    await setup.restart()
    setup.clock.nowMs += 5 * HOUR_MS
    await setup.step()
    expect(setup.bucket.keys('manifest/')).toHaveLength(2)
    const { faultLines, noteLines } = await setup.verify()
    expect(faultLines).toEqual([])
    expect(noteLines).toEqual([expect.stringContaining('spans 5 intervals')])
  })

  it('a clock set back begins a new interval and is reported', async () => {
    await setup.step()
    await setup.hour()
    setup.clock.nowMs += 100 * 24 * HOUR_MS
    await setup.step()
    setup.clock.nowMs -= 100 * 24 * HOUR_MS
    await setup.step()
    await setup.hour()
    expect(setup.bucket.keys('manifest/')).toHaveLength(4)
    const { faultLines, noteLines } = await setup.verify()
    expect(faultLines).toEqual([])
    expect(noteLines).toEqual(expect.arrayContaining([expect.stringContaining('the clock was set back')]))
  })

  it('objects beyond one manifest’s limit go into more of the same interval', async () => {
    await setup.append(300)
    await setup.step()
    for (let i = 0; i < 300; i++) await setup.runDispatcher(1)
    await setup.hour()
    expect(setup.bucket.keys('manifest/')).toHaveLength(2)
    expect(setup.manifest(1)).toMatchObject({ complete: false, sequence: { after: 0, through: 256 } })
    expect(setup.manifest(2)).toMatchObject({
      ...{ complete: true, sequence: { after: 256, through: 300 } },
      interval: setup.manifest(1)['interval'],
    })
    await setup.hour()
    const { faultLines, objects } = await setup.verify()
    expect([faultLines, objects]).toEqual([[], 300])
  })

  it('at the end of a single run what is not listed yet is listed at once', async () => {
    await setup.append(4)
    await setup.step()
    await setup.runDispatcher(4)
    await setup.step(setup.last)
    await setup.step(setup.last)
    expect(setup.bucket.keys('manifest/')).toHaveLength(1)
    await setup.hour()
    expect(await setup.verify()).toMatchObject({ faultLines: [], objects: 2 })
  })

  it('a chain begins at the sink’s position, and says that it knows nothing of earlier entries', async () => {
    await setup.append(10)
    await setup.runDispatcher(5, { evidence: false })
    await setup.step()
    await setup.runDispatcher(5)
    await setup.hour()
    expect(setup.manifest(1)).toMatchObject({ sequence: { after: 5, through: 10 }, gaps: [] })
    const { faultLines, noteLines } = await setup.verify()
    expect(faultLines).toEqual([])
    expect(noteLines).toEqual([expect.stringContaining('from before evidence was switched on')])
  })

  it('entries acknowledged while evidence was off are a reported gap, until it is explained', async () => {
    await setup.append(15)
    await setup.step()
    await setup.runDispatcher(5)
    await setup.runDispatcher(5, { evidence: false })
    await setup.runDispatcher(3)
    await setup.runDispatcher(2, { evidence: false })
    await setup.hour()
    expect(setup.manifest(1)).toMatchObject({
      gaps: [
        { first: 6, last: 10 },
        { first: 14, last: 15 },
      ],
    })
    const { faultLines } = await setup.verify()
    expect(faultLines).toEqual([
      expect.stringContaining('does not cover the entries 6 to 10'),
      expect.stringContaining('does not cover the entries 14 to 15'),
    ])
    const explained = await setup.verify({
      acceptedGaps: [
        { first: 6, last: 10 },
        { first: 14, last: 15 },
      ],
    })
    expect(explained.faultLines).toEqual([])
    // An explanation for a part of a gap explains only that part.
    for (const acceptedGaps of [[{ first: 6, last: 9 }], [{ first: 7, last: 10 }], [{ first: 7, last: 9 }]])
      expect((await setup.verify({ acceptedGaps })).faultLines).toHaveLength(2)
  })

  it('entries acknowledged ahead of others wait until the earlier ones are: that is no gap', async () => {
    await setup.append(9)
    await setup.step()
    const state = setup.evidence.stored({ first: 7, last: 9, parked: 0, objects: [] })
    await setup.journal.ack('archive', { first: 7, through: 9, rejected: [], state })
    // Nothing can be listed yet: the last call makes no empty manifest.
    await setup.step(setup.last)
    expect(setup.bucket.keys('manifest/')).toEqual([])
    await setup.hour()
    expect(setup.manifest(1)).toMatchObject({ gaps: [], sequence: { after: 0, through: 0 } })
    await setup.runDispatcher(6)
    await setup.hour()
    expect(setup.manifest(2)).toMatchObject({
      ...{ gaps: [], sequence: { after: 0, through: 9 } },
      stretches: [{ first: 1, last: 9, delivered: 6, filtered: 3, parked: 0 }],
    })
    expect((await setup.verify()).faultLines).toEqual([])
  })

  it('if the start of a chain could not be recorded at once, it covers what is stored meanwhile', async () => {
    await setup.append(4)
    setup.fate.dieAt(0, false)
    await expect(setup.step()).rejects.toThrow(Death)
    setup.fate.dieAt(Infinity, false)
    await setup.step(setup.busy)
    await setup.runDispatcher(4)
    await setup.hour()
    await setup.hour()
    expect(await setup.verify()).toMatchObject({ faultLines: [], noteLines: [], objects: 2 })
  })

  it('the body of an object that an earlier try stored is not vouched for, its lines are', async () => {
    await setup.append(4)
    await setup.step()
    setup.fate.dieAt(0, false)
    await expect(setup.runDispatcher(4)).rejects.toThrow(Death)
    await setup.restart()
    await setup.runDispatcher(4)
    await setup.hour()
    const [object] = setup.manifest(1)['objects'] as Record<string, unknown>[]
    expect(object).not.toHaveProperty('stored_sha256')
    expect(await setup.verify()).toMatchObject({ faultLines: [], objects: 2 })
  })
})

describe('keys', () => {
  it('a changed key counts from the next manifest on, and the change is visible', async () => {
    await setup.step()
    await setup.hour()
    const next = keyPair()
    setup.pem = next.privatePem
    await setup.hour()
    await setup.hour()
    const old = await setup.verify()
    expect(old.faultLines).toHaveLength(2)
    expect(old.faultLines[0]).toContain('is signed with a key that was not given')
    const both = await setup.verify({ keys: readPublicKeys(setup.keys.publicPem + next.publicPem) })
    expect(both.faultLines).toEqual([])
    expect(both.noteLines).toEqual([expect.stringContaining('is the first one signed with the key')])
  })

  it('an unusable key stops the manifests, reports what to do, and loses nothing', async () => {
    await setup.append(4)
    await setup.step()
    await setup.runDispatcher(4)
    const good = setup.pem
    for (const bad of ['', 'not a key', setup.keys.publicPem]) {
      setup.pem = bad
      setup.clock.nowMs += HOUR_MS
      expect(await codeOf(setup.step())).toBe('misconfigured')
    }
    setup.pem = good
    await setup.step()
    expect(await setup.verify()).toMatchObject({ faultLines: [], objects: 2 })
  })
})

describe('a bucket that fails', () => {
  it('is reported like any failed put, entries go first meanwhile, and the same bytes go out again', async () => {
    await setup.append(8)
    await setup.step()
    await setup.runDispatcher(4)
    setup.clock.nowMs += HOUR_MS
    setup.bucket.refuse = () => new ConnectorError('server_error', 'the bucket is down')
    expect(await codeOf(setup.step())).toBe('server_error')
    const pending = await setup.journal.state.get('evidence:archive:pending')
    expect(await setup.step(setup.busy)).toBeGreaterThan(0)
    await setup.runDispatcher(4)
    expect(await codeOf(setup.step(setup.idle))).toBe('server_error')
    setup.clock.nowMs += 31_000
    expect(await codeOf(setup.step(setup.busy))).toBe('server_error')
    expect(await setup.journal.state.get('evidence:archive:pending')).toBe(pending)
    setup.bucket.refuse = undefined
    await setup.step()
    await setup.hour()
    expect(await setup.verify()).toMatchObject({ faultLines: [], objects: 4 })
  })

  it('a manifest whose answer was lost is recognized as ours', async () => {
    await setup.step()
    setup.clock.nowMs += HOUR_MS
    setup.bucket.loseAnswer = true
    await expect(setup.step()).rejects.toThrow('the answer was lost')
    setup.bucket.loseAnswer = false
    await setup.step()
    await setup.hour()
    expect(setup.bucket.keys('manifest/')).toHaveLength(2)
    expect((await setup.verify()).faultLines).toEqual([])
  })

  it('without the permission to read, a lost answer is treated as one', async () => {
    setup.bucket.mayRead = false
    await setup.step()
    setup.clock.nowMs += HOUR_MS
    setup.bucket.loseAnswer = true
    await expect(setup.step()).rejects.toThrow('the answer was lost')
    setup.bucket.loseAnswer = false
    await setup.step()
    expect((await setup.verify()).faultLines).toEqual([])
  })

  it("another's manifest at our name is a fork: blocked, never replaced", async () => {
    await setup.append(2)
    await setup.step()
    await setup.runDispatcher(2)
    setup.clock.nowMs += HOUR_MS
    const key = 'manifest/sink=archive/journal=a1b2c3d4e5f6a1b2c3d4e5f6/0000000000000001.ndjson'
    setup.bucket.objects.set(key, Buffer.from('theirs'))
    for (let tries = 0; tries < 3; tries++) expect(await codeOf(setup.step())).toBe('misconfigured')
    await expect(setup.step()).rejects.toThrow(/chain of sink archive would split[^]*another prefix/)
    expect(setup.bucket.objects.get(key)?.toString()).toBe('theirs')
    setup.bucket.objects.delete(key)
    await setup.step()
    expect(await setup.verify()).toMatchObject({ faultLines: [], objects: 2 })
  })

  describe('a name that is taken at the first try, by a role that may not read', () => {
    const taken =
      /may not read it to compare[^]*next try assumes that the stored manifest is ours[^]*s3:GetObject/

    it('is reported, and at the next try taken for ours, as after a restart: a proxy had repeated the put', async () => {
      setup.bucket.mayRead = false
      await setup.step()
      const { bucket } = setup
      const put = bucket.put.bind(bucket)
      bucket.put = async (key, body) => put(key, body).then(() => put(key, body))
      for (let hours = 0; hours < 2; hours++) {
        setup.clock.nowMs += HOUR_MS
        await expect(setup.step()).rejects.toThrow(taken)
        await setup.step()
      }
      expect(bucket.keys('manifest/')).toHaveLength(2)
      expect((await setup.verify()).faultLines).toEqual([])
    })

    it("is never replaced, and verify shows it if it was another's", async () => {
      setup.bucket.mayRead = false
      await setup.step()
      setup.clock.nowMs += HOUR_MS
      const key = 'manifest/sink=archive/journal=a1b2c3d4e5f6a1b2c3d4e5f6/0000000000000001.ndjson'
      setup.bucket.objects.set(key, Buffer.from('theirs'))
      await expect(setup.step()).rejects.toThrow(taken)
      await setup.step()
      expect(setup.bucket.objects.get(key)?.toString()).toBe('theirs')
      expect((await setup.verify()).faultLines).toEqual([expect.stringContaining(key)])
    })
  })
})

describe('a crash at any moment', () => {
  const life = async () => {
    await setup.step()
    await setup.runDispatcher(3, { filtered: 1 })
    await setup.runDispatcher(3)
    setup.clock.nowMs += HOUR_MS
    await setup.step()
    await setup.runDispatcher(4)
    setup.clock.nowMs += HOUR_MS
    await setup.step()
  }

  const pending = () => setup.journal.stats().sinks[0]?.pendingEntries ?? 0

  it('leaves each object in exactly one manifest, and one chain', async () => {
    let deaths = 0
    for (let call = 0; ; call++) {
      let lived = false
      for (const after of [false, true]) {
        await setup.close()
        setup = await Setup.open()
        await setup.append(10)
        setup.fate.dieAt(call, after)
        lived = await life().then(
          () => true,
          (error: unknown) => {
            if (!(error instanceof Death)) throw error
            return false
          },
        )
        if (lived) break
        deaths++
        await setup.restart()
        await setup.step()
        for (let left = pending(); left > 0; left = pending())
          await (left === 10
            ? setup.runDispatcher(3, { filtered: 1 })
            : setup.runDispatcher(left === 7 ? 3 : 4))
        await setup.hour()
        await setup.hour()
        const { faultLines, noteLines, objects } = await setup.verify()
        const reported = `died in call ${call}${after ? ', after it' : ''}`
        expect([reported, faultLines, noteLines.filter((line) => !line.includes('spans'))]).toEqual([
          reported,
          [],
          [],
        ])
        expect([reported, objects]).toEqual([reported, setup.bucket.keys('workspace=').length])
        expect(await setup.journal.state.list('evidence:archive:settled:', 10)).toEqual([])
      }
      if (lived) break
    }
    expect(deaths).toBeGreaterThanOrEqual(16)
  })
})
