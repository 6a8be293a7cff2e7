// The network, as the rooms may know it: one request, one reply whose body streams. the real one is in ops/, the mock in tests.

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'HEAD' | 'DELETE'
  /** Absolute. Comes from the configuration only, never from what an API sent. */
  readonly url: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  /** In the place of `body`: one that is too large to hold, as long as the `content-length` header says. */
  readonly stream?: AsyncIterable<Uint8Array>
}

export interface HttpReply {
  readonly status: number
  /** Lower-case names; of a repeated header the last one, save `set-cookie`: all of them, one a line. */
  readonly headers: Readonly<Record<string, string>>
  /**
   * As it came over the wire (still compressed where `content-encoding` says so). Must be read to its end or left by
   * the iterator's `return`, which closes the connection.
   */
  readonly body: AsyncIterable<Uint8Array>
  /** For an answer that no server of its kind gives: the next request to this origin takes a new connection, which may reach another machine. */
  readonly distrust?: () => void
}

/**
 * Sends one request, once: no redirect is followed, nothing is retried. Interim (1xx) answers are skipped. After 408, 429, a status from 500 on, and
 * after a failure, the next request to the origin takes a new connection.
 * Throws ConnectorError `unreachable`, `timeout`, `tls_invalid` or `aborted`; the body's iteration throws the same.
 */
export type Transport = (request: HttpRequest, signal: AbortSignal) => Promise<HttpReply>
