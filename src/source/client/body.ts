// A reply's body under its limits: decompressed, capped, and never slower than it may be. Knows nothing of what is inside.
import { Readable, pipeline } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { Guard } from '../../model/abort.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { HttpReply } from '../../model/http.ts'
import type { SourceWatch } from '../../model/watch.ts'
import type { BodyLimits, Deadline } from './deadline.ts'

/** A map: the word is the other side's, and of an object it could name what every object has. */
const decoders: ReadonlyMap<string, () => ReturnType<typeof createGunzip>> = new Map([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
])

/** We ask for identity; a server or proxy that compresses all the same is understood. */
function decoded(reply: HttpReply): AsyncIterable<Uint8Array> {
  const encoding = reply.headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  if (encoding === 'identity' || encoding === '') return reply.body
  const open = decoders.get(encoding)
  if (!open) {
    abandon(reply)
    throw new ConnectorError('bad_reply', 'The API answered in a compression that was not asked for')
  }
  // A pipeline, since a decoder that is left must close the connection behind it; errors reach the one who reads.
  return pipeline(Readable.from(reply.body), open(), () => undefined)
}

/** Closes the connection of a body that nobody wants. */
export function abandon({ body }: HttpReply): void {
  void body[Symbol.asyncIterator]().return?.()
}

/** zlib names its own errors `Z_…`, brotli's `ERR_…`; both carry a number. */
function isUndecodable(error: unknown): boolean {
  return error instanceof Error && 'errno' in error && 'code' in error && /^(Z|ERR)_/.test(String(error.code))
}

/**
 * The body's bytes, piece by piece. Throws ConnectorError `too_large` past the cap, `timeout` past a deadline, `bad_reply`
 * when it does not decompress, and what the transport throws when the connection breaks.
 */
export async function* readBody(
  reply: HttpReply,
  limits: BodyLimits,
  deadline: Deadline,
): AsyncGenerator<Uint8Array> {
  const pieces = decoded(reply)[Symbol.asyncIterator]()
  const guard = new Guard(deadline.signal)
  let total = 0
  try {
    for (;;) {
      const step = await guard.run(pieces.next())
      if (step.done) return
      deadline.progress(step.value.length)
      total += step.value.length
      if (total > limits.capBytes)
        throw new ConnectorError('too_large', `The API's answer is over the cap of ${limits.capBytes} bytes`)
      deadline.pause()
      yield step.value
      deadline.resume()
    }
  } catch (error) {
    if (isUndecodable(error))
      throw new ConnectorError('bad_reply', "The API's answer does not decompress", { cause: error })
    throw error
  } finally {
    guard.close()
    // Closes the connection of a body that is left; a stream that hangs must not hang us.
    void pieces.return?.().catch(() => undefined)
  }
}

/** The place in the budget starts its minute when the answer is whole, or left. It may come for hours: that it does is told. */
export async function* finishing(
  body: AsyncIterable<Uint8Array>,
  watch: Pick<SourceWatch, 'readsAnswer'>,
  answered: () => void,
): AsyncGenerator<Uint8Array> {
  const answer = watch.readsAnswer()
  try {
    for await (const piece of body) {
      answer.came()
      yield piece
    }
  } finally {
    answer.over()
    answered()
  }
}
