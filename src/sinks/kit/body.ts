// The body of a request: framed lines with what comes before, between and after them, compressed
// once however often the batch is sent.
import type { Frame, Lines } from '../../contracts/sink.ts'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import { ByteWriter, LF } from '../../core/bytes.ts'

/** One line per entry, ended by an LF. */
export const lineFrame: Frame = (slice, index, out, format) => {
  format(slice, index, out)
  out.byte(LF)
}

/** Exactly the framed lines. */
export function framedBytes(lines: Lines): Uint8Array {
  return lines.bytes.subarray(0, lines.ends[lines.count - 1] ?? 0)
}

/** Absent parts are empty: without any the body is the framed lines, one after the other. */
interface BodyShape {
  /** such as `[` of a JSON array */
  readonly prefix?: string
  readonly separator?: string
  readonly suffix?: string
  /** What comes before each line, such as an action with the document id (`lines.entry(index)`). */
  readonly before?: (lines: Lines, index: number, out: ByteWriter) => void
}

/** @internal for tests */
export function bodyOf(lines: Lines, { prefix = '', separator = '', suffix = '', before }: BodyShape) {
  const framed = framedBytes(lines)
  if (prefix === '' && separator === '' && suffix === '' && !before) return framed
  const out = new ByteWriter(framed.length + lines.count * separator.length)
  out.text(prefix)
  for (let i = 0; i < lines.count; i++) {
    if (i > 0) out.text(separator)
    before?.(lines, i, out)
    out.copy(framed, i === 0 ? 0 : lines.ends[i - 1], lines.ends[i])
  }
  out.text(suffix)
  return out.view()
}

export interface RequestBody {
  readonly bytes: Uint8Array
  /** before compression */
  readonly plainBytes: number
  /** `content-encoding`, if it is compressed */
  readonly headers: Readonly<Record<string, string>>
}

export const plainBody = (bytes: Uint8Array): RequestBody => ({
  bytes,
  plainBytes: bytes.length,
  headers: {},
})

export class Bodies {
  readonly #gzip: SinkDeps['gzip'] | undefined
  readonly #shape: BodyShape
  readonly #compressed = new WeakMap<Lines, Promise<RequestBody>>()

  /** `gzip` undefined: bodies are not compressed. */
  constructor(gzip: SinkDeps['gzip'] | undefined, shape: BodyShape = {}) {
    this.#gzip = gzip
    this.#shape = shape
  }

  /** Compresses in advance: `of` the same lines, and each retry, uses the result. */
  warm(lines: Lines): void {
    if (this.#gzip) void this.of(lines).catch(() => undefined)
  }

  of(lines: Lines): Promise<RequestBody> {
    const gzip = this.#gzip
    if (!gzip) return Promise.resolve(plainBody(bodyOf(lines, this.#shape)))
    let body = this.#compressed.get(lines)
    if (!body) {
      const plain = bodyOf(lines, this.#shape)
      body = gzip(plain).then((bytes) => ({
        bytes,
        plainBytes: plain.length,
        headers: { 'content-encoding': 'gzip' },
      }))
      this.#compressed.set(lines, body)
      body.catch(() => this.#compressed.delete(lines))
    }
    return body
  }
}
