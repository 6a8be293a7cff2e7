// The bytes that a RELP receiver sends, cut into its frames as they come in; what is no frame is refused early. Pure.
import { LF, NINE, SPACE, ZERO } from '../../core/bytes.ts'
import type { ByteWriter } from '../../core/bytes.ts'
import { ConnectorError } from '../../core/errors.ts'
import { printable } from '../../core/printable.ts'

/** A receiver's own words; its offers are the longest of them. */
const LONGEST_DATA_BYTES = 8_192
const LONGEST_NUMBER = 9
const LONGEST_COMMAND = 32

/** What no answer has: its data was empty. */
export const EMPTY = 1
export const OK = 200

/** One frame: its data is `bytes[start, end)`, good until the call returns. */
type TakeReply = (txnr: number, command: string, bytes: Uint8Array, start: number, end: number) => void

const isDigit = (byte: number): boolean => byte >= ZERO && byte <= NINE
const isLetter = (byte: number): boolean => {
  const lower = byte | 32
  return lower >= 97 && lower <= 122
}

export class ReplyParser {
  readonly #where: string
  /** the begun frame at the end of what came so far: bounded, as one frame is */
  #rest: Uint8Array = new Uint8Array(0)
  // where the scan stands, so that no step of it answers with an object
  #at = 0
  #number = 0

  constructor(where: string) {
    this.#where = where
  }

  /** Calls `take` for each frame that is whole by now. Throws `bad_reply` for what can no longer become one. */
  push(chunk: Uint8Array, take: TakeReply): void {
    const bytes: Uint8Array = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let from = 0
    while (from < bytes.length) {
      this.#at = from
      if (!this.#frame(bytes, take)) break
      from = this.#at
    }
    // A Buffer's own slice would be a view, which keeps all of a chunk and changes with it.
    this.#rest = new Uint8Array(bytes.subarray(from))
  }

  /** False: the frame at `#at` is not whole yet. */
  #frame(bytes: Uint8Array, take: TakeReply): boolean {
    if (!this.#readNumber(bytes)) return false
    const txnr = this.#number
    if (bytes[this.#at++] !== SPACE) throw this.#bad('a space behind the number')
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

  /** Digits and the byte behind them, which stands at `#at` afterwards. */
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

  /** Letters and the space behind them. */
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
    const isRsp = at - from === 3 && bytes[from] === 114 && bytes[from + 1] === 115 && bytes[from + 2] === 112
    return isRsp ? 'rsp' : String.fromCharCode(...bytes.subarray(from, at))
  }

  /** Where the data begins, its LF there too; -1: not yet. A space before no data is not written, but harms nobody. */
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
      `${this.#where}: what it sends is not RELP (want ${wanted}); is the address that of a RELP listener?`,
    )
  }
}

/** The three digits that an answer begins with; EMPTY without data; undefined where it begins otherwise. */
export function codeOf(bytes: Uint8Array, start: number, end: number): number | undefined {
  if (start === end) return EMPTY
  if (end - start < 3) return undefined
  let code = 0
  for (let at = start; at < start + 3; at++) {
    const byte = bytes[at] as number
    if (!isDigit(byte)) return undefined
    code = code * 10 + byte - ZERO
  }
  const behind = end - start === 3 ? SPACE : bytes[start + 3]
  return code >= 100 && (behind === SPACE || behind === LF) ? code : undefined
}

// A RELP frame as we send it: number, command, length, data, LF. Pure; knows no connection.

/** Nine digits are all that a number may have; a session ends before it would need more. */
export const LARGEST_TXNR = 999_999_999

export type Command = 'open' | 'syslog' | 'close'

const ascii = new TextEncoder()
const words: Readonly<Record<Command, Uint8Array>> = {
  open: ascii.encode(' open '),
  syslog: ascii.encode(' syslog '),
  close: ascii.encode(' close '),
}

/** What we can do. Receivers in the field speak version 0, whatever the specification counts. */
export const offers = ascii.encode('relp_version=0\nrelp_software=auditferry\ncommands=syslog\n')

function putNumber(out: ByteWriter, value: number): void {
  let digits = 1
  for (let rest = value; rest >= 10; rest = Math.floor(rest / 10)) digits++
  out.reserve(digits)
  let rest = value
  for (let at = out.length + digits - 1; at >= out.length; at--) {
    out.bytes[at] = ZERO + (rest % 10)
    rest = Math.floor(rest / 10)
  }
  out.length += digits
}

/** Without data no space follows the length: a receiver takes it for data that nobody announced. */
export function putFrame(out: ByteWriter, txnr: number, command: Command, data: Uint8Array): void {
  putNumber(out, txnr)
  out.copy(words[command])
  putNumber(out, data.length)
  if (data.length > 0) {
    out.byte(SPACE)
    out.copy(data)
  }
  out.byte(LF)
}

// What a receiver answers to `open`: whether it is one that we can talk to. Pure.

/** 0 is what the field speaks, 1 what the specification counts: the same frames. */
const versions = ['0', '1']
const LONGEST_WORDS = 80

const utf8 = new TextDecoder()

/** The first line that a receiver said, for a log: nothing of ours can stand in it yet. */
function sentenceOf(said: string): string {
  const [first = ''] = said.split('\n')
  const words = printable(first.slice(0, LONGEST_WORDS))
  return words === '' ? 'nothing' : `"${words}"`
}

/** undefined: it takes syslog messages in a version that we speak. */
export function faultOfOffers(where: string, code: number, bytes: Uint8Array): ConnectorError | undefined {
  const said = utf8.decode(bytes)
  const fault = (what: string) => new ConnectorError('misconfigured', `${where}: ${what}`)
  if (code !== OK) return fault(`refuses the session and says ${sentenceOf(said)}; see its own log`)
  const offers = new Map(said.split('\n').slice(1).map(split))
  const version = offers.get('relp_version')
  if (version === undefined)
    return fault('opens a session without naming its RELP version; is it a RELP listener?')
  if (!versions.includes(version)) return fault('speaks a RELP version that we do not; expected 0 or 1')
  const commands =
    offers
      .get('commands')
      ?.split(',')
      .map((each) => each.trim()) ?? []
  if (!commands.includes('syslog'))
    return fault('opens a session but takes no syslog messages; does its configuration allow them?')
  return undefined
}

function split(line: string): [string, string] {
  const at = line.indexOf('=')
  return at < 0 ? [line.trim(), ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]
}
