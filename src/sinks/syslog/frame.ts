// One line as one syslog message after its octet count, or as several if it is too large.
// A line without bytes may not be sent.
import {
  COLUMNS,
  Entries,
  ID_END,
  ID_START,
  RAW_END,
  RAW_START,
  TIME_END,
  TIME_START,
} from '../../contracts/entries.ts'
import type { ChunkSlice } from '../../contracts/journal.ts'
import type { Format, Frame } from '../../contracts/sink.ts'
import { BACKSLASH, ByteWriter, SPACE, ZERO } from '../../core/bytes.ts'
import { compactEntry } from '../../core/json.ts'
import { characterStart, headerOf, neutralise, severityOf } from './header.ts'
import type { Header, HeaderOptions, MessagePart } from './header.ts'

/** Sizes of messages that were too large, with header, by sequence number. */
export type OversizeBytes = Map<number, number>

/** A smaller piece of text is useless: the header has left no room. */
const LEAST_PIECE_BYTES = 64
/** Bound of all messages of one entry (invariant 4); larger splits would be mostly headers. */
const MOST_SPLIT_BYTES = 64 * 1024 * 1024
/** Most bytes of the octet count before a message and its space. */
const COUNT_BYTES = 10
/** Spare bytes that a writer reserves in addition to a text. */
const SLACK_BYTES = 3 * COUNT_BYTES
const USUAL_BYTES = 16 * 1024
const KEPT_BYTES = 1024 * 1024
/** A batch that is dropped before delivery leaves its sizes here. */
const MOST_SIZES = 10_000

/** Formats one entry at a time: its text and the header of its message, in reused buffers. */
class Framer {
  readonly #options: HeaderOptions
  readonly #header: Header
  readonly #oversizeBytes: OversizeBytes
  readonly #head = new ByteWriter(1024)
  readonly #text = new ByteWriter(USUAL_BYTES)

  constructor(options: HeaderOptions, oversizeBytes: OversizeBytes) {
    this.#options = options
    this.#oversizeBytes = oversizeBytes
    this.#header = headerOf(options)
  }

  write(run: ChunkSlice, index: number, out: ByteWriter, format: Format): void {
    this.#format(run, index, format)
    const { bytes, length } = this.#text
    const severity = severityOf(bytes, length)
    const memory = this.#options.max_message_bytes - this.#writeHead(run, index, severity)
    if (length <= memory) this.#writeMessage(bytes.subarray(0, length), out)
    else this.#writeOversize(run, index, severity, memory, out, format)
    // Frees the buffer of a single huge entry.
    this.#text.clear(KEPT_BYTES)
  }

  #format(run: ChunkSlice, index: number, format: Format): void {
    const text = this.#text
    text.clear()
    format(run, index, text)
    neutralise(text.bytes, 0, text.length)
  }

  /** Returns the length of the header. */
  #writeHead(run: ChunkSlice, index: number, severity: number, part?: MessagePart): number {
    const head = this.#head
    head.clear()
    this.#header(run, index, severity, part, head)
    return head.length
  }

  #writeOversize(
    run: ChunkSlice,
    index: number,
    severity: number,
    memory: number,
    out: ByteWriter,
    format: Format,
  ): void {
    const { oversize, max_message_bytes: most } = this.#options
    const sizes = this.#oversizeBytes
    if (sizes.size >= MOST_SIZES) sizes.clear()
    sizes.set(run.firstSeq + index, most - memory + this.#text.length)
    if (oversize === 'dead_letter') return
    if (oversize === 'compact') {
      if (writeSmaller(run, index, format, memory, this.#text)) {
        this.#writeMessage(this.#text.view(), out)
        return
      }
      this.#format(run, index, format)
    }
    this.#split(run, index, severity, out)
  }

  #split(run: ChunkSlice, index: number, severity: number, out: ByteWriter): void {
    const text = this.#text
    // The number of parts decides how long their numbers are, and that decides the number of parts.
    for (let most = 9; most < 1e9; most = most * 10 + 9) {
      const headBytes = this.#writeHead(run, index, severity, { number: most, of: most })
      const memory = this.#options.max_message_bytes - headBytes
      if (memory < LEAST_PIECE_BYTES) return
      const ends = pieceEnds(text.view(), memory)
      if (ends.length > most) continue
      const bytes = text.length + ends.length * (headBytes + COUNT_BYTES)
      if (bytes > MOST_SPLIT_BYTES) return
      // Reserved exactly, in one step: with small messages the headers are several times the entry.
      out.reserve(bytes + SLACK_BYTES)
      ends.forEach((end, i) => {
        this.#writeHead(run, index, severity, { number: i + 1, of: ends.length })
        this.#writeMessage(text.bytes.subarray(ends[i - 1] ?? 0, end), out)
      })
      return
    }
  }

  /** Appends the message to the current header. */
  #writeMessage(text: Uint8Array, out: ByteWriter): void {
    const head = this.#head
    out.text(`${head.length + text.length} `)
    out.copy(head.bytes, 0, head.length)
    out.copy(text)
  }
}

export function syslogFrame(options: HeaderOptions, oversizeBytes: OversizeBytes = new Map()): Frame {
  const framer = new Framer(options, oversizeBytes)
  return (run, index, out, format) => framer.write(run, index, out, format)
}

// Where a message that is too large may be cut: never within a character or a JSON escape.

const SMALL_U = 117
/** `\uXXXX` */
const UNICODE_BYTES = 6

/** True if byte `at` is a backslash that begins an escape, not the second one of a pair. */
function beginsEscape(bytes: Uint8Array, at: number, from: number): boolean {
  let first = at
  while (first > from && bytes[first - 1] === BACKSLASH) first--
  return (at - first) % 2 === 0
}

/** The last backslash before `at` whose escape could extend over it. */
function escapeBefore(bytes: Uint8Array, from: number, at: number): number | undefined {
  for (let i = at - 1; i >= from && i > at - UNICODE_BYTES; i--)
    if (bytes[i] === BACKSLASH) return beginsEscape(bytes, i, from) ? i : undefined
  return undefined
}

/** `\ud83d\ude00` is one character: a cut between its halves moves before the first. */
function pairBefore(bytes: Uint8Array, from: number, at: number): boolean {
  const start = at - UNICODE_BYTES
  if (start < from || bytes[at] !== BACKSLASH || bytes[start] !== BACKSLASH) return false
  const text = Buffer.from(bytes.subarray(start, at + UNICODE_BYTES)).toString('latin1')
  return /^\\u[dD][89abAB]..\\u[dD][c-fC-F]/.test(text) && beginsEscape(bytes, start, from)
}

/** The last position up to `limit` where `bytes` may be cut, for a piece that begins at `from`. */
function cutAt(bytes: Uint8Array, from: number, limit: number): number {
  if (limit >= bytes.length) return bytes.length
  let at = characterStart(bytes, limit)
  const escape = escapeBefore(bytes, from, at)
  if (escape !== undefined) {
    const length = bytes[escape + 1] === SMALL_U ? UNICODE_BYTES : 2
    if (escape + length > at) at = escape
  }
  if (pairBefore(bytes, from, at)) at -= UNICODE_BYTES
  return at > from ? at : limit
}

/** Ends of the pieces of at most `pieceBytes` each. */
function pieceEnds(bytes: Uint8Array, pieceBytes: number): readonly number[] {
  const ends: number[] = []
  for (let at = 0; at < bytes.length;) {
    at = cutAt(bytes, at, at + pieceBytes)
    ends.push(at)
  }
  return ends
}

// The messages of one line, which is one entry: each after its octet count.

/** The messages in `bytes[start, end)`, without counts, as views. An empty line has none. */
export function* messagesIn(bytes: Uint8Array, start: number, end: number): Generator<Uint8Array> {
  let at = start
  while (at < end) {
    let length = 0
    for (; at < end && bytes[at] !== SPACE; at++) length = length * 10 + ((bytes[at] as number) - ZERO)
    const from = at + 1
    at = from + length
    yield bytes.subarray(from, at)
  }
}

// A smaller version of an entry with the same id, time, type and version, which a format writes
// like any other.

/** A format may write a dropped byte twice, or not at all: the right size is found by trial. */
const MOST_TRIES = 8

function withBody(run: ChunkSlice, index: number, body: Uint8Array): ChunkSlice {
  const { entries } = run
  const slice = (start: number, end: number) =>
    entries.bytes.subarray(entries.column(index, start), entries.column(index, end))
  const [id, time] = [slice(ID_START, ID_END), slice(TIME_START, TIME_END)]
  const columns = entries.columns.slice(index * COLUMNS, (index + 1) * COLUMNS)
  columns[RAW_START] = 0
  columns[RAW_END] = columns[ID_START] = body.length
  columns[ID_END] = columns[TIME_START] = body.length + id.length
  columns[TIME_END] = body.length + id.length + time.length
  const times = entries.times.slice(index, index + 1)
  const bytes = Buffer.concat([body, id, time])
  return { ...run, entries: new Entries(bytes, 1, columns, times, entries.types) }
}

/** Replaces the content of `out` with at most `maxBytes` of text; false if that is impossible. */
function writeSmaller(
  run: ChunkSlice,
  index: number,
  format: Format,
  maxBytes: number,
  out: ByteWriter,
): boolean {
  const raw = run.entries.raw(index)
  let size = raw.length
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    // First in proportion, which drops no more than needed; then by the remaining excess.
    size = tries === 0 ? Math.floor((size * maxBytes) / out.length) : size - (out.length - maxBytes)
    const body = size > 0 ? compactEntry(raw, size) : undefined
    if (!body) return false
    size = body.length
    out.clear()
    format(withBody(run, index, body), 0, out)
    neutralise(out.bytes, 0, out.length)
    if (out.length <= maxBytes) return true
  }
  return false
}
