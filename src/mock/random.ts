// Randomness from a seed: the same seed gives the same entries and faults, whoever asks, in whatever order.
import type { Random } from '../model/clock.ts'

/** Two whole numbers to one, 32 bits, well mixed. */
export function mix(a: number, b: number): number {
  let h = (a ^ Math.imul(b + 1, 0x9e3779b1)) | 0
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** A stream of its own below a seed, by name. */
export function streamSeed(seed: number, name: string): number {
  let h = mix(seed, name.length)
  for (let i = 0; i < name.length; i++) h = mix(h, name.charCodeAt(i))
  return h
}

/** Uniform in [0, 1) from one hash: for a single decision about thing number `index`. */
export function chanceOf(seed: number, index: number): number {
  return mix(seed, index) / 2 ** 32
}

/** Mulberry32: small, quick, good enough for play. */
export function dice(seed: number): Random {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

export function below(random: Random, bound: number): number {
  return Math.floor(random() * bound)
}

export function pick<T>(random: Random, list: readonly T[]): T {
  return list[below(random, list.length)] as T
}

/** How many in a span where `mean` are expected. */
export function poisson(random: Random, mean: number): number {
  if (mean <= 0) return 0
  if (mean > 30) {
    const gauss = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
    return Math.max(0, Math.round(mean + Math.sqrt(mean) * gauss))
  }
  const floor = Math.exp(-mean)
  let count = 0
  for (let product = random(); product > floor; product *= random()) count++
  return count
}
