// The disk as sinks see it. The real implementation is in platform/; tests use one that loses
// everything that was not synced.

export interface DiskFile {
  size(): Promise<number>
  /**
   * Identity of the file: the same under every name, and different for any other file, as far as
   * the file system can tell.
   */
  identity(): Promise<string>
  /** False once no name leads to it any more: its content is lost when it is closed. */
  isNamed(): Promise<boolean>
  /** Up to `length` bytes from `offset`; fewer only at the end of the file. */
  read(offset: number, length: number): Promise<Uint8Array>
  /** All of `bytes`, at `offset`. */
  write(bytes: Uint8Array, offset: number): Promise<void>
  truncate(size: number): Promise<void>
  /** Resolves when the content would survive a power cut. */
  sync(): Promise<void>
  close(): Promise<void>
}

/** The file under a name. */
export interface FileState {
  /** same value as `DiskFile.identity` */
  readonly identity: string
  readonly size: number
  /** epoch ms by the file system's clock: last written, renamed or created */
  readonly changedAt: number
}

/** An entry of a folder; a link is `other`, for any target. */
export interface Listed {
  readonly name: string
  readonly kind: 'file' | 'folder' | 'other'
}

/**
 * Throws ConnectorError `disk_full`, `misconfigured` (no such folder, no permission, read-only) or
 * `unreachable` (an I/O error, a mount that is away). After one of these, close the file and open
 * it again; data covered by a failed sync counts as not written, and must be written again before
 * the next sync.
 */
export interface Disk {
  /**
   * Opens for reading and writing; creates the file (mode 0600) and its folder if they do not
   * exist. A file or link of another user, except root, is `misconfigured`.
   */
  open(path: string): Promise<DiskFile>
  /** As `open`, for a new file: throws `misconfigured` if the name is taken, even by a link. */
  openNew(path: string): Promise<DiskFile>
  /** Opens an existing file for reading and syncing only. */
  openToRead(path: string): Promise<DiskFile>
  exists(path: string): Promise<boolean>
  /** Undefined if there is none. */
  look(path: string): Promise<FileState | undefined>
  /** Empty if there is no such folder. */
  list(folder: string): Promise<readonly Listed[]>
  /** Replaces `to`; both names are in the same folder. */
  rename(from: string, to: string): Promise<void>
  /** No error if there is none. */
  remove(path: string): Promise<void>
  /** Makes creations, renames and removals in `folder` survive a power cut. */
  syncFolder(folder: string): Promise<void>
}

// The network as the modules see it: one request, one reply with a streamed body. The real
// implementation is in platform/, the mock in tests.

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'HEAD' | 'DELETE'
  /** Absolute. Comes from the configuration only, never from what an API sent. */
  readonly url: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  /** Instead of `body`, if it is too large for memory; header `content-length` is its length. */
  readonly stream?: AsyncIterable<Uint8Array>
}

export interface HttpReply {
  readonly status: number
  /** Lower-case names; of a repeated header the last value, but of `set-cookie` one per line. */
  readonly headers: Readonly<Record<string, string>>
  /**
   * Bytes as received (still compressed if `content-encoding` says so). Must be read to its end or
   * ended by the iterator's `return`, which closes the connection.
   */
  readonly body: AsyncIterable<Uint8Array>
  /**
   * Call for an answer that the expected server would never give: the next request to this origin
   * uses a new connection, which may reach another machine.
   */
  readonly distrust?: () => void
}

/**
 * Sends one request, once: follows no redirects, retries nothing. Interim (1xx) answers are
 * skipped. After 408, 429, a status of 500 or more, or a failure, the next request to the origin
 * uses a new connection. Throws ConnectorError `unreachable`, `timeout`, `tls_invalid` or
 * `aborted`; iterating the body throws the same.
 */
export type Transport = (request: HttpRequest, signal: AbortSignal) => Promise<HttpReply>

// Byte streams and datagrams to a receiver, as sinks see them. The real implementations are in
// platform/.

/** TLS files for one receiver. They are read again when they change. */
export interface TlsOptions {
  readonly ca_file?: string | undefined
  readonly cert_file?: string | undefined
  readonly key_file?: string | undefined
  readonly server_name?: string | undefined
}

export interface Address {
  readonly host: string
  readonly port: number
}

/** An address as messages show it; IPv6 in brackets, as in a URL. */
export function hostPort({ host, port }: Address): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]:${port}` : `${host}:${port}`
}

/** Host and port of an http or https URL, also if it names no port. */
export function addressOf(url: string): Address {
  const { hostname, port, protocol } = new URL(url)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (protocol === 'http:' ? 80 : 443)) }
}

/**
 * Both directions of one stream. All methods throw ConnectorError `unreachable`, `timeout`,
 * `tls_invalid` or `aborted`.
 */
export interface Connection {
  /**
   * Resolves when the bytes were handed to the kernel, which does not mean delivered. Calls take
   * effect in their order. Until it resolves the bytes may not change; if it throws, some of them
   * may have been sent, and the connection is destroyed.
   */
  write(bytes: Uint8Array, signal: AbortSignal): Promise<void>
  /** The next bytes received; undefined at the peer's orderly end. One call at a time. */
  read(signal: AbortSignal): Promise<Uint8Array | undefined>
  /** True as soon as the peer's end or a reset was seen, even if nothing was written. */
  readonly gone: boolean
  /** epoch ms at which the peer's certificate expires; undefined without TLS */
  readonly certificateEndsAt: number | undefined
  /** epoch ms at which our client certificate expires; undefined without one */
  readonly ownCertificateEndsAt: number | undefined
  /** Sends what is written and closes in an orderly way; destroys after `ms`. Never throws. */
  end(ms: number): Promise<void>
  /** Closes at once, even during a call. Unusable from then on. */
  destroy(): void
}

/**
 * `tls` undefined: plain. TLS files are read again when they change. `timeoutMs` covers connecting
 * and the handshake.
 */
export type Connect = (
  to: Address,
  tls: TlsOptions | undefined,
  timeoutMs: number,
  signal: AbortSignal,
) => Promise<Connection>

export interface Datagrams {
  /** Resolves when the kernel took it. Throws `too_large` if it does not fit into one datagram. */
  send(bytes: Uint8Array): Promise<void>
  close(): Promise<void>
}

/** Resolves the host name at each call. */
export type OpenDatagrams = (to: Address) => Promise<Datagrams>
