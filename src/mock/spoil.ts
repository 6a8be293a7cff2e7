// What the faults of kind `body` do to an honest reply on its way out.
import { gzipSync } from 'node:zlib'
import { lengthOf } from './answer.ts'
import type { Manner } from './answer.ts'
import type { Page } from './pages.ts'
import type { Reply } from './replies.ts'
import type { FaultName, Switches } from './switches.ts'

export interface Outgoing {
  readonly reply: Reply
  readonly manner: Manner
}

const MIB = 2 ** 20
let bombUnit: Buffer | undefined

function without(headers: Readonly<Record<string, string>>, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([key]) => key !== name))
}

/** The same reply with another body; nothing of it counts as shown. */
function replaced(reply: Reply, body: readonly Uint8Array[], type?: string): Reply {
  const headers = { ...reply.headers, 'content-length': String(lengthOf(body)) }
  return { ...reply, headers: type ? { ...headers, 'content-type': type } : headers, body, show: undefined }
}

function halved(body: readonly Uint8Array[]): Uint8Array[] {
  const bytes = Buffer.concat(body)
  return [bytes.subarray(0, Math.floor(bytes.length / 2))]
}

export function compressed(reply: Reply): Reply {
  const body = [gzipSync(Buffer.concat(reply.body), { level: 1 })]
  const headers = { ...reply.headers, 'content-encoding': 'gzip', 'content-length': String(lengthOf(body)) }
  return { ...reply, headers, body }
}

function endless(reply: Reply, page: Page | undefined): Outgoing {
  const honest = { ...reply, headers: without(reply.headers, 'content-length'), show: undefined }
  if (!page || page.count === 0)
    return {
      reply: { ...honest, body: [Buffer.from('[')] },
      manner: { kind: 'endless', unit: Buffer.alloc(65_536, ' ') },
    }
  const joined = page.joined(',')
  const unit = Buffer.concat([Buffer.from(','), joined])
  return { reply: { ...honest, body: [Buffer.from('['), joined] }, manner: { kind: 'endless', unit } }
}

/** Members of gzip may follow each other; each is a MiB of blanks in a kilobyte. */
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
