// The AWS library that signs requests and sends them: loaded at the first use, its client rebuilt
// after a key changes.
import { isIP } from 'node:net'
import type * as Library from '@aws-sdk/client-s3'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError, errnoOf } from '../../core/errors.ts'
import type { SecretLook } from '../../core/secret.ts'
import { credentialsOf, keyLook, regionOf } from './credentials.ts'
import { libraryHandler } from './handler.ts'
import type { LibraryHandler } from './handler.ts'
import { bucketOf, isUsualName } from './options.ts'
import type { S3Options } from './options.ts'
import { codeOf, s3Error, ForeignAnswer } from './reply.ts'

interface OpenLibrary {
  readonly library: typeof Library
  readonly client: Library.S3Client
}

const nothing = (): void => undefined
/** The library would write its remarks to standard error; failures are reported by us. */
const silent = { trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing }

export class BucketLibrary {
  /** for messages */
  readonly #where: string
  readonly #options: S3Options
  readonly #clock: Clock
  readonly #handler: LibraryHandler
  readonly #roles: LibraryHandler
  readonly #key: SecretLook
  #loaded: Promise<OpenLibrary> | undefined

  constructor(options: S3Options, { clock, transport }: Pick<SinkDeps, 'clock' | 'transport'>) {
    this.#options = options
    this.#clock = clock
    this.#key = keyLook(options, clock)
    this.#where = bucketOf(options)
    this.#handler = libraryHandler(transport(options.tls), clock)
    // AWS must not be verified by a private certificate authority of the bucket's server.
    const own = options.sts_endpoint === undefined
    this.#roles = own ? libraryHandler(transport(undefined), clock) : this.#handler
  }

  /**
   * One request, retried once at once where that can help: the key changed, role credentials
   * expired early, or the library has corrected its clock offset since.
   */
  async ask<T>(signal: AbortSignal, work: (loaded: OpenLibrary) => Promise<T>): Promise<T> {
    if (signal.aborted) throw new ConnectorError('aborted', `${this.#where}: aborted`)
    if (this.#key.look()) this.forget()
    const bore = this.#key.values
    try {
      return await work(await this.#load())
    } catch (error) {
      if (!this.#worthAnother(error, bore)) throw this.#failed(error)
    }
    try {
      return await work(await this.#load())
    } catch (error) {
      throw this.#failed(error)
    }
  }

  /** Another machine behind the same name may be the bucket's own. */
  #failed(error: unknown): ConnectorError {
    const failure = this.error(error)
    if (failure.code === 'bad_reply' || error instanceof ForeignAnswer) this.#handler.distrust()
    return failure
  }

  error(error: unknown): ConnectorError {
    return addressError(this.#options, s3Error(this.#where, error, this.#clock.now(), this.#options))
  }

  #worthAnother(error: unknown, bore: readonly string[]): boolean {
    if (codeOf(error) === 'RequestTimeTooSkewed') return true
    if (error instanceof ConnectorError) return false
    const { action, code } = s3Error(this.#where, error, this.#clock.now())
    if (action !== 'block' || (code !== 'unauthorized' && code !== 'forbidden')) return false
    const fixed = this.#options.role_arn === undefined && this.#options.access_key_id !== undefined
    if (this.#key.refresh(bore)) this.forget()
    else if (!fixed && code === 'unauthorized') this.forget()
    else return false
    return true
  }

  forget(): void {
    void this.#loaded?.then(
      ({ client }) => client.destroy(),
      () => undefined,
    )
    this.#loaded = undefined
  }

  #load(): Promise<OpenLibrary> {
    this.#loaded ??= this.#open()
    this.#loaded.catch(() => (this.#loaded = undefined))
    return this.#loaded
  }

  async #open(): Promise<OpenLibrary> {
    const library = await import('@aws-sdk/client-s3')
    const { endpoint, force_path_style: forcePathStyle } = this.#options
    const client = new library.S3Client({
      ...regionOf(this.#options),
      ...(endpoint === undefined ? {} : { endpoint }),
      forcePathStyle,
      requestHandler: this.#handler,
      credentials: credentialsOf(this.#options, { handler: this.#roles, now: () => this.#clock.now() }),
      // The dispatcher decides whether and when to retry.
      maxAttempts: 1,
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      expectContinueHeader: false,
      ignoreConfiguredEndpointUrls: true,
      customUserAgent: 'auditferry',
      logger: silent,
    })
    return { library, client }
  }
}

// Some servers have no host with the bucket's name in it. Errors that can come from that name the
// setting to change.

type Addressed = Pick<S3Options, 'bucket' | 'endpoint' | 'force_path_style'>

const unknownHost: ReadonlySet<string> = new Set(['ENOTFOUND', 'EAI_AGAIN', 'ERR_TLS_CERT_ALTNAME_INVALID'])

/** Of the error or of one of its causes. */
function isUnknownHost(error: unknown, depth = 0): boolean {
  if (!(error instanceof Error) || depth > 4) return false
  if (unknownHost.has(errnoOf(error, ''))) return true
  const inner = error instanceof AggregateError ? (error.errors as unknown[]) : []
  return [error.cause, ...inner].some((each) => isUnknownHost(each, depth + 1))
}

/** As the library decides: IP addresses and unusual bucket names use the path. */
function isInHost({ bucket, endpoint, force_path_style: inPath }: Addressed): boolean {
  if (endpoint === undefined || inPath || !isUsualName(bucket)) return false
  const { hostname, protocol } = new URL(endpoint)
  return isIP(hostname.replace(/^\[|\]$/g, '')) === 0 && !(protocol === 'https:' && bucket.includes('.'))
}

/** The same error; if the host name can be the reason, the message says so. */
function addressError(addressed: Addressed, error: ConnectorError): ConnectorError {
  const { code, message, retryAfterMs, cause } = error
  if (!isInHost(addressed)) return error
  const host = `${addressed.bucket}.`
  // Without such a host, a server may take the path's first segment for the bucket. Roles are
  // requested at another host.
  if (code !== 'not_found' && !(message.includes(host) && isUnknownHost(error))) return error
  const why = `the bucket's name is part of the host name (${host}…); if the server expects it in the path, set force_path_style: true`
  return new ConnectorError(code, `${message}; ${why}`, { retryAfterMs, cause })
}
