// What each answer of an S3 server means for an object: maps its error codes to our own closed
// list.
import { retryAfterMs } from '../../core/backoff.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { demandsText } from './bucket.ts'
import type { Demands } from './bucket.ts'

/** Facts of a failed request, as far as the library gives them. */
interface Failure {
  readonly code: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** the region that the server names */
  readonly region: string | undefined
  /** the server's own text, never quoted: it contains key ids and more */
  readonly said: readonly unknown[]
}

/** Messages name only settings that are set. */
type Meaning = readonly [ErrorCode, string | ((set: Demands) => string)]

const denied: Meaning = [
  'forbidden',
  ({ sse, object_lock: lock }) => {
    const more = [
      ...(lock ? ['s3:PutObjectRetention'] : []),
      ...(sse?.type === 'kms' ? ['kms:GenerateDataKey'] : []),
    ]
    return `refuses the request: the role or key needs ${['s3:PutObject', ...more].join(' and ')} on this prefix`
  },
]
const badKey: Meaning = [
  'unauthorized',
  'does not know the access key: check access_key_id (in the environment AWS_ACCESS_KEY_ID), or which role is used',
]
const badSignature: Meaning = [
  'unauthorized',
  'does not accept the signature: check secret_access_key (in the environment AWS_SECRET_ACCESS_KEY) and region; a proxy may also be changing the request',
]
const expired: Meaning = [
  'unauthorized',
  'says that the credentials have expired: their source has not renewed them',
]
const elsewhere: Meaning = ['misconfigured', 'has the bucket in another region']
const damaged: Meaning = ['bad_reply', 'received another body than was sent; sent again']
const slow: Meaning = ['rate_limited', 'asks to slow down']
const broken: Meaning = ['server_error', 'had an internal error']
const lacking: Meaning = [
  'misconfigured',
  (set) => {
    const more = demandsText(set)
    const asked =
      'If-None-Match and x-amz-checksum-sha256, which no setting turns off (Backblaze B2 lacks them)'
    return `does not support a feature that Auditferry needs: each object is sent with ${asked}${more === '' ? '' : `, and ${more} add more: remove the settings that it does not support`}, or use another server`
  },
]
const key: Meaning = [
  'misconfigured',
  ({ sse }) =>
    `cannot use the KMS key${sse?.kms_key_id === undefined ? ' of the bucket or account: check' : ' of sse.kms_key_id: check it,'} that the key is enabled and that its policy allows this role`,
]
const keyless: Meaning = ['server_error', 'cannot reach the KMS key at the moment']
const notAllowed: Meaning = ['misconfigured', 'does not allow this: is it an S3 endpoint?']
const stalled: Meaning = ['timeout', 'did not receive the body in time']
const busy: Meaning = ['server_error', 'was just writing the same name; tried again']
const redirected: Meaning = [
  'redirected',
  'redirects to another address: redirects are never followed; check endpoint',
]

const meanings: Readonly<Record<string, Meaning>> = {
  AccessDenied: denied,
  AllAccessDisabled: denied,
  AccountProblem: ['forbidden', 'says that there is a problem with the account'],
  NotSignedUp: ['forbidden', 'says that the account has no S3'],
  InvalidAccessKeyId: badKey,
  XAdminUserNotFound: badKey,
  SignatureDoesNotMatch: badSignature,
  InvalidToken: expired,
  ExpiredToken: expired,
  ExpiredTokenException: expired,
  TokenRefreshRequired: expired,
  RequestExpired: expired,
  RequestTimeTooSkewed: ['misconfigured', 'says that the clock here is wrong: set it by NTP'],
  NoSuchBucket: ['not_found', 'does not exist: check bucket, region and endpoint'],
  NotFound: ['not_found', 'does not exist, or the object does not: check bucket, region and endpoint'],
  NoSuchKey: ['server_error', 'does not have the object, or lost it while it was written; tried again'],
  PermanentRedirect: elsewhere,
  TemporaryRedirect: ['server_error', 'is moving the bucket; tried again'],
  Redirect: elsewhere,
  AuthorizationHeaderMalformed: elsewhere,
  IllegalLocationConstraintException: elsewhere,
  InvalidBucketName: ['misconfigured', 'does not accept this bucket name: check bucket'],
  InvalidBucketState: [
    'misconfigured',
    'says that the bucket is not set for this: check its Object Lock and versioning',
  ],
  ObjectLockConfigurationNotFoundError: ['misconfigured', 'says that the bucket has no Object Lock'],
  InvalidRequest: [
    'misconfigured',
    ({ object_lock: lock }) =>
      `says that the request does not fit the bucket${lock ? ': object_lock needs a bucket with Object Lock' : ''}`,
  ],
  InvalidArgument: [
    'misconfigured',
    (set) => {
      const more = demandsText(set)
      return `refuses something of the request: check ${more === '' ? '' : `${more} and `}that it is a server of the list in docs/sinks/s3.md`
    },
  ],
  InvalidEncryptionAlgorithmError: lacking,
  NotImplemented: lacking,
  XNotImplemented: lacking,
  MethodNotAllowed: notAllowed,
  InvalidStorageClass: lacking,
  EntityTooLarge: [
    'misconfigured',
    'accepts no object of this size: raise its limit (or that of the proxy before it)',
  ],
  MaxMessageLengthExceeded: ['misconfigured', 'accepts no object of this size: raise its limit'],
  QuotaExceeded: ['misconfigured', 'has no space left for this bucket'],
  XMinioStorageFull: ['misconfigured', 'has no room left'],
  ConditionalRequestConflict: busy,
  OperationAborted: ['server_error', 'was just changing the bucket; tried again'],
  BadDigest: damaged,
  InvalidDigest: damaged,
  IncompleteBody: damaged,
  XAmzContentSHA256Mismatch: damaged,
  XAmzContentChecksumMismatch: damaged,
  RequestTimeout: stalled,
  SlowDown: slow,
  SlowDownWrite: slow,
  InternalError: broken,
  ServiceUnavailable: broken,
}

const statuses: Readonly<Record<number, Meaning>> = {
  301: elsewhere,
  302: redirected,
  307: redirected,
  308: redirected,
  401: badKey,
  403: denied,
  404: ['not_found', 'knows no such bucket: check bucket and endpoint'],
  405: notAllowed,
  408: stalled,
  409: busy,
  411: ['misconfigured', 'requires a Content-Length, which was sent: a proxy is changing the request'],
  413: ['misconfigured', 'accepts no body of this size: raise the limit of the proxy before it'],
  429: slow,
  501: lacking,
  503: slow,
}

/** Something other than the bucket answered: this says nothing about the bucket. */
export class ForeignAnswer extends ConnectorError {}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

function headersOf(error: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const response = error['$response']
  const headers = isRecord(response) ? response['headers'] : undefined
  return isRecord(headers) ? (headers as Readonly<Record<string, string>>) : {}
}

function failureOf(error: Readonly<Record<string, unknown>>): Failure {
  const metadata = error['$metadata']
  const status = isRecord(metadata) ? Number(metadata['httpStatusCode'] ?? 0) : 0
  const headers = headersOf(error)
  const named = error['Code'] ?? error['name']
  const region = error['Region'] ?? headers['x-amz-bucket-region']
  return {
    code: typeof named === 'string' ? named : '',
    status,
    headers,
    said: [error['message'], error['Header'], error['ArgumentName']],
    region: typeof region === 'string' && /^[a-z0-9-]{2,32}$/.test(region) ? region : undefined,
  }
}

/** Any service behind the bucket, such as key management, may throttle; 429 means the same. */
const isThrottled = ({ code, status }: Pick<Failure, 'code' | 'status'>): boolean =>
  status === 429 || /Throttl|SlowDown|TooManyRequests|(?:Limit|Rate|Throughput)Exceeded/i.test(code)

/** Error codes of a server that rejects a header, or requires another one. */
const ofHeaders: ReadonlySet<string> = new Set([
  ...['InvalidArgument', 'InvalidRequest', 'NotImplemented', 'XNotImplemented', 'MissingContentMD5'],
])

function meaningOf({ code, status, said }: Failure, set: Demands): Meaning {
  if (isThrottled({ code, status })) return slow
  const known = Object.hasOwn(meanings, code) ? meanings[code] : undefined
  const header = !known || ofHeaders.has(code) ? refusedHeader([code, ...said], set) : undefined
  if (header !== undefined && (status === 400 || status === 501)) return ['misconfigured', header]
  if (known) return known
  if (/^KMS\./.test(code) || code === 'KMSDisabledException') return status >= 500 ? keyless : key
  const byStatus = statuses[status]
  if (byStatus) return byStatus
  if (status >= 500) return broken
  if (status >= 400) return ['bad_request', 'refuses the request']
  return ['bad_reply', 'answered something that is not S3: a proxy or portal may be in the way']
}

/** Quotes the code only if S3 defines it: other codes may echo anything. */
const quoted = ({ code, status }: Failure): string => {
  const safe = Object.hasOwn(meanings, code) || /^KMS\.[A-Za-z]{1,48}$/.test(code)
  return [safe ? code : '', status > 0 ? String(status) : ''].filter(Boolean).join(', ') || 'no status'
}

/** Status of the library's error; 0 if no server answered. */
export const statusOf = (error: unknown): number => (isRecord(error) ? failureOf(error).status : 0)

export const codeOf = (error: unknown): string => (isRecord(error) ? failureOf(error).code : '')

/** True if the answer asks for a later retry. */
export const saysLater = (error: unknown): boolean =>
  isRecord(error) && (statusOf(error) >= 500 || isThrottled(failureOf(error)))

/** `where`: bucket and server; `set`: the request's settings. The server's text is not quoted. */
export function s3Error(where: string, error: unknown, nowMs: number, set: Demands = {}): ConnectorError {
  if (error instanceof ConnectorError) return error
  if (!isRecord(error))
    return new ConnectorError(
      'bad_reply',
      `the request to ${where} failed, and the error has no details; it is tried again`,
    )
  if (error['name'] === 'AbortError') return new ConnectorError('aborted', `${where}: aborted`)
  const failure = failureOf(error)
  if (failure.status === 0) return unanswered(where, error)
  const meaning = meaningOf(failure, set)
  const [code, given] = meaning
  const words = typeof given === 'string' ? given : given(set)
  const region = meaning === elsewhere && failure.region ? `: set region to ${failure.region}` : ''
  // No cause: the library's error carries the signed request, including the session token.
  const message = `${where} ${words}${region} (${quoted(failure)})`
  return new ConnectorError(code, message, { retryAfterMs: retryAfterMs(failure.headers, nowMs) })
}

function nameOf({ name }: Readonly<Record<string, unknown>>): string {
  return typeof name === 'string' && /^[A-Za-z]{1,48}$/.test(name) ? name : 'no name'
}

/** No server answered: the library or our own code failed before that. */
function unanswered(where: string, error: Readonly<Record<string, unknown>>): ConnectorError {
  const text = typeof error['message'] === 'string' ? error['message'] : ''
  if (text.includes('Region is missing'))
    return new ConnectorError('misconfigured', `${where}: which region? Set region, or AWS_REGION`)
  return new ConnectorError(
    'bad_reply',
    `${where} gave no answer that can be read as S3 (${nameOf(error)}): check endpoint, and whether a proxy answers instead`,
  )
}

// A header that the server rejects, or requires: which one it names, and what to do about it. Pure.

const NO_SETTING = 'no setting turns it off, so use a server that'

type Words = (set: Demands) => string | undefined

/** Keyed by the server's spelling of the header, in lower case. */
const headers: Readonly<Record<string, Words>> = {
  'if-none-match': () =>
    `refuses the header If-None-Match, without which an object could replace another: ${NO_SETTING} has conditional writes (Backblaze B2 has none)`,
  'content-md5': ({ object_lock: lock }) =>
    `requires the header Content-MD5 and does not accept x-amz-checksum-sha256: ${lock ? 'it may need it only for object_lock, so remove that, or' : 'no setting sends it, so'} use a server that supports the newer checksum`,
  'x-amz-checksum-sha256': () =>
    `refuses the header x-amz-checksum-sha256, the checksum of each object: ${NO_SETTING} knows it (Backblaze B2 does not)`,
  'x-amz-server-side-encryption': ({ sse }) =>
    sse && 'refuses the header x-amz-server-side-encryption: remove sse, or use a server that encrypts',
  'x-amz-object-lock': ({ object_lock: lock }) =>
    lock &&
    'refuses the headers of object_lock: remove it, or use a bucket and a server that have Object Lock',
}

/** `said`: the server's own text; it is only searched for header names. */
function refusedHeader(said: readonly unknown[], set: Demands): string | undefined {
  const all = said
    .filter((each) => typeof each === 'string')
    .join(' ')
    .toLowerCase()
  for (const [name, words] of Object.entries(headers))
    if (all.includes(name) || all.includes(name.replaceAll('-', ''))) return words(set)
  return undefined
}
