// Ahead of the grammar: many whole objects at once, where nothing of them is unusual. What it leaves the grammar reads from its beginning.
import { openWasm } from '../../model/web-assembly.ts'
import { ELEMENT, ID, MARKS, NONE } from './element-marks.ts'
import { layout, LONGEST_KEY_BYTES, ROW_COUNT } from './fast-path-layout.ts'
import { fastPathWasm } from './fast-path-wasm.ts'

/** One bit of 64 is a level. */
const DEEPEST_LEVEL = 63
/** Bodies that are held whole are no longer. Of a longer piece nothing is copied. */
const LONGEST_PIECE_BYTES = 4 * 1024 * 1024

interface Loops {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number }
  objects(at: number, levels: number, most: number): number
}

/** What all splitters share: a piece is copied in and read while nobody else has a turn. */
class Memory {
  readonly loops: Loops
  #bytes: Uint8Array
  rows: Int32Array

  constructor(loops: Loops) {
    this.loops = loops
    this.#bytes = new Uint8Array(loops.memory.buffer)
    this.rows = rowsOf(loops.memory.buffer)
  }

  load(keys: Uint8Array, piece: Uint8Array): void {
    const { BODY, BEHIND_BODY, KEYS, PAGE } = layout
    const end = BODY + piece.length
    const lacking = end + BEHIND_BODY - this.#bytes.length
    if (lacking > 0) {
      const { memory } = this.loops
      memory.grow(Math.ceil(lacking / PAGE))
      this.#bytes = new Uint8Array(memory.buffer)
      this.rows = rowsOf(memory.buffer)
    }
    this.#bytes.set(keys, KEYS)
    this.#bytes.set(piece, BODY)
    // No token holds it: nothing is read past it.
    this.#bytes[end] = 0
  }
}

const ROW = layout.ROW_BYTES / 4
const rowsOf = (buffer: ArrayBuffer) => new Int32Array(buffer, layout.ROWS, ROW_COUNT * ROW)

let memory: Memory | undefined
let isOpened = false

function opened(): Memory | undefined {
  if (!isOpened) {
    isOpened = true
    const loops = openWasm(fastPathWasm) as Loops | undefined
    memory = loops && new Memory(loops)
  }
  return memory
}

interface FastPathOptions {
  /** the names of id, time and type, in this order; entries may have no id */
  readonly keys: readonly [string | undefined, string, string]
  readonly maxDepth: number
  /** more than one may stand behind each other */
  readonly many: boolean
}

export class FastPath {
  readonly #memory: Memory | undefined
  readonly #keys: Uint8Array
  readonly #levels: number
  readonly #most: number
  #piece: Uint8Array | undefined
  #isLoaded = false
  /** from an offset in the slab to one in the memory */
  #shift = 0

  constructor({ keys, maxDepth, many }: FastPathOptions) {
    const bytes = keys.map((key) => (key === undefined ? undefined : Buffer.from(key)))
    this.#keys = tableOf(bytes)
    this.#levels = Math.min(maxDepth, DEEPEST_LEVEL)
    this.#most = many ? ROW_COUNT : 1
    this.#memory = bytes.some((key) => key && key.length > LONGEST_KEY_BYTES) ? undefined : opened()
  }

  /** The next piece of the body, which begins at `at` in the slab. */
  offer(piece: Uint8Array, at: number): void {
    this.#piece = piece.length > LONGEST_PIECE_BYTES ? undefined : piece
    this.#isLoaded = false
    this.#shift = layout.BODY - at
  }

  /** How many objects, one behind the other, begin at `at` in the slab and can be had of `mark`; 0 where the grammar has to read it. */
  objects(at: number): number {
    const memory = this.#memory
    if (!memory || !this.#piece) return 0
    if (!this.#isLoaded) {
      memory.load(this.#keys, this.#piece)
      this.#isLoaded = true
    }
    return memory.loops.objects(at + this.#shift, this.#levels, this.#most)
  }

  /** Sets the marks of one of them as the grammar would; answers its end. */
  mark(index: number, marks: Int32Array): number {
    const { rows } = this.#memory as Memory
    const shift = this.#shift
    const row = index * ROW
    marks[ELEMENT] = (rows[row] as number) - shift
    for (let i = ID; i < MARKS; i++) {
      const mark = rows[row + i] as number
      marks[i] = mark === NONE ? NONE : mark - shift
    }
    return (rows[row + 1] as number) - shift
  }
}

function tableOf(keys: readonly (Uint8Array | undefined)[]): Uint8Array {
  const { KEY_BYTES, KEY_MASK, KEY_LENGTH, KEY_PLACE } = layout
  const table = Buffer.alloc(3 * KEY_BYTES)
  keys.forEach((key, index) => {
    const at = index * KEY_BYTES
    // No key is so long.
    table.writeInt32LE(key?.length ?? NONE, at + KEY_LENGTH)
    table.writeInt32LE(4 * (ID + 2 * index), at + KEY_PLACE)
    if (key) table.fill(0xff, at + KEY_MASK, at + KEY_MASK + key.length).set(key, at)
  })
  return table
}
