// The spool file of an object: lines are compressed into it, then it is read back and sent. Both
// forms are hashed, and no object is kept in memory.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Transform } from 'node:stream'
import { constants, createGzip, createZstdCompress } from 'node:zlib'
import type { Disk, DiskFile, Listed } from '../../contracts/platform.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { extensions } from './object-key.ts'
import type { Body } from './bucket.ts'

type Compression = keyof typeof extensions

const PIECE_BYTES = 256 * 1024

/** Takes 2 s more of CPU per million entries than the fastest level, and stores a third less. */
const GZIP_LEVEL = constants.Z_DEFAULT_COMPRESSION

export interface Spooled {
  readonly linesBytes: number
  readonly linesSha256: string
  readonly body: Body
  /** True once the file read back differs from what was written, or could not be read. */
  readonly isDamaged: () => boolean
}

function compressorOf(compression: Compression): Transform | undefined {
  if (compression === 'gzip') return createGzip({ level: GZIP_LEVEL, chunkSize: 64 * 1024 })
  if (compression === 'zstd') return createZstdCompress({ chunkSize: 64 * 1024 })
  return undefined
}

const partOf = (slot: number): string => `object-${slot}.part`
const isPart = (name: string): boolean => /^object-\d+\.part$/.test(name)

/** A folder that we may not list is not ours: the journal's folder may be /var. */
function ignoreForeign(error: unknown): readonly Listed[] {
  if (error instanceof ConnectorError && error.code === 'misconfigured') return []
  throw error
}

/**
 * Runs before any sink: removes what a killed process left in the folders of `root`, one per sink,
 * even of removed sinks. The files have content, and pending entries are written again from the
 * journal. Other files and links stay.
 */
export async function clearSpools(disk: Disk, root: string): Promise<number> {
  let cleared = 0
  for (const folder of await disk.list(root)) {
    if (folder.kind !== 'folder') continue
    const path = join(root, folder.name)
    for (const { name, kind } of await disk.list(path).catch(ignoreForeign)) {
      if (kind !== 'file' || !isPart(name)) continue
      await disk.remove(join(path, name))
      cleared++
    }
  }
  return cleared
}

export class Spool {
  readonly #disk: Disk
  readonly #path: string
  readonly #file: DiskFile
  readonly #compressor: Transform | undefined
  readonly #linesHash = createHash('sha256')
  readonly #bodyHash = createHash('sha256')
  /** resolves when the compressor's whole output is in the file */
  readonly #drained: Promise<void>
  #linesBytes = 0
  #bodyBytes = 0
  #isDamaged = false
  #gone = false

  /** Removes an existing file of this name: a dead process left it, or it is a link. */
  static async open(disk: Disk, folder: string, slot: number, compression: Compression): Promise<Spool> {
    const path = join(folder, partOf(slot))
    await disk.remove(path)
    return new Spool(disk, path, await disk.openNew(path), compression)
  }

  private constructor(disk: Disk, path: string, file: DiskFile, compression: Compression) {
    this.#disk = disk
    this.#path = path
    this.#file = file
    this.#compressor = compressorOf(compression)
    this.#drained = this.#drain()
    this.#drained.catch(() => undefined)
  }

  async #drain(): Promise<void> {
    if (!this.#compressor) return
    for await (const piece of this.#compressor) await this.#writeBody(piece as Uint8Array)
  }

  async #writeBody(piece: Uint8Array): Promise<void> {
    this.#bodyHash.update(piece)
    await this.#file.write(piece, this.#bodyBytes)
    this.#bodyBytes += piece.length
  }

  async write(lines: Uint8Array): Promise<void> {
    this.#linesHash.update(lines)
    this.#linesBytes += lines.length
    const compressor = this.#compressor
    if (!compressor) return this.#writeBody(lines)
    const taken = new Promise<void>((resolve, reject) => {
      compressor.write(lines, (error) => (error ? reject(error) : resolve()))
    })
    taken.catch(() => undefined)
    // A full disk ends the draining; after that nothing reads the compressor's output.
    await Promise.race([taken, this.#drained.then(() => taken)])
  }

  async end(): Promise<Spooled> {
    this.#compressor?.end()
    await this.#drained
    const sha256 = this.#bodyHash.digest('hex')
    const body: Body = { bytes: this.#bodyBytes, sha256, read: () => this.#read(sha256) }
    const linesSha256 = this.#linesHash.digest('hex')
    return { linesBytes: this.#linesBytes, linesSha256, body, isDamaged: () => this.#isDamaged }
  }

  /** Gives the last piece only if the file is unchanged: not every server verifies checksums. */
  async *#read(sha256: string): AsyncGenerator<Uint8Array> {
    const hash = createHash('sha256')
    for (let at = 0; at < this.#bodyBytes;) {
      const piece = await this.#file
        .read(at, Math.min(PIECE_BYTES, this.#bodyBytes - at))
        .catch((error: unknown) => {
          this.#isDamaged = true
          throw error
        })
      if (piece.length === 0) throw this.#damaged('cut')
      hash.update(piece)
      at += piece.length
      if (at === this.#bodyBytes && hash.digest('hex') !== sha256) throw this.#damaged('changed')
      yield piece
    }
  }

  #damaged(how: 'cut' | 'changed'): ConnectorError {
    this.#isDamaged = true
    return new ConnectorError(
      'misconfigured',
      `${this.#path} was ${how} while it was waiting to be sent: another program may write there. It is written again from the journal`,
    )
  }

  /** Never throws: a file that cannot be removed is left to the next run. */
  async discard(): Promise<void> {
    if (this.#gone) return
    this.#gone = true
    this.#compressor?.destroy()
    await this.#drained.catch(() => undefined)
    await this.#file.close().catch(() => undefined)
    await this.#disk.remove(this.#path).catch(() => undefined)
  }
}
