// One request to a receiver and its whole reply, bounded in bytes and in time: a receiver is no more to be trusted than an API.
import { orAborted, Tether } from '../model/abort.ts'
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { HttpReply, HttpRequest, Transport } from '../model/http.ts'
import { readUpTo } from './read-up-to.ts'

const REPLY_BYTES = 64 * 1024
const DEADLINE_MS = 60_000

export interface WholeReply {
  readonly status: number
  readonly headers: HttpReply['headers']
  /** cut at the bound; a cut body is not JSON any more */
  readonly body: Uint8Array
  /** as of HttpReply */
  readonly distrust?: (() => void) | undefined
}

/** Throws as the transport does, and `timeout` when the reply is not whole within a minute, `aborted` when `signal` says so. */
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
    // Whoever stands behind `transport` may be deaf to its signal.
    return await orAborted(work(), stop.signal)
  } catch (error) {
    if (signal.aborted) throw new ConnectorError('aborted', `the request to ${where} was called off`)
    throw stop.signal.aborted ? stop.signal.reason : error
  } finally {
    stop.close()
  }
}
