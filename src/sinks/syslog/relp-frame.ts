// A RELP frame as we send it: number, command, length, data, LF. Pure; knows no connection.
import { LF, SPACE, ZERO } from '../../model/ascii.ts'
import type { ByteWriter } from '../../model/writer.ts'

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
