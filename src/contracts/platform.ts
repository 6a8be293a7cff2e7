// The disk, as sinks may know it. The real one stands in ops/; tests bring one that forgets what was not synced.

export interface DiskFile {
  size(): Promise<number>
  /** A text that is the same for one file under whatever name, and another for any other file, as far as the file system can tell. */
  identity(): Promise<string>
  /** False once it was removed, or replaced, under every name: what stands in it goes when it is closed. */
  isNamed(): Promise<boolean>
  /** Up to `length` bytes from `offset`; fewer only at the end of the file. */
  read(offset: number, length: number): Promise<Uint8Array>
  /** All of `bytes`, at `offset`. */
  write(bytes: Uint8Array, offset: number): Promise<void>
  truncate(size: number): Promise<void>
  /** Resolves when the file's content would survive a power cut. */
  sync(): Promise<void>
  close(): Promise<void>
}

/** What stands under a name. */
export interface FileState {
  /** as `DiskFile.identity` tells it */
  readonly identity: string
  readonly size: number
  /** epoch ms by the file system's clock: when it was last written, renamed or made */
  readonly changedAt: number
}

/** What stands in a folder; a link is `other`, whatever it leads to. */
export interface Listed {
  readonly name: string
  readonly kind: 'file' | 'folder' | 'other'
}

/**
 * Throws ConnectorError `disk_full`, `misconfigured` (no such folder, no permission, read-only) or `unreachable` (an I/O error, a
 * mount that is away). After one of these the file is to be closed and opened anew; what a failed sync covered counts as not
 * written, and is written anew before it is synced again.
 */
export interface Disk {
  /**
   * Opens for reading and writing, creates the file (mode 0600) where there is none; its folder must exist or is created. A file
   * or link of another user, root excepted, is `misconfigured`.
   */
  open(path: string): Promise<DiskFile>
  /** As `open`, but a file that is new: throws `misconfigured` where the name is taken, be it by a link. */
  openNew(path: string): Promise<DiskFile>
  /** For reading and syncing alone, what is there. */
  openToRead(path: string): Promise<DiskFile>
  exists(path: string): Promise<boolean>
  /** Undefined where there is none. */
  look(path: string): Promise<FileState | undefined>
  /** Empty where there is no such folder. */
  list(folder: string): Promise<readonly Listed[]>
  /** Replaces `to`; both names in the same folder. */
  rename(from: string, to: string): Promise<void>
  /** No error where there is none. */
  remove(path: string): Promise<void>
  /** Makes creations, renames and removals in `folder` survive a power cut. */
  syncFolder(folder: string): Promise<void>
}

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

// A stream of bytes and single datagrams to a receiver, as sinks may know them. The real ones stand in ops/.

/** TLS material by file, for one receiver. Files are read again when they change. */
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

/** As messages name an address; an IPv6 address stands in brackets there, as in a URL. */
export function hostPort({ host, port }: Address): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]:${port}` : `${host}:${port}`
}

/** Whom an http or https URL leads to, its port told or not. */
export function addressOf(url: string): Address {
  const { hostname, port, protocol } = new URL(url)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (protocol === 'http:' ? 80 : 443)) }
}

/** Both sides of one stream. All methods throw ConnectorError `unreachable`, `timeout`, `tls_invalid` or `aborted`. */
export interface Connection {
  /**
   * Resolves when the bytes were handed to the kernel: that is no delivery. Calls take effect in their order. Until it
   * resolves the bytes may not change; when it throws, some of them may have left, and the connection is destroyed.
   */
  write(bytes: Uint8Array, signal: AbortSignal): Promise<void>
  /** What came next, as it came; undefined at the peer's orderly end. One call at a time. */
  read(signal: AbortSignal): Promise<Uint8Array | undefined>
  /** True as soon as the peer's end or a reset was seen, without anything written. */
  readonly gone: boolean
  /** epoch ms at which the peer's certificate ends; undefined without TLS */
  readonly certificateEndsAt: number | undefined
  /** epoch ms at which the certificate ends that we showed; undefined where we have none */
  readonly ownCertificateEndsAt: number | undefined
  /** Sends what is written and ends in an orderly way, within `ms`; then destroys. Never throws. */
  end(ms: number): Promise<void>
  /** At once, whatever is under way. Gone from then on. */
  destroy(): void
}

/** `tls` undefined: plain. Files are read again when they change. Total time for connecting and the handshake: `timeoutMs`. */
export type Connect = (
  to: Address,
  tls: TlsOptions | undefined,
  timeoutMs: number,
  signal: AbortSignal,
) => Promise<Connection>

export interface Datagrams {
  /** Resolves when the kernel took it. Throws `too_large` where it does not fit one datagram. */
  send(bytes: Uint8Array): Promise<void>
  close(): Promise<void>
}

/** Resolves the host's name anew at each call. */
export type OpenDatagrams = (to: Address) => Promise<Datagrams>
