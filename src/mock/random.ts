// Seeded randomness: the same seed gives the same entries and faults in any order of calls.
import type { Random } from '../core/clock.ts'

/** Mixes two integers into one of 32 bits. */
export function mix(a: number, b: number): number {
  let h = (a ^ Math.imul(b + 1, 0x9e3779b1)) | 0
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** A separate seed derived from a seed, by name. */
export function streamSeed(seed: number, name: string): number {
  return keyedBy(name, mix(seed, name.length))
}

/** A number from a text such as an entry's id: every area makes the same choices about it. */
export function keyedBy(text: string, salt: number): number {
  let hash = salt
  for (let i = 0; i < text.length; i++) hash = mix(hash, text.charCodeAt(i))
  return hash
}

/** Uniform in [0, 1) from one hash: for a single decision about number `index`. */
export function chanceOf(seed: number, index: number): number {
  return mix(seed, index) / 2 ** 32
}

/** Mulberry32: small, quick, good enough for simulated data. */
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

/** The items of a text, separated by semicolons. */
export function listOf(text: string): readonly string[] {
  return text.trim().split(/;\s+/)
}

export function shuffled<T>(list: readonly T[], seed: number): T[] {
  const random = dice(seed)
  const order = [...list]
  for (let i = order.length - 1; i > 0; i--) {
    const j = below(random, i + 1)
    ;[order[i], order[j]] = [order[j] as T, order[i] as T]
  }
  return order
}

/** A random count for a span with the expected value `mean`. */
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

const digits = Buffer.from('0123456789abcdef')
// Decoded from bytes at once: joined pieces would be a tree of strings that uses more memory.
const text = Buffer.from('00000000-0000-0000-0000-000000000000')

function write(value: number, at: number, count: number): void {
  for (let i = count - 1; i >= 0; i--, value >>>= 4) text[at + i] = digits[value & 15] as number
}

/**
 * UUIDs of version 4 by number. The first 32 bits are the number, scrambled one to one, so that no
 * two collide; the rest is hashed.
 */
export function uuidStream(seed: number, name: string): (index: number) => string {
  const key = streamSeed(seed, name)
  return (index) => {
    const mixed = Math.imul(index ^ key, 0x2c1b3c6d)
    const b = mix(key, index)
    const c = mix(b, key)
    write(Math.imul(mixed ^ (mixed >>> 16), 0x297a2d39), 0, 8)
    write(b >>> 16, 9, 4)
    write(0x4000 | (b & 0x0fff), 14, 4)
    write(0x8000 | (c & 0x3fff), 19, 4)
    write(c >>> 16, 24, 4)
    write(mix(c, index), 28, 8)
    return text.toString('latin1')
  }
}
