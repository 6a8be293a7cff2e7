// The faults of one request, on command: the honest answer is computed, and another one, or none, is given.
import { coded, endless, numberIn, page, plain, replies } from './hec-replies.ts'
import type { Answered, Code } from './hec-replies.ts'

type Fault =
  | { readonly kind: 'code'; readonly code: Code; readonly retryAfter?: string }
  | { readonly kind: 'status'; readonly status: number; readonly body?: string; readonly type?: string }
  | { readonly kind: 'reset' }
  | { readonly kind: 'endless' }
  | { readonly kind: 'html' }
  | { readonly kind: 'garbage' }
  | { readonly kind: 'slow'; readonly ms: number }
  | { readonly kind: 'redirect'; readonly location: string }

/** With one request for events. `indexes`: the events are indexed all the same. */
export type HecFault = { readonly indexes?: boolean } & Fault

/** With one poll. `tells`: each `true` counts as reported, though the answer is lost: it is `false` from then on. */
export type AckFault = { readonly tells?: boolean } & Fault

/** `honest(false)` leaves the state as it is. */
export function faulty(fault: Fault, takes: boolean, honest: (take: boolean) => Answered): Answered {
  // A success is taken, otherwise the fake itself would lose events.
  const success = fault.kind === 'slow' || (fault.kind === 'code' && replies[fault.code][0] === 200)
  const real = honest(success || takes)
  switch (fault.kind) {
    case 'slow':
      return { ...real, delayMs: fault.ms }
    case 'reset':
      return { ...plain(0, '', ''), reset: true }
    case 'endless':
      return endless()
    case 'html':
      return page(200, 'Please sign in')
    case 'garbage':
      return plain(200, Buffer.from([0xff, 0x00, 0x7b, 0xc3]), 'application/octet-stream')
    case 'redirect':
      return { ...page(307, 'Temporary Redirect'), headers: { location: fault.location } }
    case 'status':
      return plain(fault.status, fault.body ?? '', fault.type ?? 'text/plain')
    case 'code': {
      // A success is the honest answer under another code, so that an ackId stays in it.
      if (success) return recode(real, fault.code)
      const reply = coded(fault.code)
      const hint = fault.retryAfter === undefined ? {} : { 'retry-after': fault.retryAfter }
      return { ...reply, headers: { ...reply.headers, ...hint } }
    }
  }
}

function recode(real: Answered, code: Code): Answered {
  if (real.status !== 200 || numberIn(real.body, 'code') === undefined) return real
  const reported = JSON.parse(Buffer.from(real.body).toString('utf8')) as Record<string, unknown>
  return { ...real, body: Buffer.from(JSON.stringify({ ...reported, text: replies[code][1], code })) }
}
