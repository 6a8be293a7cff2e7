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

/**
 * When something is due that was planned for `spanMs` ahead at most; all in epoch ms. What is due later than that was planned
 * by a clock that has since been set back, or by other settings: it is due now, and nothing stands still until the old time is
 * reached again.
 */
export const believed = (dueAt: number, spanMs: number, now: number): number =>
  dueAt > now + spanMs ? now : dueAt

// Names that nobody has: digits drawn one by one from the randomness that comes in from outside.

/** `count` digits of base 16, or of another up to 36. */
export const randomDigits = (random: Random, count: number, base = 16): string =>
  Array.from({ length: count }, () => Math.floor(random() * base).toString(base)).join('')
