// One request to a receiver and its whole reply, bounded in bytes and time: receivers are not
// trusted either.
import type { HttpReply, HttpRequest, Transport } from '../../contracts/platform.ts'
import { Tether, orAborted } from '../../core/abort.ts'
import { Pieces } from '../../core/bytes.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { SecretLook } from '../../core/secret.ts'

const REPLY_BYTES = 64 * 1024
const DEADLINE_MS = 60_000

export interface WholeReply {
  readonly status: number
  readonly headers: HttpReply['headers']
  /** cut at the limit; a cut body is no longer JSON */
  readonly body: Uint8Array
  /** as in HttpReply */
  readonly distrust?: (() => void) | undefined
}

/** Throws the transport's errors, `timeout` after a minute, and `aborted` with `signal`. */
export async function ask(
  transport: Transport,
  clock: Clock,
  request: HttpRequest,
  signal: AbortSignal,
): Promise<WholeReply> {
  const where = new URL(request.url).host
  const stop = new Tether(signal)
  void clock.sleep(DEADLINE_MS, stop.signal).then(() => {
    if (stop.signal.aborted) return
    const what = `the request to ${where} was not answered within ${DEADLINE_MS / 1000} s`
    stop.abort(new ConnectorError('timeout', what))
  })
  const work = async (): Promise<WholeReply> => {
    const { status, headers, body, distrust } = await transport(request, stop.signal)
    return { status, headers, body: await readUpTo(body, REPLY_BYTES), distrust }
  }
  try {
    signal.throwIfAborted()
    // The code behind `transport` may ignore its signal.
    return await orAborted(work(), stop.signal)
  } catch (error) {
    if (signal.aborted) throw new ConnectorError('aborted', `the request to ${where} was aborted`)
    throw stop.signal.aborted ? stop.signal.reason : error
  } finally {
    stop.close()
  }
}

/**
 * Sends with the credentials of now; once more if they were rejected and their files changed
 * meanwhile, before the error is reported.
 */
export async function withSecrets<Reply>(
  secrets: SecretLook,
  send: () => Promise<Reply>,
  isRejected: (reply: Reply) => boolean,
): Promise<Reply> {
  secrets.look()
  const sent = secrets.values
  const reply = await send()
  return isRejected(reply) && secrets.refresh(sent) ? send() : reply
}

// Reads the beginning of a body, because its length is up to the other side.

/** At most `mostBytes`; the rest is not read, and the connection is closed. */
export async function readUpTo(body: AsyncIterable<Uint8Array>, mostBytes: number): Promise<Uint8Array> {
  const pieces = new Pieces()
  for await (const piece of body) {
    pieces.add(piece.subarray(0, mostBytes - pieces.length))
    if (pieces.length >= mostBytes) break
  }
  return pieces.toBuffer()
}
