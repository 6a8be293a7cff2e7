// An S3 server for tests: a function of (state, request, clock), with the habits of several servers as switches. It checks no signature.
import { createHash } from 'node:crypto'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import type { Clock } from '../../src/core/clock.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import type { HttpReply, HttpRequest, Transport } from '../../src/contracts/platform.ts'

export interface S3Switches {
  /** Garage: a second object under one name replaces the first */
  overwrites: boolean
  /** Ceph before 18: the same if the bucket has versions or locks */
  overwritesLocked: boolean
  /** old Ceph: no checksum is kept */
  forgetsChecksums: boolean
  /** old Ceph, moto: a wrong one is taken */
  ignoresChecksums: boolean
  /** Garage: ignores the header of a lock */
  ignoresLock: boolean
  /** the bucket has Object Lock */
  locks: boolean
  /** versitygw without versions: a second put on a locked name is forbidden, not already there */
  deniesLocked: boolean
  /** versitygw and Garage ignore both, Ceph the first */
  ignoresSse: 'none' | 's3' | 'both'
  /** encrypts with a key of its own, whatever the request says */
  ownKmsKey: string | undefined
  /** a role that may put and nothing else */
  writeOnly: boolean
  /** the shortest lock, as a bucket's policy may require, ms */
  leastLockMs: number
  /** knows no `encoding-type`: a list has the names as XML has them, and a name that XML cannot represent breaks it */
  listsPlainly: boolean
  bucket: string
  /** only these are accepted; all are when absent */
  keys: readonly string[] | undefined
}

export const manners = {
  aws: {},
  minio: {},
  versitygw: { ignoresSse: 'both' },
  garage: { overwrites: true, ignoresLock: true, ignoresSse: 'both' },
  oldCeph: { overwritesLocked: true, forgetsChecksums: true, ignoresChecksums: true, ignoresSse: 's3' },
  moto: { ignoresChecksums: true },
} as const satisfies Record<string, Partial<S3Switches>>

/** `stores`: the object is taken all the same. Of the requests that `of` names; by default of puts of entries. */
export type S3Fault = { readonly stores?: boolean } & (
  | { readonly kind: 'reset' | 'html' | 'endless' | 'ok-without-etag' }
  | {
      readonly kind: 'code'
      readonly status: number
      readonly code: string
      readonly headers?: Record<string, string>
    }
  | { readonly kind: 'slow'; readonly ms: number }
  /** another server answers, in its own words */
  | {
      readonly kind: 'page'
      readonly status: number
      readonly text: string
      readonly headers?: Record<string, string>
    }
)

export interface S3Object {
  readonly key: string
  readonly body: Buffer
  readonly headers: Readonly<Record<string, string>>
  readonly checksum: string | undefined
  /** how many were put under this name with success */
  versions: number
}

export interface RawReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  readonly delayMs: number
  readonly reset?: boolean
  readonly endless?: boolean
}

export interface Exchange {
  readonly method: string
  readonly key: string
  readonly headers: Readonly<Record<string, string>>
  readonly status: number
}

export interface S3Request extends Pick<HttpRequest, 'method' | 'url' | 'headers'> {
  readonly body: Buffer
}

const defaults: S3Switches = {
  overwrites: false,
  overwritesLocked: false,
  forgetsChecksums: false,
  ignoresChecksums: false,
  ignoresLock: false,
  locks: true,
  deniesLocked: false,
  ignoresSse: 'none',
  ownKmsKey: undefined,
  writeOnly: false,
  leastLockMs: 0,
  listsPlainly: false,
  bucket: 'logs',
  keys: undefined,
}

const HIDDEN = '.auditferry/'

function reply(status: number, body = '', headers: Record<string, string> = {}): RawReply {
  const type = body === '' ? {} : { 'content-type': 'application/xml' }
  return { status, headers: { ...type, ...headers }, body: Buffer.from(body), delayMs: 0 }
}

const xml = (inner: string) => `<?xml version="1.0" encoding="UTF-8"?>\n${inner}`

/** As AWS writes a name if `encoding-type` is `url`. */
const encoded = (key: string) => encodeURIComponent(key).replaceAll('%20', '+').replaceAll('%2F', '/')
const inXml = (key: string) => key.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** A server's message contains what must not be passed on: here `planted-words`. */
const refusal = (status: number, code: string, headers: Record<string, string> = {}) =>
  reply(
    status,
    xml(`<Error><Code>${code}</Code><Message>planted-words</Message><RequestId>1</RequestId></Error>`),
    headers,
  )

const sha256 = (body: Uint8Array, as: 'hex' | 'base64') => createHash('sha256').update(body).digest(as)

function unpacked({ key, body }: S3Object): string {
  if (key.endsWith('.gz')) return gunzipSync(body).toString()
  if (key.endsWith('.zst')) return zstdDecompressSync(body).toString()
  return body.toString()
}

export class FakeS3 {
  switches: S3Switches
  readonly objects = new Map<string, S3Object>()
  readonly exchanges: Exchange[] = []
  /** For the next puts of entries, first come first served. */
  readonly faults: S3Fault[] = []
  /** Asked when `faults` is empty; counts puts of entries from 1. */
  faultOf: ((put: number) => S3Fault | undefined) | undefined
  /** The same for every request there is. */
  faultOfAll: ((request: S3Request) => S3Fault | undefined) | undefined
  /** Issued temporary keys, by the id of the request. */
  readonly roles: { readonly action: string; readonly by: string; readonly id: string }[] = []
  /** The token that represents a role. */
  token: string | undefined
  #puts = 0

  constructor(switches: Partial<S3Switches> = {}) {
    this.switches = { ...defaults, ...switches }
  }

  /** The puts of entries. */
  get entries(): readonly S3Object[] {
    return [...this.objects.values()].filter(({ key }) => !key.includes(HIDDEN) && key.includes('/source='))
  }

  /** Lines of all objects, in the order of their names. */
  get lines(): string[] {
    return this.entries
      .toSorted((a, b) => (a.key < b.key ? -1 : 1))
      .flatMap((object) => unpacked(object).split('\n').slice(0, -1))
  }

  get puts(): number {
    return this.#puts
  }

  handle(request: S3Request, clock: Pick<Clock, 'now'>): RawReply {
    const { key } = placeOf(request)
    const answer = this.#faulty(request, key, clock)
    const { method, headers } = request
    this.exchanges.push({ method, key, headers, status: answer.reset ? 0 : answer.status })
    return answer
  }

  #faulty(request: S3Request, key: string, clock: Pick<Clock, 'now'>): RawReply {
    const isEntries = request.method === 'PUT' && !key.includes(HIDDEN)
    if (isEntries) this.#puts++
    const own = isEntries ? (this.faults.shift() ?? this.faultOf?.(this.#puts)) : undefined
    const fault = own ?? this.faultOfAll?.(request)
    if (!fault) return this.#answer(request, clock)
    const answer = fault.stores ? this.#answer(request, clock) : undefined
    switch (fault.kind) {
      case 'reset':
        return { ...reply(0), reset: true }
      case 'html':
        return reply(200, '<html>please log in</html>', { 'content-type': 'text/html' })
      case 'endless':
        return { ...reply(500, '<Error>'), endless: true }
      case 'ok-without-etag':
        return reply(200)
      case 'code':
        return refusal(fault.status, fault.code, fault.headers)
      case 'page':
        return reply(fault.status, request.method === 'HEAD' ? '' : fault.text, {
          'content-type': 'text/html',
          ...fault.headers,
        })
      case 'slow':
        return { ...(answer ?? this.#answer(request, clock)), delayMs: fault.ms }
    }
  }

  #answer(request: S3Request, clock: Pick<Clock, 'now'>): RawReply {
    const { method } = request
    const { bucket, key, query } = placeOf(request)
    if (method === 'POST' && key === '') return this.#role(request)
    const id = /Credential=([^/]+)\//.exec(request.headers['authorization'] ?? '')?.[1] ?? ''
    if (this.switches.keys && !this.switches.keys.includes(id)) return refusal(403, 'InvalidAccessKeyId')
    if (bucket !== this.switches.bucket) return refusal(404, method === 'HEAD' ? '' : 'NoSuchBucket')
    if (method === 'PUT') return this.#put(request, key, clock)
    if (this.switches.writeOnly) return refusal(403, 'AccessDenied')
    if (method === 'GET' && query.has('list-type')) return this.#list(query)
    const found = this.objects.get(key)
    if (method === 'DELETE') {
      this.objects.delete(key)
      return reply(204)
    }
    if (!found) return method === 'HEAD' ? reply(404) : refusal(404, 'NoSuchKey')
    return this.#show(method, found)
  }

  #put({ headers, body }: S3Request, key: string, clock: Pick<Clock, 'now'>): RawReply {
    const fault = this.#unfit(headers, body, clock)
    if (fault) return fault
    const { locks, overwrites, overwritesLocked, deniesLocked } = this.switches
    const before = this.objects.get(key)
    if (before && headers['if-none-match'] === '*') {
      if (deniesLocked && before.headers['x-amz-object-lock-mode']) return refusal(403, 'AccessDenied')
      const blind = overwrites || (overwritesLocked && locks)
      if (!blind) return refusal(412, 'PreconditionFailed')
    }
    const checksum = headers['x-amz-checksum-sha256']
    const kept = this.switches.forgetsChecksums ? undefined : checksum
    this.objects.set(key, { key, body, headers, checksum: kept, versions: (before?.versions ?? 0) + 1 })
    return reply(200, '', { etag: `"${sha256(body, 'hex').slice(0, 32)}"`, ...this.#encrypted(headers) })
  }

  #unfit(headers: S3Request['headers'], body: Buffer, clock: Pick<Clock, 'now'>): RawReply | undefined {
    const { locks, ignoresLock, ignoresChecksums, leastLockMs } = this.switches
    if (headers['content-length'] !== String(body.length)) return refusal(400, 'IncompleteBody')
    const signed = headers['x-amz-content-sha256']
    if (signed !== 'UNSIGNED-PAYLOAD' && signed !== sha256(body, 'hex'))
      return refusal(400, 'XAmzContentSHA256Mismatch')
    const checksum = headers['x-amz-checksum-sha256']
    if (checksum !== undefined && checksum !== sha256(body, 'base64') && !ignoresChecksums)
      return refusal(400, 'BadDigest')
    const until = headers['x-amz-object-lock-retain-until-date']
    if (until === undefined || ignoresLock) return undefined
    if (!locks) return refusal(400, 'InvalidRequest')
    return Date.parse(until) - clock.now() < leastLockMs ? refusal(403, 'AccessDenied') : undefined
  }

  #encrypted(headers: S3Request['headers']): Record<string, string> {
    const asked = headers['x-amz-server-side-encryption']
    const { ignoresSse } = this.switches
    if (asked === undefined || ignoresSse === 'both' || (ignoresSse === 's3' && asked === 'AES256')) return {}
    const id = this.switches.ownKmsKey ?? headers['x-amz-server-side-encryption-aws-kms-key-id']
    return {
      'x-amz-server-side-encryption': asked,
      ...(id === undefined ? {} : { 'x-amz-server-side-encryption-aws-kms-key-id': id }),
    }
  }

  #show(method: string, { body, headers, checksum }: S3Object): RawReply {
    const mode = headers['x-amz-object-lock-mode']
    const until = headers['x-amz-object-lock-retain-until-date']
    const locked = mode !== undefined && until !== undefined && !this.switches.ignoresLock
    const facts = {
      'content-length': String(body.length),
      etag: '"e"',
      ...this.#encrypted(headers),
      ...(checksum === undefined ? {} : { 'x-amz-checksum-sha256': checksum }),
      ...(locked ? { 'x-amz-object-lock-mode': mode, 'x-amz-object-lock-retain-until-date': until } : {}),
    }
    return { status: 200, headers: facts, body: method === 'HEAD' ? Buffer.alloc(0) : body, delayMs: 0 }
  }

  #list(query: URLSearchParams): RawReply {
    const prefix = query.get('prefix') ?? ''
    const after = query.get('continuation-token') ?? query.get('start-after') ?? ''
    const most = Number(query.get('max-keys') ?? 1000)
    const names = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).toSorted()
    const page = names.slice(0, most)
    const isEncoded = query.get('encoding-type') === 'url' && !this.switches.listsPlainly
    const named = isEncoded ? encoded : inXml
    const contents = page.map(
      (key) =>
        `<Contents><Key>${named(key)}</Key><Size>${this.objects.get(key)?.body.length ?? 0}</Size></Contents>`,
    )
    const more = names.length > page.length
    const token = more ? `<NextContinuationToken>${inXml(page.at(-1) ?? '')}</NextContinuationToken>` : ''
    return reply(
      200,
      xml(
        `<ListBucketResult>${isEncoded ? '<EncodingType>url</EncodingType>' : ''}<IsTruncated>${String(more)}</IsTruncated>${contents.join('')}${token}</ListBucketResult>`,
      ),
    )
  }

  /** The service that issues role credentials, at the same address. */
  #role({ body, headers }: S3Request): RawReply {
    const form = new URLSearchParams(body.toString())
    const action = form.get('Action') ?? ''
    if (
      action === 'AssumeRoleWithWebIdentity' &&
      this.token !== undefined &&
      form.get('WebIdentityToken') !== this.token
    )
      return reply(
        400,
        xml(
          '<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>planted-words</Message></Error></ErrorResponse>',
        ),
      )
    const by = /Credential=([^/]+)\//.exec(headers['authorization'] ?? '')?.[1] ?? ''
    const id = `ASIA${this.roles.length + 1}`
    this.roles.push({ action, by, id })
    // By the real clock: the library uses no other.
    const until = new Date(Date.now() + 3_600_000).toISOString()
    const credentials = `<Credentials><AccessKeyId>${id}</AccessKeyId><SecretAccessKey>planted-secret</SecretAccessKey><SessionToken>planted-session</SessionToken><Expiration>${until}</Expiration></Credentials>`
    return reply(
      200,
      xml(`<${action}Response><${action}Result>${credentials}</${action}Result></${action}Response>`),
    )
  }
}

function placeOf({ url }: Pick<HttpRequest, 'url'>): { bucket: string; key: string; query: URLSearchParams } {
  const { pathname, searchParams } = new URL(url)
  const [, bucket = '', ...rest] = pathname.split('/').map(decodeURIComponent)
  return { bucket, key: rest.join('/'), query: searchParams }
}

async function whole({ body, stream }: HttpRequest): Promise<Buffer> {
  if (body) return Buffer.from(body)
  const parts: Uint8Array[] = []
  for await (const part of stream ?? []) parts.push(part)
  return Buffer.concat(parts)
}

async function* bodyOf({ body, endless }: RawReply): HttpReply['body'] {
  yield body
  while (endless) {
    yield Buffer.alloc(65_536, 0x20)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Without a socket, on any clock. */
export function s3Transport(fake: FakeS3, clock: Clock): Transport {
  return async (request, signal) => {
    const where = new URL(request.url).host
    const called = () => new ConnectorError('aborted', `the request to ${where} was cancelled`)
    if (signal.aborted) throw called()
    const body = await whole(request)
    const answer = fake.handle({ ...request, body }, clock)
    // An answer takes a turn: requests in the same one are simultaneous.
    await new Promise((resolve) => setImmediate(resolve))
    if (answer.delayMs > 0) await clock.sleep(answer.delayMs, signal)
    // Aborted or not: `signal` changes during a wait.
    if ((signal as { aborted: boolean }).aborted) throw called()
    if (answer.reset) throw new ConnectorError('unreachable', `${where} reset the connection`)
    return { status: answer.status, headers: answer.headers, body: bodyOf(answer) }
  }
}
