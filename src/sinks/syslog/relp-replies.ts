// Parses the bytes of a RELP receiver into frames as they arrive; rejects invalid ones early. Pure.
import { LF, NINE, SPACE, ZERO } from '../../core/bytes.ts'
import type { ByteWriter } from '../../core/bytes.ts'
import { ConnectorError } from '../../core/errors.ts'
import { printable } from '../../core/printable.ts'

/** Longest data of a receiver; its offers are the longest. */
const LONGEST_DATA_BYTES = 8_192
const LONGEST_NUMBER = 9
const LONGEST_COMMAND = 32

/** No answer has this code: it means empty data. */
export const EMPTY = 1
export const OK = 200

/** One frame: its data is `bytes[start, end)`, valid until the call returns. */
type TakeReply = (txnr: number, command: string, bytes: Uint8Array, start: number, end: number) => void

const isDigit = (byte: number): boolean => byte >= ZERO && byte <= NINE
const isLetter = (byte: number): boolean => {
  const lower = byte | 32
  return lower >= 97 && lower <= 122
}

export class ReplyParser {
  readonly #where: string
  /** the incomplete frame at the end; its size is bounded like a frame's */
  #rest: Uint8Array = new Uint8Array(0)
  // the scan position, a field so that no step has to return an object
  #at = 0
  #number = 0

  constructor(where: string) {
    this.#where = where
  }

  /** Calls `take` for each complete frame. Throws `bad_reply` as soon as a frame is invalid. */
  push(chunk: Uint8Array, take: TakeReply): void {
    const bytes: Uint8Array = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let from = 0
    while (from < bytes.length) {
      this.#at = from
      if (!this.#frame(bytes, take)) break
      from = this.#at
    }
    // A copy: a Buffer's slice would be a view that keeps the whole chunk and changes with it.
    this.#rest = new Uint8Array(bytes.subarray(from))
  }

  /** False: the frame at `#at` is not complete yet. */
  #frame(bytes: Uint8Array, take: TakeReply): boolean {
    if (!this.#readNumber(bytes)) return false
    const txnr = this.#number
    if (bytes[this.#at++] !== SPACE) throw this.#bad('a space after the number')
    const command = this.#command(bytes)
    if (command === undefined) return false
    if (!this.#readNumber(bytes)) return false
    const length = this.#number
    if (length > LONGEST_DATA_BYTES) throw this.#bad(`data of at most ${LONGEST_DATA_BYTES} bytes`)
    const start = this.#data(bytes, length)
    if (start < 0) return false
    take(txnr, command, bytes, start, start + length)
    return true
  }

  /** Digits and the byte after them, whose position is in `#at` afterwards. */
  #readNumber(bytes: Uint8Array): boolean {
    const from = this.#at
    let at = from
    let value = 0
    while (at < bytes.length && isDigit(bytes[at] as number)) {
      if (at - from === LONGEST_NUMBER) throw this.#bad(`a number of at most ${LONGEST_NUMBER} digits`)
      value = value * 10 + (bytes[at++] as number) - ZERO
    }
    if (at === bytes.length) return false
    if (at === from) throw this.#bad('a number')
    this.#at = at
    this.#number = value
    return true
  }

  /** Letters and the space after them. */
  #command(bytes: Uint8Array): string | undefined {
    const from = this.#at
    let at = from
    while (at < bytes.length && isLetter(bytes[at] as number)) {
      if (at - from === LONGEST_COMMAND) throw this.#bad(`a command of at most ${LONGEST_COMMAND} letters`)
      at++
    }
    if (at === bytes.length) return undefined
    if (at === from || bytes[at] !== SPACE) throw this.#bad('a command in letters and a space')
    this.#at = at + 1
    return String.fromCharCode(...bytes.subarray(from, at))
  }

  /** Start of the data, once its LF has arrived; else -1. Accepts a space before empty data. */
  #data(bytes: Uint8Array, length: number): number {
    let start = this.#at
    if (bytes[start] === SPACE) start++
    else if (length > 0) throw this.#bad('a space before the data')
    const end = start + length
    if (end >= bytes.length) return -1
    if (bytes[end] !== LF) throw this.#bad('an LF at the end of a frame')
    this.#at = end + 1
    return start
  }

  #bad(wanted: string): ConnectorError {
    return new ConnectorError(
      'bad_reply',
      `${this.#where}: its answer is not RELP (want ${wanted}); check that the address is that of a RELP listener`,
    )
  }
}

const codePattern = /^([1-9]\d\d)(?:[ \n]|$)/

/** The three digits at the start of an answer; EMPTY without data; undefined for anything else. */
export function codeOf(bytes: Uint8Array, start: number, end: number): number | undefined {
  if (start === end) return EMPTY
  const head = Buffer.from(bytes.subarray(start, Math.min(start + 4, end))).toString('latin1')
  const digits = codePattern.exec(head)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

// A RELP frame to send: number, command, length, data, LF. Pure, without a connection.

/** Numbers have at most nine digits; a session ends before it would need more. */
export const LARGEST_TXNR = 999_999_999

export type Command = 'open' | 'syslog' | 'close'

/** Our offers. Real receivers use version 0, although the specification counts differently. */
export const offers = Buffer.from('relp_version=0\nrelp_software=auditferry\ncommands=syslog\n')

/** Without data no space follows the length: a receiver would take it for unannounced data. */
export function putFrame(out: ByteWriter, txnr: number, command: Command, data: Uint8Array): void {
  out.text(`${txnr} ${command} ${data.length}`)
  if (data.length > 0) {
    out.byte(SPACE)
    out.copy(data)
  }
  out.byte(LF)
}

// Evaluates a receiver's answer to `open`: whether we can use it. Pure.

/** Real receivers send 0, the specification says 1: the frames are the same. */
const versions = ['0', '1']
const LONGEST_WORDS = 80

const utf8 = new TextDecoder()

/** The first line of the receiver's text, for the log: it cannot contain our data yet. */
function sentenceOf(said: string): string {
  const [first = ''] = said.split('\n')
  const words = printable(first.slice(0, LONGEST_WORDS))
  return words === '' ? 'nothing' : `"${words}"`
}

/** undefined: it accepts syslog messages in a version that we support. */
export function faultOfOffers(where: string, code: number, bytes: Uint8Array): ConnectorError | undefined {
  const said = utf8.decode(bytes)
  const fault = (what: string) => new ConnectorError('misconfigured', `${where}: ${what}`)
  if (code !== OK) return fault(`refuses the session and says ${sentenceOf(said)}; see its own log`)
  const offers = new Map(said.split('\n').slice(1).map(split))
  const version = offers.get('relp_version')
  if (version === undefined)
    return fault('opens a session without naming its RELP version; is it a RELP listener?')
  if (!versions.includes(version)) return fault('speaks a RELP version that we do not; expected 0 or 1')
  const commands = (offers.get('commands') ?? '').split(',').map((each) => each.trim())
  if (!commands.includes('syslog'))
    return fault('opens a session but accepts no syslog messages; check its configuration')
  return undefined
}

function split(line: string): [string, string] {
  const at = line.indexOf('=')
  return at < 0 ? [line.trim(), ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]
}
