// What carries a batch's messages to the receiver: a stream, datagrams, or RELP. One for each way; the sink does the rest.
import type { CheckResult, Lines, Refusal } from '../../contracts/sink.ts'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import type { Address, TlsOptions } from '../../contracts/platform.ts'
import type { Expiry } from '../kit/certificate-expiry.ts'

/** What came of a batch: the first `settled` lines are done with, `refused` names those among them that were not taken. */
export interface Delivered {
  readonly settled: number
  readonly refused: readonly Refusal[]
}

/**
 * Connects when there is something to send, and again when that is needed; tries nothing twice within one call.
 * Lines without bytes were refused before: they count as taken here. Never called concurrently, save `close`.
 */
export interface Session {
  /** as in Sink */
  readonly maxEntries?: number
  /** Throws ConnectorError when nothing may be settled. A signal that aborts: `aborted`. */
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
  /** undefined: plain */
  readonly tls: TlsOptions | undefined
  readonly lingerMs: number
  /** To be asked with each new connection, and with each batch. */
  readonly expiry: Expiry
  readonly deps: Pick<SinkDeps, 'clock' | 'random' | 'log' | 'connect' | 'datagrams'>
}

/** For the connection and its handshake together. */
export const CONNECT_MS = 10_000
/** A receiver that takes no more for so long is given up, the first time. */
export const WRITE_MS = 30_000
/**
 * So long a new connection must last after its first batch: a balancer without a server behind it, or a receiver that dislikes
 * us, closes sooner.
 */
export const PROOF_MS = 1_000
