// Between us and a bucket beside the sink's own messages: where requests go, how often, over which trust, and what is left of them.
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { HttpRequest, Transport } from '../../../../src/contracts/platform.ts'
import { options } from '../../../../src/sinks/s3/options.ts'
import { Store } from '../../../../src/sinks/s3/store.ts'
import { verdicts } from '../../../../src/sinks/s3/probe.ts'
import { FakeS3, s3Transport } from '../../../fakes/s3.ts'
import { StepClock } from '../../../fakes/sink-deps.ts'
import { never } from '../../delivery/rig.ts'

const keys = { access_key_id: 'AK', secret_access_key: 'planted-secret' }
const base = { bucket: 'logs', endpoint: 'https://s3.test', force_path_style: true, ...keys }

function bench(given: object = {}) {
  const fake = new FakeS3()
  const clock = new StepClock()
  const asked: { readonly tls: unknown; readonly request: HttpRequest }[] = []
  const transport = (tls?: unknown): Transport => {
    const send = s3Transport(fake, clock)
    return (request, signal) => {
      asked.push({ tls, request })
      return send(request, signal)
    }
  }
  const store = new Store(options.parse({ ...base, ...given }), { clock, transport })
  return { fake, store, asked, clock }
}

const object = (key: string) => ({ key, body: Buffer.from('x'), headers: {}, checksum: undefined, versions: 1 }) // prettier-ignore

const small = {
  bytes: 1,
  sha256: '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881',
  async *read() {
    yield Buffer.from('x')
  },
}

afterEach(() => vi.unstubAllEnvs())

describe('requests', () => {
  it('go where the settings say, and not where the environment names another server', async () => {
    for (const name of ['AWS_ENDPOINT_URL', 'AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL_STS'])
      vi.stubEnv(name, 'https://elsewhere.test')
    const { store, asked } = bench({ endpoint: undefined, region: 'eu-west-1', force_path_style: false })
    await store.look('a', never).catch(() => undefined)
    expect(asked.map(({ request }) => new URL(request.url).host)).toEqual(['logs.s3.eu-west-1.amazonaws.com'])
  })

  it.each([
    ['look', (store: Store) => store.look('a', never)],
    ['fetch', (store: Store) => store.fetch('a', never)],
    ['list', (store: Store) => store.list('a', undefined, never).next()],
    ['remove', (store: Store) => store.remove('a', never)],
    ['put', (store: Store) => store.put('a', small, { contentType: 'text/plain' }, never)],
  ])('%s: one each, and the library repeats none', async (_, ask) => {
    const { store, fake } = bench()
    fake.faultOfAll = () => ({ kind: 'code', status: 503, code: 'SlowDown' })
    await expect(ask(store)).rejects.toMatchObject({ code: 'rate_limited' })
    expect(fake.exchanges).toHaveLength(1)
  })

  it("for a role trust the public authorities if AWS issues it: the bucket's own are another server's", async () => {
    const tls = { server_name: 's3.internal' }
    const role = { region: 'eu-west-1', role_arn: 'arn:aws:iam::123456789012:role/writer' }
    for (const [given, expected] of [
      [{}, undefined],
      [{ sts_endpoint: 'https://sts.test' }, tls],
    ] as const) {
      const { store, asked } = bench({ ...role, tls, ...given })
      await store.look('a', never)
      expect(asked.map(({ tls: trusted, request: { method } }) => [method, trusted])).toEqual([
        ['POST', expected],
        ['HEAD', tls],
      ])
    }
  })

  it.each([429, 500, 503])(
    'for a role that are answered with %i are retried, not blocked',
    async (status) => {
      const { store, fake } = bench({ role_arn: 'arn:aws:iam::1:role/x', sts_endpoint: 'https://sts.test' })
      fake.faultOfAll = ({ method }) => (method === 'POST' ? { kind: 'code', status, code: 'X' } : undefined)
      await expect(store.look('a', never)).rejects.toMatchObject({ action: 'retry' })
    },
  )
})

describe('a list', () => {
  const strange = [
    'a/&#x6b;ey',
    'a/&amp;#107;ey',
    'a/a b+c%2F',
    'a/line\nend\u0001',
    'a/<Key>',
    'a/\u202e',
    ' a/',
    'a/ ',
  ]

  it('has each name unchanged, however it looks in XML: none reads as another', async () => {
    const { store, fake } = bench()
    for (const key of ['a/key', ...strange]) fake.objects.set(key, object(key))
    const listed: string[] = []
    for await (const { key } of store.list('', undefined, never)) listed.push(key)
    expect(listed.toSorted()).toEqual(['a/key', ...strange].toSorted())
  })

  it('of a server that does not encode names is taken as the server writes it', async () => {
    const { store, fake } = bench()
    fake.switches.listsPlainly = true
    for (const key of ['a/key', 'a/100%+']) fake.objects.set(key, object(key))
    const listed: string[] = []
    for await (const { key } of store.list('', undefined, never)) listed.push(key)
    expect(listed).toEqual(['a/100%+', 'a/key'])
  })

  it('continues over all of its pages, in order, from behind a name', async () => {
    const { store, fake } = bench()
    const names = Array.from({ length: 2_500 }, (_, i) => `a/${String(i).padStart(6, '0')}`)
    for (const name of [...names, 'b/1']) fake.objects.set(name, object(name))
    const listed: string[] = []
    for await (const { key } of store.list('a/', names[2], never)) listed.push(key)
    expect(listed).toEqual(names.slice(3))
  })

  it('that says it continues, but not where, is incomplete', async () => {
    const { store, fake } = bench()
    fake.faultOfAll = () => ({
      ...{ kind: 'page', status: 200, headers: { 'content-type': 'application/xml' } },
      text: '<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>',
    })
    await expect(store.list('a/', undefined, never).next()).rejects.toMatchObject({ code: 'bad_reply' })
  })
})

describe('a fetch', () => {
  it('of a missing object returns missing; a missing bucket is an error, and no missing object', async () => {
    expect(await bench().store.fetch('a', never)).toBeUndefined()
    await expect(bench({ bucket: 'none' }).store.fetch('a', never)).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})

it('a body that the server does not read to its end is dropped: the file is no longer read', async () => {
  let left = false
  async function* read() {
    try {
      for (;;) yield Buffer.alloc(64 * 1024)
    } finally {
      left = true
    }
  }
  const answer = '<Error><Code>SlowDown</Code></Error>'
  const send: Transport = async ({ stream }) => {
    await stream?.[Symbol.asyncIterator]().next()
    return {
      status: 503,
      headers: {},
      body: (async function* () {
        yield Buffer.from(answer)
      })(),
    }
  }
  const store = new Store(options.parse(base), { clock: new StepClock(), transport: () => send })
  const body = { bytes: 2 ** 30, sha256: '0'.repeat(64), read }
  await expect(store.put('k', body, { contentType: 'text/plain' }, never)).rejects.toMatchObject({
    code: 'rate_limited',
  })
  // The runner's own second is too little for a busy machine.
  await vi.waitFor(() => expect(left).toBe(true), 10_000)
})

describe('what a server keeps', () => {
  const looked = { bytes: 27, kmsKeyId: undefined, sha256: undefined }
  const lock = { object_lock: { mode: 'governance', days: 1 } }

  it.each([
    [lock, { lockMode: 'GOVERNANCE', lockedUntil: 1 }, true],
    [lock, { lockMode: 'GOVERNANCE', lockedUntil: undefined }, false],
    [lock, { lockMode: 'COMPLIANCE', lockedUntil: 1 }, false],
    [lock, {}, false],
    [{ sse: { type: 's3' } }, { encryption: 'AES256' }, true],
    [{ sse: { type: 's3' } }, { encryption: 'aws:kms' }, false],
    [{ sse: { type: 'kms' } }, { encryption: 'aws:kms' }, true],
    [{ sse: { type: 'kms' } }, { encryption: 'AES256' }, false],
    [{ sse: { type: 'kms' } }, { encryption: 'aws:kms:dsse' }, false],
    [{ sse: { type: 'kms' } }, {}, false],
  ])('%j against %j: as required %s', (given, kept, asAsked) => {
    const all = { encryption: undefined, lockMode: undefined, lockedUntil: undefined, ...looked, ...kept }
    const manners = { encryption: undefined, again: 'refused', looked: all, sha256: 'aa', bytes: 27 } as const
    const reported = verdicts('bucket logs', options.parse({ ...base, ...given }), manners)
    expect(reported.every(({ ok }) => ok)).toBe(asAsked)
  })
})
