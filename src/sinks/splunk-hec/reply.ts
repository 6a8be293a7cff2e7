// What each of Splunk's answers means for a batch: the whole table of codes, as measured on real
// servers.
import { z } from 'zod'
import { actionOf, ConnectorError, type ErrorCode } from '../../core/errors.ts'
import { jsonOf } from '../../core/json.ts'
import type { Secret } from '../../core/secret.ts'
import type { Outcome } from '../../contracts/sink.ts'
import { meaningOfStatus, type Meaning } from '../kit/status.ts'

/** A reply read to its end, or up to the limit. */
export interface HecReply {
  readonly status: number
  /** undefined: the body is not from HEC */
  readonly hec: HecBody | undefined
  /** the server that seems to have answered instead of a collector */
  readonly otherServer?: string | undefined
  readonly retryAfterMs: number | undefined
  /** its clock, epoch ms; undefined if it sends none */
  readonly serverAt?: number | undefined
}

interface HecBody {
  readonly code: number
  /** for asking whether the batch is stored; undefined if acknowledgements are off */
  readonly ackId: number | undefined
  /** one of Splunk's own sentences; undefined for others, which may echo the token or an event */
  readonly text: string | undefined
  readonly invalidEvent: number | undefined
}

export interface Sent {
  readonly count: number
  /** uncompressed */
  readonly bytes: number
  /** host:port */
  readonly where: string
  /** absent: the message has no advice about replacing the token */
  readonly token?: Pick<Secret, 'source' | 'file'>
}

export interface Done {
  readonly kind: 'done'
  readonly outcome: Outcome
  readonly crowded: boolean
  /** Everything was accepted by a success, not only the part before a faulty event. */
  readonly whole: boolean
  readonly ackId: number | undefined
}

export type Verdict =
  | Done
  /** `elsewhere`: nothing was taken, try another endpoint at once. */
  | { readonly kind: 'failed'; readonly error: ConnectorError; readonly elsewhere: boolean }

/** Splunk Cloud rejects a body over some 5 MiB as "bad JSON in event 0"; others answer 413. */
const DISGUISE_BYTES = 5 * 1024 * 1024
/** Splunk's codes are small; a larger number is not one of them. */
const LARGEST_CODE = 999

const sentences = [
  'Success',
  'Token disabled',
  'Token is required',
  'Invalid authorization',
  'Invalid token',
  'No data',
  'Invalid data format',
  'Incorrect index',
  'Internal server error',
  'Server is busy',
  'Data channel is missing',
  'Invalid data channel',
  'Event field is required',
  'Event field cannot be blank',
  'ACK is disabled',
  'Error in handling indexed fields',
  'Query string authorization is not enabled',
  'HEC is healthy',
  'HEC is unhealthy, queues are full',
  'HEC is unhealthy, ack service unavailable',
  'HEC is unhealthy, queues are full, ack service unavailable',
  'Server is shutting down',
  'Queue approaching maximum capacity',
  'ACK channel approaching maximum capacity',
  'Queue at maximum capacity',
  'ACK channel at maximum capacity',
  'The requested URL was not found on this server.',
]
/** Looked up by the received text, quoted as written here. */
const known = new Map(sentences.map((sentence) => [sentence.toLowerCase(), sentence]))

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

/** Anything else in its place is ignored. */
const count = z.int().min(0).optional().catch(undefined)
const hecBody = z.object({
  code: z.int().min(0).max(LARGEST_CODE),
  text: z.string(),
  ackId: count,
  'invalid-event-number': count,
})

export function readHecBody(bytes: Uint8Array): HecBody | undefined {
  const body = jsonOf(hecBody, textOf(bytes))
  if (!body) return undefined
  const { code, text, ackId, 'invalid-event-number': invalidEvent } = body
  return { code, text: known.get(text.toLowerCase()), ackId, invalidEvent }
}

const acksBody = z.object({ acks: z.record(z.string(), z.unknown()) })

/** The ids that are true in `{"acks":{"0":true,…}}`; undefined for any other body. */
export function readAcks(bytes: Uint8Array): ReadonlySet<number> | undefined {
  const body = jsonOf(acksBody, textOf(bytes))
  return (
    body &&
    new Set(
      Object.keys(body.acks)
        .filter((id) => body.acks[id] === true)
        .map(Number),
    )
  )
}

const errorBody = z.object({ error: z.string() })

/** `{"error": "…"}`, as the workspace's API answers. */
export const hasErrorText = (bytes: Uint8Array): boolean => jsonOf(errorBody, textOf(bytes)) !== undefined

/** The code of an answer, and its sentence if it is one of Splunk's. */
export function said({ code, text }: HecBody): string {
  return text === undefined ? `code ${code}` : `code ${code} "${text}"`
}

type Rule = 'crowded' | 'invalid' | 'index' | Meaning

const token = "check 'token'"
const tokenCodes = new Set<ErrorCode>(['unauthorized', 'forbidden'])
const channel = 'a channel is always sent; is a proxy removing headers?'

/** By Splunk's own code, regardless of the HTTP status. 0, 24 and 25 count only with a 2xx. */
const rules: Readonly<Record<number, Rule>> = {
  1: ['forbidden', `the token is disabled; enable it in Splunk or ${token}`],
  2: ['unauthorized', `no token arrived; ${token}, or a proxy on the way removes it`],
  3: ['unauthorized', `the token was not understood; ${token}`],
  4: ['forbidden', `Splunk does not know the token; ${token}`],
  5: 'invalid',
  6: 'invalid',
  7: 'index',
  8: ['server_error', 'an error inside Splunk'],
  9: ['rate_limited', 'it is busy'],
  10: ['misconfigured', channel],
  11: ['misconfigured', channel],
  12: 'invalid',
  13: 'invalid',
  14: [
    'misconfigured',
    "acknowledgements are off for this token; switch them on in Splunk, or set 'acks' to auto",
  ],
  15: 'invalid',
  16: ['unauthorized', `it accepts no token in the query; ${token}`],
  17: ['misconfigured', "it answered as its health check does; check 'url'"],
  18: ['rate_limited', 'its queues are full'],
  19: ['rate_limited', 'its acknowledgements are not available'],
  20: ['rate_limited', 'its queues are full and acknowledgements are not available'],
  21: ['unauthorized', `the token is not valid; ${token}`],
  22: ['forbidden', `the token is disabled; enable it in Splunk or ${token}`],
  23: ['unreachable', 'it is shutting down'],
  24: 'crowded',
  25: 'crowded',
  26: ['rate_limited', 'its queue is full'],
  27: ['rate_limited', 'its channel of acknowledgements is full'],
  28: ['misconfigured', channel],
}

const statuses: Readonly<Record<number, Meaning>> = {
  400: ['bad_request', 'the request was rejected, but not by HEC; check for a proxy in between'],
  401: ['unauthorized', token],
  403: ['forbidden', `${token}, and that a proxy forwards it`],
  404: [
    'misconfigured',
    "this server has no HTTP Event Collector at that address; check 'url', and that HEC is switched on in Splunk",
  ],
  405: ['misconfigured', "this server has no HTTP Event Collector at that address; check 'url'"],
}

const notOurs: Meaning = [
  'misconfigured',
  "the answer is not from an event collector; check 'url' and any portal or proxy in between",
]

const statusRule = (status: number): Meaning => (status < 300 ? notOurs : meaningOfStatus(status, statuses))

/** For an answer that is not from HEC: it proves nothing about our token or path. */
function foreign({ status, otherServer }: HecReply): Meaning {
  const rule = statusRule(status)
  return otherServer !== undefined && actionOf(rule[0]) === 'block' ? ['misconfigured', otherServer] : rule
}

function failed(reply: HecReply, sent: Sent, [code, why]: Meaning): Verdict {
  const { status, hec, retryAfterMs } = reply
  const words = hec ? `, ${said(hec)}` : ''
  const isReread = sent.token?.source === 'file' && tokenCodes.has(code)
  const file = sent.token?.file ?? 'its file'
  const next = isReread ? `. Put a valid token into ${file}; no restart is needed` : ''
  // Without a code of HEC it may be any server.
  const who = hec ? 'Splunk' : 'The server'
  const message = `${who} at ${sent.where} answered ${status}${words}: ${why}${next}`
  const error = new ConnectorError(code, message, { retryAfterMs })
  return { kind: 'failed', error, elsewhere: hec?.code === 23 }
}

const done = ({ status, hec }: HecReply, outcome: Outcome, crowded = false): Done => ({
  kind: 'done',
  outcome,
  crowded,
  whole: status < 300,
  ackId: hec?.ackId,
})

/** Invalid data at object N: all before it are indexed, and nothing from it on. */
function invalid(reply: HecReply, hec: HecBody, sent: Sent): Verdict {
  const index = hec.invalidEvent
  if (hec.code === 6 && index === 0 && sent.bytes > DISGUISE_BYTES)
    return failed(reply, sent, ['too_large', 'it rejects bodies over 5 MiB as bad data'])
  if (index === undefined || index >= sent.count)
    return failed(reply, sent, ['refused', 'it names no faulty event; nothing was accepted'])
  const reason = `Splunk answered ${reply.status}, ${said(hec)}`
  return done(reply, { acknowledged: index + 1, rejected: [{ index, code: 'refused', reason }] })
}

/** Here N is the object after the one whose index is not allowed. */
function wrongIndex(reply: HecReply, hec: HecBody, sent: Sent): Verdict {
  const bad = (hec.invalidEvent ?? 0) - 1
  if (bad > 0 && bad < sent.count) return done(reply, { acknowledged: bad, rejected: [] })
  const why = "the token may not write to this index; check 'index' and the token's allowed indexes"
  return failed(reply, sent, ['misconfigured', why])
}

/** By the code in HEC's body and the status; else by the status alone. Never throws. */
export function verdictOf(reply: HecReply, sent: Sent): Verdict {
  const { status, hec } = reply
  const ok = status >= 200 && status < 300
  if (!hec || (status >= 300 && status < 400)) return failed(reply, sent, foreign(reply))
  if (ok && hec.code === 0) return done(reply, { acknowledged: sent.count, rejected: [] })
  const rule = rules[hec.code]
  // Splunk blames content with 400 only: otherwise another server answers, no dead letter.
  if ((rule === 'invalid' || rule === 'index') && status !== 400)
    return failed(reply, sent, statusRule(status))
  if (rule === 'crowded' && ok) return done(reply, { acknowledged: sent.count, rejected: [] }, true)
  if (rule === 'invalid') return invalid(reply, hec, sent)
  if (rule === 'index') return wrongIndex(reply, hec, sent)
  if (status === 413 || rule === undefined || rule === 'crowded')
    return failed(reply, sent, statusRule(status))
  return failed(reply, sent, rule)
}
