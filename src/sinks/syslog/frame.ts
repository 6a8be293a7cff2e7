// One line as one syslog message behind its octet count, or as several where it is too large; a line without bytes is one that may not be sent.
import type { Run } from '../../model/journal.ts'
import type { Format, Frame } from '../../model/sink.ts'
import { ByteWriter } from '../../model/writer.ts'
import { pieceEnds } from './cut.ts'
import { type HeaderOptions, headerOf } from './header.ts'
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

function writeMessage(head: ByteWriter, text: Uint8Array, out: ByteWriter): void {
  out.text(`${head.length + text.length} `)
  out.copy(head.bytes, 0, head.length)
  out.copy(text)
}

export function syslogFrame(options: FrameOptions): Frame {
  const { maxMessageBytes, oversize } = options
  const header = headerOf(options)
  const head = new ByteWriter(1024)
  const text = new ByteWriter(USUAL_BYTES)

  const formatInto = (run: Run, index: number, format: Format) => {
    text.clear()
    format(run, index, text)
    neutralise(text.bytes, 0, text.length)
  }

  const headBytes = (run: Run, index: number, severity: number, most?: number): number => {
    head.clear()
    header(run, index, severity, most === undefined ? undefined : { number: most, of: most }, head)
    return head.length
  }

  const split = (run: Run, index: number, severity: number, out: ByteWriter) => {
    // How many parts there are decides how long their numbers are, which decides how many there are.
    for (let most = 9; most < 1e9; most = most * 10 + 9) {
      const room = maxMessageBytes - headBytes(run, index, severity, most)
      if (room < LEAST_PIECE_BYTES) return
      const ends = pieceEnds(text.view(), room)
      if (ends.length > most) continue
      const bytes = text.length + ends.length * (head.length + COUNT_BYTES)
      if (bytes > MOST_SPLIT_BYTES) return
      // At once, and no more: with small messages the headers are several times the entry.
      out.reserve(bytes + SLACK_BYTES)
      ends.forEach((end, i) => {
        head.clear()
        header(run, index, severity, { number: i + 1, of: ends.length }, head)
        writeMessage(head, text.bytes.subarray(ends[i - 1] ?? 0, end), out)
      })
      return
    }
  }

  const shrink = (run: Run, index: number, format: Format, room: number): boolean => {
    if (writeSmaller(run, index, format, room, text)) return true
    formatInto(run, index, format)
    return false
  }

  const write: Frame = (run, index, out, format) => {
    formatInto(run, index, format)
    const severity = severityOf(text.bytes, text.length)
    const room = maxMessageBytes - headBytes(run, index, severity)
    if (text.length > room) {
      if (oversize === 'dead_letter') return
      if (oversize === 'split' || !shrink(run, index, format, room)) {
        split(run, index, severity, out)
        return
      }
    }
    writeMessage(head, text.bytes.subarray(0, text.length), out)
  }

  return (run, index, out, format) => {
    write(run, index, out, format)
    // A single huge entry leaves no huge buffer behind.
    text.clear(KEPT_BYTES)
  }
}
