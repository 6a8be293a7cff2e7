// The process as a command sees it, and the exit codes.
import { ConnectorError } from '../../core/errors.ts'

export interface CommandContext {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly version: string
  /** for messages that name the process to kill */
  readonly pid?: number
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  /** Standard error is a terminal: `run` and `demo` print text, not JSON. Absent: false. */
  readonly terminal?: boolean
  /** Standard output is a terminal with colours. Absent: false. */
  readonly colours?: boolean
  /** Opens standard input. Absent: empty input. */
  readonly stdin?: () => AsyncIterable<Uint8Array>
  /** Writes to standard output; resolves when written, rejects when the reader is gone. */
  readonly print: (bytes: Uint8Array) => Promise<void>
  /** program that checks a large journal; absent: the opening process checks it */
  readonly journalCheck?: string
  /** Aborts at the first SIGTERM or SIGINT. */
  readonly signal: AbortSignal
  /**
   * From the first call on SIGHUP calls `listener` instead of ending the process; one that `run`
   * received earlier calls it at once. Absent: SIGHUP never comes.
   */
  readonly onHangup?: (listener: () => void) => void
  /** Calls `listener` with an uncaught error right before the process ends. Absent: never. */
  readonly onBug?: (listener: (error: unknown) => void) => void
}

/** Wrong arguments: the program prints the message and exits with 2. */
export class WrongUsage extends Error {}

/** Throws WrongUsage, if there is such a message. */
export function assertUsage(fault: string | undefined): void {
  if (fault !== undefined) throw new WrongUsage(fault)
}

export const exitCodes = { done: 0, failed: 1, usage: 2, config: 78 } as const

export const exitCodeOf = (error: unknown): number =>
  error instanceof ConnectorError && error.code === 'config_invalid' ? exitCodes.config : exitCodes.failed
