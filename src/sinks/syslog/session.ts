// The interface for one way to send a batch's messages: stream, datagrams, or RELP. The sink does
// the rest.
import type { CheckResult, Lines, Outcome } from '../../contracts/sink.ts'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import type { Address, TlsOptions } from '../../contracts/platform.ts'
import type { Expiry } from '../kit/certificate-expiry.ts'

/** As in Outcome; no session confirms later. */
export type Delivered = Pick<Outcome, 'acknowledged' | 'rejected'>

/**
 * Connects when there is something to send; tries nothing twice within one call. Lines without
 * bytes were rejected before: they count as accepted here. Not called concurrently, except `close`.
 */
export interface Session {
  /** as in Sink */
  readonly maxEntries?: number
  /** Throws ConnectorError if nothing may be acknowledged, `aborted` once `signal` aborts. */
  deliver(lines: Lines, signal: AbortSignal): Promise<Delivered>
  /** As in Sink. */
  probe?(signal: AbortSignal): Promise<void>
  /** Sends no message. Never throws. */
  check(signal: AbortSignal): Promise<readonly CheckResult[]>
  /** Ends in an orderly way, within half a second. Never throws. */
  close(): Promise<void>
}

export interface SessionOptions {
  readonly to: Address
  /** host:port, for messages */
  readonly where: string
  /** undefined: no TLS */
  readonly tls: TlsOptions | undefined
  readonly lingerMs: number
  /** Called with each new connection, and with each batch. */
  readonly expiry: Expiry
  readonly deps: Pick<SinkDeps, 'clock' | 'random' | 'log' | 'connect' | 'datagrams'>
}

/** For the connection and its TLS handshake together. */
export const CONNECT_MS = 10_000
/** A receiver that accepts nothing for this long is given up, the first time. */
export const WRITE_MS = 30_000
/**
 * A new connection must last this long after its first batch: a load balancer without a backend, or
 * a receiver that does not permit us, closes it sooner.
 */
export const PROOF_MS = 1_000
