// A body as a gzip member (RFC 1952), in half the CPU time of zlib's fastest level.
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { constants, crc32, gzip as gzipByZlib } from 'node:zlib'
import { assignCodes, codeLengths } from './codes.ts'
import { deflateWasm } from './deflate-wasm.ts'
import { DISTANCES, LITERALS, PIECE_BYTES, layout } from './layout.ts'

/** Header: deflate, no name, no time, fastest compression, unknown system. */
const HEAD = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255)
/** An empty last block (RFC 1951 §3.2.6). */
const LAST_BLOCK = Uint8Array.of(3, 0)

const byZlib: (body: Uint8Array, options: { readonly level: number }) => Promise<Uint8Array> =
  promisify(gzipByZlib)

/** Opened for the first body; null: not available here. */
let writer: BlockWriter | null | undefined

/**
 * Runs on the calling thread, a millisecond per megabyte, and yields after each; uses zlib if our
 * own compressor is not available.
 */
export async function gzip(body: Uint8Array): Promise<Uint8Array> {
  if (writer === undefined) writer = BlockWriter.open() ?? null
  return writer ? packed(writer, body) : byZlib(body, { level: constants.Z_BEST_SPEED })
}

async function packed(writer: BlockWriter, body: Uint8Array): Promise<Uint8Array> {
  const parts: Uint8Array[] = [HEAD]
  let block: Uint8Array = new Uint8Array(0)
  let sum = 0
  for (let at = 0; at < body.length; at += PIECE_BYTES) {
    if (at > 0) {
      // Another caller may compress during the yield.
      parts.push(block.slice())
      await turn()
    }
    const piece = body.subarray(at, at + PIECE_BYTES)
    sum = crc32(piece, sum)
    block = writer.write(piece)
  }
  const tail = Buffer.alloc(8)
  tail.writeUInt32LE(sum, 0)
  tail.writeUInt32LE(body.length, 4)
  return Buffer.concat([...parts, block, LAST_BLOCK, tail])
}

// One piece of a body as one deflate block with its own codes (RFC 1951 §3.2.7), which ends on a
// byte boundary.

interface Loops {
  readonly memory: { readonly buffer: ArrayBuffer }
  tokenise(at: number, end: number): number
  write(end: number, to: number, bits: bigint, count: bigint): number
}

const END_OF_BLOCK = 256
const LONGEST_CODE = 15
const LONGEST_LENGTH = 258

/** Code lengths are themselves coded, in this order, with codes of at most seven bits. */
const LONGEST_LENGTH_CODE = 7
const LENGTH_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
const lengthCounts = new Uint32Array(LENGTH_ORDER.length)
const lengthCodes = new Uint32Array(LENGTH_ORDER.length)

/** @internal for tests */
export class BlockWriter {
  readonly #loops: Loops
  readonly #memory: Uint8Array
  readonly #literalCounts: Uint32Array
  readonly #distanceCounts: Uint32Array
  readonly #literalCodes: Uint32Array
  readonly #distanceCodes: Uint32Array

  /** Undefined if its WebAssembly is not available. */
  static open(): BlockWriter | undefined {
    const loops = openWasm(deflateWasm) as Loops | undefined
    return loops && new BlockWriter(loops)
  }

  private constructor(loops: Loops) {
    this.#loops = loops
    const { buffer } = loops.memory
    this.#memory = new Uint8Array(buffer)
    this.#literalCounts = new Uint32Array(buffer, layout.LITERAL_COUNTS, LITERALS)
    this.#distanceCounts = new Uint32Array(buffer, layout.DISTANCE_COUNTS, DISTANCES)
    this.#literalCodes = new Uint32Array(buffer, layout.LITERAL_CODES, LITERALS)
    this.#distanceCodes = new Uint32Array(buffer, layout.DISTANCE_CODES, DISTANCES)
    writeExtraBitTables(new DataView(buffer))
  }

  /**
   * `piece`: at least a byte, at most `PIECE_BYTES`. The result is in the writer's memory until the
   * next piece.
   */
  write(piece: Uint8Array): Uint8Array {
    const { SOURCE, OUTPUT } = layout
    this.#memory.set(piece, SOURCE)
    const tokensEnd = this.#loops.tokenise(SOURCE, SOURCE + piece.length)
    const literals = codeLengths(this.#literalCounts, LONGEST_CODE)
    const distances = codeLengths(this.#distanceCounts, LONGEST_CODE)
    assignCodes(literals, this.#literalCodes)
    assignCodes(distances, this.#distanceCodes)
    const head = new Bits(this.#memory, OUTPUT)
    writeHead(literals, distances, head)
    const end = this.#loops.write(tokensEnd, head.at, BigInt(head.bits), BigInt(head.count))
    return this.#memory.subarray(OUTPUT, end)
  }
}

/**
 * RFC 1951 §3.2.5: eight symbols of one length each, then four for each number of extra bits; the
 * longest length has its own. For distances four, then two.
 */
function writeExtraBitTables(memory: DataView): void {
  let first = 3
  for (let symbol = 257; symbol < LITERALS; symbol++) {
    const extra = symbol === LITERALS - 1 ? 0 : Math.max(0, (symbol - 261) >> 2)
    if (symbol === LITERALS - 1) first = LONGEST_LENGTH
    memory.setUint32(layout.LENGTH_BASES + 4 * symbol, first, true)
    memory.setUint32(layout.LENGTH_EXTRAS + 4 * symbol, extra, true)
    for (let length = first; length < first + 2 ** extra; length++)
      memory.setUint16(layout.LENGTH_SLOTS + 2 * length, 4 * symbol, true)
    first += 2 ** extra
  }
  for (let symbol = 4; symbol < DISTANCES; symbol++)
    memory.setUint32(layout.DISTANCE_EXTRAS + 4 * symbol, (symbol >> 1) - 1, true)
}

/** Packs bits into bytes, lowest first. */
class Bits {
  readonly #memory: Uint8Array
  at: number
  bits = 0
  /** less than 8 */
  count = 0

  constructor(memory: Uint8Array, at: number) {
    this.#memory = memory
    this.at = at
  }

  /** `count`: at most 16 */
  put(bits: number, count: number): void {
    this.bits |= bits << this.count
    for (this.count += count; this.count >= 8; this.count -= 8) {
      this.#memory[this.at++] = this.bits
      this.bits >>= 8
    }
  }
}

/** The header: not the last block, dynamic codes, and the codes. */
function writeHead(literals: Uint8Array, distances: Uint8Array, head: Bits): void {
  const used = lastUsed(literals, END_OF_BLOCK)
  const usedDistances = lastUsed(distances, 0)
  const lengths = new Uint8Array(used + usedDistances + 2)
  lengths.set(literals.subarray(0, used + 1))
  lengths.set(distances.subarray(0, usedDistances + 1), used + 1)
  lengthCounts.fill(0)
  for (let i = 0; i < lengths.length; i++) {
    const length = lengths[i] as number
    lengthCounts[length] = (lengthCounts[length] as number) + 1
  }
  const codesOfLengths = codeLengths(lengthCounts, LONGEST_LENGTH_CODE)
  assignCodes(codesOfLengths, lengthCodes)
  head.put(0b100, 3)
  head.put(used - END_OF_BLOCK, 5)
  head.put(usedDistances, 5)
  head.put(LENGTH_ORDER.length - 4, 4)
  for (let i = 0; i < LENGTH_ORDER.length; i++)
    head.put(codesOfLengths[LENGTH_ORDER[i] as number] as number, 3)
  for (let i = 0; i < lengths.length; i++) {
    const code = lengthCodes[lengths[i] as number] as number
    head.put(code & 0xffff, code >> 16)
  }
}

function lastUsed(lengths: Uint8Array, least: number): number {
  let last = lengths.length - 1
  while (last > least && lengths[last] === 0) last--
  return last
}

// Loops as WebAssembly, which Node's own types do not describe: `scripts/wasm.ts` builds them.

declare const WebAssembly: {
  validate(code: Uint8Array): boolean
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { readonly exports: unknown }
}

/**
 * The exports of a module without imports, from its code in base64. Undefined if it is not
 * available: the processor lacks required features, or a limit of address space does not allow the
 * gigabytes that its memory reserves.
 */
function openWasm(base64: string): unknown {
  const code = Buffer.from(base64, 'base64')
  if (!WebAssembly.validate(code)) return undefined
  try {
    return new WebAssembly.Instance(new WebAssembly.Module(code)).exports
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
