// The types of one group, each once: a small hash table over bytes, so that no string is made for an entry.

const utf8 = new TextDecoder()

export class TypeNames {
  names: string[] = []
  /** index of a name + 1; 0 is free */
  readonly #slots: Uint16Array
  readonly #bytes: Uint8Array[] = []

  /** Room for `maxNames`, at most 65,535 of them. */
  constructor(maxNames: number) {
    this.#slots = new Uint16Array(2 ** Math.ceil(Math.log2(maxNames * 2 + 2)))
  }

  /** The index of the type whose UTF-8 is `bytes[start, end)`. */
  index(bytes: Uint8Array, start: number, end: number): number {
    const slots = this.#slots
    const mask = slots.length - 1
    for (let slot = sketch(bytes, start, end) & mask; ; slot = (slot + 1) & mask) {
      const index = (slots[slot] as number) - 1
      if (index < 0) return this.#add(slot, bytes.slice(start, end))
      if (isSame(this.#bytes[index] as Uint8Array, bytes, start, end)) return index
    }
  }

  clear(): void {
    if (this.names.length === 0) return
    this.names = []
    this.#bytes.length = 0
    this.#slots.fill(0)
  }

  #add(slot: number, name: Uint8Array): number {
    this.#bytes.push(name)
    this.#slots[slot] = this.names.push(utf8.decode(name))
    return this.names.length - 1
  }
}

/** Its length, its end and two bytes within: real types differ there, and those that do not are told apart by `isSame`. */
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
