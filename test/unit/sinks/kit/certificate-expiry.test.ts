// Certificates behind URLs: checked beside the deliveries, at most once a day, and without harm to them.
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Transport } from '../../../../src/contracts/platform.ts'
import { Certificates } from '../../../../src/sinks/kit/certificate-expiry.ts'
import { s3 } from '../../../../src/sinks/s3/sink.ts'
import { splunkHec } from '../../../../src/sinks/splunk-hec/sink.ts'
import { linesOf, runOf, someEntries } from '../../../fakes/lines.ts'
import { FakeS3, s3Transport } from '../../../fakes/s3.ts'
import { sinkDeps } from '../../../fakes/sink-deps.ts'
import { FakePeer } from '../../../fakes/sockets.ts'

const never = new AbortController().signal
const DAY_MS = 86_400_000
const settled = () => new Promise((resolve) => setImmediate(resolve))

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

function setup(urls: readonly string[] = ['https://siem.test:8088']) {
  const peer = new FakePeer()
  const deps = sinkDeps({ connect: peer.connect })
  peer.certificateEndsAt = deps.clock.now() + 10 * DAY_MS + 1000
  const tls = { ca_file: '/ca.pem' }
  const certificates = new Certificates(urls, tls, deps)
  const reported = () => deps.log.lines.filter((line) => line.includes('ends soon'))
  const look = async () => {
    certificates.lookDaily()
    await settled()
  }
  return { peer, deps, tls, certificates, reported, look }
}

describe('the daily certificate check', () => {
  test('connects once a day, however often it is called, and leaves nothing open', async () => {
    const { peer, deps, tls, reported, look } = setup()
    for (let i = 0; i < 5; i++) await look()
    expect(peer.asked).toEqual([{ to: { host: 'siem.test', port: 8088 }, tls }])
    expect(reported()).toEqual([expect.stringMatching(/receiver's certificate.*siem\.test:8088.*"days":10/)])
    deps.clock.pass(DAY_MS - 1)
    await look()
    expect(peer.asked).toHaveLength(1)
    deps.clock.pass(1)
    await look()
    expect([peer.asked.length, reported().length, peer.open]).toEqual([2, 2, 0])
  })

  test('resumes a day later if the clock was a year ahead for a while', async () => {
    const { peer, deps, reported, look } = setup()
    const now = vi.spyOn(deps.clock, 'now')
    const elsewhen = (aheadMs: number) => now.mockImplementation(() => deps.clock.elapsed() + aheadMs)
    elsewhen(365 * DAY_MS)
    await look()
    elsewhen(0)
    deps.clock.pass(DAY_MS)
    await look()
    expect([peer.asked.length, reported().length]).toEqual([2, 2])
  })

  test('reports each certificate that it saw to the metrics, however far its end', async () => {
    const { peer, deps, tls } = setup()
    peer.certificateEndsAt = 9e12
    peer.ownCertificateEndsAt = 8e12
    const ends: [string, number][] = []
    const certificateEnds = (...end: [string, number]) => void ends.push(end)
    new Certificates(['https://siem.test:8088'], tls, { ...deps, certificateEnds }).lookDaily()
    await settled()
    expect(ends).toEqual([
      ["siem.test:8088 the receiver's certificate", 9e12],
      ['siem.test:8088 our client certificate', 8e12],
    ])
    expect(deps.log.lines).toEqual([])
  })

  test('counts once when it takes long, and reports again the next day', async () => {
    const { peer, deps, reported, look } = setup()
    let take: (() => void) | undefined
    peer.holding = new Promise<void>((resolve) => (take = resolve))
    await look()
    await look()
    deps.clock.pass(5_000)
    take?.()
    await settled()
    expect([peer.asked.length, reported().length]).toEqual([1, 1])
    deps.clock.pass(DAY_MS)
    await look()
    expect(reported()).toHaveLength(2)
  })

  test('treats an unreachable receiver as no error, and still reports the others', async () => {
    const { peer, reported, look, deps } = setup(['https://a.test', 'https://b.test'])
    peer.down = true
    await look()
    expect([peer.asked.length, deps.log.lines]).toEqual([2, []])
    peer.down = false
    deps.clock.pass(DAY_MS)
    await look()
    expect(reported().map((line) => /[ab]\.test:443/.exec(line)?.[0])).toEqual(['a.test:443', 'b.test:443'])
  })

  test('does nothing without TLS', async () => {
    const { peer, look, certificates } = setup(['http://siem.test:8088'])
    await look()
    expect(await certificates.results('http://siem.test:8088', never)).toEqual([])
    expect(peer.asked).toEqual([])
  })

  test('is cancelled with the sink', async () => {
    const { peer, reported, look, certificates } = setup(['https://a.test', 'https://b.test'])
    let take: (() => void) | undefined
    peer.holding = new Promise<void>((resolve) => (take = resolve))
    await look()
    certificates.close()
    take?.()
    await settled()
    expect([peer.asked.length, reported(), peer.open]).toEqual([1, [], 0])
  })
})

const bucket = { bucket: 'logs', endpoint: 'https://s3.test', force_path_style: true }
const key = { access_key_id: 'AKPLANTED', secret_access_key: 'planted-secret' }
const accepted: Transport = async () => ({
  status: 200,
  headers: {},
  body: (async function* () {
    yield Buffer.from('{"text":"Success","code":0}')
  })(),
})

/** Each delivers once, over https, to a receiver that takes it. */
const sinks = {
  splunk_hec: (peer: FakePeer) => {
    const deps = sinkDeps({ connect: peer.connect, transport: () => accepted })
    const sink = splunkHec.open('siem', splunkHec.options.parse({ url: 'https://siem.test:8088', token: 'planted', acks: false }), deps) // prettier-ignore
    const lines = linesOf(runOf(someEntries(1)), sink.frame)
    return {
      deps,
      sink,
      where: 'siem.test:8088',
      deliver: () => sink.deliver({ lines, detail: '', possibleDuplicate: false }, never),
    }
  },
  s3: (peer: FakePeer) => {
    const base = sinkDeps({ connect: peer.connect })
    const deps = { ...base, transport: () => s3Transport(new FakeS3(), base.clock) }
    const sink = s3.open('archive', s3.options.parse({ ...bucket, ...key }), deps)
    const deliver = async () => (await sink.open(0)).discard()
    return { deps, sink, where: 's3.test:443', deliver }
  },
}

describe.each(Object.entries(sinks))('%s', (_, open) => {
  test('reports a certificate that ends soon, beside its deliveries', async () => {
    const peer = new FakePeer()
    const { deps, sink, where, deliver } = open(peer)
    closers.push(() => sink.close())
    peer.certificateEndsAt = deps.clock.now() + DAY_MS
    const reported = () => deps.log.lines.filter((line) => line.includes('ends soon'))
    await deliver()
    await deliver()
    await expect.poll(reported).toEqual([expect.stringContaining(where)])
    deps.clock.pass(DAY_MS)
    await deliver()
    await expect.poll(() => reported().length).toBe(2)
    expect(peer.open).toBe(0)
  })

  test('delays no delivery when the check hangs or fails, and none is left when the sink is closed', async () => {
    const peer = new FakePeer()
    let take: (() => void) | undefined
    peer.holding = new Promise<void>((resolve) => (take = resolve))
    const { sink, deliver } = open(peer)
    await deliver()
    await sink.close()
    take?.()
    await settled()
    expect([peer.asked.length, peer.open]).toEqual([1, 0])
    peer.down = true
    const failing = open(peer)
    closers.push(() => failing.sink.close())
    await failing.deliver()
  })

  test('check reports the days that are left', async () => {
    const peer = new FakePeer()
    const { deps, sink, where } = open(peer)
    closers.push(() => sink.close())
    peer.certificateEndsAt = deps.clock.now() + 40 * DAY_MS + 1000
    const results = await sink.check(never)
    const message = expect.stringContaining('in 40 days') as string
    expect(results).toContainEqual({ what: `${where} the receiver's certificate`, ok: true, message })
    expect(peer.open).toBe(0)
    peer.down = true
    expect((await sink.check(never)).some(({ what }) => what.includes('certificate'))).toBe(false)
  })
})
