// Operations on a bucket: put, look, list, fetch, remove. Each is one request, with an answer of
// our own type.
import { Readable } from 'node:stream'
import type * as Library from '@aws-sdk/client-s3'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { encryptionOf, lacking, lockModeOf } from './bucket.ts'
import type { Body, ListedObject, Looked, PutAnswer, PutOptions } from './bucket.ts'
import { BucketLibrary } from './client.ts'
import { bucketOf } from './options.ts'
import type { S3Options } from './options.ts'
import { codeOf, statusOf, ForeignAnswer } from './reply.ts'

const base64 = (hex: string): string => Buffer.from(hex, 'hex').toString('base64')

/** Names are requested URL-encoded: XML cannot contain all of them unchanged. */
function keyOf(given: string, isEncoded: boolean): string {
  if (!isEncoded) return given
  try {
    return decodeURIComponent(given.replaceAll('+', ' '))
  } catch {
    // The bytes are no text, so this cannot be a name of ours: it is kept as given.
    return given
  }
}

const CUT_SHORT =
  'returned an incomplete list of objects without saying where it continues: check that endpoint is an S3 server'

/** The library need not keep the body to hash it, and the server notices a changed body. */
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
  /** For messages: the bucket and its server. */
  readonly where: string
  readonly #options: S3Options
  readonly #library: BucketLibrary

  constructor(options: S3Options, deps: Pick<SinkDeps, 'clock' | 'transport'>) {
    this.#options = options
    this.where = bucketOf(options)
    this.#library = new BucketLibrary(options, deps)
  }

  /** Only under a free name. Throws ConnectorError if the server does not confirm the object. */
  async put(key: string, body: Body, options: PutOptions, signal: AbortSignal): Promise<PutAnswer> {
    return this.#library.ask(signal, async ({ library, client }) => {
      // The reader gets the error of a broken stream; without a reader it can be ignored.
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
        // Only with S3's own error code: a 412 of another server says nothing about the object.
        if (statusOf(error) !== 412) throw error
        return { outcome: 'exists', encryption: undefined }
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

  /** The server's facts about an object; undefined if there is none. */
  async look(key: string, signal: AbortSignal): Promise<Looked | undefined> {
    return this.#library.ask(signal, async ({ library, client }) => {
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

  /** The object's body; undefined if there is none. Read it to its end, or cancel it. */
  async fetch(key: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined> {
    return this.#library.ask(signal, async ({ library, client }) => {
      const command = new library.GetObjectCommand({ Bucket: this.#options.bucket, Key: key })
      try {
        const answer = await client.send(command, { abortSignal: signal })
        return this.#bodyOf(answer.Body as Readable)
      } catch (error) {
        if (codeOf(error) === 'NoSuchKey') return undefined
        throw error
      }
    })
  }

  async *#bodyOf(body: Readable): AsyncGenerator<Uint8Array> {
    try {
      for await (const piece of body) yield piece as Uint8Array
    } catch (error) {
      throw this.#library.error(error)
    }
  }

  /** All names that begin with `prefix`, in byte order, starting after `after`. */
  async *list(prefix: string, after: string | undefined, signal: AbortSignal): AsyncGenerator<ListedObject> {
    const { bucket: Bucket } = this.#options
    const wanted = { Bucket, Prefix: prefix, StartAfter: after, EncodingType: 'url' } as const
    for (let next: string | undefined; ;) {
      const answer = await this.#library.ask(signal, ({ library, client }) => {
        const command = new library.ListObjectsV2Command({ ...wanted, ContinuationToken: next })
        return client.send(command, { abortSignal: signal })
      })
      const isEncoded = answer.EncodingType === 'url'
      for (const { Key: key = '', Size: bytes = 0 } of answer.Contents ?? [])
        yield { key: keyOf(key, isEncoded), bytes }
      if (answer.IsTruncated !== true) return
      next = answer.NextContinuationToken
      if (next === undefined) throw new ConnectorError('bad_reply', `${this.where} ${CUT_SHORT}`)
    }
  }

  async remove(key: string, signal: AbortSignal): Promise<void> {
    await this.#library.ask(signal, ({ library, client }) =>
      client.send(new library.DeleteObjectCommand({ Bucket: this.#options.bucket, Key: key }), {
        abortSignal: signal,
      }),
    )
  }

  async close(): Promise<void> {
    this.#library.forget()
  }
}

// Checks that the answer to a put comes from S3: a proxy in between may send a status that S3 uses
// too.

const alreadyExists = /<Error(?:\s[^>]*)?>[^]*<Code>\s*PreconditionFailed\s*<\/Code>/

/** Throws for answers that S3 never sends. Other answers are failures and need no check. */
function checkAnswer(where: string, status: number, body: Uint8Array): void {
  if (status === 412 && !alreadyExists.test(Buffer.from(body).toString()))
    throw new ForeignAnswer(
      'misconfigured',
      `${where} answered 412 without the error code of S3 (PreconditionFailed): a portal or proxy may be in the way, nothing counts as stored; check endpoint`,
    )
  if (status >= 200 && status < 300 && body.length > 0)
    throw new ForeignAnswer(
      'bad_reply',
      `${where} answered a put with a page, which S3 does not: a proxy or portal may be in the way`,
    )
}

/** Runs before the library reads the answer, which keeps only the status of an HTML page. */
function wantsOwnAnswer(where: string, command: Library.PutObjectCommand): void {
  command.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args)
      const { statusCode, body } = result.response as { statusCode: number; body: Uint8Array }
      checkAnswer(where, statusCode, body)
      return result
    },
    { step: 'deserialize', priority: 'low', name: 'ownAnswer' },
  )
}

// Reads the server's facts about an object, with a role that may lack the permission.

type Looking = Pick<Store, 'look' | 'where'>

export const vanished = ({ where }: Pick<Store, 'where'>, key: string): ConnectorError =>
  new ConnectorError(
    'bad_reply',
    `${where}: the server said that ${key} exists, and then did not find it; another program may delete objects there. It is tried again`,
  )

export async function lookIfAllowed(
  store: Looking,
  key: string,
  signal: AbortSignal,
): Promise<Looked | 'denied' | undefined> {
  try {
    return await store.look(key, signal)
  } catch (error) {
    if (error instanceof ConnectorError && error.code === 'forbidden') return 'denied'
    throw error
  }
}

/** An object of an earlier try may lack settings that are newer: that is logged with its name. */
export async function lookAtFormer(
  store: Looking,
  options: Pick<S3Options, 'sse' | 'object_lock'>,
  key: string,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  if (!options.sse && !options.object_lock) return
  const looked = await lookIfAllowed(store, key, signal)
  if (looked === undefined) throw vanished(store, key)
  if (looked === 'denied') {
    log.warn(
      'This object was stored by an earlier try, and this role may not read its settings: if sse or object_lock was set or changed since then, the object does not have it. Check the object by hand, or grant s3:GetObject',
      { key },
    )
    return
  }
  const lacks = lacking(options, looked)
  if (lacks.length === 0) return
  log.warn(
    'This object was stored by an earlier try without the current settings (see `lacks`), and is not stored again. Lock it by hand (put-object-retention); to encrypt it, copy it onto itself. If it is locked already, grant this role s3:GetObjectRetention, which shows the lock',
    { key, lacks: lacks.join(', ') },
  )
}
