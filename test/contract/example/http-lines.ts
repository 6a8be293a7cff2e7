// Lines over HTTP: each batch is one POST, and the receiver says how many lines it took.
import { z } from 'zod'
import { ConnectorError, type ErrorCode } from '../../../src/core/errors.ts'
import { retryAfterMs } from '../../../src/core/backoff.ts'
import { SecretLook } from '../../../src/core/secret.ts'
import type { Sink } from '../../../src/contracts/sink.ts'
import type { SinkDeps, SinkKind } from '../../../src/contracts/sink-kind.ts'
import { secret } from '../../../src/core/units.ts'
import { ask, type WholeReply } from '../../../src/sinks/kit/http.ts'
import { framedBytes, lineFrame } from '../../../src/sinks/kit/line-frame.ts'
import { tlsFiles, tlsOptions } from '../../../src/sinks/kit/options.ts'

const options = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).describe('Where each batch is posted.'),
  token: secret().describe('Sent as `Authorization: Bearer …`; read again when its file changes.'),
  tls: tlsOptions().describe('Whom to trust and what to show.'),
})

type HttpLinesOptions = z.output<typeof options>

const codes: Readonly<Record<number, ErrorCode>> = {
  // None of it was taken, and never will be as one batch: halved until the entry at fault stands alone.
  400: 'refused',
  413: 'too_large',
  // Configuration: held, told once, tried slowly.
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  429: 'rate_limited',
}

function codeOf(status: number): ErrorCode {
  if (status >= 500) return 'server_error'
  if (status >= 300 && status < 400) return 'redirected'
  return codes[status] ?? 'bad_request'
}

/** A 2xx alone is no word: a proxy or a portal may have said it. */
function lineCountIn(body: Uint8Array): number | undefined {
  try {
    const { taken } = JSON.parse(Buffer.from(body).toString()) as { taken?: unknown }
    return typeof taken === 'number' ? taken : undefined
  } catch {
    return undefined
  }
}

function refusal(where: string, reply: WholeReply, nowMs: number): ConnectorError {
  const message = `${where} answered ${reply.status}; see docs/sinks/http_lines.md for what to do`
  return new ConnectorError(codeOf(reply.status), message, {
    retryAfterMs: retryAfterMs(reply.headers, nowMs),
  })
}

// The receiver said so; whether it stands on its disk, it did not say.
const assurance = 'received'

function open(name: string, { url, token, tls }: HttpLinesOptions, deps: SinkDeps): Sink {
  const send = deps.transport(tls)
  const where = new URL(url).host
  const look = new SecretLook([token], deps.clock)

  async function post(body: Uint8Array, signal: AbortSignal): Promise<WholeReply> {
    // A token that was changed in its file is used before the old one is refused.
    look.look()
    const headers = { authorization: `Bearer ${token.reveal()}`, 'content-type': 'application/x-ndjson' }
    const reply = await ask(send, deps.clock, { method: 'POST', url, headers, body }, signal)
    // Changed within this second: once more, before anybody is told.
    if ((reply.status === 401 || reply.status === 403) && look.refresh()) return post(body, signal)
    return reply
  }

  return {
    name,
    type: 'http_lines',
    assurance,
    frame: lineFrame,
    // No option changes the bytes of a line.
    shape: '',
    async deliver({ lines }, signal) {
      if (signal.aborted) throw new ConnectorError('aborted', `${where}: stopped before the batch`)
      if (lines.count === 0) return { acknowledged: 0, rejected: [] }
      const reply = await post(framedBytes(lines), signal)
      if (reply.status < 200 || reply.status > 299) throw refusal(where, reply, deps.clock.now())
      if (lineCountIn(reply.body) !== lines.count)
        throw new ConnectorError(
          'bad_reply',
          `${where} answered ${reply.status} with other words than its own`,
        )
      return { acknowledged: lines.count, rejected: [] }
    },
    async check(signal) {
      try {
        const reply = await post(new Uint8Array(0), signal)
        const ok = reply.status >= 200 && reply.status <= 299
        return [{ what: where, ok, message: `answers an empty batch with ${reply.status}` }]
      } catch (error) {
        const message = error instanceof Error ? error.message : 'cannot be asked'
        return [{ what: where, ok: false, message }]
      }
    },
    async close() {
      // Its connections belong to whoever made the transport.
    },
  }
}

export const httpLines: SinkKind<typeof options> = {
  options,
  assurance: () => assurance,
  to: ({ url }) => [new URL(url).host],
  urls: ({ url }) => [url],
  files: ({ tls }) => tlsFiles(tls),
  open,
}
