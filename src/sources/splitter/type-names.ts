// The distinct types of one group: a small hash table over bytes, so that no string is created per
// entry.
import { hash } from 'node:crypto'

/**
 * Real types are shorter. A page could have a thousand longer ones that differ only in some byte,
 * each compared with each.
 */
const MAX_SKETCHED_BYTES = 48

const utf8 = new TextDecoder()

interface Name {
  readonly bytes: Uint8Array
  readonly text: string
}

/** The last type of each sketch: answers repeat the types of earlier ones, decoded once each. */
const CACHE_SLOTS = 1024
const cache: (Name | undefined)[] = new Array<undefined>(CACHE_SLOTS).fill(undefined)

function nameOf(hash: number, bytes: Uint8Array, start: number, end: number): Name {
  const known = cache[hash & (CACHE_SLOTS - 1)]
  if (known && isSame(known.bytes, bytes, start, end)) return known
  const name = new Uint8Array(bytes.subarray(start, end))
  return (cache[hash & (CACHE_SLOTS - 1)] = { bytes: name, text: utf8.decode(name) })
}

export class TypeNames {
  names: string[] = []
  /** index of a name + 1; 0 means free */
  readonly #slots: Uint16Array
  readonly #bytes: Uint8Array[] = []
  /** long names by their hash */
  readonly #long = new Map<string, number>()

  /** For up to `maxNames`, at most 65,535. */
  constructor(maxNames: number) {
    this.#slots = new Uint16Array(2 ** Math.ceil(Math.log2(maxNames * 2 + 2)))
  }

  /** The index of the type whose UTF-8 is `bytes[start, end)`. */
  index(bytes: Uint8Array, start: number, end: number): number {
    if (end - start > MAX_SKETCHED_BYTES) return this.#longIndex(bytes.subarray(start, end))
    const slots = this.#slots
    const mask = slots.length - 1
    const hash = sketch(bytes, start, end)
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const index = (slots[slot] as number) - 1
      if (index < 0) {
        const name = nameOf(hash, bytes, start, end)
        this.#bytes[this.names.length] = name.bytes
        slots[slot] = this.names.length + 1
        return this.names.push(name.text) - 1
      }
      if (isSame(this.#bytes[index] as Uint8Array, bytes, start, end)) return index
    }
  }

  clear(): void {
    if (this.names.length === 0) return
    this.names = []
    this.#bytes.length = 0
    this.#long.clear()
    this.#slots.fill(0)
  }

  #longIndex(name: Uint8Array): number {
    const key = hash('sha256', name, 'base64')
    const known = this.#long.get(key)
    if (known !== undefined) return known
    const index = this.names.push(utf8.decode(name)) - 1
    this.#long.set(key, index)
    return index
  }
}

/** Length, end and two inner bytes: real types differ there; `isSame` compares the others. */
function sketch(bytes: Uint8Array, start: number, end: number): number {
  const size = end - start
  if (size === 0) return 0
  let hash = Math.imul(size, 31) + (bytes[end - 1] as number)
  hash = Math.imul(hash, 31) + (bytes[start + (size >> 1)] as number)
  hash = Math.imul(hash, 31) + (bytes[end - 1 - (size >> 2)] as number)
  return hash ^ (hash >>> 15)
}

function isSame(name: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
  if (name.length !== end - start) return false
  for (let i = 0; i < name.length; i++) if (name[i] !== bytes[start + i]) return false
  return true
}
