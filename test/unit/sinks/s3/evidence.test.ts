// The chain of manifests as it is written: complete, never forked, whatever dies when.
import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { BEGIN_AT, Death, HOUR_MS, keyPair, Stand } from './evidence-stand.ts'
import { readPublicKeys } from '../../../../src/sinks/s3/evidence/manifest.ts'

let stand: Stand
beforeEach(async () => {
  stand = await Stand.open()
})
afterEach(async () => {
  await stand.close()
})

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: unknown) => (error instanceof ConnectorError ? error.code : String(error)),
  )

describe('the contents of a manifest', () => {
  it('each object of the interval, and each entry as delivered, filtered or dead letter', async () => {
    await stand.append(20)
    await stand.step()
    await stand.runDispatcher(12, { filtered: 2, parked: 1 })
    await stand.runDispatcher(8, { packed: '.zst' })
    await stand.hour()
    const manifest = stand.manifest(1)
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
    expect(objects.map(({ key }) => key)).toEqual(expect.arrayContaining(stand.bucket.keys('workspace=')))
    expect(objects).toHaveLength(4)
    expect(objects[0]).toMatchObject({
      ...{ entries: 5, first_sequence: 4, last_sequence: 12 },
      ...{ first_time: '2026-01-31T00:00:04.000000Z', last_time: '2026-01-31T00:00:12.000000Z' },
    })
    expect(await stand.verify()).toMatchObject({ faultLines: [], noteLines: [], objects: 4, entries: 17 })
  })

  it('its line names the one before it by its SHA-256', async () => {
    for (let hour = 0; hour < 3; hour++) {
      await stand.append(3)
      await stand.step()
      await stand.runDispatcher(3)
      await stand.hour()
    }
    const [first = '', second = ''] = stand.bucket.keys('manifest/')
    const body = stand.bucket.objects.get(first)?.toString() ?? ''
    const line = body.slice(0, body.indexOf('\n') + 1)
    expect(first).toBe('manifest/sink=archive/journal=a1b2c3d4e5f6a1b2c3d4e5f6/0000000000000001.ndjson')
    expect(second).toMatch(/0000000000000002\.ndjson$/)
    expect(stand.manifest(2)['previous']).toEqual({
      number: 1,
      sha256: createHash('sha256').update(line).digest('hex'),
    })
    expect((await stand.verify()).faultLines).toEqual([])
  })

  it('an hour without entries has one too', async () => {
    await stand.step()
    await stand.hour()
    await stand.hour()
    expect(stand.manifest(2)).toMatchObject({ number: 2, objects: [], stretches: [], complete: true })
    expect((await stand.verify()).faultLines).toEqual([])
  })

  it('hours in which nothing ran are one manifest that says how many it spans, and hides nothing', async () => {
    await stand.append(2)
    await stand.step()
    await stand.runDispatcher(2)
    await stand.hour()
    await stand.append(2)
    await stand.runDispatcher(2)
    await stand.restart()
    stand.clock.nowMs += 5 * HOUR_MS
    await stand.step()
    expect(stand.bucket.keys('manifest/')).toHaveLength(2)
    const { faultLines, noteLines } = await stand.verify()
    expect(faultLines).toEqual([])
    expect(noteLines).toEqual([expect.stringContaining('spans 5 intervals')])
  })

  it('a clock set back begins a new interval and is reported', async () => {
    await stand.step()
    await stand.hour()
    stand.clock.nowMs += 100 * 24 * HOUR_MS
    await stand.step()
    stand.clock.nowMs -= 100 * 24 * HOUR_MS
    await stand.step()
    await stand.hour()
    expect(stand.bucket.keys('manifest/')).toHaveLength(4)
    const { faultLines, noteLines } = await stand.verify()
    expect(faultLines).toEqual([])
    expect(noteLines).toEqual(expect.arrayContaining([expect.stringContaining('the clock was set back')]))
  })

  it('objects beyond one manifest’s limit go into more of the same interval', async () => {
    await stand.append(300)
    await stand.step()
    for (let i = 0; i < 300; i++) await stand.runDispatcher(1)
    await stand.hour()
    expect(stand.bucket.keys('manifest/')).toHaveLength(2)
    expect(stand.manifest(1)).toMatchObject({ complete: false, sequence: { after: 0, through: 256 } })
    expect(stand.manifest(2)).toMatchObject({
      ...{ complete: true, sequence: { after: 256, through: 300 } },
      interval: stand.manifest(1)['interval'],
    })
    await stand.hour()
    const { faultLines, objects } = await stand.verify()
    expect([faultLines, objects]).toEqual([[], 300])
  })

  it('at the end of a single run what is not listed yet is listed at once', async () => {
    await stand.append(4)
    await stand.step()
    await stand.runDispatcher(4)
    await stand.step(stand.last)
    await stand.step(stand.last)
    expect(stand.bucket.keys('manifest/')).toHaveLength(1)
    await stand.hour()
    expect(await stand.verify()).toMatchObject({ faultLines: [], objects: 2 })
  })

  it('a chain begins at the sink’s position, and says that it knows nothing of earlier entries', async () => {
    await stand.append(10)
    await stand.runDispatcher(5, { evidence: false })
    await stand.step()
    await stand.runDispatcher(5)
    await stand.hour()
    expect(stand.manifest(1)).toMatchObject({ sequence: { after: 5, through: 10 }, gaps: [] })
    const { faultLines, noteLines } = await stand.verify()
    expect(faultLines).toEqual([])
    expect(noteLines).toEqual([expect.stringContaining('from before evidence was switched on')])
  })

  it('entries acknowledged while evidence was off are a reported gap, until it is explained', async () => {
    await stand.append(15)
    await stand.step()
    await stand.runDispatcher(5)
    await stand.runDispatcher(5, { evidence: false })
    await stand.runDispatcher(3)
    await stand.runDispatcher(2, { evidence: false })
    await stand.hour()
    expect(stand.manifest(1)).toMatchObject({
      gaps: [
        { first: 6, last: 10 },
        { first: 14, last: 15 },
      ],
    })
    const { faultLines } = await stand.verify()
    expect(faultLines).toEqual([
      expect.stringContaining('does not cover the entries 6 to 10'),
      expect.stringContaining('does not cover the entries 14 to 15'),
    ])
    const explained = await stand.verify({
      acceptedGaps: [
        { first: 6, last: 10 },
        { first: 14, last: 15 },
      ],
    })
    expect(explained.faultLines).toEqual([])
    // An explanation for a part of a gap explains only that part.
    for (const acceptedGaps of [[{ first: 6, last: 9 }], [{ first: 7, last: 10 }], [{ first: 7, last: 9 }]])
      expect((await stand.verify({ acceptedGaps })).faultLines).toHaveLength(2)
  })

  it('entries acknowledged ahead of others wait until the earlier ones are: that is no gap', async () => {
    await stand.append(9)
    await stand.step()
    const notes = stand.evidence.stored({ first: 7, last: 9, parked: 0, objects: [] })
    await stand.journal.ack('archive', { first: 7, through: 9, parked: [], notes })
    // Nothing can be listed yet: the last call makes no empty manifest.
    await stand.step(stand.last)
    expect(stand.bucket.keys('manifest/')).toEqual([])
    await stand.hour()
    expect(stand.manifest(1)).toMatchObject({ gaps: [], sequence: { after: 0, through: 0 } })
    await stand.runDispatcher(6)
    await stand.hour()
    expect(stand.manifest(2)).toMatchObject({
      ...{ gaps: [], sequence: { after: 0, through: 9 } },
      stretches: [{ first: 1, last: 9, delivered: 6, filtered: 3, parked: 0 }],
    })
    expect((await stand.verify()).faultLines).toEqual([])
  })

  it('if the start of a chain could not be recorded at once, it covers what is stored meanwhile', async () => {
    await stand.append(4)
    stand.fate.dieAt(0, false)
    await expect(stand.step()).rejects.toThrow(Death)
    stand.fate.dieAt(Infinity, false)
    await stand.step(stand.busy)
    await stand.runDispatcher(4)
    await stand.hour()
    await stand.hour()
    expect(await stand.verify()).toMatchObject({ faultLines: [], noteLines: [], objects: 2 })
  })

  it('the body of an object that an earlier try stored is not vouched for, its lines are', async () => {
    await stand.append(4)
    await stand.step()
    stand.fate.dieAt(0, false)
    await expect(stand.runDispatcher(4)).rejects.toThrow(Death)
    await stand.restart()
    await stand.runDispatcher(4)
    await stand.hour()
    const [object] = stand.manifest(1)['objects'] as Record<string, unknown>[]
    expect(object).not.toHaveProperty('stored_sha256')
    expect(await stand.verify()).toMatchObject({ faultLines: [], objects: 2 })
  })
})

describe('keys', () => {
  it('a changed key counts from the next manifest on, and the change is visible', async () => {
    await stand.step()
    await stand.hour()
    const next = keyPair()
    stand.pem = next.privatePem
    await stand.hour()
    await stand.hour()
    const old = await stand.verify()
    expect(old.faultLines).toHaveLength(2)
    expect(old.faultLines[0]).toContain('is signed with a key that was not given')
    const both = await stand.verify({ keys: readPublicKeys(stand.keys.publicPem + next.publicPem) })
    expect(both.faultLines).toEqual([])
    expect(both.noteLines).toEqual([expect.stringContaining('is the first one signed with the key')])
  })

  it('an unusable key stops the manifests, reports what to do, and loses nothing', async () => {
    await stand.append(4)
    await stand.step()
    await stand.runDispatcher(4)
    const good = stand.pem
    for (const bad of ['', 'not a key', stand.keys.publicPem]) {
      stand.pem = bad
      stand.clock.nowMs += HOUR_MS
      expect(await codeOf(stand.step())).toBe('misconfigured')
    }
    stand.pem = good
    await stand.step()
    expect(await stand.verify()).toMatchObject({ faultLines: [], objects: 2 })
  })
})

describe('a bucket that fails', () => {
  it('is reported like any failed put, entries go first meanwhile, and the same bytes go out again', async () => {
    await stand.append(8)
    await stand.step()
    await stand.runDispatcher(4)
    stand.clock.nowMs += HOUR_MS
    stand.bucket.refuse = () => new ConnectorError('server_error', 'the bucket is down')
    expect(await codeOf(stand.step())).toBe('server_error')
    const pending = await stand.journal.note('evidence:archive:pending')
    expect(await stand.step(stand.busy)).toBeGreaterThan(0)
    await stand.runDispatcher(4)
    expect(await codeOf(stand.step(stand.idle))).toBe('server_error')
    stand.clock.nowMs += 31_000
    expect(await codeOf(stand.step(stand.busy))).toBe('server_error')
    expect(await stand.journal.note('evidence:archive:pending')).toBe(pending)
    stand.bucket.refuse = undefined
    await stand.step()
    await stand.hour()
    expect(await stand.verify()).toMatchObject({ faultLines: [], objects: 4 })
  })

  it('a manifest whose answer was lost is recognized as ours', async () => {
    await stand.step()
    stand.clock.nowMs += HOUR_MS
    stand.bucket.loseAnswer = true
    await expect(stand.step()).rejects.toThrow('the answer was lost')
    stand.bucket.loseAnswer = false
    await stand.step()
    await stand.hour()
    expect(stand.bucket.keys('manifest/')).toHaveLength(2)
    expect((await stand.verify()).faultLines).toEqual([])
  })

  it('without the permission to read, a lost answer is treated as one', async () => {
    stand.bucket.mayRead = false
    await stand.step()
    stand.clock.nowMs += HOUR_MS
    stand.bucket.loseAnswer = true
    await expect(stand.step()).rejects.toThrow('the answer was lost')
    stand.bucket.loseAnswer = false
    await stand.step()
    expect((await stand.verify()).faultLines).toEqual([])
  })

  it("another's manifest at our name is a fork: blocked, never replaced", async () => {
    await stand.append(2)
    await stand.step()
    await stand.runDispatcher(2)
    stand.clock.nowMs += HOUR_MS
    const key = 'manifest/sink=archive/journal=a1b2c3d4e5f6a1b2c3d4e5f6/0000000000000001.ndjson'
    stand.bucket.objects.set(key, Buffer.from('theirs'))
    for (let tries = 0; tries < 3; tries++) expect(await codeOf(stand.step())).toBe('misconfigured')
    await expect(stand.step()).rejects.toThrow(/chain of sink archive would fork[^]*another prefix/)
    expect(stand.bucket.objects.get(key)?.toString()).toBe('theirs')
    stand.bucket.objects.delete(key)
    await stand.step()
    expect(await stand.verify()).toMatchObject({ faultLines: [], objects: 2 })
  })

  describe('a name that is taken at the first try, by a role that may not read', () => {
    const taken = /may not read it to compare[^]*next try assumes that it is ours[^]*s3:GetObject/

    it('is reported, and at the next try taken for ours, as after a restart: a proxy had repeated the put', async () => {
      stand.bucket.mayRead = false
      await stand.step()
      const { bucket } = stand
      const put = bucket.put.bind(bucket)
      bucket.put = async (key, body) => put(key, body).then(() => put(key, body))
      for (let hours = 0; hours < 2; hours++) {
        stand.clock.nowMs += HOUR_MS
        await expect(stand.step()).rejects.toThrow(taken)
        await stand.step()
      }
      expect(bucket.keys('manifest/')).toHaveLength(2)
      expect((await stand.verify()).faultLines).toEqual([])
    })

    it("is never replaced, and verify shows it if it was another's", async () => {
      stand.bucket.mayRead = false
      await stand.step()
      stand.clock.nowMs += HOUR_MS
      const key = 'manifest/sink=archive/journal=a1b2c3d4e5f6a1b2c3d4e5f6/0000000000000001.ndjson'
      stand.bucket.objects.set(key, Buffer.from('theirs'))
      await expect(stand.step()).rejects.toThrow(taken)
      await stand.step()
      expect(stand.bucket.objects.get(key)?.toString()).toBe('theirs')
      expect((await stand.verify()).faultLines).toEqual([expect.stringContaining(key)])
    })
  })
})

describe('a crash at any moment', () => {
  const life = async () => {
    await stand.step()
    await stand.runDispatcher(3, { filtered: 1 })
    await stand.runDispatcher(3)
    stand.clock.nowMs += HOUR_MS
    await stand.step()
    await stand.runDispatcher(4)
    stand.clock.nowMs += HOUR_MS
    await stand.step()
  }

  const pending = () => stand.journal.stats().sinks[0]?.pendingEntries ?? 0

  it('leaves each object in exactly one manifest, and one chain', async () => {
    let deaths = 0
    for (let call = 0; ; call++) {
      let lived = false
      for (const after of [false, true]) {
        await stand.close()
        stand = await Stand.open()
        await stand.append(10)
        stand.fate.dieAt(call, after)
        lived = await life().then(
          () => true,
          (error: unknown) => {
            if (!(error instanceof Death)) throw error
            return false
          },
        )
        if (lived) break
        deaths++
        await stand.restart()
        await stand.step()
        for (let left = pending(); left > 0; left = pending())
          await (left === 10
            ? stand.runDispatcher(3, { filtered: 1 })
            : stand.runDispatcher(left === 7 ? 3 : 4))
        await stand.hour()
        await stand.hour()
        const { faultLines, noteLines, objects } = await stand.verify()
        const told = `died in call ${call}${after ? ', after it' : ''}`
        expect([told, faultLines, noteLines.filter((line) => !line.includes('spans'))]).toEqual([
          told,
          [],
          [],
        ])
        expect([told, objects]).toEqual([told, stand.bucket.keys('workspace=').length])
        expect(await stand.journal.notes('evidence:archive:settled:', 10)).toEqual([])
      }
      if (lived) break
    }
    expect(deaths).toBeGreaterThanOrEqual(16)
  })
})
