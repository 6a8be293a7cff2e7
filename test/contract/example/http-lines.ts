// Lines over HTTP: each batch is one POST, and the receiver says how many lines it took.
import { z } from 'zod'
import { ConnectorError } from '../../../src/core/errors.ts'
import { retryAfterMs } from '../../../src/core/backoff.ts'
import { SecretLook } from '../../../src/core/secret.ts'
import type { Sink } from '../../../src/contracts/sink.ts'
import type { SinkDeps, SinkKind } from '../../../src/contracts/sink-kind.ts'
import { secret } from '../../../src/core/units.ts'
import { framedBytes, lineFrame } from '../../../src/sinks/kit/body.ts'
import { ask, withSecrets, type WholeReply } from '../../../src/sinks/kit/http.ts'
import { tlsFiles, tlsOptions } from '../../../src/sinks/kit/options.ts'
import { meaningOfStatus, type Meaning } from '../../../src/sinks/kit/status.ts'

const options = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).describe('Where each batch is posted.'),
  token: secret().describe('Sent as `Authorization: Bearer …`; read again when its file changes.'),
  tls: tlsOptions().describe('Whom to trust and what to show.'),
})

type HttpLinesOptions = z.output<typeof options>

/** Where this receiver differs from the usual meaning of a status. */
const statuses: Readonly<Record<number, Meaning>> = {
  // Nothing of the batch was taken, and it will not be: it is halved until the bad entry is found.
  400: ['refused', 'it accepts none of these lines'],
}

/** A 2xx alone proves nothing: it may come from a proxy or a portal. */
function lineCountIn(body: Uint8Array): number | undefined {
  try {
    const { taken } = JSON.parse(Buffer.from(body).toString()) as { taken?: unknown }
    return typeof taken === 'number' ? taken : undefined
  } catch {
    return undefined
  }
}

function failure(where: string, { status, headers }: WholeReply, nowMs: number): ConnectorError {
  const [code, why] = meaningOfStatus(status, statuses)
  const options = { retryAfterMs: retryAfterMs(headers, nowMs) }
  return new ConnectorError(code, `${where} answered ${status}: ${why}`, options)
}

// The receiver confirms each batch, but does not say that it is on its disk.
const assurance = 'received'

function open(name: string, { url, token, tls }: HttpLinesOptions, deps: SinkDeps): Sink {
  const send = deps.transport(tls)
  const where = new URL(url).host
  const secrets = new SecretLook([token], deps.clock)

  const post = (body: Uint8Array, signal: AbortSignal): Promise<WholeReply> =>
    withSecrets(
      secrets,
      () => {
        const headers = { authorization: `Bearer ${token.reveal()}`, 'content-type': 'application/x-ndjson' }
        return ask(send, deps.clock, { method: 'POST', url, headers, body }, signal)
      },
      ({ status }) => status === 401 || status === 403,
    )

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
      if (reply.status < 200 || reply.status > 299) throw failure(where, reply, deps.clock.now())
      if (lineCountIn(reply.body) !== lines.count)
        throw new ConnectorError('bad_reply', `${where} answered ${reply.status} without the number of lines`)
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
      // The connections belong to the owner of the transport.
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
