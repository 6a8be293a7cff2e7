// What a command knows of the process it runs in, and the exit codes it may answer with.
import { ConnectorError } from '../../core/errors.ts'

export interface CommandContext {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly version: string
  /** so that a person can be told what to kill */
  readonly pid?: number
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  /** Standard error is a terminal: `run` and `demo` write for people there, and JSON lines everywhere else. Absent: it is not. */
  readonly terminal?: boolean
  /** Standard output is a screen that shows colours. Absent: it is not. */
  readonly colours?: boolean
  /** Opens standard input. Absent: it is empty. */
  readonly stdin?: () => AsyncIterable<Uint8Array>
  /** Bytes to standard output; resolves when they were taken, rejects when nobody reads any more. */
  readonly print: (bytes: Uint8Array) => Promise<void>
  /** the program that checks a large journal; absent: who opens it does */
  readonly journalCheck?: string
  /** Aborts at the first SIGTERM or SIGINT. */
  readonly signal: AbortSignal
  /** From the first call on a SIGHUP does no longer end the process: it calls `listener`, at once where `run` got one before. Absent: nobody sends any. */
  readonly onHangup?: (listener: () => void) => void
  /** `listener` is told what nobody caught, right before the process ends of it. Absent: nobody is. */
  readonly onBug?: (listener: (error: unknown) => void) => void
}

export const exitCodes = { done: 0, failed: 1, usage: 2, config: 78 } as const

export const exitCodeOf = (error: unknown): number =>
  error instanceof ConnectorError && error.code === 'config_invalid' ? exitCodes.config : exitCodes.failed
