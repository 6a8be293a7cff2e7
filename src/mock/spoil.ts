// Applies the faults of kind `body` to a correct reply before it is sent.
import { gzipSync } from 'node:zlib'
import { gzipped, halfOf, isStreamed, lengthOf, withoutLast } from './answer.ts'
import type { Body, Manner, Streamed } from './answer.ts'
import type { Page, Reply } from './replies.ts'
import type { FaultName, Switches } from './switches.ts'

interface Outgoing {
  readonly reply: Reply
  readonly manner: Manner
}

const MIB = 2 ** 20
let bombUnit: Buffer | undefined

function without(headers: Readonly<Record<string, string>>, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([key]) => key !== name))
}

function lengthHeader(body: Body): Record<string, string> {
  const length = isStreamed(body) ? body.length : lengthOf(body)
  return length === undefined ? {} : { 'content-length': String(length) }
}

/** The same reply with another body; none of its elements count as shown. */
function replaced(reply: Reply, body: Body, type?: string): Reply {
  const headers = { ...without(reply.headers, 'content-length'), ...lengthHeader(body) }
  return { ...reply, headers: type ? { ...headers, 'content-type': type } : headers, body, show: undefined }
}

function halved(body: Body): Body {
  if (isStreamed(body)) return halfOf(body)
  const bytes = Buffer.concat(body)
  return [bytes.subarray(0, Math.floor(bytes.length / 2))]
}

/** `whole` false: the body was cut before, so its compressed form is cut too. */
function packed(reply: Reply, body: Streamed, whole: boolean): Reply {
  const headers = { ...without(reply.headers, 'content-length'), 'content-encoding': 'gzip' }
  return { ...reply, headers, body: gzipped(body, whole) }
}

export function compressed(reply: Reply): Reply {
  const plain = reply.body
  if (isStreamed(plain)) return packed(reply, plain, true)
  const body = [gzipSync(Buffer.concat(plain), { level: 1 })]
  const headers = { ...reply.headers, 'content-encoding': 'gzip', 'content-length': String(lengthOf(body)) }
  return { ...reply, headers, body }
}

/** A streamed body is cut before compression, one in memory after it: the middle of a stream is unknown. */
export function spoiltAndPacked(reply: Reply, fault: FaultName | undefined, switches: Switches): Outgoing {
  if (!isStreamed(reply.body)) return spoil(compressed(reply), fault, switches)
  const spoilt = spoil(reply, fault, switches)
  const { body } = spoilt.reply
  const whole = fault === undefined || fault === 'slow'
  return isStreamed(body) ? { ...spoilt, reply: packed(spoilt.reply, body, whole) } : spoilt
}

function endless(reply: Reply, page: Page | undefined): Outgoing {
  const honest = { ...reply, headers: without(reply.headers, 'content-length'), show: undefined }
  if (isStreamed(reply.body)) {
    const opened = { ...honest, body: withoutLast(reply.body) }
    return { reply: opened, manner: { kind: 'endless', unit: reply.body.again() } }
  }
  if (!page || page.count === 0)
    return {
      reply: { ...honest, body: [Buffer.from('[')] },
      manner: { kind: 'endless', unit: Buffer.alloc(65_536, ' ') },
    }
  const joined = page.joined(',')
  const unit = Buffer.concat([Buffer.from(','), joined])
  return { reply: { ...honest, body: [openingOf(reply.body), joined] }, manner: { kind: 'endless', unit } }
}

/** The bytes before the elements, if they are in an array. */
function openingOf([first]: readonly Uint8Array[]): Uint8Array {
  return first?.at(-1) === 0x5b ? first : Buffer.from('[')
}

/** Members of gzip may follow each other; each has a MiB of blanks in a kilobyte. */
function bomb(reply: Reply): Outgoing {
  bombUnit ??= gzipSync(Buffer.alloc(MIB, ' '))
  const headers = { ...without(reply.headers, 'content-length'), 'content-encoding': 'gzip' }
  const opening = { ...reply, headers, body: [gzipSync('[')], show: undefined }
  return { reply: opening, manner: { kind: 'endless', unit: bombUnit } }
}

const HTML = '<!doctype html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>\n'

/** One fault, applied. */
export function spoil(reply: Reply, fault: FaultName | undefined, switches: Switches): Outgoing {
  const whole: Manner = { kind: 'whole' }
  switch (fault) {
    case 'reset':
      return { reply: { ...reply, show: undefined }, manner: { kind: 'reset' } }
    case 'cut':
      return {
        reply: { ...reply, body: halved(reply.body), show: undefined },
        manner: { kind: 'cut', silenceMs: 0 },
      }
    case 'stalled': {
      const silent = { ...reply, body: halved(reply.body), show: undefined }
      return { reply: silent, manner: { kind: 'cut', silenceMs: switches.stall } }
    }
    case 'truncated':
      return { reply: replaced(reply, halved(reply.body)), manner: whole }
    case 'slow':
      return { reply, manner: { kind: 'drip', pieces: 20, pauseMs: switches.slow_pause } }
    case 'endless':
      return endless(reply, reply.page)
    case 'html':
      return { reply: replaced(reply, [Buffer.from(HTML)], 'text/html; charset=utf-8'), manner: whole }
    case 'wrong_type':
      return { reply: replaced(reply, reply.body, 'text/plain'), manner: whole }
    case 'wrong_shape':
      return { reply: replaced(reply, [Buffer.from('{"status":"ok","items":3}')]), manner: whole }
    case 'gzip':
      return { reply: compressed(reply), manner: whole }
    case 'gzip_bomb':
      return bomb(reply)
    default:
      return { reply, manner: whole }
  }
}
