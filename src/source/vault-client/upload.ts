// An upload as a stream of multipart/form-data (RFC 7578): its files pass through piece by piece, and none is held.
import type { Random } from '../../model/clock.ts'
import { ConnectorError } from '../../model/errors.ts'
import { randomDigits } from '../../model/random.ts'
import { vaultFields } from '../../model/vault-paths.ts'
import type { Ask } from '../client/client.ts'

export interface UploadFile {
  /** with an extension that the vault takes (spec §2.6) */
  readonly name: string
  /** the folder that it comes into, relative to the project: `Contracts/2026`; '' for none */
  readonly path: string
  /** media type; application/octet-stream where it is not given */
  readonly type?: string
  readonly bytes: number
  /** Called once, when the file's turn comes. */
  open(): AsyncIterable<Uint8Array>
}

/** Fits no content: 30 random digits of 36. */
function boundaryOf(random: Random): string {
  return `form-${randomDigits(random, 30, 36)}`
}

/** As browsers write it: nothing in a name ends the header. */
const quoted = (name: string): string =>
  `"${name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')}"`

const oneLine = (text: string): string => text.replace(/[\r\n]/g, ' ')

/** Method, headers and stream of one upload; the caller adds the path. */
export function uploadOf(
  projectId: string,
  files: readonly UploadFile[],
  random: Random,
): Pick<Ask, 'headers' | 'stream'> {
  const boundary = boundaryOf(random)
  const head = (name: string, more = '') =>
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name=${quoted(name)}${more}\r\n\r\n`)
  const field = (name: string, value: string) =>
    Buffer.concat([head(name), Buffer.from(value), Buffer.from('\r\n')])
  const fields = [
    field(vaultFields.projectId, projectId),
    ...files.map(({ path }) => field(vaultFields.filePaths, path)),
  ]
  const parts = files.map((file) => ({
    file,
    head: head(
      vaultFields.file,
      `; filename=${quoted(file.name)}\r\nContent-Type: ${oneLine(file.type ?? 'application/octet-stream')}`,
    ),
  }))
  const end = Buffer.from(`--${boundary}--\r\n`)
  const length =
    fields.reduce((sum, bytes) => sum + bytes.length, end.length) +
    parts.reduce((sum, part) => sum + part.head.length + part.file.bytes + 2, 0)
  return {
    headers: {
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': String(length),
    },
    stream: streamed(fields, parts, end),
  }
}

async function* streamed(
  fields: readonly Uint8Array[],
  parts: readonly { readonly file: UploadFile; readonly head: Uint8Array }[],
  end: Uint8Array,
): AsyncGenerator<Uint8Array> {
  yield* fields
  for (const { file, head } of parts) {
    yield head
    yield* exactly(file)
    yield Buffer.from('\r\n')
  }
  yield end
}

/** The length was promised already: a file that changed meanwhile ends the request, rather than running into the next part. */
async function* exactly(file: UploadFile): AsyncGenerator<Uint8Array> {
  let left = file.bytes
  const changed = () =>
    new ConnectorError(
      'bad_request',
      'A file to be uploaded has another length than was said: it changed meanwhile',
    )
  for await (const piece of file.open()) {
    left -= piece.length
    if (left < 0) throw changed()
    yield piece
  }
  if (left > 0) throw changed()
}
