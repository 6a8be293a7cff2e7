// Recognises whole objects ahead of the scanner, many at once; one that it does not take, the scanner reads from its first byte.
import { WHOLE_BODY_BYTES } from '../../../model/entries.ts'
import { openWasm } from '../../../model/web-assembly.ts'
import { ELEMENT, ID, MARKS, NONE } from '../element-marks.ts'
import { layout, LONGEST_KEY_BYTES, ROW_COUNT } from './layout.ts'
import { recogniseWasm } from './recognise-wasm.ts'

/** A level is a bit of 64. */
const DEEPEST_LEVEL = 64

interface Recogniser {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number }
  objects(at: number, maxLevels: number, maxObjects: number): number
}

/** What all splitters share: a piece is copied in and read to its end before anybody else has a turn. */
class Memory {
  readonly recogniser: Recogniser
  #bytes: Uint8Array
  rows: Int32Array

  constructor(recogniser: Recogniser) {
    this.recogniser = recogniser
    this.#bytes = new Uint8Array(recogniser.memory.buffer)
    this.rows = rowsOf(recogniser.memory.buffer)
  }

  load(keys: Uint8Array, piece: Uint8Array): void {
    const { BODY, BEHIND_BODY, KEYS, PAGE } = layout
    const end = BODY + piece.length
    const lackingBytes = end + BEHIND_BODY - this.#bytes.length
    if (lackingBytes > 0) {
      const { memory } = this.recogniser
      memory.grow(Math.ceil(lackingBytes / PAGE))
      this.#bytes = new Uint8Array(memory.buffer)
      this.rows = rowsOf(memory.buffer)
    }
    this.#bytes.set(keys, KEYS)
    this.#bytes.set(piece, BODY)
    // A zero ends every token, so that none runs on into what an earlier piece left there.
    this.#bytes[end] = 0
  }
}

const rowsOf = (buffer: ArrayBuffer) => new Int32Array(buffer, layout.ROWS, ROW_COUNT * MARKS)

let memory: Memory | undefined
let isOpened = false

/** Undefined where the processor lacks what it wants: then the scanner reads all. */
function sharedMemory(): Memory | undefined {
  if (!isOpened) {
    isOpened = true
    const recogniser = openWasm(recogniseWasm) as Recogniser | undefined
    memory = recogniser && new Memory(recogniser)
  }
  return memory
}

interface FastPathOptions {
  /** as the scanner's */
  readonly keys: readonly [string | undefined, string, string]
  readonly maxDepth: number
  /** more than one may stand behind each other */
  readonly many: boolean
}

export class FastPath {
  readonly #memory: Memory | undefined
  readonly #keys: Uint8Array
  readonly #maxLevels: number
  readonly #maxObjects: number
  #piece: Uint8Array | undefined
  /** The piece is copied in once an object begins in it. */
  #isLoaded = false
  /** from an offset in the slab to one in the memory */
  #shift = 0

  constructor({ keys, maxDepth, many }: FastPathOptions) {
    const bytes = keys.map((key) => (key === undefined ? undefined : Buffer.from(key)))
    this.#keys = tableOf(bytes)
    this.#maxLevels = Math.min(maxDepth, DEEPEST_LEVEL)
    this.#maxObjects = many ? ROW_COUNT : 1
    this.#memory = bytes.some((key) => key && key.length > LONGEST_KEY_BYTES) ? undefined : sharedMemory()
  }

  /** The next piece of the body, which begins at `at` in the slab. Of one that is longer than a body that is held whole nothing is copied. */
  nextPiece(piece: Uint8Array, at: number): void {
    this.#piece = piece.length > WHOLE_BODY_BYTES ? undefined : piece
    this.#isLoaded = false
    this.#shift = layout.BODY - at
  }

  /** How many objects, one behind the other from `at` in the slab on, can be had of `setMarks`; 0: the scanner has to read it. */
  recognise(at: number): number {
    const memory = this.#memory
    if (!memory || !this.#piece) return 0
    if (!this.#isLoaded) {
      memory.load(this.#keys, this.#piece)
      this.#isLoaded = true
    }
    return memory.recogniser.objects(at + this.#shift, this.#maxLevels, this.#maxObjects)
  }

  /** Sets the marks of one of them as the scanner would; answers its end. */
  setMarks(index: number, marks: Int32Array): number {
    const { rows } = this.#memory as Memory
    const shift = this.#shift
    const row = index * MARKS
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
