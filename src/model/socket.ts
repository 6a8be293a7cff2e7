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
