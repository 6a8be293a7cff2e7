// The bucket as a sink: what it requests, what each answer means, which credentials it uses, and which servers it refuses to trust.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { HttpRequest, Transport } from '../../../../src/contracts/platform.ts'
import type { ObjectGroup, ObjectSink, StoredObject } from '../../../../src/contracts/sink.ts'
import { openTransport } from '../../../../src/platform/transport.ts'
import { s3 } from '../../../../src/sinks/s3/sink.ts'
import { Store } from '../../../../src/sinks/s3/store.ts'
import { certificate } from '../../../fakes/certificates.ts'
import { FakeS3, manners, type S3Fault, type S3Switches, s3Transport } from '../../../fakes/s3.ts'
import { openS3Server } from '../../../fakes/s3-server.ts'
import { sinkDeps, type TestDeps } from '../../../fakes/sink-deps.ts'

const never = new AbortController().signal
const group: ObjectGroup = {
  stream: { workspace: 'acme', source: 'audit' },
  day: '2026-01-31',
  replay: undefined,
}
const KEY = 'workspace=acme/source=audit/dt=2026-01-31/0000000000000007-0000000000000009-'
const LINES = '{"id":"a"}\n{"id":"b"}\n{"id":"c"}\n'
const secrets = ['planted-secret', 'planted-words', 'planted-session', 'AKPLANTED']

interface Bench {
  readonly fake: FakeS3
  readonly deps: TestDeps
  readonly sink: ObjectSink
  readonly put: (lines?: string, signal?: AbortSignal) => Promise<StoredObject>
}

const base = { bucket: 'logs', endpoint: 'https://s3.test', force_path_style: true }
const fixed = { access_key_id: 'AKPLANTED', secret_access_key: 'planted-secret' }

function bench(
  given: object = {},
  switches: Partial<S3Switches> = {},
  wrap = (send: Transport) => send,
): Bench {
  const fake = new FakeS3(switches)
  const deps = sinkDeps()
  const send = wrap(s3Transport(fake, deps.clock))
  const sink = s3.open('archive', s3.options.parse({ ...base, ...fixed, ...given }), {
    ...deps,
    transport: () => send,
  })
  return { fake, deps, sink, put: (lines, signal) => putThrough(sink, lines, signal) }
}

async function putThrough(sink: ObjectSink, lines = LINES, signal = never): Promise<StoredObject> {
  const object = await sink.open(0)
  try {
    await object.write(Buffer.from(lines))
    const ready = await object.end({ group, count: 3, first: 7, last: 9, firstAtUs: 1, lastAtUs: 2 })
    return await ready.put(signal)
  } finally {
    await object.discard()
  }
}

const caught = async (work: Promise<unknown>): Promise<ConnectorError> => {
  const error = await work.then(() => new Error('nothing was thrown'), (each: unknown) => each) // prettier-ignore
  expect(error).toBeInstanceOf(ConnectorError)
  return error as ConnectorError
}

/** Until so many sleep: the deadline of a request, and the server. Before that files are written on the thread pool, which takes a busy machine any number of turns. */
async function asleep({ clock }: TestDeps, count: number): Promise<void> {
  await vi.waitFor(() => expect(clock.sleeping).toBe(count), { timeout: 10_000, interval: 1 })
}

describe('an object', () => {
  it.each([
    ['gzip', '.ndjson.gz', gunzipSync],
    ['zstd', '.ndjson.zst', zstdDecompressSync],
    ['none', '.ndjson', (body: Buffer) => body],
  ] as const)(
    'packed by %s is named by its content and has the lines, byte for byte',
    async (compression, end, unpack) => {
      const { put, fake } = bench({ compression, prefix: 'a/b/' })
      const stored = await put()
      expect(stored).toMatchObject({
        linesBytes: LINES.length,
        alreadyStored: false,
        first: 7,
        last: 9,
        count: 3,
      })
      expect(stored.key).toBe(`a/b/${KEY}${stored.linesSha256.slice(0, 16)}${end}`)
      expect(fake.entries.map(({ key }) => key)).toEqual([stored.key])
      expect(unpack(fake.entries[0]?.body ?? Buffer.alloc(0)).toString()).toBe(LINES)
    },
  )

  it('is put once only, whole, with its length and two hashes, in one request', async () => {
    const { put, fake } = bench()
    const { bodySha256, bodyBytes } = await put()
    const headers: Readonly<Record<string, string>> = fake.exchanges.at(-1)?.headers ?? {}
    expect(headers).toMatchObject({
      'if-none-match': '*',
      'content-length': String(bodyBytes),
      'x-amz-content-sha256': bodySha256,
      'x-amz-checksum-sha256': Buffer.from(bodySha256, 'hex').toString('base64'),
      'content-type': 'application/gzip',
    })
    expect(Object.keys(headers)).not.toContain('expect')
    expect(JSON.stringify(headers)).not.toMatch(/aws-chunked|STREAMING|trailer|crc32/i)
    expect(headers['authorization']).toMatch(/SignedHeaders=[^,]*x-amz-content-sha256/)
  })

  it('has the encryption and the lock that the settings name', async () => {
    const object_lock = { mode: 'compliance', days: 365 }
    const { put, fake, deps } = bench({ sse: { type: 'kms', kms_key_id: 'key-1' }, object_lock })
    await put()
    expect(fake.entries[0]?.headers).toMatchObject({
      'x-amz-server-side-encryption': 'aws:kms',
      'x-amz-server-side-encryption-aws-kms-key-id': 'key-1',
      'x-amz-object-lock-mode': 'COMPLIANCE',
    })
    const until = Date.parse(fake.entries[0]?.headers['x-amz-object-lock-retain-until-date'] ?? '')
    expect(until).toBe(deps.clock.now() + 365 * 86_400_000)
  })

  it('is put to a host of the bucket’s own by default', async () => {
    const urls: string[] = []
    const { sink } = bench({ force_path_style: false }, {}, () => async ({ url }) => {
      urls.push(url)
      throw new ConnectorError('unreachable', 'as told')
    })
    await caught(putThrough(sink))
    expect(urls[0]).toMatch(/^https:\/\/logs\.s3\.test\/\.auditferry\//)
  })

  it('goes from the disk to the network in pieces, however large', async () => {
    const sizes: number[] = []
    const { put } = bench({ compression: 'none' }, {}, (send) => async (request, signal) => {
      const parts: Uint8Array[] = []
      expect(request.body).toBeUndefined()
      for await (const part of request.stream ?? []) parts.push(part)
      sizes.push(...parts.map(({ length }) => length))
      const { method, url, headers } = request
      return send({ method, url, headers, body: Buffer.concat(parts) }, signal)
    })
    await put(`${'x'.repeat(3_000_000)}\n`)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(256 * 1024)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(3_000_000)
  })

  it('that already exists is success, and reported as existing', async () => {
    const { put, fake } = bench()
    await put()
    expect(await put()).toMatchObject({ alreadyStored: true })
    expect(fake.entries).toHaveLength(1)
    expect(fake.entries[0]?.versions).toBe(1)
  })
})

describe('what an answer means', () => {
  const codes: [number, string, string, RegExp?][] = [
    [503, 'SlowDown', 'rate_limited'],
    [429, 'TooManyRequests', 'rate_limited'],
    [500, 'InternalError', 'server_error'],
    [503, 'ServiceUnavailable', 'server_error'],
    [502, '', 'server_error'],
    [504, '', 'server_error'],
    [409, 'ConditionalRequestConflict', 'server_error'],
    [404, 'NoSuchKey', 'server_error'],
    [400, 'RequestTimeout', 'timeout'],
    [400, 'BadDigest', 'bad_reply'],
    [400, 'IncompleteBody', 'bad_reply'],
    [403, 'AccessDenied', 'forbidden', /s3:PutObject/],
    [403, 'InvalidAccessKeyId', 'unauthorized', /access_key_id/],
    [403, 'SignatureDoesNotMatch', 'unauthorized', /secret_access_key/],
    [400, 'ExpiredToken', 'unauthorized', /expired/],
    [403, 'RequestTimeTooSkewed', 'misconfigured', /clock/],
    [404, 'NoSuchBucket', 'not_found', /bucket/],
    [400, 'KMS.DisabledException', 'misconfigured', /KMS key of the bucket or account: check that/],
    [400, 'KMS.NotFoundException', 'misconfigured', /KMS key of the bucket or account/],
    [400, 'KMS.ThrottlingException', 'rate_limited', /slow down/],
    [503, 'KMS.ThrottlingException', 'rate_limited', /slow down/],
    [400, 'ThrottledException', 'rate_limited', /slow down/],
    [400, 'RequestLimitExceeded', 'rate_limited', /slow down/],
    [400, 'ProvisionedThroughputExceededException', 'rate_limited', /slow down/],
    [429, 'AccessDenied', 'rate_limited', /slow down/],
    [429, 'KMS.DisabledException', 'rate_limited', /slow down/],
    [503, 'KMS.KMSInternalException', 'server_error', /KMS key at the moment/],
    [500, 'KMS.DependencyTimeoutException', 'server_error', /KMS key at the moment/],
    [400, 'InvalidRequest', 'misconfigured', /does not fit the bucket \(/],
    [501, 'NotImplemented', 'misconfigured', /If-None-Match and x-amz-checksum-sha256/],
    [501, '', 'misconfigured', /Backblaze B2 lacks them/],
    [413, '', 'misconfigured', /limit/],
    [405, 'MethodNotAllowed', 'misconfigured'],
    [307, '', 'redirected'],
    [418, 'planted-words', 'bad_request'],
    [418, 'constructor', 'bad_request'],
    [418, '__proto__', 'bad_request'],
  ]

  it.each(codes)('%d %s is %s', async (status, code, ours, words = /\w \w/) => {
    const { put, fake, deps } = bench()
    await put('{"first":1}\n')
    fake.faultOfAll = () => ({ kind: 'code', status, code })
    const error = await caught(put())
    expect(error.code).toBe(ours)
    expect(error.message).toMatch(words)
    expect(error.message).toContain('bucket logs at s3.test')
    for (const secret of secrets)
      expect(
        `${error.message} ${String(error.stack)} ${JSON.stringify(error.cause)} ${deps.log.lines.join()}`,
      ).not.toContain(secret)
  })

  const both = { sse: { type: 'kms', kms_key_id: 'k' }, object_lock: { mode: 'governance', days: 1 } }
  const names = 'planted-words'
  it.each([
    [
      'NotImplemented',
      `<Header>If-None-Match</Header><Message>${names}</Message>`,
      {},
      501,
      /header If-None-Match, without which .*Backblaze B2/,
    ],
    [
      'InvalidArgument',
      `<Message>Unsupported header 'x-amz-checksum-sha256' ${names}</Message>`,
      {},
      400,
      /header x-amz-checksum-sha256, the checksum of each object: no setting/,
    ],
    [
      'InvalidRequest',
      `<Message>Missing required header: Content-MD5 ${names}</Message>`,
      {},
      400,
      /requires the header Content-MD5.* no setting sends it/,
    ],
    [
      'InvalidRequest',
      `<Message>Content-MD5 OR x-amz-checksum- is required ${names}</Message>`,
      both,
      400,
      /only for object_lock, so remove that/,
    ],
    ['MissingContentMD5', `<Message>${names}</Message>`, {}, 400, /requires the header Content-MD5/],
    [
      'NotImplemented',
      `<Header>x-amz-server-side-encryption</Header><Message>${names}</Message>`,
      both,
      501,
      /remove sse, or/,
    ],
    [
      'InvalidArgument',
      `<ArgumentName>x-amz-object-lock-mode</ArgumentName><Message>${names}</Message>`,
      both,
      400,
      /object_lock: remove it/,
    ],
    ['NotImplemented', `<Message>${names}</Message>`, both, 501, /and sse and object_lock add more/],
    [
      'InvalidArgument',
      `<Message>${names}</Message>`,
      { sse: both.sse },
      400,
      /check sse and that it is a server/,
    ],
    [
      'BadDigest',
      `<Message>The Content-MD5 you specified ${names}</Message>`,
      {},
      400,
      /received another body/,
    ],
  ] as const)(
    '%s %s (%o): the header is named, with the setting that is set or the server that lacks it',
    async (code, inner, given, status, words) => {
      const { put, fake } = bench(given)
      fake.faultOfAll = () => ({ kind: 'page', status, text: `<Error><Code>${code}</Code>${inner}</Error>` })
      const { message } = await caught(put())
      expect(message).toMatch(words)
      expect(message).not.toContain(names)
      const unset = ['sse', 'object_lock'].filter((name) => !(name in given))
      for (const name of unset) expect(message).not.toMatch(new RegExp(`\\b${name}\\b`))
    },
  )

  it('no message names a setting that is not set', async () => {
    for (const [status, code] of codes) {
      const { put, fake } = bench()
      fake.faultOfAll = () => ({ kind: 'code', status, code })
      expect((await caught(put())).message).not.toMatch(/\bsse\b|object_lock|compression|prefix\b(?!$| \()/)
    }
  })

  it('an unknown host with the bucket’s name, or with a certificate for another, names force_path_style', async () => {
    const cause = (code: string) => Object.assign(new Error(code), { code })
    const fails =
      (url: string, code: string): Transport =>
      async () => {
        throw new ConnectorError(code === 'ENOTFOUND' ? 'unreachable' : 'tls_invalid', `${url} fails`, {
          cause: new AggregateError([cause(code)]),
        })
      }
    const inHost = { endpoint: 'https://s3.test:9000', force_path_style: false }
    for (const code of ['ENOTFOUND', 'ERR_TLS_CERT_ALTNAME_INVALID']) {
      const { message, cause: kept } = await caught(
        bench(inHost, {}, () => fails('logs.s3.test:9000', code)).put(),
      )
      expect(message).toMatch(/logs\.…\); if the server expects it in the path, set force_path_style: true$/)
      expect(kept).toBeInstanceOf(AggregateError)
    }
    const without = async (given: object, code: string, url = 'logs.s3.test:9000') =>
      (await caught(bench({ ...inHost, ...given }, {}, () => fails(url, code)).put())).message
    expect(await without({ force_path_style: true }, 'ENOTFOUND')).not.toContain('force_path_style')
    expect(await without({ endpoint: 'http://127.0.0.1:9000' }, 'ENOTFOUND')).not.toContain(
      'force_path_style',
    )
    expect(await without({}, 'ECONNREFUSED')).not.toContain('force_path_style')
    expect(await without({}, 'ENOTFOUND', 'sts.test')).not.toContain('force_path_style')
    const { put, fake } = bench(inHost)
    fake.faultOfAll = () => ({ kind: 'code', status: 404, code: 'NoSuchBucket' })
    expect((await caught(put())).message).toContain('set force_path_style: true')
  })

  it('a bucket elsewhere is named with the region that the server reports', async () => {
    const { put, fake } = bench()
    fake.faultOfAll = () => ({ kind: 'code', status: 301, code: 'PermanentRedirect', headers: { 'x-amz-bucket-region': 'eu-west-1' } }) // prettier-ignore
    expect((await caught(put())).message).toMatch(/another region: set region to eu-west-1/)
  })

  it('and an invalid region is not repeated', async () => {
    const { put, fake } = bench()
    fake.faultOfAll = () => ({ kind: 'code', status: 301, code: 'PermanentRedirect', headers: { 'x-amz-bucket-region': 'planted-words; rm -r' } }) // prettier-ignore
    const { message } = await caught(put())
    expect(message).toMatch(/another region/)
    expect(message).not.toMatch(/set region|planted-words/)
  })

  it('a clock that is an hour behind is corrected by the server’s own, and the object goes out at once', async () => {
    const { put, fake } = bench()
    const aheadMs = 3_600_000
    const signedAt = ({ headers }: HttpRequest) => Date.parse((headers['x-amz-date'] ?? '').replace(/^(\d{4})(\d\d)(\d\dT\d\d)(\d\d)/, '$1-$2-$3:$4:')) // prettier-ignore
    let refused = 0
    fake.faultOfAll = (request) => {
      const there = Date.now() + aheadMs
      if (Math.abs(there - signedAt(request)) < 15 * 60_000) return undefined
      refused++
      const headers = { date: new Date(there).toUTCString() }
      return { kind: 'code', status: 403, code: 'RequestTimeTooSkewed', headers }
    }
    await put()
    await put('{"id":"d"}\n')
    expect(fake.entries).toHaveLength(2)
    expect(refused).toBe(1)
  })

  it('Retry-After is respected', async () => {
    const { put, fake } = bench()
    fake.faultOfAll = () => ({
      kind: 'code',
      status: 503,
      code: 'SlowDown',
      headers: { 'retry-after': '17' },
    })
    expect((await caught(put())).retryAfterMs).toBe(17_000)
  })

  it.each<[string, S3Fault, string]>([
    ['a page of a portal', { kind: 'html' }, 'bad_reply'],
    ['success without an ETag', { kind: 'ok-without-etag' }, 'bad_reply'],
    ['a reset', { kind: 'reset' }, 'unreachable'],
    ['an endless body', { kind: 'endless' }, 'bad_reply'],
  ])('%s is no success', async (_, fault, code) => {
    const { put, fake } = bench()
    await put('{"first":1}\n')
    fake.faults.push(fault)
    expect((await caught(put())).code).toBe(code)
    expect(fake.entries).toHaveLength(1)
  })

  it.each<[string, S3Fault, number]>([
    ['a page of a portal', { kind: 'html' }, 1],
    ['success without an ETag', { kind: 'ok-without-etag' }, 1],
    ['a page with 412', { kind: 'page', status: 412, text: '<html>No</html>' }, 1],
    ['a refusal in the words of S3', { kind: 'code', status: 403, code: 'AccessDenied' }, 0],
  ])('after %s the next try takes a new connection: %#', async (_, fault, times) => {
    let distrusted = 0
    const { put, fake } = bench({}, {}, (send) => async (request, signal) => ({
      ...(await send(request, signal)),
      distrust: () => distrusted++,
    }))
    await put('{"first":1}\n')
    fake.faults.push(fault)
    await caught(put())
    expect(distrusted).toBe(times)
  })

  const pages: [string, string][] = [
    ['a page', '<!doctype html><html><br><h1>Not with me</h1></html>'],
    ['a page that is XML too', '<html><body>PreconditionFailed</body></html>'],
    ['another error than S3 has', '<Error><Code>Blocked</Code></Error>'],
    ['JSON', '{"Code":"PreconditionFailed"}'],
    ['nothing', ''],
  ]

  it.each(pages)(
    '412 with %s is not "already stored": blocked, before and after the probe',
    async (_, text) => {
      const { put, fake, sink } = bench()
      fake.faultOfAll = () => ({ kind: 'page', status: 412, text })
      const words = /412[^]*without the error code of S3[^]*portal or proxy/
      const first = await caught(put())
      expect([first.action, first.message]).toEqual(['block', expect.stringMatching(words)])
      expect(await sink.check(never)).toMatchObject([
        { ok: false, message: expect.stringMatching(words) as string },
      ])
      fake.faultOfAll = undefined
      await put('{"first":1}\n')
      fake.faultOfAll = () => ({ kind: 'page', status: 412, text })
      const later = await caught(put())
      expect([later.action, later.message]).toEqual(['block', expect.stringMatching(words)])
      expect(fake.entries).toHaveLength(1)
    },
  )

  it('a second put that is answered 412 without a body is reported as that, not as forbidden', async () => {
    const { put, fake, sink } = bench()
    let puts = 0
    fake.faultOfAll = ({ method }) =>
      method === 'PUT' && ++puts > 1 ? { kind: 'page', status: 412, text: '' } : undefined
    const words = /answered 412 without the error code of S3/
    const faults = (await sink.check(never)).filter(({ ok }) => !ok)
    expect(faults).toMatchObject([{ message: expect.stringMatching(words) as string }])
    expect(fake.objects.size).toBe(0)
    puts = 0
    const error = await caught(put())
    expect([error.action, error.message]).toEqual(['block', expect.stringMatching(words)])
  })

  it.each([200, 404, 409, 412, 418])(
    'a portal that answers %d to everything stores nothing',
    async (status) => {
      const { put, fake } = bench()
      await put('{"first":1}\n')
      fake.faultOfAll = () => ({ kind: 'page', status, text: '<html>No</html>', headers: { etag: '"e"' } })
      await caught(put())
      await caught(put())
      expect(fake.entries).toHaveLength(1)
    },
  )

  it('of an endless answer no more is read than any server needs to send', async () => {
    let bytes = 0
    const { put, fake } = bench({}, {}, (send) => async (request, signal) => {
      const reply = await send(request, signal)
      async function* counted() {
        for await (const piece of reply.body) {
          bytes += piece.length
          yield piece
        }
      }
      return { ...reply, body: counted() }
    })
    await put('{"first":1}\n')
    fake.faults.push({ kind: 'endless' })
    expect((await caught(put())).code).toBe('bad_reply')
    expect(bytes).toBeLessThan(5 * 2 ** 20)
  })

  it('a stalled server is given up after a minute', async () => {
    const { put, fake, deps } = bench()
    await put('{"first":1}\n')
    fake.faults.push({ kind: 'slow', ms: 3_600_000 })
    const putting = caught(put())
    await asleep(deps, 2)
    deps.clock.pass(60_000)
    expect((await putting).code).toBe('timeout')
    expect(deps.clock.sleeping).toBe(0)
  })

  it('a stop ends a request at once', async () => {
    const { put, fake, deps } = bench()
    await put('{"first":1}\n')
    fake.faults.push({ kind: 'slow', ms: 3_600_000 })
    const stop = new AbortController()
    const putting = caught(put(LINES, stop.signal))
    await asleep(deps, 2)
    stop.abort()
    expect((await putting).code).toBe('aborted')
    expect((await caught(put(LINES, stop.signal))).code).toBe('aborted')
    expect(deps.clock.sleeping).toBe(0)
  })
})

describe('which credentials it uses', () => {
  it('a key that changed in its file is read again when it is refused, and the same object goes out at once', async () => {
    const fake = new FakeS3({ keys: ['NEW'] })
    const deps = sinkDeps()
    const options = s3.options.parse({ ...base, access_key_id: 'OLD', secret_access_key: 'planted-secret' })
    options.access_key_id?.follow(() => 'NEW')
    const sink = s3.open('archive', options, { ...deps, transport: () => s3Transport(fake, deps.clock) })
    expect(await putThrough(sink)).toMatchObject({ alreadyStored: false })
  })

  it('a key that stays wrong is read once per try, not in a loop', async () => {
    const { put, fake } = bench({}, { keys: ['OTHER'] })
    expect((await caught(put())).code).toBe('unauthorized')
    expect(fake.exchanges).toHaveLength(1)
  })

  it('a role is assumed with the fixed key, once, and used from then on', async () => {
    const { put, fake } = bench({
      role_arn: 'arn:aws:iam::123456789012:role/writer',
      sts_endpoint: 'https://sts.test',
    })
    await put()
    await put('{"second":1}\n')
    expect(fake.roles).toMatchObject([{ action: 'AssumeRole', by: 'AKPLANTED' }])
    const last = fake.exchanges.at(-1)?.headers
    expect(last?.['authorization']).toContain('Credential=ASIA1/')
    expect(last?.['x-amz-security-token']).toBe('planted-session')
  })

  it('a role that ended early is assumed again, and the object goes out at once', async () => {
    const { put, fake } = bench({
      role_arn: 'arn:aws:iam::123456789012:role/writer',
      sts_endpoint: 'https://sts.test',
    })
    await put()
    fake.faults.push({ kind: 'code', status: 400, code: 'ExpiredToken' })
    await put('{"second":1}\n')
    expect(fake.roles).toHaveLength(2)
    expect(fake.entries).toHaveLength(2)
  })

  it('a token represents a role; one that is not accepted blocks the sink and is not shown', async () => {
    const folder = mkdtempSync(join(tmpdir(), 's3-'))
    folders.push(folder)
    const web_identity_token_file = join(folder, 'token')
    writeFileSync(web_identity_token_file, 'token-1')
    const fake = new FakeS3()
    fake.token = 'token-1'
    const deps = sinkDeps()
    const role = { role_arn: 'arn:aws:iam::123456789012:role/writer', sts_endpoint: 'https://sts.test' }
    const open = () =>
      s3.open('archive', s3.options.parse({ ...base, ...role, web_identity_token_file }), { ...deps, transport: () => s3Transport(fake, deps.clock) }) // prettier-ignore
    await putThrough(open())
    expect(fake.roles).toMatchObject([{ action: 'AssumeRoleWithWebIdentity' }])
    writeFileSync(web_identity_token_file, 'planted-secret')
    const error = await caught(putThrough(open(), '{"second":1}\n'))
    expect(error.code).toBe('unauthorized')
    expect(error.message).toMatch(/web_identity_token_file/)
    for (const secret of secrets) expect(`${error.message} ${String(error.stack)}`).not.toContain(secret)
  })

  it('an unavailable role service is no error of the settings', async () => {
    const role = { role_arn: 'arn:aws:iam::123456789012:role/writer', sts_endpoint: 'https://sts.test' }
    const { put, fake } = bench(role)
    fake.faultOfAll = ({ method }) => (method === 'POST' ? { kind: 'code', status: 503, code: 'ServiceUnavailable' } : undefined) // prettier-ignore
    expect((await caught(put())).action).toBe('retry')
    fake.faultOfAll = ({ method }) => (method === 'POST' ? { kind: 'reset' } : undefined)
    expect((await caught(put())).code).toBe('unreachable')
    fake.faultOfAll = undefined
    await put()
  })
})

describe('servers that differ', () => {
  const locked = { object_lock: { mode: 'governance', days: 30 } }
  const sse = { sse: { type: 's3' } }
  const kms = { sse: { type: 'kms' } }

  it.each<[keyof typeof manners, object, RegExp | undefined]>([
    ['aws', { ...locked, ...sse }, undefined],
    ['minio', { ...locked, ...kms }, undefined],
    ['versitygw', locked, undefined],
    ['versitygw', sse, /sse is set and the server ignores it/],
    ['garage', {}, /If-None-Match is ignored/],
    ['oldCeph', kms, /If-None-Match is ignored/],
    ['oldCeph', sse, /If-None-Match is ignored/],
    ['moto', { ...locked, ...sse }, undefined],
  ])(
    '%s with %j: a requirement that is ignored blocks the sink before anything is stored',
    async (server, demands, words) => {
      const { put, sink, fake } = bench(demands, manners[server])
      const results = await sink.check(never)
      const faults = results.filter(({ ok }) => !ok)
      if (words) {
        expect(faults.map(({ message }) => message).join()).toMatch(words)
        const error = await caught(put())
        expect(error.action).toBe('block')
        expect(error.message).toMatch(words)
        expect(fake.entries).toEqual([])
      } else {
        expect(faults).toEqual([])
        await put()
      }
    },
  )

  it('each cause has a message of its own', async () => {
    const reported = async (server: keyof typeof manners, more: Partial<S3Switches> = {}) => {
      const { sink } = bench({ ...locked, ...sse }, { ...manners[server], ...more })
      return (await sink.check(never)).map(({ message }) => message).join('\n')
    }
    expect(await reported('aws')).not.toMatch(/ignore|does not compare|first|keeps no/)
    expect(await reported('garage')).toMatch(
      /If-None-Match is ignored[^]*sse is set[^]*object_lock is set and the server ignores it/,
    )
    expect(await reported('oldCeph')).toMatch(/does not compare checksums.*noticed by TLS alone/)
    const plain = bench({ endpoint: 'http://s3.test' }, manners.oldCeph)
    expect((await plain.sink.check(never)).map(({ message }) => message).join()).toMatch(
      /does not compare checksums.*is not noticed: endpoint is plain http/,
    )
    expect(await reported('oldCeph', { ignoresChecksums: false })).toMatch(/keeps no SHA-256/)
    expect(await reported('versitygw', { deniesLocked: true })).toMatch(/needs versioning/)
    expect(await reported('aws', { locks: false })).toMatch(/object_lock needs a bucket with Object Lock/)
  })

  it.each<[string, (path: string) => S3Fault | undefined]>([
    ['already stored', () => ({ kind: 'code', status: 412, code: 'PreconditionFailed' })],
    ['stored', () => ({ kind: 'page', status: 200, text: '', headers: { etag: '"e"' } })],
  ])('an object that is reported to be %s and is missing blocks the sink', async (_, fault) => {
    const { put, sink, fake } = bench()
    fake.faultOfAll = ({ method, url }) => (method === 'PUT' ? fault(url) : undefined)
    const error = await caught(put())
    expect(error.action).toBe('block')
    expect(error.message).toMatch(/is missing/)
    expect(fake.puts).toBe(0)
    const faults = (await sink.check(never)).filter(({ ok }) => !ok)
    expect(faults[0]?.message).toMatch(/is missing/)
  })

  it('a HEAD that is refused, but not as forbidden, is not taken for a missing permission', async () => {
    const { put, fake } = bench()
    fake.faultOfAll = ({ method }) =>
      method === 'HEAD' ? { kind: 'page', status: 412, text: '' } : undefined
    expect((await caught(put())).action).toBe('block')
    expect(fake.puts).toBe(0)
  })

  it('an object of another length than was put blocks the sink', async () => {
    const { put, fake } = bench()
    fake.faultOfAll = ({ method }) =>
      method === 'HEAD'
        ? { kind: 'page', status: 200, text: '', headers: { 'content-length': '4711', etag: '"e"' } }
        : undefined
    expect((await caught(put())).message).toMatch(/has another length/)
    expect(fake.puts).toBe(0)
  })

  it('a role that may only write reports what it could not see, and delivers', async () => {
    const { put, sink, fake } = bench({ ...locked, ...sse }, { writeOnly: true })
    const results = await sink.check(never)
    expect(results.filter(({ ok }) => !ok)).toEqual([])
    expect(results.map(({ message }) => message).join('\n')).toMatch(
      /may not read: whether objects are locked[^]*may not delete/,
    )
    await put()
    expect(fake.entries).toHaveLength(1)
  })

  it('a bucket that requires long locks is probed with the lock of real objects', async () => {
    const { put } = bench(locked, { leastLockMs: 86_400_000 })
    await put()
  })

  it('the check leaves nothing behind if it may delete', async () => {
    const { sink, fake } = bench()
    await sink.check(never)
    expect([...fake.objects.keys()]).toEqual([])
  })

  it('the probe is made once a process, its object stays one, and a failed probe is repeated', async () => {
    const { put, fake } = bench(sse, { ignoresSse: 's3' })
    await caught(put())
    fake.switches.ignoresSse = 'none'
    fake.objects.clear()
    await put()
    const { length } = fake.exchanges
    await put('{"second":1}\n')
    expect(fake.exchanges).toHaveLength(length + 1)
    expect([...fake.objects.keys()].filter((key) => key.includes('.auditferry/'))).toHaveLength(1)
  })

  it('a probe under other requirements proves nothing of these: each set has an object of its own', async () => {
    const { fake, deps } = bench()
    const demands = [
      {},
      locked,
      sse,
      { ...locked, ...sse },
      { object_lock: { mode: 'compliance', days: 30 } },
    ]
    for (const given of demands) {
      const parsed = s3.options.parse({ ...base, ...fixed, ...given })
      const transport = () => s3Transport(fake, deps.clock)
      await putThrough(s3.open('archive', parsed, { ...deps, transport }))
    }
    const probes = [...fake.objects.keys()].filter((key) => key.includes('.auditferry/probe-'))
    expect(probes).toHaveLength(demands.length)
  })

  it('the check throws nothing when the server is down', async () => {
    const { sink, fake } = bench()
    fake.faultOfAll = () => ({ kind: 'reset' })
    expect(await sink.check(never)).toMatchObject([
      { ok: false, message: expect.stringMatching(/reset/) as string },
    ])
  })
})

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

describe('over a real socket', () => {
  it('with TLS under a private authority: trusted by its file, refused without', async () => {
    const authority = certificate('test authority')
    const folder = mkdtempSync(join(tmpdir(), 's3-'))
    folders.push(folder)
    const ca_file = join(folder, 'ca.pem')
    writeFileSync(ca_file, authority.cert)
    const fake = new FakeS3()
    const server = await openS3Server(fake, certificate('127.0.0.1', authority))
    const deps = sinkDeps()
    const open = (tls: object | undefined) => {
      const transport = openTransport(tls ? { tls } : {})
      const options = s3.options.parse({ ...base, ...fixed, endpoint: server.url, ...(tls ? { tls } : {}) })
      return { sink: s3.open('archive', options, { ...deps, transport: () => transport.send }), transport }
    }
    const [trusting, strange] = [open({ ca_file }), open(undefined)]
    try {
      await putThrough(trusting.sink, `${'x'.repeat(5_000_000)}\n`)
      expect(fake.lines).toEqual(['x'.repeat(5_000_000)])
      expect((await caught(putThrough(strange.sink))).code).toBe('tls_invalid')
    } finally {
      await Promise.all([trusting.transport.close(), strange.transport.close(), server.close()])
    }
  })

  it.each(['a stop', 'a server that goes away', 'a disk that fails'])(
    '%s in the middle of a body ends the request, and nothing else',
    async (what) => {
      const stop = new AbortController()
      const server = createServer((incoming) => {
        // Takes the beginning and then no more.
        incoming.once('data', () => {
          incoming.pause()
          if (what === 'a stop') stop.abort()
          if (what === 'a server that goes away') incoming.socket.resetAndDestroy()
        })
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const transport = openTransport({})
      const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const store = new Store(s3.options.parse({ ...base, ...fixed, endpoint }), {
        clock: sinkDeps().clock,
        transport: () => transport.send,
      })
      async function* read() {
        for (let i = 0; i < 1_000; i++) {
          if (what === 'a disk that fails' && i === 20) throw new ConnectorError('disk_full', 'as told')
          await new Promise((resolve) => setImmediate(resolve))
          yield Buffer.alloc(64 * 1024)
        }
      }
      const body = { bytes: 1_000 * 64 * 1024, sha256: '0'.repeat(64), read }
      const codes = new Map([
        ['a stop', 'aborted'],
        ['a server that goes away', 'unreachable'],
        ['a disk that fails', 'disk_full'],
      ])
      try {
        const error = await caught(store.put('k', body, { contentType: 'text/plain' }, stop.signal))
        expect(error.code).toBe(codes.get(what))
        for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
      } finally {
        await transport.close()
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
    },
  )

  it.each<S3Fault>([{ kind: 'reset' }, { kind: 'reset', stores: true }, { kind: 'endless' }])(
    'after %j the same object is stored once',
    async (fault) => {
      const fake = new FakeS3()
      const server = await openS3Server(fake)
      const transport = openTransport({})
      const options = s3.options.parse({ ...base, ...fixed, endpoint: server.url })
      const sink = s3.open('archive', options, { ...sinkDeps(), transport: () => transport.send })
      try {
        fake.faults.push(fault)
        expect((await caught(putThrough(sink))).action).toBe('retry')
        await putThrough(sink)
        expect(fake.lines).toEqual(LINES.trim().split('\n'))
        expect(fake.entries.map(({ versions }) => versions)).toEqual([1])
      } finally {
        await Promise.all([transport.close(), server.close()])
      }
    },
  )
})

describe('settings', () => {
  it.each<[object, RegExp]>([
    [{ access_key_id: 'x', secret_access_key: undefined }, /both access_key_id and secret_access_key/],
    [{ web_identity_token_file: '/t' }, /role_arn/],
    [{ prefix: '/x' }, /no \/ before the first/],
    [{ prefix: 'a/../b' }, /expected names joined/],
    [{ endpoint: 'https://s3.test/path' }, /http\(s\):\/\/host:port alone/],
    [{ rotate: { max_bytes: '2GiB' } }, /1KiB to 1GiB/],
    [{ sse: { type: 's3', kms_key_id: 'k' } }, /for type kms only/],
    [{ object_lock: { mode: 'governance', days: 0 } }, />=1/],
  ])('%j is refused with a reason', (given, words) => {
    const result = s3.options.safeParse({ ...base, ...fixed, ...given })
    expect(result.error?.message).toMatch(words)
  })

  it('tls applies if any request of the sink uses https: to the bucket, or to the role service', () => {
    const tls = { server_name: 's3.test' }
    const plain = { endpoint: 'http://127.0.0.1:9000', tls }
    const role_arn = 'arn:aws:iam::1:role/x'
    const cases: readonly (readonly [object, boolean])[] = [
      [{ ...fixed, tls }, true],
      [{ ...fixed, ...plain }, false],
      [{ ...fixed, endpoint: plain.endpoint }, true],
      [{ ...fixed, ...plain, role_arn }, true],
      [{ ...fixed, ...plain, role_arn, sts_endpoint: 'http://127.0.0.1:9001' }, false],
      [plain, true],
    ]
    for (const [given, accepted] of cases)
      expect([given, s3.options.safeParse({ bucket: 'logs', ...given }).success]).toEqual([given, accepted])
  })

  it('the location of the objects is part of their fingerprint, secrets are not', () => {
    const shapes = [{}, { prefix: 'a' }, { bucket: 'other' }, { compression: 'zstd' }].map(
      (given) => bench(given).sink.shape,
    )
    expect(new Set(shapes).size).toBe(4)
    for (const secret of secrets) expect(shapes.join()).not.toContain(secret)
  })
})
