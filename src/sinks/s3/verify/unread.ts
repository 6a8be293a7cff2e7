// What a store does not give of one object, or this program cannot look at, is a fault of that object alone: all others are checked, and the report is made.
import { ConnectorError, isAbort } from '../../../model/errors.ts'
import { printable } from '../../../model/printable.ts'

/** Waits between tries of what may pass, such as a server that asks to slow down. */
const PAUSES_MS = [1_000, 5_000]

export type Pause = (ms: number) => Promise<unknown>

function whyOf(error: unknown): string {
  if (error instanceof ConnectorError) return `could not be read: ${printable(error.message)}`
  const name = error instanceof Error ? error.name : 'unknown error'
  return `could not be checked: this program failed on it (${printable(name)}), which is a bug; please report it`
}

/** What the work gives, or in its place what `told` makes of why it could not. Throws where it was called off. */
export async function unlessUnread<T, U>(
  work: () => Promise<T>,
  pause: Pause | undefined,
  told: (why: string) => U,
): Promise<T | U> {
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (isAbort(error)) throw error
      const pauseMs = PAUSES_MS[tries]
      const mayPass = error instanceof ConnectorError && error.action === 'retry'
      if (!mayPass || pauseMs === undefined || !pause) return told(whyOf(error))
      await pause(pauseMs)
    }
  }
}
