// Standard error for the log: written at once while it is read, and never blocking when it is not
// (invariant 2).
import { writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { errnoOf, isReaderGone } from '../core/errors.ts'

/** Buffer for a slow reader; lines beyond it are dropped and counted. */
const MAX_WAITING_BYTES = 2 ** 20
const RETRY_MS = 100

interface LineWriterOptions {
  /** Writes as much as possible now and returns how many bytes that were; must not wait. */
  readonly put: (bytes: Uint8Array) => number
  /** Calls back a little later; not required while the process ends. */
  readonly later: (retry: () => void) => void
  /** A line that reports how many were dropped. */
  readonly dropped: (lines: number) => string
}

/** Lines to a stream whose reader may stall. @internal for tests */
export class LineWriter {
  readonly #options: LineWriterOptions
  readonly #waiting: Uint8Array[] = []
  #waitingBytes = 0
  #droppedLines = 0

  constructor(options: LineWriterOptions) {
    this.#options = options
  }

  get isWaiting(): boolean {
    return this.#waiting.length > 0
  }

  /** Complete lines: each is written whole and in order, or not at all. */
  write(text: string): void {
    const bytes = Buffer.from(text)
    const wasWaiting = this.isWaiting
    if (wasWaiting && this.#waitingBytes + bytes.length > MAX_WAITING_BYTES) {
      this.#droppedLines++
      return
    }
    this.#waiting.push(bytes)
    this.#waitingBytes += bytes.length
    if (!wasWaiting) this.#drain()
  }

  /** Writes as much as possible now. */
  flush(): void {
    for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
      const done = this.#options.put(first)
      this.#waitingBytes -= done
      if (done < first.length) {
        this.#waiting[0] = first.subarray(done)
        return
      }
      this.#waiting.shift()
      if (this.#waiting.length === 0) this.#reportDropped()
    }
  }

  #drain(): void {
    this.flush()
    if (this.isWaiting) this.#options.later(() => this.#drain())
  }

  #reportDropped(): void {
    if (this.#droppedLines === 0) return
    const line = Buffer.from(this.#options.dropped(this.#droppedLines))
    this.#droppedLines = 0
    this.#waiting.push(line)
    this.#waitingBytes += line.length
  }
}

function put(bytes: Uint8Array): number {
  try {
    return writeSync(2, bytes)
  } catch (error) {
    // A closed reader or a full disk cannot be reported here.
    return errnoOf(error, '') === 'EAGAIN' ? 0 : bytes.length
  }
}

/**
 * One for the process. Node makes a pipe or socket under standard error non-blocking when
 * `process.stderr` is first used: a write into a full one fails with EAGAIN.
 */
export const standardError = new LineWriter({
  put,
  later: (retry) => void setTimeout(retry, RETRY_MS).unref(),
  dropped: (lines) => {
    const time = new Date().toISOString()
    return `${JSON.stringify({ level: 'warn', time, msg: 'Log lines were dropped, because standard error was not read', lines })}\n`
  },
})

/**
 * Call before the process ends: a slow reader gets the last lines, a stalled one is abandoned after
 * `maxMs`.
 */
export async function drainStandardError(maxMs: number): Promise<void> {
  for (let waitedMs = 0; standardError.isWaiting && waitedMs < maxMs; waitedMs += RETRY_MS) {
    await sleep(RETRY_MS)
    standardError.flush()
  }
}

// Standard output: writes all of the bytes, or fails.

type Write = (bytes: Uint8Array, done: (error?: Error | null) => void) => unknown

/** As in `process.stdout`. */
export interface StandardOutput {
  readonly fd: number
  readonly write: Write
}

export interface TextWriter {
  readonly write: (text: string) => void
  /** Why some of it was not written; undefined: all was written, or the reader closed it. */
  fault(): Promise<string | undefined>
}

function writeAll(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done)
}

/** Resolves when all is written or accepted by the pipe; a failure may leave a part written. */
export function printTo(stdout: StandardOutput): (bytes: Uint8Array) => Promise<void> {
  // For a pipe, a socket or a terminal, Node continues until everything is written. For a file,
  // Node writes once and ignores how much was written: the write that fills the disk is cut short,
  // and only the next one would fail.
  if (!(stdout instanceof Socket)) return async (bytes) => writeAll(stdout.fd, bytes)
  return (bytes) =>
    new Promise((resolve, reject) => {
      stdout.write(bytes, (error) => (error ? reject(error) : resolve()))
    })
}

/** For texts written without waiting: whether all of them were written is checked at the end. */
export function writerTo(stdout: StandardOutput): TextWriter {
  const print = printTo(stdout)
  let fault: string | undefined
  let printed: Promise<unknown> = Promise.resolve()
  const failed = (error: unknown) => {
    const code = errnoOf(error, 'unknown error')
    // EIO: the terminal is closed.
    if (!isReaderGone(code) && !(stdout instanceof Socket && code === 'EIO')) fault ??= code
  }
  return {
    write: (text) => {
      printed = Promise.all([printed, print(Buffer.from(text)).catch(failed)])
    },
    fault: async () => {
      await printed
      return fault
    },
  }
}
