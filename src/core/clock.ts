// Time as the modules see it. The real clock is in platform/; tests and the simulation use a
// virtual one.

export interface Clock {
  /** Wall clock, epoch milliseconds. May jump; never use it to measure a duration. */
  now(): number
  /** Monotonic milliseconds from an arbitrary zero. */
  elapsed(): number
  /** Resolves after `ms`, or at once when `signal` aborts: the caller checks its signal. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** Uniform in [0, 1), as Math.random; seeded in tests. */
export type Random = () => number

/** The result of `work`, or undefined after `ms`: work that cannot be stopped continues. */
export async function within<T>(ms: number, clock: Clock, work: Promise<T>): Promise<T | undefined> {
  const ended = new AbortController()
  try {
    return await Promise.race([work, clock.sleep(ms, ended.signal).then(() => undefined)])
  } finally {
    ended.abort()
  }
}

/**
 * When something is due that was planned at most `spanMs` ahead; all in epoch ms. A later time was
 * planned by a clock that has since been set back, or with other settings: it is due now, so that
 * nothing waits for the old time.
 */
export const believed = (dueAt: number, spanMs: number, now: number): number =>
  dueAt > now + spanMs ? now : dueAt

// Unique names: digits drawn one by one from the injected randomness.

/** `count` digits of base 16, or of another up to 36. */
export const randomDigits = (random: Random, count: number, base = 16): string =>
  Array.from({ length: count }, () => Math.floor(random() * base).toString(base)).join('')
