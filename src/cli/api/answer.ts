// Output of `auditferry api`: headers, the likely reason of an error, and the body without the key.
import { z } from 'zod'
import type { WorkspaceConfig } from '../../config/schema.ts'
import { retryAfterMs } from '../../core/backoff.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { jsonOf } from '../../core/json.ts'
import { printable } from '../../core/printable.ts'
import type { Mask } from '../../observability/log.ts'
import type { Answer, Ask } from '../../sources/http/client.ts'
import { bufferBody } from '../../sources/http/groups.ts'
import {
  adviceOn,
  codeOfStatus,
  isJson,
  isSplunk,
  mediaTypeOf,
  named,
  notTheApi,
} from '../../sources/http/reply.ts'
import type { Operation } from './operations.ts'

/** An error's body larger than this is not quoted. */
const MESSAGE_BODY_BYTES = 64 * 1024
const MOST_MESSAGE = 300

const shownHeaders =
  /^(content-(type|length|encoding)|date|server|retry-after|location)$|rate-?limit|(request|correlation|trace)-?id|traceparent/

export function headText(ask: Ask, { head: { status, headers } }: Answer): string {
  const shown = Object.entries(headers).filter(([name]) => shownHeaders.test(name))
  const lines = shown.map(([name, value]) => `  ${printable(name)}: ${printable(value)}\n`)
  return `${named(ask)} answered ${status}\n${lines.join('')}`
}

interface Checking {
  readonly ask: Ask
  readonly operation: Operation
  readonly workspace: WorkspaceConfig
  readonly mask: Mask
  /** epoch ms */
  readonly now: number
}

/** Returns a warning about a suspicious success. Throws ConnectorError for any other answer. */
export async function checkAnswer(checking: Checking, answer: Answer): Promise<string | undefined> {
  const { ask, mask } = checking
  const { head } = answer
  const where = `${named(ask)} answered ${head.status}`
  if (isSplunk(head)) throw notTheApi(where)
  if (head.status >= 200 && head.status < 300)
    return mediaTypeOf(head) === 'text/html'
      ? 'the answer is text/html: a proxy or a login page may have answered; check base_url'
      : undefined
  const said = isJson(head) ? messageIn(await bufferBody(answer, MESSAGE_BODY_BYTES)) : undefined
  const quoted = said === undefined ? '' : `, "${printable(mask(said)).slice(0, MOST_MESSAGE)}"`
  const code = codeOfStatus(head.status)
  throw new ConnectorError(code, `${where}${quoted}: ${meaning(code, checking, answer)}`)
}

function meaning(code: ErrorCode, { operation, workspace, now }: Checking, { head }: Answer): string {
  const { name, hint, assumed } = operation
  const more = hint === undefined ? '' : `; ${hint}`
  const path = assumed ? '. The specification leaves its path and parameters open: --path names another' : ''
  if (code === 'bad_request') return `the request is invalid: check the parameters of ${name}${path}`
  if (code === 'forbidden') return `the key of ${workspace.name} may not use ${name}${more}`
  if (code === 'not_found' && isJson(head))
    return `there is no such path, or nothing with this id${more}${path}`
  if (code === 'not_found') return 'the API does not answer like this: check base_url'
  if (code !== 'rate_limited') return adviceOn(code, workspace.api_key)
  const waitMs = retryAfterMs(head.headers, now)
  const wait = waitMs === undefined ? 'a minute' : `${Math.ceil(waitMs / 1000)} s`
  return `the key's rate limit is used up, by the daemon or by another tool: try again in ${wait}`
}

/** Spec §7. */
const errorBody = z.object({ error: z.string() })

const messageIn = (body: Uint8Array | undefined): string | undefined =>
  body && jsonOf(errorBody, Buffer.from(body).toString())?.error

/** As in the log: a shorter key would match by chance. */
const LEAST_KEY = 6

/** Replaces the key by `***` where the answer repeats it. */
export async function* withoutKey(body: AsyncIterable<Uint8Array>, key: string): AsyncGenerator<Uint8Array> {
  let rest = ''
  for await (const piece of body) {
    const text = rest + Buffer.from(piece).toString('latin1')
    const masked = key.length < LEAST_KEY ? text : text.replaceAll(key, '***')
    // Holds back only a possible start of the key.
    let keep = Math.min(key.length - 1, masked.length)
    while (keep > 0 && !key.startsWith(masked.slice(-keep))) keep--
    rest = masked.slice(masked.length - keep)
    if (keep < masked.length) yield Buffer.from(masked.slice(0, masked.length - keep), 'latin1')
  }
  if (rest !== '') yield Buffer.from(rest, 'latin1')
}
