// The mock's answers: their status, headers and body, and how the body is sent or breaks off.
import { constants, crc32, deflateRawSync, gzipSync } from 'node:zlib'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Area } from './keys.ts'

/** In memory, or generated while it is sent. */
export interface Body {
  /** number of pieces */
  readonly count: number
  /** total bytes; undefined if they are not counted, so that the body is sent in chunks */
  readonly length?: number | undefined
  /** Starts again at each call; the pieces are always the same. */
  pieces(): Iterable<Uint8Array>
  /** A separator and an element, for the fault `endless`. */
  again(): Uint8Array
}

/** An answer before faults, compression and common headers are applied. */
export interface Reply {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body
  /** number of elements in the body */
  readonly elements?: number
  /** Called when the body was sent completely: its elements count as shown. */
  readonly show?: ((at: number) => void) | undefined
}

const blanks = () => Buffer.alloc(65_536, ' ')

export function inMemory(pieces: readonly Uint8Array[], again: () => Uint8Array = blanks): Body {
  const length = pieces.reduce((total, piece) => total + piece.length, 0)
  return { count: pieces.length, length, pieces: () => pieces, again }
}

/** Separators with white space, which JSON allows; most answers have a plain comma. */
export function separatorOf(chance: number): string {
  return [', ', ',\n', ' ,\r\n  '][Math.floor(chance * 60)] ?? ','
}

export function replyOf(status: number, body: Body, type = 'application/json'): Reply {
  const { length } = body
  const size = length === undefined ? {} : { 'content-length': String(length) }
  return { status, headers: { 'content-type': type, ...size }, body }
}

/** JSON text, whole or in pieces. */
export function json(status: number, ...pieces: (string | Uint8Array)[]): Reply {
  const bytes = pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece))
  return replyOf(status, inMemory(bytes))
}

/** The messages of spec §7. An area without its own (vault: 429) has the common one. */
const messages: Readonly<Record<string, string>> = {
  '401': 'Unauthorized',
  '403': 'Forbidden',
  '404': 'Not found',
  '410': 'Gone',
  '429': 'Rate limit exceeded',
  '500': 'Unexpected server error',
  'audit 400': 'Missing required filters',
  'history 400': 'Missing start_time',
  'vault 400': 'Missing file',
  'vault 404': 'File not found',
  'assistant 400': 'Missing prompt parameter',
  'assistant 401': 'Invalid API key provided',
  'assistant 500': 'An internal error occurred',
}

/** Every error that the mock answers with. `message` replaces the documented one. */
export function failure(
  area: Area,
  status: number,
  message = messages[`${area} ${status}`] ?? messages[status],
  headers: Readonly<Record<string, string>> = {},
): Reply {
  const reply = json(status, JSON.stringify({ error: message }))
  return { ...reply, headers: { ...reply.headers, ...headers } }
}

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

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body
  readonly manner: Manner
  /** Called once: whether all of the body was sent as intended. */
  ended(whole: boolean): void
}

export function aborted(): ConnectorError {
  return new ConnectorError('aborted', 'mock API: the caller gave up the request')
}

export function broken(): ConnectorError {
  return new ConnectorError('unreachable', 'mock API: a fault broke the connection')
}

function* slices(body: Body, count: number): Generator<Uint8Array, void> {
  const whole = Buffer.concat([...body.pieces()])
  const size = Math.max(1, Math.ceil(whole.length / count))
  for (let at = 0; at < whole.length; at += size) yield whole.subarray(at, at + size)
}

async function* flow(answer: Answer, clock: Clock, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
  const { body, manner } = answer
  if (manner.kind === 'drip') {
    const isCounted = body.length !== undefined
    const pieces = isCounted ? slices(body, manner.pieces) : body.pieces()
    const each = isCounted ? 1 : Math.max(1, Math.ceil(body.count / manner.pieces))
    let number = 0
    for (const piece of pieces) {
      if (number > 0 && number % each === 0) await clock.sleep(manner.pauseMs, signal)
      number++
      yield piece
    }
    return
  }
  for (const piece of body.length === undefined ? grouped(body.pieces()) : body.pieces())
    if (piece.length > 0) yield piece
  while (manner.kind === 'endless') yield manner.unit
  if (manner.kind === 'whole') return
  if (manner.kind === 'cut' && manner.silenceMs > 0) await clock.sleep(manner.silenceMs, signal)
  throw signal.aborted ? aborted() : broken()
}

/**
 * The body as sent. Throws ConnectorError `unreachable` if the connection breaks, `aborted` if the
 * reader has left.
 */
export async function* pour(
  answer: Answer,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  let whole = false
  try {
    for await (const piece of flow(answer, clock, signal)) {
      if (signal.aborted) throw aborted()
      yield piece
    }
    whole = true
  } finally {
    answer.ended(whole)
  }
}

const GROUP_BYTES = 65_536

/** Joins small pieces: a write to a socket costs more than a copy. */
function* grouped(pieces: Iterable<Uint8Array>): Generator<Uint8Array, void> {
  let group: Uint8Array[] = []
  let bytes = 0
  for (const piece of pieces) {
    group.push(piece)
    bytes += piece.length
    if (bytes < GROUP_BYTES) continue
    yield group.length === 1 ? piece : Buffer.concat(group)
    group = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(group)
}

/** The first `count` pieces of `body`, then a part of the next one: a fraction, 0 for none. */
export function startOf(body: Body, count: number, fraction = 0): Body {
  const pieces = function* () {
    let number = 0
    for (const piece of body.pieces()) {
      if (number++ >= count) {
        if (fraction > 0) yield piece.subarray(0, Math.floor(piece.length * fraction))
        return
      }
      yield piece
    }
  }
  // Pieces in memory stay countable, so that a truncated body can have the right length.
  if (body.length !== undefined) return inMemory([...pieces()], () => body.again())
  return { count: count + (fraction > 0 ? 1 : 0), pieces, again: () => body.again() }
}

const GZIP_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255])
const LAST_BLOCK = Buffer.from([3, 0])

/**
 * One member of gzip (RFC 1952). A body that is not in memory is deflated in groups, each flushed
 * to a byte: no body needs memory, and none waits for a thread. `whole` false omits the end.
 */
export function gzipped(body: Body, whole: boolean): Body {
  if (whole && body.length !== undefined)
    return inMemory([gzipSync(Buffer.concat([...body.pieces()]), { level: 1 })])
  const pieces = function* () {
    let sum = 0
    let bytes = 0
    yield GZIP_HEADER
    for (const group of grouped(body.pieces())) {
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
  return { count: body.count, pieces, again: () => body.again() }
}
