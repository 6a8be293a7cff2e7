// Messages to a RELP receiver: sends them, has each answered, and tells which are stored and which it refuses for good.
import type { Clock } from '../../model/clock.ts'
import type { Outcome } from '../../model/sink.ts'
import type { Connection } from '../../model/socket.ts'

export interface RelpSettings {
  /** host:port, for what an operator reads */
  readonly where: string
  /** A new connection, its TLS handshake done. Throws as `Connect` does. */
  readonly connect: (signal: AbortSignal) => Promise<Connection>
  readonly clock: Clock
  /** messages without an answer at any moment; 128 unless told */
  readonly window?: number
  /** how long a stop waits for the answers that are under way; 1000 unless told */
  readonly graceMs?: number
  /** highest number of a session; for tests */
  readonly largestTxnr?: number
}

export const RELP_WINDOW = 128

export class RelpLink {
  constructor(settings: RelpSettings) {
    void settings
  }

  /** epoch ms at which the peer's certificate ends; undefined without TLS or connection */
  get certificateEndsAt(): number | undefined {
    throw new Error('not yet')
  }

  /** Connects and opens a session, unless one is open. Throws ConnectorError. */
  open(signal: AbortSignal): Promise<void> {
    void signal
    throw new Error('not yet')
  }

  /**
   * As Sink.deliver: the first `settled` messages are stored there, or refused for good by name (`refused`, below `settled`);
   * throws ConnectorError where nothing could be settled. Opens a session where there is none. One call at a time.
   * A crash repeats what one call was given at most: who gives it no more than the window repeats no more than the window.
   */
  send(messages: readonly Uint8Array[], signal: AbortSignal): Promise<Outcome> {
    void [messages, signal]
    throw new Error('not yet')
  }

  /** Ends the session in RELP's own way within `ms`, else at once. Never throws; `send` after it opens a new one. */
  close(ms: number): Promise<void> {
    void ms
    throw new Error('not yet')
  }
}
