// The body of a request: framed lines, compressed once however often the batch is sent.
import type { Frame, Lines } from '../../contracts/sink.ts'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import { LF } from '../../core/bytes.ts'

/** One line per entry, ended by an LF. */
export const lineFrame: Frame = (slice, index, out, format) => {
  format(slice, index, out)
  out.byte(LF)
}

/** Exactly the framed lines. */
export function framedBytes(lines: Lines): Uint8Array {
  return lines.bytes.subarray(0, lines.ends[lines.count - 1] ?? 0)
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
  readonly #compressed = new WeakMap<Lines, Promise<RequestBody>>()

  /** `gzip` undefined: bodies are not compressed. */
  constructor(gzip: SinkDeps['gzip'] | undefined) {
    this.#gzip = gzip
  }

  /** Compresses in advance: `of` the same lines, and each retry, uses the result. */
  warm(lines: Lines): void {
    if (this.#gzip) void this.of(lines).catch(() => undefined)
  }

  of(lines: Lines): Promise<RequestBody> {
    const plain = framedBytes(lines)
    if (!this.#gzip) return Promise.resolve(plainBody(plain))
    let body = this.#compressed.get(lines)
    if (!body) {
      const headers = { 'content-encoding': 'gzip' }
      body = this.#gzip(plain).then((bytes) => ({ bytes, plainBytes: plain.length, headers }))
      this.#compressed.set(lines, body)
      body.catch(() => this.#compressed.delete(lines))
    }
    return body
  }
}
