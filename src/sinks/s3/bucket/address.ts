// Where the bucket's name is part of the host's, some servers have no such host: what fails of that names the setting that changes it.
import { isIP } from 'node:net'
import { ConnectorError, errnoOf } from '../../../model/errors.ts'
import { isUsualName } from '../bucket-name.ts'
import type { S3Options } from '../options.ts'

type Addressed = Pick<S3Options, 'bucket' | 'endpoint' | 'force_path_style'>

const unknownHost: ReadonlySet<string> = new Set(['ENOTFOUND', 'EAI_AGAIN', 'ERR_TLS_CERT_ALTNAME_INVALID'])

/** Of the failure and of those behind it. */
function isUnknownHost(error: unknown, depth = 0): boolean {
  if (!(error instanceof Error) || depth > 4) return false
  if (unknownHost.has(errnoOf(error, ''))) return true
  const inner = error instanceof AggregateError ? (error.errors as unknown[]) : []
  return [error.cause, ...inner].some((each) => isUnknownHost(each, depth + 1))
}

/** As the library has it: an address, or a name that cannot be part of a host's, goes into the path in any case. */
function isInHost({ bucket, endpoint, force_path_style: inPath }: Addressed): boolean {
  if (endpoint === undefined || inPath || !isUsualName(bucket)) return false
  const { hostname, protocol } = new URL(endpoint)
  return isIP(hostname.replace(/^\[|\]$/g, '')) === 0 && !(protocol === 'https:' && bucket.includes('.'))
}

/** The same error; where it may come of the host's name it says so. */
export function addressError(addressed: Addressed, error: ConnectorError): ConnectorError {
  const { code, message, retryAfterMs, cause } = error
  if (!isInHost(addressed)) return error
  const host = `${addressed.bucket}.`
  // A server that knows no such host may read the path's first word as the bucket. A role is asked for elsewhere.
  if (code !== 'not_found' && !(message.includes(host) && isUnknownHost(error))) return error
  const why = `the bucket's name is part of the host's (${host}…); where the server has buckets in the path, set force_path_style: true`
  return new ConnectorError(code, `${message}; ${why}`, { retryAfterMs, cause })
}
