// Applies the faults of kind `body` to a correct reply, and compresses it.
import { gzipSync } from 'node:zlib'
import { gzipped, inMemory, replyOf, startOf } from './answer.ts'
import type { Body, Manner, Reply } from './answer.ts'
import type { FaultName, Switches } from './switches.ts'

interface Outgoing {
  readonly reply: Reply
  readonly manner: Manner
}

const MIB = 2 ** 20
const HTML = '<!doctype html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>\n'
const WHOLE: Manner = { kind: 'whole' }
/** A MiB of blanks in a kilobyte. Members of gzip may follow each other. */
let bombUnit: Buffer | undefined

/** The same reply with another body and fitting headers. */
function withBody(reply: Reply, body: Body, type = reply.headers['content-type']): Reply {
  const { headers } = replyOf(reply.status, body, type)
  const kept = Object.entries(reply.headers).filter(([name]) => name !== 'content-length')
  return { ...reply, headers: { ...Object.fromEntries(kept), ...headers }, body }
}

function compressed(reply: Reply, body = gzipped(reply.body, true)): Reply {
  const packed = withBody(reply, body)
  return { ...packed, headers: { ...packed.headers, 'content-encoding': 'gzip' } }
}

function halfOf(body: Body): Body {
  return startOf(body, Math.floor(body.count / 2), 0.5)
}

/** Without its length, and with `unit` forever after `opening`. */
function endless(reply: Reply, opening: Body, unit: Uint8Array): Outgoing {
  return { reply: withBody(reply, { ...opening, length: undefined }), manner: { kind: 'endless', unit } }
}

function spoiltBy(fault: FaultName | undefined, reply: Reply, switches: Switches): Outgoing {
  const { body } = reply
  const whole = (spoilt: Reply): Outgoing => ({ reply: spoilt, manner: WHOLE })
  const bytes = (text: string) => inMemory([Buffer.from(text)])
  switch (fault) {
    case 'reset':
      return { reply, manner: { kind: 'reset' } }
    case 'cut':
      return { reply: { ...reply, body: halfOf(body) }, manner: { kind: 'cut', silenceMs: 0 } }
    case 'stalled':
      return { reply: { ...reply, body: halfOf(body) }, manner: { kind: 'cut', silenceMs: switches.stall } }
    case 'truncated':
      return whole(withBody(reply, halfOf(body)))
    case 'slow':
      return { reply, manner: { kind: 'drip', pieces: 20, pauseMs: switches.slow_pause } }
    case 'endless': {
      const opening = body.count > 1 ? startOf(body, body.count - 1) : bytes('[')
      return endless(reply, opening, body.again())
    }
    case 'html':
      return whole(withBody(reply, bytes(HTML), 'text/html; charset=utf-8'))
    case 'wrong_type':
      return whole(withBody(reply, body, 'text/plain'))
    case 'wrong_shape':
      return whole(withBody(reply, bytes('{"status":"ok","items":3}')))
    case 'gzip':
      return whole(compressed(reply))
    case 'gzip_bomb':
      bombUnit ??= gzipSync(Buffer.alloc(MIB, ' '))
      return endless(compressed(reply, inMemory([gzipSync('[')])), inMemory([gzipSync('[')]), bombUnit)
    default:
      return whole(reply)
  }
}

/** A body with these is sent as it is made, so that its elements count as shown. */
const harmless: readonly (FaultName | undefined)[] = [undefined, 'slow', 'gzip']
const halved: readonly (FaultName | undefined)[] = ['cut', 'stalled', 'truncated']

/** One fault, applied, then compression. A body that was cut is compressed without its end. */
export function spoil(
  correct: Reply,
  fault: FaultName | undefined,
  switches: Switches,
  gzip: boolean,
): Outgoing {
  const { show, ...hidden } = correct
  const spoilt = spoiltBy(fault, harmless.includes(fault) ? { ...hidden, show } : hidden, switches)
  const { reply, manner } = spoilt
  const isPlain = reply.headers['content-encoding'] === undefined
  if (!gzip || !isPlain || manner.kind === 'reset' || manner.kind === 'endless') return spoilt
  return { reply: compressed(reply, gzipped(reply.body, !halved.includes(fault))), manner }
}
