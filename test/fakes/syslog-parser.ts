// A receiver's view of a syslog stream, written from RFC 5424, 3164 and 6587 alone: it knows nothing of how the sink writes.

export interface Message {
  readonly facility: number
  readonly severity: number
  readonly time: string
  readonly hostname: string
  readonly appName: string
  readonly procId?: string
  readonly msgId?: string
  /** of the one element; its name under '' */
  readonly data: Readonly<Record<string, string>>
  readonly text: Buffer
}

/** Octet counting of RFC 6587; throws if the stream is out of step. */
export function framesOf(stream: Buffer): Buffer[] {
  const frames: Buffer[] = []
  let rest = stream
  while (rest.length > 0) {
    const [whole, digits] = /^([1-9]\d{0,8}) /.exec(rest.toString('latin1', 0, 12)) ?? []
    if (whole === undefined) throw new Error(`no count at ${JSON.stringify(rest.toString('latin1', 0, 20))}`)
    const length = Number(digits)
    if (rest.length < whole.length + length) throw new Error('the last frame is cut short')
    frames.push(rest.subarray(whole.length, whole.length + length))
    rest = rest.subarray(whole.length + length)
  }
  return frames
}

function paramsOf(text: string): { data: Record<string, string>; length: number } {
  const [, name = ''] = /^\[([\x21\x23-\x3c\x3e-\x5c\x5e-\x7e]{1,32})/.exec(text) ?? []
  if (name === '') throw new Error('no structured data')
  const data: Record<string, string> = { '': name }
  let at = 1 + name.length
  while (text[at] === ' ') {
    const [whole = '', key = '', value = ''] =
      /^ ([\x21\x23-\x3c\x3e-\x5c\x5e-\x7e]{1,32})="((?:[^"\\\]]|\\["\\\]])*)"/.exec(text.slice(at)) ?? []
    if (key === '' || key in data) throw new Error('a parameter that is none, or twice')
    data[key] = value.replace(/\\(["\\\]])/g, '$1')
    at += whole.length
  }
  if (text[at] !== ']' || text[at + 1] !== ' ') throw new Error('structured data without an end')
  return { data, length: at + 2 }
}

const priority = (digits: string) => ({ facility: Number(digits) >> 3, severity: Number(digits) & 7 })

/** Throws on whatever RFC 5424 does not allow. Works on bytes: the text may be cut anywhere in JSON. */
export function parse5424(frame: Buffer): Message {
  const text = frame.toString('latin1')
  const found =
    /^<(0|[1-9]\d{0,2})>1 (-|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ([\x21-\x7e]{1,255}) ([\x21-\x7e]{1,48}) ([\x21-\x7e]{1,128}) ([\x21-\x7e]{1,32}) /.exec(
      text,
    )
  if (!found) throw new Error(`no header of RFC 5424: ${text.slice(0, 80)}`)
  const [whole, digits = '', time = '', hostname = '', appName = '', procId = '', msgId = ''] = found
  if (Number(digits) > 191) throw new Error('no such priority')
  const { data, length } = paramsOf(text.slice(whole.length))
  for (const key of Object.keys(data)) data[key] = Buffer.from(data[key] ?? '', 'latin1').toString()
  const body = frame.subarray(whole.length + length)
  return { ...priority(digits), time, hostname, appName, procId, msgId, data, text: body }
}

export function parse3164(frame: Buffer): Message {
  const found =
    /^<(0|[1-9]\d{0,2})>([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) ([\x21-\x7e]{1,255}) ([A-Za-z0-9_./-]{1,32}): /.exec(
      frame.toString('latin1'),
    )
  if (!found) throw new Error('no header of RFC 3164')
  const [whole, digits = '', time = '', hostname = '', appName = ''] = found
  const text = frame.subarray(whole.length)
  return { ...priority(digits), time, hostname, appName, data: {}, text }
}
