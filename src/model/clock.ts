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
