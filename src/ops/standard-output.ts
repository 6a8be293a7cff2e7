// Standard output as it is written to: all of the bytes, or an error.
import { writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { errnoOf, isReaderGone } from '../model/errors.ts'

type Write = (bytes: Uint8Array, done: (error?: Error | null) => void) => unknown

/** As `process.stdout` has it. */
export interface StandardOutput {
  readonly fd: number
  readonly write: Write
}

export interface Teller {
  readonly tell: (text: string) => void
  /** Why some of it was not written; undefined: all was, or the reader went away and wants no more. */
  fault(): Promise<string | undefined>
}

function writeAll(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done)
}

/** Resolves when all is written, or taken by the pipe; rejects where it is not, and then a part may be. */
export function printTo(stdout: StandardOutput): (bytes: Uint8Array) => Promise<void> {
  // Behind a pipe, a socket or a terminal Node goes on until all is out. Where it leads into a file, Node writes once and does
  // not look how much of it that was: the write that fills the disk is cut, and only the one behind it would fail.
  if (!(stdout instanceof Socket)) return async (bytes) => writeAll(stdout.fd, bytes)
  return (bytes) =>
    new Promise((resolve, reject) => {
      stdout.write(bytes, (error) => (error ? reject(error) : resolve()))
    })
}

/** For texts that nobody waits for: whether all of them were written is asked at the end. */
export function tellTo(stdout: StandardOutput): Teller {
  const print = printTo(stdout)
  let fault: string | undefined
  let printed: Promise<unknown> = Promise.resolve()
  const failed = (error: unknown) => {
    const code = errnoOf(error, 'unknown error')
    // EIO: a terminal that is gone.
    if (!isReaderGone(code) && !(stdout instanceof Socket && code === 'EIO')) fault ??= code
  }
  return {
    tell: (text) => {
      printed = Promise.all([printed, print(Buffer.from(text)).catch(failed)])
    },
    fault: async () => {
      await printed
      return fault
    },
  }
}
