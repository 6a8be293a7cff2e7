// Names that nobody has: digits drawn one by one from the randomness that comes in from outside.
import type { Random } from './clock.ts'

/** `count` digits of base 16, or of another up to 36. */
export const randomDigits = (random: Random, count: number, base = 16): string =>
  Array.from({ length: count }, () => Math.floor(random() * base).toString(base)).join('')
