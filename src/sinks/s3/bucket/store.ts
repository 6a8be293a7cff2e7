// A bucket: put, look, list, fetch, remove, each one request with an answer that is ours. The library signs and speaks; it is loaded at the first use.
import { Readable } from 'node:stream'
import type * as Library from '@aws-sdk/client-s3'
import type { Clock } from '../../../model/clock.ts'
import { ConnectorError } from '../../../model/errors.ts'
import type { SecretLook } from '../../../model/secret.ts'
import type { SinkDeps } from '../../../model/sink-kind.ts'
import { wantsOwnAnswer } from './answer.ts'
import type { Body, ListedObject, Looked, PutAnswer, PutOptions } from './bucket.ts'
import { credentialsOf, keyLook } from './credentials.ts'
import { encryptionOf, lockModeOf } from './demands.ts'
import { codeOf, s3Error, statusOf } from './errors.ts'
import { type LibraryHandler, libraryHandler } from './handler.ts'
import { bucketOf, type S3Options } from '../options.ts'

type Client = Library.S3Client
type Loaded = { readonly library: typeof Library; readonly client: Client }

const base64 = (hex: string): string => Buffer.from(hex, 'hex').toString('base64')

const nothing = (): void => undefined
/** The library's own remarks go to standard error otherwise; what is to be told of a failure is told by us. */
const CUT_SHORT = 'cut a list of objects short, and says not where it goes on'

const silent = { trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing }

/** Said in full, so that neither side keeps a body to hash it, and a changed one is noticed. */
function signsBodyAs(sha256: string, command: Library.PutObjectCommand): void {
  command.middlewareStack.add(
    (next) => async (args) => {
      const { headers } = args.request as { headers: Record<string, string> }
      headers['x-amz-content-sha256'] = sha256
      return next(args)
    },
    { step: 'build', name: 'bodyHash' },
  )
}

export class Store {
  /** For messages: the bucket and who has it. */
  readonly where: string
  readonly #options: S3Options
  readonly #clock: Clock
  readonly #handler: LibraryHandler
  readonly #roles: LibraryHandler
  readonly #key: SecretLook
  #loaded: Promise<Loaded> | undefined

  constructor(options: S3Options, { clock, transport }: Pick<SinkDeps, 'clock' | 'transport'>) {
    this.#options = options
    this.#clock = clock
    this.#key = keyLook(options, clock)
    this.where = bucketOf(options)
    this.#handler = libraryHandler(transport(options.tls), clock)
    // A private authority of the bucket's server is none of AWS's.
    const own = options.sts_endpoint === undefined
    this.#roles = own ? libraryHandler(transport(undefined), clock) : this.#handler
  }

  /** Only under a name that is not taken. Throws ConnectorError when the server did not say that it has it. */
  async put(key: string, body: Body, options: PutOptions, signal: AbortSignal): Promise<PutAnswer> {
    return this.#ask(signal, async ({ library, client }) => {
      // Whoever reads it is told what breaks it; once nobody reads, nobody needs to be.
      const stream = Readable.from(body.read(), { objectMode: false }).on('error', () => undefined)
      const command = new library.PutObjectCommand(this.#inputOf(key, body, options, stream))
      signsBodyAs(body.sha256, command)
      wantsOwnAnswer(this.where, command)
      try {
        const answer = await client.send(command, { abortSignal: signal })
        if (answer.ETag === undefined)
          throw new ConnectorError(
            'bad_reply',
            `${this.where} answered without an ETag: a proxy or portal may be in the way`,
          )
        const { ServerSideEncryption: encryption, SSEKMSKeyId: kmsKeyId } = answer
        return { outcome: 'stored', encryption, kmsKeyId }
      } catch (error) {
        // In S3's own words: what else answers 412 did not get so far.
        if (statusOf(error) !== 412) throw error
        return { outcome: 'there', encryption: undefined }
      } finally {
        stream.destroy()
      }
    })
  }

  #inputOf(key: string, body: Body, put: PutOptions, stream: Readable): Library.PutObjectCommandInput {
    const { bucket, sse, object_lock: lock } = this.#options
    const locked = lock && put.lockedUntil !== undefined
    return {
      Bucket: bucket,
      Key: key,
      Body: stream,
      ContentLength: body.bytes,
      ContentType: put.contentType,
      IfNoneMatch: '*',
      ChecksumSHA256: base64(put.claimedSha256 ?? body.sha256),
      ...(sse ? { ServerSideEncryption: encryptionOf(sse) } : {}),
      ...(sse?.kms_key_id === undefined ? {} : { SSEKMSKeyId: sse.kms_key_id }),
      ...(locked
        ? { ObjectLockMode: lockModeOf(lock), ObjectLockRetainUntilDate: new Date(put.lockedUntil) }
        : {}),
    }
  }

  /** What the server keeps of an object; undefined where there is none. */
  async look(key: string, signal: AbortSignal): Promise<Looked | undefined> {
    return this.#ask(signal, async ({ library, client }) => {
      const command = new library.HeadObjectCommand({
        Bucket: this.#options.bucket,
        Key: key,
        ChecksumMode: 'ENABLED',
      })
      try {
        const answer = await client.send(command, { abortSignal: signal })
        return {
          bytes: answer.ContentLength ?? 0,
          encryption: answer.ServerSideEncryption,
          kmsKeyId: answer.SSEKMSKeyId,
          lockMode: answer.ObjectLockMode,
          lockedUntil: answer.ObjectLockRetainUntilDate?.getTime(),
          sha256: answer.ChecksumSHA256,
        }
      } catch (error) {
        if (statusOf(error) === 404) return undefined
        throw error
      }
    })
  }

  /** The object's body as it comes; undefined where there is none. Must be read to its end or left. */
  async fetch(key: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined> {
    return this.#ask(signal, async ({ library, client }) => {
      const command = new library.GetObjectCommand({ Bucket: this.#options.bucket, Key: key })
      try {
        const answer = await client.send(command, { abortSignal: signal })
        return this.#toldBody(answer.Body as Readable)
      } catch (error) {
        if (codeOf(error) === 'NoSuchKey') return undefined
        throw error
      }
    })
  }

  async *#toldBody(body: Readable): AsyncGenerator<Uint8Array> {
    try {
      for await (const piece of body) yield piece as Uint8Array
    } catch (error) {
      throw s3Error(this.where, error, this.#clock.now())
    }
  }

  /** All names that begin with `prefix`, in the order of their bytes, from the one behind `after` on. */
  async *list(prefix: string, after: string | undefined, signal: AbortSignal): AsyncGenerator<ListedObject> {
    const wanted = { Bucket: this.#options.bucket, Prefix: prefix, StartAfter: after }
    for (let next: string | undefined; ;) {
      const answer = await this.#ask(signal, ({ library, client }) => {
        const command = new library.ListObjectsV2Command({ ...wanted, ContinuationToken: next })
        return client.send(command, { abortSignal: signal })
      })
      for (const { Key: key, Size: bytes } of answer.Contents ?? [])
        if (key !== undefined) yield { key, bytes: bytes ?? 0 }
      if (answer.IsTruncated !== true) return
      next = answer.NextContinuationToken
      if (next === undefined) throw new ConnectorError('bad_reply', `${this.where} ${CUT_SHORT}`)
    }
  }

  async remove(key: string, signal: AbortSignal): Promise<void> {
    await this.#ask(signal, ({ library, client }) =>
      client.send(new library.DeleteObjectCommand({ Bucket: this.#options.bucket, Key: key }), {
        abortSignal: signal,
      }),
    )
  }

  /** One request; once more at once where that may help: a key that was changed, a role's that ended early, a clock that the library has now set right. */
  async #ask<T>(signal: AbortSignal, work: (loaded: Loaded) => Promise<T>): Promise<T> {
    if (signal.aborted) throw new ConnectorError('aborted', `${this.where}: called off`)
    if (this.#key.look()) this.#forget()
    const bore = this.#key.values
    try {
      return await work(await this.#load())
    } catch (error) {
      if (!this.#worthAnother(error, bore)) throw s3Error(this.where, error, this.#clock.now())
    }
    try {
      return await work(await this.#load())
    } catch (error) {
      throw s3Error(this.where, error, this.#clock.now())
    }
  }

  #worthAnother(error: unknown, bore: readonly string[]): boolean {
    if (codeOf(error) === 'RequestTimeTooSkewed') return true
    if (error instanceof ConnectorError) return false
    const { action, code } = s3Error(this.where, error, this.#clock.now())
    if (action !== 'hold' || (code !== 'unauthorized' && code !== 'forbidden')) return false
    const fixed = this.#options.role_arn === undefined && this.#options.access_key_id !== undefined
    if (this.#key.refresh(bore)) this.#forget()
    else if (!fixed && code === 'unauthorized') this.#forget()
    else return false
    return true
  }

  #forget(): void {
    void this.#loaded?.then(
      ({ client }) => client.destroy(),
      () => undefined,
    )
    this.#loaded = undefined
  }

  #load(): Promise<Loaded> {
    this.#loaded ??= this.#open()
    this.#loaded.catch(() => (this.#loaded = undefined))
    return this.#loaded
  }

  async #open(): Promise<Loaded> {
    const library = await import('@aws-sdk/client-s3')
    const { region, endpoint, force_path_style: forcePathStyle } = this.#options
    const there = region ?? (endpoint === undefined ? undefined : 'us-east-1')
    const client = new library.S3Client({
      ...(there === undefined ? {} : { region: there }),
      ...(endpoint === undefined ? {} : { endpoint }),
      forcePathStyle,
      requestHandler: this.#handler,
      credentials: credentialsOf(this.#options, { handler: this.#roles, now: () => this.#clock.now() }),
      // What is tried again, and when, is the conductor's to say.
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

  async close(): Promise<void> {
    this.#forget()
  }
}
