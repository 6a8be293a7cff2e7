// What the mock answers, before it meets a network: status, bytes, and the manner in which they go out or fail to.
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import { grouped } from './stream.ts'
import type { Streamed } from './stream.ts'

export type Manner =
  | { readonly kind: 'whole' }
  /** in `pieces` pieces, with a pause before each but the first */
  | { readonly kind: 'drip'; readonly pieces: number; readonly pauseMs: number }
  /** silence after the last byte, then the connection ends */
  | { readonly kind: 'cut'; readonly silenceMs: number }
  /** no answer at all */
  | { readonly kind: 'reset' }
  /** after the last byte `unit` for ever */
  | { readonly kind: 'endless'; readonly unit: Uint8Array }

/** Held, or made while it is sent. */
export type Body = readonly Uint8Array[] | Streamed

export interface Answer {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body
  readonly manner: Manner
  /** Called once: was all of the body sent as it was meant? */
  ended(whole: boolean): void
}

export function isStreamed(body: Body): body is Streamed {
  return !Array.isArray(body)
}

export function lengthOf(body: readonly Uint8Array[]): number {
  return body.reduce((total, piece) => total + piece.length, 0)
}

export function aborted(): ConnectorError {
  return new ConnectorError('aborted', 'mock API: the request was given up by its caller')
}

export function broken(): ConnectorError {
  return new ConnectorError('unreachable', 'mock API: the connection broke, as a fault told it to')
}

function* stretches(body: readonly Uint8Array[], pieces: number): Generator<Uint8Array, void> {
  const whole = body.length === 1 && body[0] ? body[0] : Buffer.concat(body)
  const size = Math.max(1, Math.ceil(whole.length / pieces))
  for (let at = 0; at < whole.length; at += size) yield whole.subarray(at, at + size)
}

async function* flow(answer: Answer, clock: Clock, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
  const { body, manner } = answer
  if (manner.kind === 'drip') {
    const streamed = isStreamed(body)
    const pieces = streamed ? body.pieces() : stretches(body, manner.pieces)
    const each = streamed ? Math.max(1, Math.ceil(body.count / manner.pieces)) : 1
    let number = 0
    for (const piece of pieces) {
      if (number > 0 && number % each === 0) await clock.sleep(manner.pauseMs, signal)
      number++
      if (signal.aborted) throw aborted()
      yield piece
    }
    return
  }
  for (const piece of isStreamed(body) ? grouped(body.pieces()) : body) {
    if (signal.aborted) throw aborted()
    if (piece.length > 0) yield piece
  }
  while (manner.kind === 'endless') {
    if (signal.aborted) throw aborted()
    yield manner.unit
  }
  if (manner.kind === 'whole') return
  if (manner.kind === 'cut' && manner.silenceMs > 0) await clock.sleep(manner.silenceMs, signal)
  throw signal.aborted ? aborted() : broken()
}

/** The body as it goes over the wire; throws ConnectorError `unreachable` where the connection is to break, `aborted` when the reader left. */
export async function* pour(
  answer: Answer,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  let whole = false
  try {
    yield* flow(answer, clock, signal)
    whole = true
  } finally {
    answer.ended(whole)
  }
}
