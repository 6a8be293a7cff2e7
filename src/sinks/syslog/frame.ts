// One line as one syslog message behind its octet count, or as several where it is too large; a line without bytes is one that may not be sent.
import type { Run } from '../../model/journal.ts'
import type { Format, Frame } from '../../model/sink.ts'
import { ByteWriter } from '../../model/writer.ts'
import { pieceEnds } from './cut.ts'
import { type Header, type HeaderOptions, headerOf, type MessagePart } from './header.ts'
import { severityOf } from './severity.ts'
import { writeSmaller } from './smaller.ts'
import { neutralise } from './text.ts'

export interface FrameOptions extends HeaderOptions {
  readonly maxMessageBytes: number
  readonly oversize: 'split' | 'compact' | 'dead_letter'
}

/** A piece of text smaller than this is no use to anybody: the header has left no room. */
const LEAST_PIECE_BYTES = 64
/** All messages of one entry: more is held by nobody (law 4), and is headers for the most part. */
const MOST_SPLIT_BYTES = 64 * 1024 * 1024
/** The octet count before a message and its space, at most. */
const COUNT_BYTES = 10
/** What a writer reserves for a text beyond what it takes. */
const SLACK_BYTES = 3 * COUNT_BYTES
const USUAL_BYTES = 16 * 1024
const KEPT_BYTES = 1024 * 1024

/** One entry at a time: its text and the header of its message, in buffers that are used again for the next one. */
class Framer {
  readonly #options: FrameOptions
  readonly #header: Header
  readonly #head = new ByteWriter(1024)
  readonly #text = new ByteWriter(USUAL_BYTES)

  constructor(options: FrameOptions) {
    this.#options = options
    this.#header = headerOf(options)
  }

  write(run: Run, index: number, out: ByteWriter, format: Format): void {
    this.#format(run, index, format)
    const { bytes, length } = this.#text
    const severity = severityOf(bytes, length)
    const room = this.#options.maxMessageBytes - this.#writeHead(run, index, severity)
    if (length <= room) this.#writeMessage(bytes.subarray(0, length), out)
    else this.#writeOversize(run, index, severity, room, out, format)
    // A single huge entry leaves no huge buffer behind.
    this.#text.clear(KEPT_BYTES)
  }

  #format(run: Run, index: number, format: Format): void {
    const text = this.#text
    text.clear()
    format(run, index, text)
    neutralise(text.bytes, 0, text.length)
  }

  /** Returns its length. */
  #writeHead(run: Run, index: number, severity: number, part?: MessagePart): number {
    const head = this.#head
    head.clear()
    this.#header(run, index, severity, part, head)
    return head.length
  }

  #writeOversize(
    run: Run,
    index: number,
    severity: number,
    room: number,
    out: ByteWriter,
    format: Format,
  ): void {
    const { oversize } = this.#options
    if (oversize === 'dead_letter') return
    if (oversize === 'compact') {
      if (writeSmaller(run, index, format, room, this.#text)) {
        this.#writeMessage(this.#text.view(), out)
        return
      }
      this.#format(run, index, format)
    }
    this.#split(run, index, severity, out)
  }

  #split(run: Run, index: number, severity: number, out: ByteWriter): void {
    const { maxMessageBytes } = this.#options
    const text = this.#text
    // How many parts there are decides how long their numbers are, which decides how many there are.
    for (let most = 9; most < 1e9; most = most * 10 + 9) {
      const headBytes = this.#writeHead(run, index, severity, { number: most, of: most })
      const room = maxMessageBytes - headBytes
      if (room < LEAST_PIECE_BYTES) return
      const ends = pieceEnds(text.view(), room)
      if (ends.length > most) continue
      const bytes = text.length + ends.length * (headBytes + COUNT_BYTES)
      if (bytes > MOST_SPLIT_BYTES) return
      // At once, and no more: with small messages the headers are several times the entry.
      out.reserve(bytes + SLACK_BYTES)
      ends.forEach((end, i) => {
        this.#writeHead(run, index, severity, { number: i + 1, of: ends.length })
        this.#writeMessage(text.bytes.subarray(ends[i - 1] ?? 0, end), out)
      })
      return
    }
  }

  /** Behind the header as it stands. */
  #writeMessage(text: Uint8Array, out: ByteWriter): void {
    const head = this.#head
    out.text(`${head.length + text.length} `)
    out.copy(head.bytes, 0, head.length)
    out.copy(text)
  }
}

export function syslogFrame(options: FrameOptions): Frame {
  const framer = new Framer(options)
  return (run, index, out, format) => framer.write(run, index, out, format)
}
