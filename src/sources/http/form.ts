// Fields and files of a request as multipart/form-data (RFC 7578). Files stream through.
import { randomDigits } from '../../core/clock.ts'
import type { Random } from '../../core/clock.ts'
import type { Ask } from './client.ts'

interface FormFile {
  readonly name: string
  readonly bytes: number
  /** Called once, when the file's turn comes. */
  open(): AsyncIterable<Uint8Array>
}

export interface FormPart {
  readonly name: string
  readonly value: string | FormFile
}

/** A name inside quotes, as browsers write it: nothing in it ends the header. */
const quoted = (name: string): string =>
  `"${name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')}"`

const lengthOf = ({ value }: FormPart): number =>
  typeof value === 'string' ? Buffer.byteLength(value) : value.bytes

function partHeader({ name, value }: FormPart, boundary: string): Buffer {
  const file =
    typeof value === 'string'
      ? ''
      : `; filename=${quoted(value.name)}\r\nContent-Type: application/octet-stream`
  return Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name=${quoted(name)}${file}\r\n\r\n`)
}

/** Can be sent once. A file whose length changed meanwhile fails the request. */
export function formOf(
  parts: readonly FormPart[],
  random: Random,
): Required<Pick<Ask, 'headers' | 'stream'>> {
  // 30 random digits of 36 occur in no content.
  const boundary = `form-${randomDigits(random, 30, 36)}`
  const end = Buffer.from(`--${boundary}--\r\n`)
  const length = parts.reduce(
    (sum, part) => sum + partHeader(part, boundary).length + lengthOf(part) + 2,
    end.length,
  )
  const stream = async function* () {
    for (const part of parts) {
      yield partHeader(part, boundary)
      if (typeof part.value === 'string') yield Buffer.from(part.value)
      else yield* part.value.open()
      yield Buffer.from('\r\n')
    }
    yield end
  }
  const headers = {
    'content-type': `multipart/form-data; boundary=${boundary}`,
    'content-length': String(length),
  }
  return { headers, stream: stream() }
}
