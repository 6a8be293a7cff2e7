// UUIDs from a seed and a number, and back: what was made by the million is found again without a map.
import { mix, streamSeed } from './random.ts'

const FIRST = 0x2c1b3c6d
const SECOND = 0x297a2d39

/** x such that odd × x = 1 modulo 2^32, by Newton's steps: each doubles the bits that are right. */
function inverse(odd: number): number {
  let x = odd
  for (let i = 0; i < 5; i++) x = Math.imul(x, 2 - Math.imul(odd, x))
  return x
}

const firstInverse = inverse(FIRST)
const secondInverse = inverse(SECOND)

const digits = Buffer.from('0123456789abcdef')
// Written as bytes and read once: a flat string, where pieces put together would be a tree to flatten later.
const text = Buffer.from('00000000-0000-0000-0000-000000000000')

function write(value: number, at: number, count: number): void {
  for (let i = count - 1; i >= 0; i--, value >>>= 4) text[at + i] = digits[value & 15] as number
}

export interface Uuids {
  at(index: number): string
  /** Undefined when no such id is ours; else its number, which may lie beyond those in use. */
  indexOf(id: string): number | undefined
}

/** The first 32 bits are the number itself, scrambled one to one, so that no two collide; the rest is hashed. */
export function uuidStream(seed: number, name: string): Uuids {
  const key = streamSeed(seed, name)
  const at = (index: number) => {
    let first = Math.imul(index ^ key, FIRST)
    first = Math.imul(first ^ (first >>> 16), SECOND)
    const b = mix(key, index)
    const c = mix(b, key)
    const d = mix(c, index)
    write(first, 0, 8)
    write(b >>> 16, 9, 4)
    write(0x4000 | (b & 0x0fff), 14, 4)
    write(0x8000 | (c & 0x3fff), 19, 4)
    write(c >>> 16, 24, 4)
    write(d, 28, 8)
    return text.toString('latin1')
  }
  const indexOf = (id: string) => {
    const first = Math.imul(parseInt(id.slice(0, 8), 16), secondInverse)
    const index = (Math.imul(first ^ (first >>> 16), firstInverse) ^ key) >>> 0
    return at(index) === id ? index : undefined
  }
  return { at, indexOf }
}
