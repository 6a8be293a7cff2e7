// Reads forms: multipart/form-data (RFC 7578) and application/x-www-form-urlencoded.

export interface Part {
  readonly name: string
  /** undefined: a plain field */
  readonly fileName: string | undefined
  readonly bytes: Uint8Array
}

const BREAK = Buffer.from('\r\n')
const BLANK = Buffer.from('\r\n\r\n')

/** A parameter of a header, quoted or not. In a file's name, curl writes a quote as \". */
function parameter(value: string, name: string): string | undefined {
  const match = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^;\\s]+))`, 'i').exec(value)
  return match?.[1]?.replace(/\\(["\\])/g, '$1') ?? match?.[2]
}

function headersOf(head: string): Map<string, string> {
  const headers = new Map<string, string>()
  for (const line of head.split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) headers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim())
  }
  return headers
}

function partOf(piece: Buffer): Part | undefined {
  const blank = piece.indexOf(BLANK)
  if (blank < 0) return undefined
  const headers = headersOf(piece.toString('utf8', 0, blank))
  const disposition = headers.get('content-disposition') ?? ''
  const name = parameter(disposition, 'name')
  if (!/^form-data\b/i.test(disposition) || name === undefined) return undefined
  const fileName = parameter(disposition, 'filename')
  return { name, fileName, bytes: piece.subarray(blank + BLANK.length) }
}

/** Undefined if the body has no valid end, or a part is invalid. */
function partsOf(body: Buffer, boundary: string): Part[] | undefined {
  const delimiter = Buffer.from(`\r\n--${boundary}`)
  // The first delimiter may be at the very beginning, without its line break.
  const whole = Buffer.concat([BREAK, body])
  const parts: Part[] = []
  let at = whole.indexOf(delimiter)
  while (at >= 0) {
    const after = at + delimiter.length
    if (whole.toString('latin1', after, after + 2) === '--') return parts
    const start = whole.indexOf(BREAK, after)
    const end = start < 0 ? -1 : whole.indexOf(delimiter, start)
    const part = end < 0 ? undefined : partOf(whole.subarray(start + BREAK.length, end))
    if (!part) return undefined
    parts.push(part)
    at = end
  }
  return undefined
}

/** The parts in their order; undefined if it is no form, or a broken one. */
export function readForm(contentType: string | undefined, body: Uint8Array): Part[] | undefined {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const type = (contentType ?? '').split(';')[0]?.trim().toLowerCase()
  if (type === 'application/x-www-form-urlencoded')
    return [...new URLSearchParams(bytes.toString())].map(([name, value]) => ({
      name,
      fileName: undefined,
      bytes: Buffer.from(value),
    }))
  const boundary = type === 'multipart/form-data' ? parameter(contentType ?? '', 'boundary') : undefined
  return boundary === undefined ? undefined : partsOf(bytes, boundary)
}

/** The text of the fields with that name. */
export function fieldsOf(parts: readonly Part[], name: string): string[] {
  return parts.filter((part) => part.name === name).map(({ bytes }) => Buffer.from(bytes).toString())
}

/** The body, in memory. Undefined if it is longer than `bound`; the rest is not read. */
export async function readBody(
  given: Uint8Array | AsyncIterable<Uint8Array>,
  bound: number,
): Promise<Uint8Array | undefined> {
  if (given instanceof Uint8Array) return given.length > bound ? undefined : given
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of given) {
    bytes += piece.length
    if (bytes > bound) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
