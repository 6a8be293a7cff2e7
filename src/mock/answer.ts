// The mock's answers before they reach a network: status, bytes, and how they are sent or fail.
import { constants, crc32, deflateRawSync } from 'node:zlib'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'

export type Manner =
  | { readonly kind: 'whole' }
  /** in `pieces` pieces, with a pause before each except the first */
  | { readonly kind: 'drip'; readonly pieces: number; readonly pauseMs: number }
  /** silence after the last byte, then the connection ends */
  | { readonly kind: 'cut'; readonly silenceMs: number }
  /** no answer at all */
  | { readonly kind: 'reset' }
  /** after the last byte repeats `unit` forever */
  | { readonly kind: 'endless'; readonly unit: Uint8Array }

/** In memory, or generated while it is sent. */
export type Body = readonly Uint8Array[] | Streamed

export interface Answer {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body
  readonly manner: Manner
  /** Called once: whether all of the body was sent as intended. */
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
  return new ConnectorError('unreachable', 'mock API: the connection broke because of a fault')
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

/**
 * The body as sent; throws ConnectorError `unreachable` where the connection is to break, `aborted` if the reader has left.
 */
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

// Bodies too large for memory: generated piece by piece while they are sent, with faults and compression applied.

export interface Streamed {
  /** number of pieces that `pieces` yields */
  readonly count: number
  /** total bytes, if counted */
  readonly length?: number
  /** Starts again at each call; the pieces are always the same. */
  pieces(): Iterable<Uint8Array>
  /** A separator and an element, for the endless fault. */
  again(): Uint8Array
}

const GROUP_BYTES = 65_536

/** Joins small pieces: a write to a socket costs more than a copy. */
function* grouped(pieces: Iterable<Uint8Array>): Generator<Uint8Array, void> {
  let held: Uint8Array[] = []
  let bytes = 0
  for (const piece of pieces) {
    held.push(piece)
    bytes += piece.length
    if (bytes < GROUP_BYTES) continue
    yield held.length === 1 ? piece : Buffer.concat(held)
    held = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(held)
}

/** The first half of the pieces, and the first half of the next one. */
export function halfOf(streamed: Streamed): Streamed {
  const half = Math.floor(streamed.count / 2)
  const pieces = function* () {
    let number = 0
    for (const piece of streamed.pieces()) {
      if (number++ < half) yield piece
      else {
        yield piece.subarray(0, Math.floor(piece.length / 2))
        return
      }
    }
  }
  return { count: half + 1, pieces, again: () => streamed.again() }
}

export function withoutLast(streamed: Streamed): Streamed {
  const pieces = function* () {
    let number = 0
    for (const piece of streamed.pieces()) if (++number < streamed.count) yield piece
  }
  return { count: streamed.count - 1, pieces, again: () => streamed.again() }
}

const GZIP_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255])
const LAST_BLOCK = Buffer.from([3, 0])

/**
 * One member of gzip (RFC 1952), each group of pieces deflated separately and flushed to a byte, so that nothing stays in memory
 * and nothing waits for a thread. `whole` false omits its end: for a body that was cut before compression.
 */
export function gzipped(streamed: Streamed, whole: boolean): Streamed {
  const pieces = function* () {
    let sum = 0
    let bytes = 0
    yield GZIP_HEADER
    for (const group of grouped(streamed.pieces())) {
      sum = crc32(group, sum)
      bytes += group.length
      yield deflateRawSync(group, { level: 1, finishFlush: constants.Z_SYNC_FLUSH })
    }
    if (!whole) return
    const trailer = Buffer.alloc(8)
    trailer.writeUInt32LE(sum, 0)
    trailer.writeUInt32LE(bytes % 2 ** 32, 4)
    yield LAST_BLOCK
    yield trailer
  }
  return { count: streamed.count, pieces, again: () => streamed.again() }
}
