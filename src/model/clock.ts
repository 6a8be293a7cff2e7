// Time, as the rooms may know it. The real one stands in ops/; tests and the simulation bring a virtual one.

export interface Clock {
  /** Wall clock, epoch milliseconds. May jump; never use it to measure a duration. */
  now(): number
  /** Monotonic milliseconds from an arbitrary zero. */
  elapsed(): number
  /** Resolves after `ms`, or at once when `signal` aborts: an abort is no error, the caller looks at its signal. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** Uniform in [0, 1), as Math.random; seeded in tests. */
export type Random = () => number

/** Resolves with what `work` gives, or with undefined after `ms`: the work itself goes on where it cannot be stopped. */
export async function within<T>(ms: number, clock: Clock, work: Promise<T>): Promise<T | undefined> {
  const ended = new AbortController()
  try {
    return await Promise.race([work, clock.sleep(ms, ended.signal).then(() => undefined)])
  } finally {
    ended.abort()
  }
}
