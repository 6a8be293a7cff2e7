// Fields and files as multipart/form-data (RFC 7578). What it makes follows from its parts alone.
import { createHash } from 'node:crypto'

export interface FormPart {
  readonly name: string
  readonly bytes: Uint8Array
  /** of a file, with its media type */
  readonly fileName?: string
  readonly type?: string
}

/** A name inside quotes, as browsers write it: nothing in it ends the header. */
const quoted = (name: string): string =>
  `"${name.replace(/["\r\n]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)}"`

/** Occurs in none of the parts: taken from their own hash, and taken again in the case that it does. */
function boundaryFor(parts: readonly FormPart[]): string {
  for (let attempt = 0; ; attempt++) {
    const hash = createHash('sha256').update(String(attempt))
    for (const { bytes } of parts) hash.update(bytes)
    const boundary = `form-${hash.digest('hex').slice(0, 40)}`
    if (
      !parts.some(({ bytes }) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(boundary))
    )
      return boundary
  }
}

function headOf({ name, fileName, type }: FormPart): string {
  const file = fileName === undefined ? '' : `; filename=${quoted(fileName)}`
  // A line end in a media type would begin a header of its own.
  const kind = type === undefined ? '' : `Content-Type: ${type.replace(/[\r\n]/g, ' ')}\r\n`
  return `Content-Disposition: form-data; name=${quoted(name)}${file}\r\n${kind}\r\n`
}

export function formData(parts: readonly FormPart[]): { readonly type: string; readonly body: Uint8Array } {
  const boundary = boundaryFor(parts)
  const pieces = parts.flatMap((part) => [
    Buffer.from(`--${boundary}\r\n${headOf(part)}`),
    part.bytes,
    Buffer.from('\r\n'),
  ])
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]),
  }
}
