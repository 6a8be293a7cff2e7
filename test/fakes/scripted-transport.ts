// A transport that answers from a list: for tests of one sink's own logic. Its requests are kept.
import { ConnectorError, type ErrorCode } from '../../src/core/errors.ts'
import type { HttpRequest, Transport } from '../../src/contracts/platform.ts'

export interface ScriptedReply {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** thrown instead of an answer */
  readonly error?: ErrorCode
  /** thrown in the middle of the body */
  readonly cut?: ErrorCode
  /** never answers, and ignores the signal */
  readonly deaf?: boolean
  /** the body never ends */
  readonly endless?: boolean
}

export class ScriptedTransport {
  readonly asked: HttpRequest[] = []
  readonly replies: ScriptedReply[]
  /** bodies that were dropped before their end */
  left = 0

  constructor(replies: readonly ScriptedReply[]) {
    this.replies = [...replies]
  }

  readonly send: Transport = async (request, signal) => {
    if (signal.aborted) throw new ConnectorError('aborted', 'the request was cancelled')
    this.asked.push(request)
    const reply = this.replies.shift()
    if (!reply) throw new Error('nothing more was scripted')
    if (reply.deaf) return new Promise(() => undefined)
    if (reply.error) throw new ConnectorError(reply.error, 'as scripted')
    return { status: reply.status ?? 200, headers: reply.headers ?? {}, body: this.#body(reply) }
  }

  async *#body(reply: ScriptedReply): AsyncGenerator<Uint8Array> {
    let whole = false
    try {
      yield typeof reply.body === 'string' ? Buffer.from(reply.body) : (reply.body ?? new Uint8Array(0))
      if (reply.cut) throw new ConnectorError(reply.cut, 'cut as scripted')
      while (reply.endless) yield Buffer.alloc(1024, 32)
      whole = true
    } finally {
      if (!whole) this.left++
    }
  }
}

export const hecReply = (
  status: number,
  code: number,
  text = 'words of Splunk',
  more: object = {},
): ScriptedReply => ({ status, body: JSON.stringify({ text, code, ...more }) })
